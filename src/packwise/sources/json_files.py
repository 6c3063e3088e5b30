"""JSON files: an array of records is many documents, anything else is one.

An object becomes sections: its keys are headings, plain values ``key: value`` lines, arrays of
like objects tables. What is short stands on lines with the path to it, ``license.name: MIT``,
instead of in sections of a line each. A record with a ``text`` is read like a row of JSON Lines,
the features of GeoJSON are rows of their properties.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from packwise.documents import Document
from packwise.errors import SourceError
from packwise.sources import jsonl
from packwise.sources.access import access, access_key, refuse_nested
from packwise.sources.decoding import decode, file_bytes
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.front_matter import metadata
from packwise.sources.linked_text import LinkedText, clean
from packwise.sources.links import LinkResolver
from packwise.sources.readers import SourceFile
from packwise.sources.row_groups import parts_of_record
from packwise.sources.source_items import Entry, Item, Problem, hashed, reason_of

_GENERATED = frozenset(
    "package-lock.json composer.lock npm-shrinkwrap.json tsconfig.json searchindex.json "
    "search-index.json search_index.json".split()
)
_DEEPEST = 6
_MOST_NUMBERS = 64
_MOST_COLUMNS = 12
_SHORT = 1200
"""Characters of an object that needs no sections for its parts."""
_LONG = 80
"""Characters of a text that makes an object a record."""
_OF_FEATURES = ("type", "properties", "geometry", "bbox", "geometry_name")
_REQUESTS = frozenset("get put post delete options head patch trace".split())
_TITLES = ("title", "name", "label", "subject", "headline", "question")
_IDS = ("_id", "id", "uuid", "key", "slug")


def may_hold_documents(path: Path) -> bool:
    """Whether a JSON file is not one that a tool writes for itself."""
    return path.name.lower() not in _GENERATED and not path.name.lower().endswith(".min.json")


def read(file: SourceFile) -> Iterator[Entry]:
    """The documents of a JSON file, which is held in memory as a whole."""
    try:
        raw = file_bytes(file.path)
        value = json.loads(decode(raw)[0])
    except SourceError as error:
        yield Problem(file.label, error.message)
        return
    except OSError as error:
        yield Problem(file.label, f"cannot be read ({reason_of(error)})")
        return
    except json.JSONDecodeError as error:
        where = f"{error.msg} at line {error.lineno}"
        yield Problem(file.label, f"is not JSON ({where})")
        return
    except (ValueError, RecursionError):
        yield Problem(file.label, "is not JSON that can be read")
        return
    value = _geographic(value)
    records = _records(value)
    if records is None and _restricts_inside(value):
        yield Problem(file.label, "has records with a tenant or an acl, and is no array of records")
        return
    if records is None:
        yield _item(file, file.id or file.path.name, value, file.label)
        return
    names = [next((str(r[key]) for key in _IDS if _plain(r.get(key))), "") for r in records]
    if not all(names) or len(set(names)) < len(names):
        names = list(map(str, range(1, len(records) + 1)))
    for number, (name, record) in enumerate(zip(names, records, strict=True), start=1):
        yield _item(file, f"{file.prefix}{clean(name)}", record, f"{file.label}: record {number}")


def _item(file: SourceFile, id: str, value: Any, location: str) -> Entry:
    raw = json.dumps(value).encode()
    if isinstance(value, dict):
        row = cast("dict[str, Any]", value)
        try:
            inner = row.get("metadata")
            access([*row.items(), *(_object(inner).items())])
            refuse_nested((name, _values(part)) for name, part in row.items() if part is not inner)
        except SourceError as error:
            return Problem(location, error.message)
        if isinstance(row.get("text"), str):
            found = jsonl.entry(raw, location, id, file.prefix)
            return replace(found, id=id) if isinstance(found, Item) else found
    load = partial(_load, raw, id)
    return Item(id, hashed(raw, "json-3"), location, load)


def _load(raw: bytes, id: str) -> Document:
    value = json.loads(raw)
    builder = DocumentBuilder()
    root = _object(value)
    builder.metadata |= metadata(access([*root.items(), *_object(root.get("metadata")).items()]))
    titles = (root, _object(root.get("info")))
    found = (holder.get(key) for holder in titles for key in _TITLES)
    builder.title = next((t for t in found if isinstance(t, str) and 0 < len(t) <= 200), "")
    # Below the title, which a lone top-level key would otherwise become.
    _read(builder, value, 2)
    return builder.build(id, LinkResolver(()))


def _geographic(value: Any) -> Any:
    """The features of GeoJSON as rows of their properties; of a line or an area only its kind is
    kept, as no one asks for its points."""
    members = _object(value)
    features = members.get("features")
    if members.get("type") != "FeatureCollection" or not isinstance(features, list):
        return value
    rows: list[dict[str, Any]] = []
    for feature in map(_object, cast("list[Any]", features)):
        geometry = _object(feature.get("geometry"))
        shape, points = geometry.get("type", ""), geometry.get("coordinates")
        where = f"{shape} {_shown(points)}" if shape == "Point" else shape
        own = {key: part for key, part in feature.items() if key not in _OF_FEATURES}
        given = _object(feature.get("properties"))
        # Where the two name other readers, no one may see it.
        unlike = {k: None for k in own if access_key(k) and given.get(k, own[k]) != own[k]}
        rows.append({**own, **given, **own, "geometry": where, **unlike})
    kept = {key: part for key, part in members.items() if key not in ("type", "features", "crs")}
    return {**kept, "features": rows} if kept else rows


def _read(builder: DocumentBuilder, value: Any, level: int, above: str = "") -> None:
    """Add a value: what is plain or short first, then what has parts, below headings. ``above``
    is the key of what holds it."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        requests = above.startswith("/") and not _REQUESTS.isdisjoint(members)
        if above and not requests and (lines := _short_lines(members)):
            _paragraphs(builder, lines)
            return
        lines = [f"{key}: {_shown(part)}" for key, part in members.items() if _is_leaf(part)]
        _paragraphs(builder, lines)
        for key, part in members.items():
            if not _is_leaf(part):
                heading = _heading(str(key), part)
                if requests and key in _REQUESTS:
                    # A request of an API is asked for by its path.
                    heading = f"{key.upper()} {above}"
                    part = {"endpoint": heading, **_object(part)}
                builder.heading(level, LinkedText(heading))
                _read(builder, part, level + 1, str(key))
    elif isinstance(value, list):
        _read_array(builder, cast("list[Any]", value), level)
    else:
        builder.plain_text(_shown(value))


