"""Questions of a conversation that leave something out, made complete without a model.

"And the group plugdev?" after "What is the group shadow for?" asks the same of another subject, so
that subject takes the place of the earlier one. "What is its default?" asks about the earlier
subject, so that stands in for the pronoun. Only where neither is clear are both questions asked
together. The rules read English; a question in another language is asked as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from packwise.language.word_classes import CONTENT, WordClass, words_of

_COMPLETE_QUESTION = 12
"""A question of at least this many words is complete without an earlier one."""
_LONGEST_FRAGMENT = 7
"""Words of a fragment such as "and the group plugdev?"."""

_LEAD = re.compile(
    r"\s*(?:(?:ok(?:ay)?|and|but|so|then|or|also)\b[\s,]*)*(?:(?:what|how)\s+(?:about|of)\b\s*)?",
    re.I,
)
_REFERENCE = re.compile(
    r"\b(?:it|its|they|them|their|he|him|his|she|her|this|that|these|those|there|one|ones)\b", re.I
)
# "How long does it take?", "Is it safe to …?": the word refers to nothing.
_EXPLETIVE = re.compile(
    r"\bit\s+(?:takes?|possible|necessary|safe|better|best|true|ok|okay|allowed|recommended)\b",
    re.I,
)
# "When did Debian 8 reach its end?": what the possessive refers to stands before it.
_OWN_POSSESSIVE = re.compile(
    r"(?:\b(?:[Tt]he|[Aa]n?|[Ee]ach|[Ee]very|[Mm]y|[Oo]ur|[Yy]our)\s+\w+|(?<=\s)[A-Z]\w*|\b\w*[0-9_]\w*)"
    r".*?\b(?:its|their|his|her)\b"
)
_PRONOUN = re.compile(
    r"\b(?:(?P<own>its|their)|it|they|them"
    r"|(?:this|that|these|those)(?=\s*[?.!]*$|\s+(?:is|are|was|were|do|does|did|can|could|will)\b)"
    r"|(?<=\b(?:is|of|to|do|in|on)\s)(?:this|that|these|those)(?=\s+(?:different|the|better)\b)"
    r"|(?:this|that|these|those)\s+(?P<noun>[\w-]+))(?![\w'’])",
    re.I,
)
_ACT = re.compile(r"how\s+(?:do|can|could|should|to)\b", re.I)
_BARE = re.compile(
    r"(?:(?:since|until|by|for)\s+)?(?:why|how|when|where|who|which|what)(?:\s+(?:not|else))?", re.I
)
_ASKING = frozenset("who whom whose when where why what which how".split())
_DO = frozenset("do does did".split())
_DOERS = frozenset("i you we one".split())
# What a subject has: "and the default?" asks for the default of the earlier subject.
_ATTRIBUTES = frozenset(
    "default defaults value values type size limit maximum minimum max min price cost purpose name "
    "port path location version format syntax unit range date year author owner password length "
    "width height weight age number count reason meaning shell permissions example examples".split()
)
# Verbs that stand between a subject and its object: "does borgmatic support ntfy".
_VERBS = frozenset(
    "support need use mean take make give get set send run work store keep write read start stop "
    "return allow contain hold handle require limit cost last begin end reach change apply "
    "show call include add remove create delete enable disable install configure belong refer "
    "differ own provide want expect accept check print log open close load look come go".split()
)
_PARTICIPLES = frozenset("set kept written made built run sent read found held given taken".split())
# Prepositions whose phrase says where or how; those of the others, what.
_ADJUNCT = frozenset(
    "on in with under at from by via to as into within during before after".split()
)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int
    kind: WordClass
    special: bool
    """Whether it is spelled like a name, a path, an option or a number."""
    ends: bool
    """Whether a comma or the like follows it."""

    @property
    def lower(self) -> str:
        return self.text.lower()

    @property
    def names(self) -> bool:
        return self.kind in CONTENT or self.special


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A subject or object of a question."""

    tokens: tuple[_Token, ...]
    preposition: _Token | None
    asked: bool
    """Whether it is what is asked for: "which group"."""

    @property
    def words(self) -> frozenset[str]:
        return frozenset(t.lower for t in self.tokens if t.kind is not WordClass.DETERMINER)

    @property
    def special(self) -> list[_Token]:
        return [token for token in self.tokens if token.special]

    @property
    def is_attribute(self) -> bool:
        return not self.special and self.tokens[-1].lower in _ATTRIBUTES

    @property
    def is_adjunct(self) -> bool:
        every_day = self.tokens[0].lower in ("every", "each")
        return every_day or (self.preposition is not None and self.preposition.lower in _ADJUNCT)

    def text_of(self, question: str) -> str:
        return question[self.tokens[0].start : self.tokens[-1].end]


