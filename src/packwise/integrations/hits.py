"""What every integration passes on about a hit."""

from __future__ import annotations

from typing import Any

from packwise.candidates import Candidate


def hit_metadata(hit: Candidate) -> dict[str, Any]:
    """Where a hit comes from and why it was found, besides its text: plain values only."""
    passage = hit.passage
    return {
        "id": passage.id,
        "document": passage.document,
        "title": passage.doc_title,
        "section": " > ".join(passage.section_path),
        "url": passage.url,
        "place": passage.place,
        "start": passage.start,
        "end": passage.end,
        "score": round(hit.scores.final, 6),
        **passage.metadata,
    }