def _short_lines(members: dict[str, Any]) -> list[str]:
    """A short object as lines that begin with the path to each value; none if it is long, has a
    table, or has the paths of an API as keys."""
    lines: list[str] = []
    waiting = [(str(key), part) for key, part in members.items()]
    while waiting:
        path, part = waiting.pop(0)
        if path.startswith("/"):
            return []
        if isinstance(part, dict) and part:
            inner = cast("dict[str, Any]", part).items()
            if len(inner) > _SHORT:
                return []
            waiting[:0] = [(f"{path}.{key}", value) for key, value in inner]
        elif isinstance(part, list) and not _is_leaf(part):
            items = cast("list[Any]", part)
            if len(items) > _SHORT or _columns(items):
                return []
            waiting[:0] = [(path, item) for item in items]
        elif shown := _shown(part):
            lines.append(f"{path}: {shown}")
        if len(lines) + len(waiting) > _SHORT or sum(map(len, lines)) > _SHORT:
            return []
    return lines


def _heading(key: str, part: Any) -> str:
    """The key of a part, with the name that the part has for people."""
    names = (
        value
        for name, value in _object(part).items()
        if name.casefold() in _TITLES and isinstance(value, str) and 0 < len(value) <= 100
    )
    name = next(names, key)
    shown = key if name.casefold() == key.casefold() else f"{key}: {name}"
    return " ".join(clean(shown).split())


def _read_array(builder: DocumentBuilder, values: list[Any], level: int) -> None:
    if (columns := _columns(values)) is not None:
        rows = [[_cell(_object(row).get(column, "")) for column in columns] for row in values]
        builder.table([[LinkedText(column) for column in columns], *rows])
        return
    builder.open_list()
    for value in values:
        if isinstance(value, dict) and value and level <= _DEEPEST:
            members = cast("dict[str, Any]", value)
            lines = _short_lines(members) or [f"{k}: {_shown(v)}" for k, v in members.items()]
            record = [" ".join(clean(line).split()) for line in lines]
            parts = [LinkedText("; ".join(part)) for part in parts_of_record(record)]
        else:
            parts = [_cell(value)] if _is_leaf(value) or level > _DEEPEST else []
        for part in parts:
            builder.open_item()
            builder.paragraph(part)
            builder.close_item()
        if not parts:
            builder.open_item()
            _read(builder, value, level + 1)
            builder.close_item()
    builder.close_list()