def complete_question(question: str, earlier: Sequence[str]) -> str:
    """The question with what it leaves out, taken from the questions before it."""
    understood: list[str] = []
    for text in filter(None, map(str.strip, (*earlier, question))):
        understood.append(_completed(text, understood) if understood else text)
    return understood[-1] if len(understood) > 1 else question


def _completed(question: str, earlier: Sequence[str]) -> str:
    lead = _LEAD.match(question)
    assert lead is not None  # every part of it is optional
    rest = question[lead.end() :].strip()
    led, before = bool(lead[0].strip()), earlier[-1]
    if not rest or len(question.split()) >= _COMPLETE_QUESTION:
        return question
    if _BARE.fullmatch(rest.rstrip("?!. ")):
        return _joined(before, question)
    if fragment := _fragment(rest, led):
        alike = (text for text in reversed(earlier) if _shares_noun(text, fragment))
        return _with_subject(next(alike, before), fragment, rest.rstrip("?!. "))
    told = _OWN_POSSESSIVE.sub(" ", _EXPLETIVE.sub(" ", rest))
    if _REFERENCE.search(told):
        return _with_topic(before, rest) or _joined(before, question)
    if not led:
        return question
    complete = any(phrase.special for phrase in _phrases(rest))
    return _sentence(rest) if complete else _joined(before, question)


def _shares_noun(question: str, fragment: _Phrase) -> bool:
    """Whether "the group plugdev" goes with a question about a group, not with a later one."""
    plain = {token.lower for token in fragment.tokens if token.names and not token.special}
    return any(plain & phrase.words for phrase in _phrases(question))


def _joined(before: str, question: str) -> str:
    # Of what was joined already, the last two questions say what is meant.
    parts = re.findall(r"[^?]+\??", before)
    return f"{''.join(parts[-2:]).strip()} {question}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _fragment(rest: str, led: bool) -> _Phrase | None:
    """What a question without a verb names: "the group plugdev?", "for workers?"."""
    tokens = _tokens(rest, opening=True)
    most = _LONGEST_FRAGMENT if led else 3
    if not tokens or len(tokens) > most or not (led or rest.endswith("?")):
        return None
    head = tokens[0] if tokens[0].kind is WordClass.PREPOSITION else None
    named = tokens[1:] if head else tokens
    plain = (*CONTENT, WordClass.DETERMINER, WordClass.PREPOSITION, WordClass.ADVERB)
    if not named or any(t.kind not in plain and not t.special for t in named):
        return None
    if any(_REFERENCE.fullmatch(t.text) for t in named):
        return None
    return _Phrase(tuple(named), head, asked=False)


def _with_subject(before: str, fragment: _Phrase, text: str) -> str:
    """The question before, asked of another subject."""
    phrases = _phrases(before)
    named = text[fragment.tokens[0].start : fragment.tokens[-1].end]
    attributes = [phrase for phrase in phrases if phrase.is_attribute]
    if fragment.is_attribute and fragment.preposition is None:
        if attributes:
            return _replaced(before, attributes[-1].tokens, named)
        topic = _topic(before)
        return f"What is {named} of {topic}?" if topic else _joined(before, text)
    shared = [phrase for phrase in phrases if phrase.words & fragment.words]
    head = fragment.preposition
    if head is not None:
        like = {head.lower} | ({"of", "for"} if head.lower in ("of", "for") else set())
        same = [p for p in shared or phrases if p.preposition and p.preposition.lower in like]
        if same:
            return _replaced(before, same[-1].tokens, named)
        if not shared:
            return f"{before.rstrip('?!. ')} {text}?"
    if shared:
        best = max(shared, key=lambda phrase: len(phrase.words & fragment.words))
        return _replaced(before, best.tokens, named)
    candidates = [p for p in phrases if not p.asked and not p.is_attribute] or phrases
    if not candidates:
        return _joined(before, text)
    if fragment.special and (spelled := [p for p in candidates if p.special]):
        # "The HUP signal" becomes "the TERM signal".
        only = len(fragment.special) == len(fragment.tokens)
        return _replaced(before, spelled[-1].special if only else spelled[-1].tokens, named)
    core = [phrase for phrase in candidates if not phrase.is_adjunct] or candidates
    return _replaced(before, core[-1].tokens, named)


def _with_topic(before: str, question: str) -> str:
    """The question with the topic of the one before in place of its pronouns; empty if it is not
    clear what they refer to."""
    topic = _topic(before)
    words = {word.lower() for word in topic.split()}
    said = {found[0].lower() for found in _PRONOUN.finditer(question)}
    # "Why do they keep it?" is about two things.
    unclear = not topic or bool(said & {"it", "its"} and said & {"they", "them", "their"})
    acts = _ACT.match(before) is not None

    def stand_in(found: re.Match[str]) -> str:
        nonlocal unclear
        noun = (found["noun"] or "").lower()
        points = found[0].split()[0].lower() in ("this", "that", "these", "those")
        # "How do I rotate the key?": "that" is the rotating.
        unclear = unclear or (noun not in words if noun and noun not in _VERBS else points and acts)
        if noun in _VERBS:
            return f"{topic} {noun}"
        return f"{topic}'s" if found["own"] else topic

    told = _PRONOUN.sub(stand_in, question)
    if unclear or told == question:
        return ""
    return _sentence(told)


