"""A question, parsed once: its intent, its kind, the answer it wants, its words and names.

Search weighs its legs by the ``intent``, packing favours passages that hold what the ``kind``
asks for, and extraction looks for the ``answer``. All three come from one reading of the
question word and the words after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, lru_cache
from typing import NamedTuple

from packwise.language.analyzer import terms
from packwise.language.languages import asked_in, known_language, without_asking
from packwise.language.names import Kind, Name, names_in
from packwise.language.word_classes import (
    CONTENT,
    DATE,
    DEFINITION,
    DURATION,
    LIST,
    NAME,
    NUMBER,
    QUANTITY,
    STEPS,
    Features,
    Word,
    WordClass,
    words_of,
)
from packwise.lazy_pattern import lazy_pattern

MOST_CHARACTERS = 4000
"""Characters of a question that are parsed; a longer text is a document, not a question."""


class Intent(StrEnum):
    """What a question is after."""

    LOOKUP = "lookup"
    COMPARISON = "comparison"
    MEASUREMENT = "measurement"
    PROCEDURE = "procedure"
    DEFINITION = "definition"
    EXPLORATORY = "exploratory"


class QuestionKind(StrEnum):
    """What a passage must hold to answer a question."""

    WHO = "who"
    WHEN = "when"
    WHERE = "where"
    HOW_MANY = "how_many"
    HOW_LONG = "how_long"
    WHAT_IS = "what_is"
    HOW_TO = "how_to"
    OTHER = "other"


class AnswerKind(StrEnum):
    """The kind of phrase that answers a question; ``span_weights.json`` is fitted on these."""

    PERSON = "person"
    TIME = "time"
    PLACE = "place"
    NUMBER = "number"
    REASON = "reason"
    MANNER = "manner"
    DEFINITION = "definition"  # what is ...
    OBJECT = "object"  # what did ... do
    WHICH = "which"  # what kind of ..., which ...
    THING = "thing"  # what happened ...
    OTHER = "other"  # no question word


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A parsed question.

    ``weights`` gives each term its share of the question (they sum to 1). ``focus`` is the term
    of the noun after "which" or "how many", ``verb`` that of the main verb; both may be empty.
    """

    text: str
    intent: Intent
    kind: QuestionKind
    answer: AnswerKind
    names: tuple[Name, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    focus: str = ""
    verb: str = ""

    @property
    def features(self) -> Features:
        """The features of a text that answers, any of them."""
        return _WANTED.get(self.kind, 0)

    @property
    def compares(self) -> bool:
        """Whether it asks how things differ, whatever else it is after."""
        return _COMPARES.search(self.text[:_OPENING]) is not None

    def weighted(self, rarity: Callable[[str], float]) -> ParsedQuestion:
        """The question with its terms weighted by how rare they are in a store."""
        shares = {term: max(rarity(term), 1e-6) for term in self.weights}
        total = sum(shares.values())
        return replace(self, weights={term: share / total for term, share in shares.items()})


class Answerability(NamedTuple):
    """The bonus of a text for a question, the features it is given for, and whether the text
    holds what the question asks for."""

    bonus: float
    features: tuple[str, ...]
    matches: bool


NO_ANSWER = Answerability(0.0, (), False)

# Nearly every text holds a number or a name: they count only where the question asks for them.
_COUNTED: dict[Features, str] = {
    QUANTITY: "quantity",
    DATE: "date",
    DURATION: "duration",
    DEFINITION: "definition",
    LIST: "list",
    STEPS: "steps",
}
_WANTED: dict[QuestionKind, Features] = {
    QuestionKind.WHO: NAME,
    QuestionKind.WHERE: NAME,
    QuestionKind.WHEN: DATE,
    QuestionKind.HOW_MANY: NUMBER | QUANTITY,
    QuestionKind.HOW_LONG: DURATION,
    QuestionKind.WHAT_IS: DEFINITION,
    QuestionKind.HOW_TO: STEPS | LIST,
}
_KINDS = {
    AnswerKind.PERSON: QuestionKind.WHO,
    AnswerKind.PLACE: QuestionKind.WHERE,
    AnswerKind.TIME: QuestionKind.WHEN,
    AnswerKind.NUMBER: QuestionKind.HOW_MANY,
    AnswerKind.DEFINITION: QuestionKind.WHAT_IS,
}
_MEASURED = (QuestionKind.HOW_MANY, QuestionKind.HOW_LONG, QuestionKind.WHEN)

_ASKING: dict[str, AnswerKind | None] = {
    **dict.fromkeys(("who", "whom", "whose"), AnswerKind.PERSON),
    "when": AnswerKind.TIME,
    "where": AnswerKind.PLACE,
    "why": AnswerKind.REASON,
    **dict.fromkeys(("what", "which", "how")),
}
QUESTION_TERMS = frozenset(
    term for word in (*_ASKING, *"many much did do does name".split()) for term in terms(word)
)
"""English index terms that only say that something is asked."""

# What the question words of other languages ask for.
_ASKED = {
    "who": (AnswerKind.PERSON, QuestionKind.WHO),
    "when": (AnswerKind.TIME, QuestionKind.WHEN),
    "where": (AnswerKind.PLACE, QuestionKind.WHERE),
    "count": (AnswerKind.NUMBER, QuestionKind.HOW_MANY),
    "duration": (AnswerKind.NUMBER, QuestionKind.HOW_LONG),
    "why": (AnswerKind.REASON, QuestionKind.OTHER),
    "how": (AnswerKind.MANNER, QuestionKind.OTHER),
    "define": (AnswerKind.DEFINITION, QuestionKind.WHAT_IS),
    "what": (AnswerKind.THING, QuestionKind.OTHER),
}

_MEASURES = frozenset(
    "many much old long far tall large big high fast deep wide few heavy hot cold".split()
)
_DURATIONS = frozenset("long often soon".split())
_DOERS = frozenset("i you we one".split())
_DO = frozenset("did does do can could would will".split())
_HELPERS = _DO | frozenset("was were is are has have had".split())
_NOUNS = {
    noun: kind
    for kind, nouns in (
        (AnswerKind.TIME, "year date month century decade day time era period season"),
        (
            AnswerKind.PLACE,
            "city country state region continent river ocean sea island town village place "
            "location area province county district capital nation kingdom part",
        ),
        (
            AnswerKind.NUMBER,
            "percentage percent number amount population price cost rate ratio proportion share "
            "age size length height distance speed temperature total value",
        ),
        (
            AnswerKind.PERSON,
            "person man woman king queen president emperor scientist author writer leader "
            "physicist mathematician philosopher general architect engineer artist composer "
            "director explorer pope bishop politician inventor duke chemist individual",
        ),
    )
    for noun in nouns.split()
}

_QUOTED = lazy_pattern(r"[\"“”«»][^\"“”«»]{2,200}[\"“”«»]|`[^`]{2,200}`")
_COMPARES = lazy_pattern(
    r"\b(?:differences?\s+between|differ\s+from|compared?\s+(?:to|with)|versus|vs\.?"
    r"|(?:better|worse|faster|older|larger|bigger|smaller|higher|cheaper)\s+than"
    r"|in\s+common|which\s+\w+\s+(?:is|was|has|had)\s+(?:\w+er|more|less)\b)",
    re.IGNORECASE,
)
_PROCEDURE = lazy_pattern(
    r"^\s*(?:\w+\s+){0,3}?how\s+(?:do|does|can|could|should|would|to|must)\b"
    r"|\b(?:steps?\s+to|way\s+to|instructions?\s+(?:for|to)|best\s+practice)\b"
    r"|^\s*(?:install|configure|set\s+up|create|build|fix|enable|disable)\b",
    re.IGNORECASE,
)
_MEANING = lazy_pattern(
    r"\b(?:define|definition\s+of|meaning\s+of|stands?\s+for)\b"
    r"|\bwhat\s+(?:does|do|did)\b.*\b(?:mean|refer\s+to)\b"
    r"|\bwhat\s+is\s+(?:meant\s+by|another\s+(?:name|word|term))\b"
    r"|\b(?:called|known\s+as|termed)\s*\??\s*$",
    re.IGNORECASE,
)
_SHORT_DEFINITION = lazy_pattern(
    r"^\s*(?:what|who)\s+(?:is|are|was|were|'s)\s+(?:an?\s+|the\s+)?(?:\S++\s*+){1,4}$",
    re.IGNORECASE,
)
_OPENING = 500
"""Characters in which a question says what it is after."""


@lru_cache(maxsize=256)
def parse_question(text: str, lang: str = "") -> ParsedQuestion:
    """What a question asks for, in a language or one of several. Any text can be parsed."""
    read = text[:MOST_CHARACTERS]
    names = tuple(names_in(read, lang))
    asking_terms = QUESTION_TERMS.union(*map(question_words, lang.split()))
    content = without_asking(read, lang.partition(" ")[0])
    found = [term for term in dict.fromkeys(terms(content, lang)) if term not in asking_terms]
    weights = {term: 1.0 / len(found) for term in found}
    opening = read[:_OPENING]
    for code in lang.split():
        for _, asked in sorted(asked_in(opening, code))[:1]:
            answer, kind = _ASKED[asked]
            intent = _intent(opening, kind, names)
            if kind is QuestionKind.WHAT_IS and intent is Intent.EXPLORATORY:
                intent = Intent.DEFINITION
            return ParsedQuestion(text, intent, kind, answer, names, weights)
    words = words_of(read)
    at = next((i for i, word in enumerate(words) if word.lower in _ASKING), None)
    answer, focus, verb, asking, rest = AnswerKind.OTHER, "", "", "", words
    if at is not None:
        asking, rest = words[at].lower, words[at + 1 :]
        answer, focus = _answer_and_focus(asking, rest)
        verb = _verb(asking, rest)
    kind = _kind(answer, asking, rest, opening)
    intent = _intent(opening, kind, names)
    return ParsedQuestion(text, intent, kind, answer, names, weights, focus, verb)


@cache
def question_words(lang: str) -> frozenset[str]:
    """The index terms of a language that only say that something is asked."""
    language = known_language(lang)
    if language is None:
        return frozenset()
    listed = (*language.asking, *(phrase for phrase, _ in language.questions))
    return frozenset(term for phrase in listed for term in terms(phrase, lang))


@lru_cache(maxsize=1024)
def answerability(features: Features, matches: bool, scale: float) -> Answerability:
    """The bonus for a text that holds these features: 0, or 0.5 to 1.5 times ``scale``.

    ``matches`` says that one of them is what the question asks for. Features show what a text
    could answer, not whether it does, so they move a score by little.
    """
    names = tuple(name for feature, name in _COUNTED.items() if features & feature)
    strength = (0.0, 0.5, 0.75)[min(len(names), 2)]
    if matches:
        strength = max(strength, 0.5) + 0.75
    return Answerability(strength * scale, names, matches)


def _intent(opening: str, kind: QuestionKind, names: Sequence[Name]) -> Intent:
    if _QUOTED.search(opening) or any(
        name.kind is Kind.IDENTIFIER and name.start < _OPENING for name in names
    ):
        return Intent.LOOKUP
    if _COMPARES.search(opening):
        return Intent.COMPARISON
    short = _SHORT_DEFINITION.search(opening)
    if kind in _MEASURED and not short:
        return Intent.MEASUREMENT
    if _PROCEDURE.search(opening):
        return Intent.PROCEDURE
    if short or _MEANING.search(opening):
        return Intent.DEFINITION
    return Intent.EXPLORATORY


def _kind(answer: AnswerKind, asking: str, rest: Sequence[Word], opening: str) -> QuestionKind:
    following = [word.lower for word in rest[:2]]
    if asking == "how" and following:
        if following[0] in _DURATIONS:
            return QuestionKind.HOW_LONG
        if following[0] == "to" or following[-1] in _DOERS:
            return QuestionKind.HOW_TO
    if answer not in _KINDS and _MEANING.search(opening):
        return QuestionKind.WHAT_IS
    return _KINDS.get(answer, QuestionKind.OTHER)


def _answer_and_focus(asking: str, rest: Sequence[Word]) -> tuple[AnswerKind, str]:
    following = rest[0].lower if rest else ""
    if asking == "how":
        if following == "often":
            return AnswerKind.TIME, ""
        if following not in _MEASURES:
            return AnswerKind.MANNER, ""
        counted = following in ("many", "much") and len(rest) > 1
        return AnswerKind.NUMBER, rest[1].term if counted else ""
    return (fixed, "") if (fixed := _ASKING[asking]) else _which(following, rest)


def _which(following: str, rest: Sequence[Word]) -> tuple[AnswerKind, str]:
    """What "what" or "which" asks for, from the noun that goes with it."""
    if following in ("kind", "kinds", "type", "types", "sort"):
        rest = rest[2:]
    noun = _content_run(rest)
    linking = not noun and following in ("is", "was", "are", "were")
    if linking:
        after = rest[1:]
        while after and after[0].kind is WordClass.DETERMINER:
            after = after[1:]
        noun = _content_run(after)
    focus = "" if linking or not noun else noun[min(len(noun), 2) - 1].term
    for word in noun[:3]:
        kind = _NOUNS.get(word.lower) or _NOUNS.get(_singular(word.lower))
        if kind is not None:
            return kind, focus
    if linking:
        return AnswerKind.DEFINITION, ""
    if noun:
        return AnswerKind.WHICH, focus
    return (AnswerKind.OBJECT if following in _HELPERS else AnswerKind.THING), ""


def _verb(asking: str, rest: Sequence[Word]) -> str:
    """The term of the main verb, guessed from where the helping verb stands."""
    plain = (WordClass.LOWER, WordClass.PAST, WordClass.ING)
    helper = next((i for i, word in enumerate(rest) if word.lower in _HELPERS), None)
    if helper is None:
        first = rest[0] if asking in ("who", "what", "which") and rest else None
        return first.term if first is not None and first.kind in plain else ""
    after = [word for word in rest[helper + 1 :] if word.kind in plain]
    past = [word for word in after if word.kind is WordClass.PAST]
    if past and not (helper <= 3 and rest[helper].lower in _DO):
        return past[0].term
    return after[-1].term if after else ""


def _content_run(words: Sequence[Word]) -> list[Word]:
    end = next((i for i, word in enumerate(words) if word.kind not in CONTENT), len(words))
    return list(words[:end])


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") else word
