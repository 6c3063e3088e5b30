"""Finding the entities of a store's passages when a build is committed.

Only what can have changed is read again: new passages, passages that mention an alias that was
removed, and passages in whose text an added alias appears. The result is the same as finding
everything from scratch. Entities found by other rules than today's (``names.RULES``), or by none
that the store remembers, are all found again by the next commit.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from packwise.documents import Passage
from packwise.language.entities import AliasIndex, facts_in, passage_names
from packwise.language.key_matcher import KeyMatcher, phrases
from packwise.language.names import (
    RULES,
    Extraction,
    Kind,
    name_key,
    title_aliases,
)


@dataclass(frozen=True, slots=True)
class MentionedEntity:
    """An entity that a passage mentions; ``sure`` as in ``names.Name``."""

    key: str
    label: str
    kind: str
    sure: bool = True
    description: str = ""


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A sentence about the entity of this key."""

    key: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """How the entity ``source`` is related to ``target``, both by key."""

    source: str
    relation: str
    target: str
    context: str


@dataclass(frozen=True, slots=True)
class PassageFindings:
    """All that one passage says about entities; each is mentioned once."""

    mentions: tuple[MentionedEntity, ...]
    facts: tuple[StatedFact, ...]
    relations: tuple[StatedRelation, ...]


def find_in_passage(
    passage: Passage, aliases: KeyMatcher, extraction: Extraction | None = None
) -> PassageFindings:
    """What the rules find in a passage, and what a language model read in it beyond that."""
    mentions = {
        name.key: MentionedEntity(name.key, name.text, name.kind.value, name.sure)
        for name in passage_names(passage, aliases)
    }
    facts = [StatedFact(fact.key, fact.subject, fact.text) for fact in facts_in(passage.text)]
    relations: list[StatedRelation] = []
    if extraction is not None:
        for entity in extraction.entities:
            _mention(mentions, entity.name, entity.kind, entity.description)
        for fact in extraction.facts:
            _mention(mentions, fact.subject)
            facts.append(StatedFact(name_key(fact.subject), fact.subject, fact.text))
        for stated in extraction.relations:
            _mention(mentions, stated.source)
            _mention(mentions, stated.target)
            source, target = name_key(stated.source), name_key(stated.target)
            relations.append(StatedRelation(source, stated.relation, target, stated.context))
    return PassageFindings(
        tuple(mentions.values()),
        tuple(fact for fact in facts if fact.key),
        tuple(relation for relation in relations if relation.source and relation.target),
    )


def _mention(
    mentions: dict[str, MentionedEntity],
    label: str,
    kind: str = Kind.NAME.value,
    description: str = "",
) -> None:
    key = name_key(label)
    known = mentions.get(key)
    if not key:
        return
    if known is None:
        mentions[key] = MentionedEntity(key, label, kind, description=description)
    else:
        mentions[key] = replace(known, sure=True, description=known.description or description)


class AliasChange:
    """Aliases that were added and removed between two states of a store.

    A passage must be read again when it mentions one that was ``removed``, or when an added
    one ``appears_in`` its text: the longest match may then find other names in it.
    """

    def __init__(self, before: Iterable[str], after: Iterable[str]) -> None:
        old, new = frozenset(before), frozenset(after)
        self.removed = sorted(old - new)
        self.any_added = bool(new - old)
        self._added = KeyMatcher(new - old)

    def appears_in(self, text: str) -> bool:
        return self.any_added and bool(self._added.mentions(text))


def current_rules() -> str:
    """The name of the rules that entities are found by; a store keeps it with its entities."""
    return RULES


Titles = Sequence[tuple[str, str]]
"""Id and title of every document, by id."""

AliasRow = tuple[int, str, int, str]
"""Key and title of a document, position of the alias among its aliases, and the alias."""


class EntityTables(Protocol):
    """The tables in which a store with SQL keeps its entities, inside a commit."""

    def titles(self) -> Titles: ...

    def document_titles(self) -> Iterable[tuple[int, str]]:
        """Key and title of every document, by id."""
        ...

    def passage_keys(self) -> Iterable[int]: ...

    def passage_texts(self) -> Iterator[tuple[int, str]]: ...

    def passages_mentioning(self, names: Sequence[str]) -> Iterable[int]: ...

    def passages(self, keys: Sequence[int]) -> Iterator[tuple[int, Passage, Extraction | None]]: ...

    def clear(self) -> None:
        """Remove every entity with all that belongs to it."""
        ...

    def clear_passages(self, keys: Sequence[int]) -> None:
        """Remove what these passages said."""
        ...

    def write(
        self, findings: Iterator[tuple[int, PassageFindings]], aliases: Sequence[AliasRow]
    ) -> None:
        """Add what was found, replace all aliases, and bring mentions by links and the
        counts up to date."""
        ...


def update_entities(tables: EntityTables, before: Titles | None, added: Iterable[int]) -> None:
    """Bring entities, mentions, facts and relations up to date with the passages.

    ``before`` are the titles before the commit, ``None`` to find everything again;
    ``added`` are the keys of the new passages.
    """
    aliases = AliasIndex(tables.titles())
    if before is None:
        tables.clear()
        keys = array("q", sorted(tables.passage_keys()))
    else:
        found = set(added)
        change = AliasChange(AliasIndex(before), aliases)
        found.update(tables.passages_mentioning(change.removed))
        if change.any_added:
            texts = tables.passage_texts()
            found.update(key for key, text in texts if key not in found and change.appears_in(text))
        keys = array("q", sorted(found))
        tables.clear_passages(keys)
    tables.write(
        (
            (key, find_in_passage(passage, aliases, extraction))
            for key, passage, extraction in tables.passages(keys)
        ),
        [
            (key, title, position, alias)
            for key, title in tables.document_titles()
            for position, alias in enumerate(title_aliases(title))
            if alias in aliases
        ],
    )


def find_in_new_passages(
    passages: Iterable[tuple[int, Passage, Extraction | None]],
    aliases_among: Callable[[Sequence[str]], Iterable[str]],
) -> Iterator[tuple[int, PassageFindings]]:
    """What is found in passages while no title in the store has changed.

    ``aliases_among`` says which of some keys are aliases, so that a few passages do not need
    those of all titles.
    """
    for key, passage, extraction in passages:
        aliases = KeyMatcher(aliases_among(phrases(passage.text, len(passage.text))))
        yield key, find_in_passage(passage, aliases, extraction)
