"""What the passages of a context name and say: the entities and facts beside an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packwise.candidates import EVERYTHING, Candidate, Filter
from packwise.context.packer import Context
from packwise.language.names import phrases
from packwise.stores.base import Key, Store
from packwise.stores.knowledge import Entity

MOST_ENTITIES = 20
MOST_FACTS = 20

_REACH = 2
"""How far from a passage packing attaches others to it."""


@dataclass(frozen=True, slots=True)
class Known:
    """Entities by their names, and facts as sentences."""

    entities: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()


def known_in(
    context: Context,
    candidates: Iterable[Candidate],
    store: Store,
    cited: Sequence[int] = (),
    where: Filter = EVERYTHING,
) -> Known:
    """What the context's passages hold: of cited passages first, then in the order of reading.

    Among entities, those the question names come first, then those that most passages name.
    A passage is told to mention the title of what it links to. Under a filter that may be a
    document the caller may not see, so only names that stand in the context are given.
    """
    keys = _keys(context, {hit.passage.id: hit.key for hit in candidates}, store)
    first = [m for m in cited if m in keys] + [m for m in keys if m not in cited]
    ordered = list(dict.fromkeys(key for marker in first for key in keys[marker]))
    if not ordered:
        return Known()
    entities = _entities(context.question, ordered, store)
    if where:
        text = context.text.casefold()
        entities = [name for name in entities if name.casefold() in text]
    return Known(tuple(entities[:MOST_ENTITIES]), _facts(ordered, store))


def _keys(context: Context, known: Mapping[str, Key], store: Store) -> dict[int, list[Key]]:
    """The passages behind each marker; those that packing attached are looked up."""
    by_id = dict(known)
    for entry in context.trace.selected:
        host = known.get(entry.attached_to or "")
        if entry.id not in by_id and host is not None:
            around = store.neighbours(host, _REACH, _REACH)
            by_id.update((passage.id, key) for key, passage in around)
    return {
        passage.marker: [by_id[name] for name in passage.ids if name in by_id]
        for passage in context.passages
    }


def _entities(question: str, keys: Sequence[Key], store: Store) -> list[str]:
    held = store.entities_of(keys)
    found: dict[str, Entity] = {}
    named: Counter[str] = Counter()
    for key in keys:
        for entity in held[key].entities if key in held else ():
            found.setdefault(entity.key, entity)
            named[entity.key] += 1
    asked = set(phrases(question))
    # Stable: those named as often stay in the order of reading.
    ordered = sorted(found.values(), key=lambda e: (e.key not in asked, -named[e.key]))
    return [entity.label or entity.key for entity in ordered]


def _facts(keys: Sequence[Key], store: Store) -> tuple[str, ...]:
    stored = store.facts_of(keys)
    texts = (" ".join(fact.text.split()) for key in keys for fact in stored.get(key, ()))
    return tuple(dict.fromkeys(texts))[:MOST_FACTS]
