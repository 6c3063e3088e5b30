"""What a passage is found to name, and which passages to read again when titles change.

Shared by the stores: each keeps what is found in its own way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from packwise.documents import Passage
from packwise.errors import StoreError
from packwise.language.entities import AliasIndex, facts_in, passage_names
from packwise.language.names import (
    ExtractedEntity,
    ExtractedFact,
    ExtractedRelation,
    Extraction,
    KeyMatcher,
    Kind,
    name_key,
)


@dataclass(frozen=True, slots=True)
class Mentioned:
    """An entity a passage mentions; ``sure`` as in ``entities.Name``."""

    key: str
    label: str
    kind: str
    sure: bool = True
    description: str = ""


@dataclass(frozen=True, slots=True)
class Stated:
    """A sentence about the entity of this key."""

    key: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Tied:
    """What ties two entities."""

    source: str
    source_label: str
    relation: str
    target: str
    target_label: str
    context: str


@dataclass(frozen=True, slots=True)
class Told:
    """All that one passage tells of entities; each is mentioned once."""

    mentions: tuple[Mentioned, ...]
    facts: tuple[Stated, ...]
    relations: tuple[Tied, ...]


def told_by(passage: Passage, aliases: AliasIndex, extraction: Extraction | None = None) -> Told:
    """What a passage tells by rule, and beyond that by what a language model read in it."""
    mentions = {
        name.key: Mentioned(name.key, name.text, name.kind.value, name.sure)
        for name in passage_names(passage, aliases)
    }
    facts = [Stated(fact.key, fact.subject, fact.text) for fact in facts_in(passage.text)]
    relations: list[Tied] = []
    if extraction is not None:
        for entity in extraction.entities:
            _mention(mentions, entity.name, entity.kind, entity.description)
        for fact in extraction.facts:
            _mention(mentions, fact.subject)
            facts.append(Stated(name_key(fact.subject), fact.subject, fact.text))
        for tie in extraction.relations:
            _mention(mentions, tie.source)
            _mention(mentions, tie.target)
            relations.append(
                Tied(
                    name_key(tie.source),
                    tie.source,
                    tie.relation,
                    name_key(tie.target),
                    tie.target,
                    tie.context,
                )
            )
    return Told(
        tuple(mentions.values()),
        tuple(fact for fact in facts if fact.key),
        tuple(tie for tie in relations if tie.source and tie.target),
    )


def _mention(
    mentions: dict[str, Mentioned], label: str, kind: str = Kind.NAME.value, description: str = ""
) -> None:
    key = name_key(label)
    known = mentions.get(key)
    if not key:
        return
    if known is None:
        mentions[key] = Mentioned(key, label, kind, description=description)
    else:
        mentions[key] = replace(known, sure=True, description=known.description or description)


@dataclass(frozen=True, slots=True)
class Turnover:
    """Aliases that came and went between two states of a store.

    A passage is to be read again when it ``mentions`` one that went, or when one that came
    ``appears`` in its text: longest match may then find other names in it than before.
    """

    came: KeyMatcher
    went: frozenset[str]
    any_came: bool

    def appears(self, text: str) -> bool:
        return self.any_came and bool(self.came.mentions(text))


def turnover(before: Iterable[str], after: Iterable[str]) -> Turnover:
    """What changed from one set of aliases to another."""
    old, new = frozenset(before), frozenset(after)
    return Turnover(KeyMatcher(new - old), old - new, bool(new - old))


def check_extractions(
    document: str, passages: Sequence[Passage], extractions: Sequence[Extraction]
) -> None:
    """Raise ``StoreError`` on extractions that are not of these passages, one of each."""
    at = [extraction.order_index for extraction in extractions]
    strange = set(at) - {passage.order_index for passage in passages}
    if strange:
        raise StoreError(f"{document}: an extraction is of passage {min(strange)}, not there")
    if len(set(at)) < len(at):
        raise StoreError(f"{document}: two extractions are of the same passage")


def extraction_payload(extraction: Extraction) -> dict[str, Any]:
    """An extraction as plain JSON values."""
    return asdict(extraction)


def read_extraction(payload: Mapping[str, Any]) -> Extraction:
    """The inverse of ``extraction_payload``."""
    return Extraction(
        payload["order_index"],
        tuple(ExtractedEntity(**entity) for entity in payload["entities"]),
        tuple(ExtractedFact(**fact) for fact in payload["facts"]),
        tuple(ExtractedRelation(**tie) for tie in payload["relations"]),
    )
