"""Where sentences begin and end, by rule, in time linear in the text.

Written for English prose and technical text; full stops of other scripts count too, and in Thai
the spaces. When in doubt the rules do not split: a sentence that is too long does less harm than
half of one.
"""

from __future__ import annotations

import re

from packwise.lazy_pattern import lazy_pattern

# The characters a border can begin with: searching for these first is ten times faster, and for
# one class of characters several times faster again.
_MARK = lazy_pattern(r"[\n.!?…؟۔।॥。｡！？።។။]")
_THAI_MARK = lazy_pattern(rf"{_MARK.pattern}|(?<=[\u0e01-\u0e4e]) ")
_THAI = lazy_pattern(r"[\u0e01-\u0e4e]")
# Every alternative consumes what it looked at (possessive quantifiers) or looks no further
# than its own line, so the time is linear in any text.
_CANDIDATE = lazy_pattern(
    r"""
      (?P<blank>\n[^\S\n]*+\n)
    | (?P<line>\n(?=[^\S\n]*+(?:
            [-*+•‣◦▪]\s                         # a list item
          | (?:\d{1,3}[.)]|\(?[A-Za-z]\))\s     # a numbered or lettered one
          | \#{1,6}\s                           # a heading
          | \||[^\n|]*+(?<=\s)\|\s              # a table row
        )))
    | (?P<wide>[。｡！？។။]++[」』）】〉》”’"')\]]*+)
    | (?P<thai>[ ](?=[\u0e01-\u0e4e]))
    | (?P<stop>(?:[.!?…؟۔।॥።]++["'”’»›)\]}*_`]*+(?:\[\w{1,4}\])*+)++)
    """,
    re.VERBOSE,
)
_CAPITALS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LONG_WORD = 7
"""Letters; no abbreviation has so many."""
_AHEAD = lazy_pattern(r"\s*+[\s\"'“‘«‹(\[{*_`¿¡•–—-]*+")
_SPACE = lazy_pattern(r"\s*+")
_WORD = lazy_pattern(r"[^\W\d_]{1,16}(?:['’][^\W\d_]{1,4})?(?![\w.])")
_IDENTIFIER = lazy_pattern(r"[^\W\d]{2,32}(?:\.[^\W\d]{2,32}|_\w|\(|\w{0,32}_\w)")
_ACRONYM = lazy_pattern(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}|[^\W\d_]")
_ENUMERATOR = lazy_pattern(r"[(\[]?(?:\d{1,3}(?:\.\d{1,3})*|[A-Za-z]|[ivxIVX]{1,4})")
_OPENERS = "\"'“‘«‹([{*_`¿¡-–—"

# A sentence does not end after these.
_NEVER_LAST = frozenset(
    "mr mrs ms messrs dr prof e.g eg i.e ie cf viz vs v resp approx ca incl esp fig figs eq eqs "
    "sen rep gov gen lt col capt cmdr sgt maj rev hon pres supt "
    "z.b d.h u.a bzw sog ggf vgl evtl inkl zzgl sr sra dña p.ej núm mme mlle т.е т.к т.н им ул "
    "напр".split()
)
# ... nor after these when a number follows.
_BEFORE_NUMBER = frozenset(
    "no nos nr sec sect ch chap vol vols p pp par para art ref refs tab app appx op item ver "
    "jan feb mar apr jun jul aug sep sept oct nov dec c стр рис гл".split()
)
# "3. März" is a date.
_AFTER_ORDINAL = frozenset(
    "januar februar märz april mai juni juli august september oktober november dezember "
    "jahrhundert jahrhunderts jahrhunderte".split()
)
# After these only a word that usually opens a sentence begins a new one ("Acme Inc. It ..."
# but "Acme Inc. Limited"); initials and dotted letters ("J.", "U.S.") are treated alike.
_DOUBTFUL = frozenset(
    "inc ltd co corp bros jr sr st ave blvd rd mt ft dept univ assn est al ed eds trans lit "
    "ph.d bc ad am pm u.s u.k".split()
)
_SELDOM_LAST = _NEVER_LAST | _DOUBTFUL
OPENING_WORDS = frozenset(
    "a after all also although an and another any are as at because before both but by can "
    "despite did do does during each even every few finally first for from furthermore given "
    "had has have he hence her here his how however i if in indeed instead is it it's its "
    "later like many meanwhile more moreover most much my nearly neither no none nor not note "
    "now of often on once one only or other our over perhaps rather several she since so some "
    "soon still such that the their then there therefore these they this those though three "
    "through thus to today two under unlike until upon was we were what when where whereas "
    "whether which while why with within without yet you your".split()
)
"""Words that often open a sentence."""

