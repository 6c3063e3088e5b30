"""What may enter a store: passages that say something, and vectors of one embedder.

A passage is checked by itself and against its own document, never against other documents: a
build that skips unchanged documents then keeps exactly what a full build keeps. The same text
in two documents is stored twice and folded when it is searched.

The rules for boilerplate are narrow on purpose. A banner that slips through costs a little
noise; a real passage that is lost cannot be found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from packwise.documents import Passage
from packwise.errors import EmbedderMismatch
from packwise.lazy_pattern import lazy_pattern


class RejectReason(StrEnum):
    """Why a passage is not stored."""

    EMPTY = "empty"
    BINARY = "binary"
    BOILERPLATE = "boilerplate"
    DUPLICATE = "duplicate"


class GuardReport(NamedTuple):
    """The passages that may be stored, in order, and how many may not, by reason."""

    kept: tuple[Passage, ...]
    counts: Mapping[RejectReason, int]


class Guard:
    """Decides which passages are stored, on each document alone."""

    def check(self, passages: Iterable[Passage]) -> GuardReport:
        """Check passages, given in reading order; of equal ones the first is kept."""
        kept: list[Passage] = []
        counts: Counter[RejectReason] = Counter()
        seen: set[tuple[str, ...]] = set()
        for passage in passages:
            reason = _reject_reason(passage)
            if reason is None:
                key = _identity(passage)
                reason = RejectReason.DUPLICATE if key in seen else None
                seen.add(key)
            if reason is None:
                kept.append(passage)
            else:
                counts[reason] += 1
        return GuardReport(tuple(kept), counts)


def _reject_reason(passage: Passage) -> RejectReason | None:
    if _is_binary(passage.text):
        return RejectReason.BINARY
    if _LETTER_OR_DIGIT.search(passage.text) is None:
        return RejectReason.EMPTY
    return RejectReason.BOILERPLATE if _is_boilerplate(passage) else None


def _is_binary(text: str) -> bool:
    """Whether control or replacement characters make up a tenth of the text, or most of it
    is encoded (an embedded image, a key)."""
    unreadable = sum(map(len, _UNREADABLE.findall(text)))
    if unreadable and unreadable * 10 >= len(text):
        return True
    return 2 * sum(len(run) for run in _BLOB.findall(text) if _is_base64(run)) > len(text)


def _is_boilerplate(passage: Passage) -> bool:
    """Whether the text belongs to the page rather than to its subject: a consent banner, a
    copyright line, navigation, a bare list of links to other pages."""
    if len(passage.text) <= _LONGEST_BANNER and (
        _is_banner(passage) or _is_copyright(passage) or _is_navigation(passage.text)
    ):
        return True
    return _is_link_list(passage)


def check_embedder(stored: str, new: str, *, location: str = "the store") -> None:
    """Raise ``EmbedderMismatch`` if ``new`` is not the embedder version of the store.

    A store without a version is still empty and takes any.
    """
    if stored and stored != new:
        raise EmbedderMismatch(
            f"{location} holds vectors of embedder {stored}, these are of {new}",
            fix="packwise build --reembed",
        )


_LETTER_OR_DIGIT = lazy_pattern(r"[^\W_]")
# Control characters except white space; U+FFFD stands where a byte could not be decoded.
_UNREADABLE = lazy_pattern(r"[\x00-\x08\x0e-\x1b\x7f\ufffd\ufffe\uffff\ud800-\udfff]+")
_BLOB = lazy_pattern(r"[A-Za-z0-9+/=_-]{200,}+")
_LONGEST_BANNER = 600

# A shorter text says little without its heading ("Returns None."), so it is a duplicate only
# under the same headings.
_WORDS_THAT_STAND_ALONE = 20


def _identity(passage: Passage) -> tuple[str, ...]:
    words = passage.text.casefold().split()
    path = passage.section_path if len(words) < _WORDS_THAT_STAND_ALONE else ()
    return (passage.document, " ".join(words), *path)


def _is_base64(run: str) -> bool:
    # Base64 mixes both cases and digits; a gene, a number or a ruling does not.
    return all(any(map(kind, run)) for kind in (str.isupper, str.islower, str.isdigit))


_SITE_USES_COOKIES = lazy_pattern(
    r"\b(?:we|this (?:web ?)?site|our (?:web ?)?site|this page)\b[^.]{0,60}\bcookies\b"
    r"|\bcookies\b[^.]{0,40}\b(?:on this (?:web ?)?site|on our (?:web ?)?site)\b"
    r"|\bwe (?:value|care about) your privacy\b",
    re.IGNORECASE,
)
_ASKS_CONSENT = lazy_pattern(
    r"\b(?:accept(?: all)?(?: cookies)?\s*(?:$|[.|!\n])|accept (?:all|cookies)|reject all"
    r"|by (?:continuing|using|clicking|browsing)\b|if you continue\b|got it\b"
    r"|(?:manage|change|cookie) (?:cookie |my |your )?(?:preferences|settings|choices)"
    r"|you (?:consent|agree) to (?:the|our)\b)",
    re.IGNORECASE,
)
_ABOUT_COOKIES = lazy_pattern(r"cookie|privacy|gdpr|consent|data protection")


def _is_banner(passage: Passage) -> bool:
    if _ABOUT_COOKIES.search(passage.doc_title.casefold()):
        return False
    text = passage.text
    return _SITE_USES_COOKIES.search(text) is not None and _ASKS_CONSENT.search(text) is not None


_COPYRIGHT_MARK = lazy_pattern(
    r"(?:copyright\s*(?:©|\(c\))|©(?:\s*copyright)?|copyright(?=\s*\d{4}))"
    r"[\s\d,–-]*(?:present\b)?",
    re.IGNORECASE,
)
_RIGHTS = lazy_pattern(r"\ball rights reserved\b|\bpowered by(?:\s\S+){1,2}$", re.IGNORECASE)
_HOLDER_WORDS = frozenset("by the of and for its contributors authors developers".split())
_ABOUT_RIGHTS = lazy_pattern(r"copyright|licen[cs]e|legal|credit|acknowledg|author|about|imprint")


def _is_copyright(passage: Passage) -> bool:
    headings = " ".join((passage.doc_title, *passage.section_path)).casefold()
    if _ABOUT_RIGHTS.search(headings):
        return False
    marks = 0
    for line in _nonblank_lines(passage.text):
        rest, found = _COPYRIGHT_MARK.subn(" ", line, count=1)
        rest, reserved = _RIGHTS.subn(" ", rest)
        holder = rest.split()
        # A line with other words than names is a sentence about copyright.
        named = all(not word[0].islower() or word in _HOLDER_WORDS for word in holder)
        if not (found or reserved) or not named or len(holder) > 12:
            return False
        marks += found
    return marks > 0


_SEPARATOR = lazy_pattern(r"\s*[|»›·•\n]\s*|\s+[/*>-]\s+|^[*+-]\s+", re.MULTILINE)
_INLINE_SEPARATOR = lazy_pattern(r"\S[ \t]*[|»›·•][ \t]*\S")
_NAVIGATION = frozenset(
    item.strip()
    for item in """
    home, homepage, main page, menu, main menu, navigation, search, about, help, faq, faqs,
    support, blog, news, careers, jobs, press, login, log in, log out, logout, sign in, sign up,
    sign out, register, join, my account, account, profile, cart, checkout, subscribe,
    newsletter, rss, share, share this, tweet, print, email, privacy, terms, cookies, legal,
    disclaimer, accessibility, imprint, copyright, next, previous, prev, back, top, up, index,
    contents, table of contents, show more, read more, more, load more, view all, close, edit,
    view source, view history, show source, random article, donate
    """.split(",")
)
# Without one of these or a separator, a list of such words may be about something else.
_CERTAIN_NAVIGATION = frozenset(
    item.strip()
    for item in """
    about us, contact, contact us, site map, sitemap, privacy policy, terms of use,
    terms of service, terms & conditions, terms and conditions, cookie policy, skip to content,
    skip to main content, skip navigation, jump to content, toggle navigation, back to top,
    next page, previous page, edit this page, edit on github, improve this page,
    report an issue, report a bug
    """.split(",")
)


def _is_navigation(text: str) -> bool:
    items = [item.strip(" .:…←→<>«»‹›") for item in _SEPARATOR.split(text.casefold())]
    items = [item for item in items if item]
    certain = sum(item in _CERTAIN_NAVIGATION for item in items)
    known = certain + sum(item in _NAVIGATION for item in items)
    if not certain and not _INLINE_SEPARATOR.search(text):
        return False
    if any(len(item.split()) > 4 for item in items):
        return False
    return known == len(items) or (known >= 3 and known * 5 >= len(items) * 3)


_LINKS_ELSEWHERE = lazy_pattern(
    r"(?:see also|related(?: (?:articles|pages|topics|links|posts|content|reading))?"
    r"|you (?:may|might) also like|read next|on this page|in this (?:section|article)"
    r"|table of contents)\W*",
    re.IGNORECASE,
)
_ITEM_MARK = lazy_pattern(r"^(?:[-*+•‣◦▪]|\d{1,3}[.)])\s+")
# An item that describes its target: "os.path - work with file names".
_EXPLAINED = lazy_pattern(r"(?<!\b[A-Z])[.!?;:]$|\s[-–—=]\s|[:;]\s")
_LONGEST_LINK_TEXT = 8


def _is_link_list(passage: Passage) -> bool:
    lines = _nonblank_lines(passage.text)
    if lines and _LINKS_ELSEWHERE.fullmatch(lines[0]):
        lines = lines[1:]
    elif not _LINKS_ELSEWHERE.fullmatch(passage.header.strip()):
        return False
    for line in lines:
        item = _ITEM_MARK.sub("", line)
        if len(item.split()) > _LONGEST_LINK_TEXT or _EXPLAINED.search(item):
            return False
    return True


def _nonblank_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
