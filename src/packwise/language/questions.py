"""What a question asks for: the kind of its answer, its words and how much each counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from packwise.language.analyzer import terms
from packwise.language.word_classes import Class, Word, words_of

Rarity = Callable[[str], float]


class Kind(StrEnum):
    """The kind of answer a question asks for."""

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
class Asked:
    """A question taken apart.

    ``weights`` gives each term its share of the question by rarity (they sum to 1);
    ``focus`` is the term of the noun after "which" or "how many", ``verb`` that of what is
    said to happen; both may be empty.
    """

    text: str
    kind: Kind
    weights: Mapping[str, float]
    focus: str = ""
    verb: str = ""


_QUESTION_WORDS = frozenset(
    term
    for word in "what who whom whose when where which why how many much did do does name".split()
    for term in terms(word)
)
_ASKING = frozenset("what who whom whose when where which why how".split())
_MEASURES = frozenset(
    "many much old long far tall large big high fast deep wide few heavy hot cold".split()
)
_DO = frozenset("did does do can could would will".split())
_HELPERS = _DO | frozenset("was were is are has have had".split())
_NOUNS: tuple[tuple[Kind, frozenset[str]], ...] = (
    (
        Kind.TIME,
        frozenset("year date month century decade day time era period season".split()),
    ),
    (
        Kind.PLACE,
        frozenset(
            "city country state region continent river ocean sea island town village place "
            "location area province county district capital nation kingdom part".split()
        ),
    ),
    (
        Kind.NUMBER,
        frozenset(
            "percentage percent number amount population price cost rate ratio proportion share "
            "age size length height distance speed temperature total value".split()
        ),
    ),
    (
        Kind.PERSON,
        frozenset(
            "person man woman king queen president emperor scientist author writer leader "
            "physicist mathematician philosopher general architect engineer artist composer "
            "director explorer pope bishop politician inventor duke chemist individual".split()
        ),
    ),
)
_FUNCTION = frozenset(
    {
        Class.DETERMINER,
        Class.PREPOSITION,
        Class.CONJUNCTION,
        Class.RELATIVE,
        Class.AUXILIARY,
        Class.PRONOUN,
        Class.COMMA,
        Class.OPEN,
        Class.CLOSE,
        Class.QUOTE,
        Class.DASH,
        Class.STOP,
        Class.ADVERB,
    }
)


def take_apart(question: str, rarity: Rarity) -> Asked:
    """The question as ``Asked``; ``rarity`` says how rare a term is in the store."""
    found = [t for t in dict.fromkeys(terms(question)) if t not in _QUESTION_WORDS]
    shares = {term: max(rarity(term), 1e-6) for term in found}
    total = sum(shares.values())
    weights = {term: share / total for term, share in shares.items()}
    words = words_of(question)
    at = next((i for i, word in enumerate(words) if word.lower in _ASKING), None)
    if at is None:
        return Asked(question, Kind.OTHER, weights)
    kind, focus = _kind_and_focus(words[at].lower, words[at + 1 :])
    return Asked(question, kind, weights, focus, _verb(words[at].lower, words[at + 1 :]))


def _kind_and_focus(asking: str, rest: Sequence[Word]) -> tuple[Kind, str]:
    following = rest[0].lower if rest else ""
    if asking == "how":
        if following == "often":
            return Kind.TIME, ""
        if following not in _MEASURES:
            return Kind.MANNER, ""
        counted = following in ("many", "much") and len(rest) > 1
        return Kind.NUMBER, rest[1].term if counted else ""
    fixed = {
        "who": Kind.PERSON,
        "whom": Kind.PERSON,
        "whose": Kind.PERSON,
        "when": Kind.TIME,
        "where": Kind.PLACE,
        "why": Kind.REASON,
    }
    if asking in fixed:
        return fixed[asking], ""
    return _which(following, rest)


def _which(following: str, rest: Sequence[Word]) -> tuple[Kind, str]:
    """What "what" or "which" asks for, from the noun that goes with it."""
    if following in ("kind", "kinds", "type", "types", "sort"):
        rest = rest[2:]
    noun = _content_run(rest)
    linking = not noun and following in ("is", "was", "are", "were")
    if linking:
        after = rest[1:]
        while after and after[0].kind is Class.DETERMINER:
            after = after[1:]
        noun = _content_run(after)
    focus = "" if linking or not noun else noun[min(len(noun), 2) - 1].term
    for word in noun[:3]:
        for kind, listed in _NOUNS:
            if word.lower in listed or _singular(word.lower) in listed:
                return kind, focus
    if linking:
        return Kind.DEFINITION, ""
    if noun:
        return Kind.WHICH, focus
    return (Kind.OBJECT if following in _HELPERS else Kind.THING), ""


def _verb(asking: str, rest: Sequence[Word]) -> str:
    """The term of what is said to happen, guessed from where the helping verb stands."""
    plain = (Class.LOWER, Class.PAST, Class.ING)
    helper = next((i for i, word in enumerate(rest) if word.lower in _HELPERS), None)
    if helper is None:
        first = rest[0] if asking in ("who", "what", "which") and rest else None
        return first.term if first is not None and first.kind in plain else ""
    after = [word for word in rest[helper + 1 :] if word.kind in plain]
    if helper <= 3 and rest[helper].lower in _DO:
        return after[-1].term if after else ""
    past = [word for word in after if word.kind is Class.PAST]
    return past[0].term if past else (after[-1].term if after else "")


def _content_run(words: Sequence[Word]) -> list[Word]:
    run: list[Word] = []
    for word in words:
        if word.kind in _FUNCTION:
            break
        run.append(word)
    return run


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") else word
