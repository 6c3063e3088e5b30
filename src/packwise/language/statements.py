"""The question that a sentence of a text answers, in good English.

"To list the groups, run `vault groups`." becomes "How do I list the groups?". Like those of
``phrasing.py``, each rule asks only where the words leave no doubt about the grammar, and about
nothing that cannot be understood without the text around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from packwise.language.phrasing import (
    VAGUE,
    VERBS,
    Spelling,
    in_first_person,
    question_from_definition,
)
from packwise.lazy_pattern import lazy_pattern

_POINTING = frozenset(
    """
    this that these those it them its their they he him his she her such above below following
    here there same one ones other others another previous former latter then also again so
    we us our do something anything everything things myself foo bar baz instead
    simply by
    """.split()
)
"""Words of a question that point to the text around the sentence."""
_NOT_ASKED = frozenset(
    "be do have let note summarize understand know keep also even easily simply just then".split()
)
"""Verbs of requests that no one makes alone."""
_TASK = r"(?P<verb>[a-z]+)(?P<what> [^,;:()\[\]?!{}<>=\"“”]{3,70}?)"
_ORDER = (
    r"(?:then )?(?:(?:simply|just|first|please) )?(?:you (?:can|could|may|must|should|will need to|"
    r"need to|have to) (?:simply |just |either |also )?)?(?:use|run|type|set|add|call|pass|press|"
    r"click|specify|select|choose|enter|execute|start|open|issue|install|create|edit|put|write|"
    r"make|invoke|give|enable|disable|include|define|declare|provide|subclass|implement|"
    r"configure|replace|remove|append|import|download|copy|apply|send|check|uncheck) \S"
)
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
)
_DATE = (
    rf"(?:(?:\d{{1,2}}(?:st|nd|rd|th)? )?{_MONTH} (?:\d{{1,2}}(?:st|nd|rd|th)?,? )?)?[12]\d{{3}}\b"
)
_SUBJECT = r"(?P<subject>(?:(?:The|An?) )?[\w/.~$%+-]+(?: [\w/.+-]+){0,4}?)"
_PARTICIPLE = (
    r"(?P<verb>founded|created|released|published|introduced|established|invented|launched|"
    r"started|built|written|designed|developed|formed|opened|planted|adopted|discovered|announced|"
    r"deprecated|completed|finished|constructed|renamed|merged|approved|ratified|added|removed)"
)
_PAST = {"written": "wrote"}
_DOES = (
    r"(?P<verb>contains|holds|stores|describes|controls|specifies|determines|defines|returns|"
    r"requires|provides|supports|consists of|represents|prints|displays|generates|indicates)"
)
_BASE = {"consists of": "consist of", "specifies": "specify"}
_BROAD = frozenset("provides supports requires".split())
"""What one word provides is too much for an answer."""
_JOINING = frozenset("and or is are was that which who where when with a an the if for".split())
_THING = frozenset(
    """
    option options command directory file field function setting variable parameter flag module
    class method tab window menu button key hierarchy program utility tool script package format
    header section page argument attribute decorator event signal folder library protocol
    """.split()
)
_CODE = lazy_pattern(r"[/_.$~]|\w-\w|[a-z][A-Z]|^[A-Z]{2,}|\d")
_PLACEHOLDER = lazy_pattern(r"(\w)\1{1,}|foo\w*|bar|baz|xyz+", re.IGNORECASE)
_UNCLEAR = lazy_pattern(r"(?i)\b(?:this|these|those|above|below|following)\b")
LONGEST = 90


class StatementQuestion(NamedTuple):
    """A question and the words without which a text does not answer it. Those of a lower
    ``rank`` are asked more often."""

    text: str
    holds: str = ""
    rank: int = 0


def question_from_statement(sentence: str, spelling: Spelling) -> StatementQuestion | None:
    """The question that a sentence answers; ``None`` if that is not sure."""
    said = " ".join(sentence.split()).lstrip("-*• ")
    for pattern, ask in _RULES:
        if (found := pattern.match(said)) and (question := ask(found, spelling)):
            # What follows a colon is shown with the sentence that announces it.
            announced = question.rank == 0 and said.endswith(":")
            unclear = not announced and _UNCLEAR.search(said)
            return None if unclear or len(question.text) > LONGEST else question
    defined = question_from_definition(said, spelling)
    return StatementQuestion(defined, rank=1) if defined else None


def _how(found: re.Match[str], spelling: Spelling) -> StatementQuestion | None:
    verb, what = found["verb"], in_first_person(found["what"].split())
    words = [word.lower().strip("'’.`") for word in what]
    if verb in _NOT_ASKED or not 1 <= len(what) <= 9 or _POINTING.intersection(words):
        return None
    if words[-1] in ("to", "of", "for", "the", "a", "and", "or", "i", "when", "if", "in", "from"):
        return None
    # "To build packages you will need to": the end of the request was not found.
    if {"i", "can", "must", "should", "will", "need", "use", "is", "are"}.intersection(words):
        return None
    if not _has_object(words):
        return None
    return StatementQuestion(f"How do I {verb} {' '.join(what)}?")


def _how_known(found: re.Match[str], spelling: Spelling) -> StatementQuestion | None:
    """After "Use it to" may come a verb, but also the value that something is set to."""
    return _how(found, spelling) if found["verb"] in VERBS else None


def _has_object(words: list[str]) -> bool:
    """Whether more is named than "a file" or "the value"."""
    plain = {"a", "an", "the", "my", "all", "some", "any", "new", "in", "on", "to", "of", "for"}
    return bool(set(words) - plain - VAGUE)


def _when(found: re.Match[str], spelling: Spelling) -> StatementQuestion | None:
    subject = _subject(found["subject"], spelling)
    if subject is None:
        return None
    return StatementQuestion(f"When {found['was']} {subject} {found['verb']}?", found["date"])


def _who(found: re.Match[str], spelling: Spelling) -> StatementQuestion | None:
    subject, verb = _subject(found["subject"], spelling), found["verb"]
    if subject is None or found["name"].split()[0] in ("The", "A", "An"):
        return None
    return StatementQuestion(f"Who {_PAST.get(verb, verb)} {subject}?", found["name"])


def _used(found: re.Match[str], spelling: Spelling) -> StatementQuestion | None:
    subject = _subject(found["subject"], spelling)
    return StatementQuestion(f"What {found['is']} {subject} used for?", rank=1) if subject else None


def _allows(found: re.Match[str], spelling: Spelling) -> StatementQuestion | None:
    subject = _subject(found["subject"], spelling)
    return StatementQuestion(f"What does {subject} allow me to do?", rank=2) if subject else None


def _does(found: re.Match[str], spelling: Spelling) -> StatementQuestion | None:
    subject, verb = _subject(found["subject"], spelling), found["verb"]
    if subject is None or len(found["what"].split()) < 3:
        return None
    if verb in _BROAD and " " not in subject:
        return None
    return StatementQuestion(
        f"What does {subject} {_BASE.get(verb, verb.removesuffix('s'))}?", rank=2
    )


def _default(found: re.Match[str], spelling: Spelling) -> StatementQuestion | None:
    words = [word.lower() for word in found["subject"].split()]
    value = found["value"].rstrip(".,")
    unclear = _POINTING.union(("if", "none", "behavior", "used")).intersection(words)
    if unclear or len(set(words) - VAGUE) < 1 or not (_CODE.search(value) or '"' in value):
        return None
    return StatementQuestion(f"What is the {found['subject']}?", value, 1)


def _subject(text: str, spelling: Spelling) -> str | None:
    """A subject as it is written within a question, if it names one thing without doubt."""
    words = text.split()
    article = words.pop(0).lower() if words[0] in ("The", "A", "An") else ""
    lower = [word.lower() for word in words]
    named = [word for word in words if word.lower() not in _THING]
    vague = VAGUE.difference(_THING, ("name", "key", "type"))
    if not named or vague.union(_JOINING).intersection(lower):
        return None
    if words[-1].endswith((".", "-")) or lower[-1] in ("of", "in", "to"):
        return None
    if any(word.endswith("ly") or _PLACEHOLDER.fullmatch(word) for word in lower):
        return None
    coded = any(_CODE.search(word) for word in words)
    if article:
        # "The server" is another one in each text, "The Reports tab" is not.
        certain = len(words) > 1 or coded or spelling.is_name(words[0])
        return f"the {' '.join(words)}" if certain and article == "the" else None
    first = spelling.within(words[0])
    if first is None:
        return None
    shown = " ".join([first, *words[1:]])
    certain = all(word[:1].isupper() or _CODE.search(word) for word in [first, *named[1:]])
    certain = certain and (len(words) > 1 or coded or spelling.is_name(first))
    return shown if certain and len(shown) > 2 and not shown[0].isdigit() else None


_Ask = Callable[[re.Match[str], Spelling], StatementQuestion | None]
_RULES: tuple[tuple[re.Pattern[str], _Ask], ...] = (
    (lazy_pattern(rf"(?:In order to|To) {_TASK},? {_ORDER}"), _how),
    (lazy_pattern(rf"If you (?:want|need|wish|would like) to {_TASK},? {_ORDER}"), _how),
    (
        lazy_pattern(rf"(?:Use|Run|Call|Press|Click) [^,;:()]{{2,50}}? to {_TASK}(?:[.:]|, |$)"),
        _how_known,
    ),
    (lazy_pattern(rf"You can (?:easily )?{_TASK} (?:by \w+ing|using|with the) "), _how),
    (
        lazy_pattern(
            rf"{_SUBJECT} (?P<was>was|were) (?:first |originally |officially )?{_PARTICIPLE}"
            rf"(?: by [^,.;]{{2,40}})? (?:in|on) (?P<date>{_DATE})"
        ),
        _when,
    ),
    (
        lazy_pattern(
            rf"{_SUBJECT} (?:was|were) (?:first |originally )?{_PARTICIPLE} by "
            r"(?P<name>[A-Z][\w.’'-]+(?: [A-Z][\w’'-]+)+)"
        ),
        _who,
    ),
    (lazy_pattern(rf"{_SUBJECT} (?P<is>is|are) (?:\w+ly )?used (?:to|for) \w"), _used),
    (lazy_pattern(rf"{_SUBJECT} (?:allows|lets|enables) (?:you|users|the user) "), _allows),
    (
        lazy_pattern(
            r"The (?P<subject>(?:default|maximum|minimum|recommended) [\w-]+(?: [\w-]+){0,2}"
            r"(?: (?:of|for) [\w./ -]{3,40}?)?) is (?P<value>(?!not |to |that )[^\s,;]+)"
        ),
        _default,
    ),
    (lazy_pattern(rf"{_SUBJECT} {_DOES} (?P<what>.+)"), _does),
)
