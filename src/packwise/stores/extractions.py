"""What a language model extracted from the passages of a document, as stores keep it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from packwise.documents import Passage
from packwise.errors import StoreError
from packwise.language.names import (
    ExtractedEntity,
    ExtractedFact,
    ExtractedRelation,
    Extraction,
)


def check_extractions(
    document: str, passages: Sequence[Passage], extractions: Sequence[Extraction]
) -> None:
    """Raise ``StoreError`` unless each extraction belongs to a passage of its own."""
    at = [extraction.order_index for extraction in extractions]
    strange = set(at) - {passage.order_index for passage in passages}
    if strange:
        raise StoreError(f"{document}: an extraction is for passage {min(strange)}, not there")
    if len(set(at)) < len(at):
        raise StoreError(f"{document}: two extractions are for the same passage")


def extraction_payload(extraction: Extraction) -> dict[str, Any]:
    """An extraction as plain JSON values."""
    return asdict(extraction)


def read_extraction(payload: Mapping[str, Any]) -> Extraction:
    """The inverse of ``extraction_payload``."""
    return Extraction(
        payload["order_index"],
        tuple(ExtractedEntity(**entity) for entity in payload["entities"]),
        tuple(ExtractedFact(**fact) for fact in payload["facts"]),
        tuple(ExtractedRelation(**relation) for relation in payload["relations"]),
    )