_LOWERCASE_SAMPLE = 4096
_SHORTEST_THAI = 60
"""Characters; a space after fewer parts two clauses or a name from its number."""
_WORD_REACH = 24
_ORDINAL_DIGITS = 2


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """The sentences of a text as ``(start, end)``, in order and without surrounding space.

    Together they hold every character that is not white space. A blank line always ends a
    sentence, and a list item or table row begins one; other line breaks are plain space.
    """
    spans: list[tuple[int, int]] = []
    rules = _StopRules(text)
    begin = _after_space(text, 0)
    position = 0
    marks = _MARK if text.isascii() or _THAI.search(text) is None else _THAI_MARK
    for mark in marks.finditer(text):
        if mark.start() < position:
            continue
        position = mark.end()
        if _is_plain_stop(text, begin, mark.start()):
            spans.append((begin, position))
            begin = position + 1
            continue
        match = _CANDIDATE.match(text, mark.start())
        if match is None:
            continue
        position = match.end()
        kind = match.lastgroup
        if kind in ("blank", "line"):
            end = match.start()
        elif kind == "thai":
            if match.start() - begin < _SHORTEST_THAI:
                continue
            end = match.start()
        elif kind == "wide" or rules.ends_sentence(begin, match.start(), match.end()):
            end = match.end()
        else:
            continue
        if end > begin:
            spans.append((begin, begin + len(text[begin:end].rstrip())))
            begin = _after_space(text, end)
    if begin < len(text):
        spans.append((begin, begin + len(text[begin:].rstrip())))
    return spans


def _is_plain_stop(text: str, begin: int, stop: int) -> bool:
    """Whether there is a full stop before a capital, after a word that no rule is about. Most
    sentences end in one."""
    if text[stop + 2 : stop + 3] not in _CAPITALS or text[stop : stop + 2] != ". ":
        return False
    before = text[max(begin, stop - _WORD_REACH) : stop]
    if len(before) >= _LONG_WORD and before.isascii() and before[-_LONG_WORD:].isalpha():
        return True
    _, space, word = before.rpartition(" ")
    known = stop - begin > _WORD_REACH and space and len(word) > 1 and word.isalpha()
    return bool(known) and word.casefold() not in _SELDOM_LAST


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


class _StopRules:
    """Decide whether a stop ends a sentence."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lowercase: bool | None = None

    def ends_sentence(self, begin: int, stop: int, end: int) -> bool:
        """Whether the stop at ``stop`` (with closing marks, up to ``end``) ends the sentence
        that began at ``begin``."""
        text = self._text
        if end == len(text):
            return True
        if not text[end].isspace():
            return False
        found = _AHEAD.match(text, end)
        ahead = found.end() if found else end
        if ahead == len(text):
            return True
        following = text[ahead]
        if following in ",;:.!?…)]}%/\\=+":
            return False
        if following.islower() and not self._lowercase_opens(ahead):
            return False
        if text[stop] != "." or text[stop + 1 : stop + 2] == ".":
            return True
        return self._full_stop_ends(begin, stop, ahead)

    def _full_stop_ends(self, begin: int, stop: int, ahead: int) -> bool:
        text = self._text
        before = text[max(begin, stop - _WORD_REACH) : stop].split()
        if not before:
            return True
        word = before[-1].lstrip(_OPENERS)
        folded = word.casefold()
        if folded in _NEVER_LAST:
            return False
        if folded in _BEFORE_NUMBER and text[ahead].isnumeric():
            return False
        if stop - begin <= _WORD_REACH and _ENUMERATOR.fullmatch(text[begin:stop].strip()):
            return False
        if word.isdecimal() and len(word) <= _ORDINAL_DIGITS:
            following = _WORD.match(text, ahead)
            if following is not None and following[0].casefold() in _AFTER_ORDINAL:
                return False
        if folded in _DOUBTFUL or _ACRONYM.fullmatch(word):
            opening = _WORD.match(text, ahead)
            return opening is not None and opening[0].casefold() in OPENING_WORDS
        return True

    def _lowercase_opens(self, ahead: int) -> bool:
        """Whether a small letter may begin a sentence here: it may in code, and in a text
        without capitals."""
        if self._text[ahead - 1] == "`" or _IDENTIFIER.match(self._text, ahead):
            return True
        if self._lowercase is None:
            sample = self._text[:_LOWERCASE_SAMPLE]
            self._lowercase = sum(map(str.isupper, sample)) * 250 < len(sample)
        return self._lowercase
