"""What kind of answer a question wants, told by rule, and where to look for it first.

Who asks for a definition or an exact name is served by the passage that has the word;
who explores is served by the passage that has the meaning. The presets say so in weights
and in how many candidates each leg brings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from packwise.language.names import Kind, names_in


class Intent(StrEnum):
    """What a question is after."""

    LOOKUP = "lookup"
    COMPARISON = "comparison"
    MEASUREMENT = "measurement"
    PROCEDURE = "procedure"
    DEFINITION = "definition"
    EXPLORATORY = "exploratory"


@dataclass(frozen=True, slots=True)
class Preset:
    """How a question of one intent is searched, beside the configured weights (0.7 and 0.3)
    and candidates (12): so much more for the keyword leg, so many more candidates."""

    keyword_shift: float = 0.0
    more_candidates: int = 0


# A number is found by what is measured as much as by the word for it: measured, even weights
# lose there, and only more candidates are of use.
PRESETS = {
    Intent.LOOKUP: Preset(0.2, 4),
    Intent.COMPARISON: Preset(),
    Intent.MEASUREMENT: Preset(0.0, 4),
    Intent.PROCEDURE: Preset(),
    Intent.DEFINITION: Preset(0.2, 4),
    Intent.EXPLORATORY: Preset(),
}

MOST_CHARACTERS = 500
"""Characters of a question that are read: what it is after is said early."""

_QUOTED = re.compile(r"[\"“”«»][^\"“”«»]{2,200}[\"“”«»]|`[^`]{2,200}`")
_RULES: tuple[tuple[Intent, re.Pattern[str]], ...] = tuple(
    (intent, re.compile(pattern, re.IGNORECASE))
    for intent, pattern in (
        (
            Intent.COMPARISON,
            r"\b(?:differences?\s+between|differ\s+from|compared?\s+(?:to|with)|versus|vs\.?"
            r"|(?:better|worse|faster|older|larger|bigger|smaller|higher|cheaper)\s+than"
            r"|in\s+common|which\s+\w+\s+(?:is|was|has|had)\s+(?:\w+er|more|less)\b)",
        ),
        (
            Intent.MEASUREMENT,
            r"\bhow\s+(?:many|much|long|far|tall|big|large|old|often|high|deep|fast|heavy|wide"
            r"|hot|cold|soon|late)\b"
            r"|\b(?:what|which|in\s+what)\s+(?:year|date|day|month|century|decade|time"
            r"|percent(?:age)?|proportion|number|amount|size|age|temperature|speed|price|cost"
            r"|distance|height|length|width|depth|weight|population|area|rate|ratio)\b"
            r"|^\s*(?:when|since\s+when)\b",
        ),
        (
            Intent.PROCEDURE,
            r"^\s*(?:\w+\s+){0,3}?how\s+(?:do|does|can|could|should|would|to|must)\b"
            r"|\b(?:steps?\s+to|way\s+to|instructions?\s+(?:for|to)|best\s+practice)\b"
            r"|^\s*(?:install|configure|set\s+up|create|build|fix|enable|disable)\b",
        ),
        (
            Intent.DEFINITION,
            r"^\s*(?:what|who)\s+(?:is|are|was|were|'s)\s+(?:an?\s+|the\s+)?(?:\S+\s*){1,4}\??\s*$"
            r"|\b(?:define|definition\s+of|meaning\s+of|stands?\s+for)\b"
            r"|\bwhat\s+(?:does|do|did)\b.*\b(?:mean|refer\s+to)\b"
            r"|\bwhat\s+is\s+(?:meant\s+by|another\s+(?:name|word|term))\b"
            r"|\b(?:called|known\s+as|termed)\s*\??\s*$",
        ),
    )
)


def intent_of(question: str) -> Intent:
    """What a question is after; ``EXPLORATORY`` where nothing says otherwise."""
    text = question[:MOST_CHARACTERS]
    if _QUOTED.search(text) or any(name.kind is Kind.IDENTIFIER for name in names_in(text)):
        return Intent.LOOKUP
    for intent, pattern in _RULES:
        if pattern.search(text):
            return intent
    return Intent.EXPLORATORY
