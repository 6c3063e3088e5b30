"""Lists of what changed from version to version. They name everything and explain little, so most
questions are better answered by another passage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from packwise.candidates import Candidate
from packwise.documents import Passage
from packwise.lazy_pattern import lazy_pattern
from packwise.trace import Trace

LOWERED = 0.85
"""What the score of a passage from a list of changes is multiplied with. Of 316 tuning questions
over documentation, the first passage held the answer for 207 instead of 204, and one of the first
three for 269 instead of 268."""

_ASKED_FOR = lazy_pattern(
    r"\b(?:versions?|releases?d?|chang(?:e[sd]?|ed|es|ing)|new|added|removed|deprecat\w*|since|fixed|"
    r"history|when|upgrad\w*|migrat\w*)\b",
    re.I,
)
_CHANGE_LOG = lazy_pattern(
    r"(?ix) (?:[\d.]+\ )? (?: (?-i:NEWS) (?:\.\w+)? | changes (?:\.\w+|\b.*\d.*)?"
    r"| (?: change[ _-]?logs? | (?:release|version)[ _-]?(?:notes?|history) | upgrading"
    r"    | (?:upgrade|migration)[ _-](?:guide|notes?) ) (?:[ _.-].*)?"
    r"| what.?s[ _-]?new (?:[ _-]in\b.*|\.\w+)?"
    r"| (?:upgrade|migration)[ _-](?:to|from)\b.*\d.* )"
)
_MAY_BE_CHANGE_LOG = lazy_pattern(r"(?i)(?:version[ _-]?)?(?:history|news|releases)(?:\.\w+)?")
_VERSION = lazy_pattern(r"\bv?\d+\.\d+")


def is_unasked_change_log(question: str, passage: Passage) -> bool:
    """Whether a passage lists what changed in a version, and the question does not ask for that."""
    return not _ASKED_FOR.search(question) and _is_change_log(
        passage.document, passage.doc_title, passage.section_path
    )


@lru_cache(maxsize=1024)
def _is_change_log(document: str, title: str, path: tuple[str, ...]) -> bool:
    names = (*document.split("/"), title, *path)
    return any(map(_CHANGE_LOG.fullmatch, names)) or (
        bool(_VERSION.search("".join(path[-1:]))) and any(map(_MAY_BE_CHANGE_LOG.fullmatch, names))
    )


def lower_change_logs(question: str, hits: Sequence[Candidate], trace: Trace) -> list[Candidate]:
    """The hits, best first, those from lists of changes with a lower score."""
    lowered = {hit.key for hit in hits if is_unasked_change_log(question, hit.passage)}
    if not lowered:
        return list(hits)
    with trace.stage("change_logs") as stage:
        stage.note(lowered=len(lowered))
    scored = [
        replace(hit, scores=replace(hit.scores, final=LOWERED * hit.scores.final))
        if hit.key in lowered
        else hit
        for hit in hits
    ]
    return sorted(scored, key=lambda hit: (-hit.scores.final, str(hit.key)))