def _topic(before: str) -> str:
    """What a question is about, if that is one thing; otherwise empty."""
    phrases = _phrases(before)
    named = [phrase for phrase in phrases if not phrase.asked and not phrase.is_attribute]
    core = [phrase for phrase in named if not phrase.is_adjunct]
    special = [phrase for phrase in core if phrase.special]
    if any(phrase.asked for phrase in phrases):
        # "Which variable …?": a pronoun may refer to the answer.
        core = [phrase for phrase in special if phrase.preposition is None]
    elif len(core) > 1:
        core = special
    else:
        core = core or named
    return core[0].text_of(before) if core else ""


def _replaced(before: str, tokens: Sequence[_Token], named: str) -> str:
    head = before[: tokens[0].start]
    if article := re.search(r"\ban?\s+$", head):
        head = f"{head[: article.start()]}{'an' if named[0].lower() in 'aeiou' else 'a'} "
    return f"{head}{named}{before[tokens[-1].end :]}"


def _tokens(text: str, *, opening: bool = False) -> list[_Token]:
    """The words of a text; with ``opening``, a capital tells a name at its start too."""
    found: list[_Token] = []
    for match in re.finditer(r"\S+", text):
        bare = match[0].strip("\"'“”‘’()[]?!,;:").rstrip(".")
        if not bare:
            continue
        start = match.start() + match[0].index(bare)
        words = words_of(bare)
        spelled = len(words) != 1 or bool(re.search(r"[\d_/.=*]|^-|.[A-Z]|`", bare))
        kind = words[0].kind if len(words) == 1 else WordClass.NAME
        capital = kind is WordClass.NAME and (match.start() or opening) and bare[0].isupper()
        ends = match.end() > start + len(bare) and text[start + len(bare)] in ",;:?!."
        found.append(_Token(bare, start, start + len(bare), kind, spelled or bool(capital), ends))
    return found


def _phrases(question: str) -> list[_Phrase]:
    """The subjects and objects of a question, in order, without its verbs."""
    found: list[_Phrase] = []
    tokens = _tokens(question)
    helper = next((i for i, token in enumerate(tokens) if token.lower in _DO), len(tokens))
    after = tokens[helper + 1 :]
    # "What does X limit?" has its verb among the nouns; "What does X do?" and "How do I …" not.
    helped = bool(after) and after[0].lower not in _DOERS and after[-1].lower not in _DO
    at = 0
    while at < len(tokens):
        if not tokens[at].names and tokens[at].kind is not WordClass.DETERMINER:
            at += 1
            continue
        end = at + 1
        while end < len(tokens) and not tokens[end - 1].ends and tokens[end].names:
            end += 1
        run, before = tokens[at:end], tokens[at - 1] if at else None
        following = tokens[end] if end < len(tokens) else None
        helps = following is not None and following.kind is WordClass.AUXILIARY
        asked = before is not None and (
            before.lower in ("which", "how") or (before.lower == "what" and helps)
        )
        split = helped and at > helper and not (following and following.lower == "of")
        pieces = _without_verbs(run, before, asked=asked, split=split)
        if split and len(run) > 1 + _determiners(run):
            helped = False
        preposition = before if before and before.kind is WordClass.PREPOSITION else None
        found += [_Phrase(tuple(piece), preposition, asked) for piece in pieces]
        at = end
    return found


def _without_verbs(
    run: list[_Token], before: _Token | None, *, asked: bool, split: bool
) -> list[list[_Token]]:
    """The parts of a run of words that name something; with ``split``, there may be a verb between
    them or at the end."""
    least = 1 + _determiners(run)
    word = before.lower if before else ""
    doing = word in ("who", "what") and not asked and not run[0].special
    if doing or word == "how" or word in _DOERS or run[0].lower in _VERBS:
        run = run[1:]
    elif split and len(run) > least:
        verb = next((i for i, t in enumerate(run) if i and t.lower in _VERBS), len(run) - 1)
        if not run[verb].special and run[verb].kind is WordClass.LOWER:
            return [part for part in (run[:verb], run[verb + 1 :]) if part]
    while len(run) > least and (run[-1].kind is WordClass.PAST or run[-1].lower in _PARTICIPLES):
        run = run[:-1]
    names = run and run[-1].kind not in (WordClass.DETERMINER, WordClass.PAST)
    return [run] if names else []


def _determiners(run: Sequence[_Token]) -> int:
    return int(bool(run) and run[0].kind is WordClass.DETERMINER)
