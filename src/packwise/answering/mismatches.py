"""What a question says and a text contradicts: signs that a part on the topic does not answer.

A question that the documents do not answer often differs from one that they do by a negation or
an opposite. Names, numbers, nouns and verbs of the question that the text lacks were tried too:
they added little or nothing to the other features.
"""

from __future__ import annotations

import re
from functools import cache

from packwise.language.analyzer import terms
from packwise.language.questions import ParsedQuestion
from packwise.lazy_pattern import lazy_pattern

_NEGATION = lazy_pattern(
    r"\b(?:not|never|no|nor|none|neither|without|except|cannot|isn|aren|wasn|didn|doesn|don)\b",
    re.IGNORECASE,
)
_OPPOSITES = """
most least|more less|more fewer|most fewest|largest smallest|larger smaller|biggest smallest
highest lowest|higher lower|high low|longest shortest|longer shorter|oldest youngest|old new
oldest newest|earliest latest|earlier later|early late|first last|before after|maximum minimum
increase decrease|increased decreased|increasing decreasing|rise fall|rose fell|gain loss|win lose
won lost|north south|northern southern|east west|eastern western|left right|upper lower|top bottom
enable disable|enabled disabled|start stop|begin end|began ended|open closed|allow forbid
allowed forbidden|true false|always never|include exclude|included excluded|add remove|added removed
strong weak|stronger weaker|rich poor|fast slow|faster slower|hot cold|male female|success failure
support oppose|supported opposed|accept reject|accepted rejected|public private|internal external
positive negative|import export|input output|read write|buy sell|arrive leave|majority minority
advantage disadvantage|legal illegal|possible impossible|similar different|same different
"""


def mismatches(question: ParsedQuestion, text: str, held: set[str]) -> dict[str, float]:
    """The signs by name. ``held`` are the terms of the text and of what introduces it."""
    negated = bool(_NEGATION.search(question.text)) and not _NEGATION.search(text)
    lacking = [term for term in question.weights if term not in held]
    opposed = any(_opposites().get(term, frozenset()) & held for term in lacking)
    return {"only asker negates": float(negated), "opposite": float(opposed)}


@cache
def _opposites() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for pair in _OPPOSITES.replace("\n", "|").split("|"):
        words = [term for word in pair.split() for term in terms(word)]
        if len(words) == 2:
            found.setdefault(words[0], set()).add(words[1])
            found.setdefault(words[1], set()).add(words[0])
    return {term: frozenset(others) for term, others in found.items()}
