"""How many passages one document or section may give.

The seed's policy keeps to the caps. The coverage policy lets a passage beyond them count for
less. Both look away where the answer spans: a passage that continues one already taken, in
the same section, is not a second opinion but the rest of the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from packwise.context.pool import Entry
from packwise.context.trace import Cap, Reason
from packwise.settings import Settings

_DISCOUNT = 0.7


@dataclass(frozen=True, slots=True)
class Beyond:
    """By how many passages an entry is beyond the caps; ``spans`` when it would have been,
    but continues a passage that is in."""

    document: int = 0
    section: int = 0
    spans: bool = False

    @property
    def factor(self) -> float:
        """What the entry counts for, above 0 and up to 1."""
        return _DISCOUNT ** (self.document + self.section)

    @property
    def reason(self) -> Reason | None:
        """The cap that holds the entry back, if any."""
        if self.section:
            return Reason.PER_SECTION_CAP
        return Reason.PER_DOCUMENT_CAP if self.document else None


WITHIN = Beyond()


def continues(entry: Entry, other: Entry) -> bool:
    """Whether two passages follow each other in one section."""
    a, b = entry.passage, other.passage
    if a.document != b.document or a.section_path != b.section_path:
        return False
    return abs(a.order_index - b.order_index) == 1 or (a.start <= b.end and b.start <= a.end)


def beyond_caps(entry: Entry, chosen: Iterable[Entry], settings: Settings) -> Beyond:
    """How an entry stands to the caps beside the chosen entries of its document.

    Text without a heading has no section, and so no section's cap.
    """
    document = section = 0
    spans = False
    path = entry.passage.section_path
    for other in chosen:
        document += 1
        section += other.passage.section_path == path != ()
        spans = spans or continues(entry, other)
    over_document = max(0, document + 1 - settings.packing_per_doc_cap)
    over_section = max(0, section + 1 - settings.packing_per_section_cap)
    if spans:
        return Beyond(spans=bool(over_document or over_section))
    return Beyond(over_document, over_section)


def cap_of(entry: Entry, beyond: Beyond, settings: Settings) -> Cap | None:
    """The record of a cap that touched an entry, if one did."""
    reason = Reason.PER_SECTION_CAP if beyond.spans else beyond.reason
    if reason is None:
        return None
    by_section = reason is Reason.PER_SECTION_CAP
    limit = settings.packing_per_section_cap if by_section else settings.packing_per_doc_cap
    return Cap(reason.value, entry.id, limit, beyond.spans)