def _paragraphs(builder: DocumentBuilder, lines: list[str]) -> None:
    """Short values together on lines of one paragraph, long ones by themselves."""
    together: list[str] = []
    for line in map(clean, lines):
        if len(line) > 200 or "\n" in line:
            builder.plain_text("\n".join(together))
            builder.plain_text(line)
            together = []
        else:
            together.append(line)
    builder.plain_text("\n".join(together))


def _columns(values: list[Any]) -> list[str] | None:
    """The keys of an array of flat objects; ``None`` if it is no table."""
    if len(values) < 2 or not all(isinstance(value, dict) for value in values):
        return None
    rows = [cast("dict[str, Any]", value) for value in values]
    columns = list(dict.fromkeys(str(key) for row in rows for key in row))
    flat = all(_is_leaf(part) and len(_shown(part)) < 300 for row in rows for part in row.values())
    return columns if flat and len(columns) <= _MOST_COLUMNS else None


def _records(value: Any) -> list[dict[str, Any]] | None:
    """The records of an array, or of an object that holds nothing else of size. Those that say
    who may see them are never put together."""
    fewest = 2
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        arrays = [part for part in members.values() if isinstance(part, list)]
        others = [part for part in members.values() if not _is_leaf(part)]
        # What says who may see it stays whole, so that this holds for all of it.
        if len(arrays) != 1 or others != arrays or _is_restricted(members):
            return None
        value = arrays[0]
        fewest = 3
    items = cast("list[Any]", value) if isinstance(value, list) else []
    if not items or not all(isinstance(item, dict) for item in items):
        return None
    records = [cast("dict[str, Any]", item) for item in items]
    if any(map(_is_restricted, records)):
        return records
    if len(records) < fewest:
        return None
    # Rows of a table stay together; a record has a text of some length, or parts.
    whole = [r for r in records if any(len(_shown(part)) >= _LONG for part in r.values())]
    return records if 2 * len(whole) >= len(records) else None


def _is_restricted(record: dict[str, Any]) -> bool:
    names = (*record, *_object(record.get("metadata")))
    return any(access_key(name) in ("tenant", "acl") for name in names)


def _restricts_inside(value: Any) -> bool:
    """Whether an array anywhere in a value has objects that say who may see them, or an object
    has such records as members."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            members = cast("dict[str, Any]", one).values()
            if any(_is_restricted(_object(part)) and _has_text(_object(part)) for part in members):
                return True
            waiting.extend(members)
        elif isinstance(one, list):
            items = cast("list[Any]", one)
            if any(_is_restricted(_object(item)) for item in items):
                return True
            waiting.extend(items)
    return False


def _has_text(record: dict[str, Any]) -> bool:
    """Whether an object is a record; a schema or an example of one has no text of any length."""
    texts = [part for part in record.values() if isinstance(part, str)]
    return isinstance(record.get("text"), str) or any(len(text) >= _LONG for text in texts)


def _values(value: Any) -> dict[str, Any]:
    """An object without the members that are objects: those of a schema are named like keys."""
    return {k: None for k, part in _object(value).items() if not isinstance(part, dict)}


def _is_leaf(value: Any) -> bool:
    if isinstance(value, list):
        items = cast("list[Any]", value)
        short = len(items) <= 8 and all(_plain(item) and len(str(item)) <= 40 for item in items)
        return short or (bool(items) and all(isinstance(item, (int, float)) for item in items))
    return not isinstance(value, dict) or not value


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        items = cast("list[Any]", value)
        shown = ", ".join(_shown(item) for item in items[:_MOST_NUMBERS])
        more = len(items) - _MOST_NUMBERS
        return f"{shown}, and {more} more" if more > 0 else shown
    return json.dumps(value, ensure_ascii=False)


def _cell(value: Any) -> LinkedText:
    return LinkedText(" ".join(clean(_shown(value)).split()))


def _plain(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and value != ""


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
