"""Jupyter notebooks: prose, code and what the code printed, each at its cell."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from packwise.errors import SourceError
from packwise.sources import html, markdown
from packwise.sources.access import access, access_key
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.front_matter import metadata, split

OUTPUT_LIMIT = 20_000
"""Characters of one output that are kept; a longer one loses its middle."""

_SETTINGS = re.compile(
    r"(?:\s*+%(?:matplotlib|pylab|config|(?:re)?load_ext|autoreload)\b[^\n]*+(?:\n|\Z))++\s*+"
)
"""A cell that only says how to show plots and when to load modules."""
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\n]*\r(?!\n)")
# What an object without a readable form prints: <Figure size 640x480 with 1 Axes>.
_OBJECT = re.compile(r"\s*(?:<[\w.]+(?:\s[^<>]*)?>|\[<[^<>]*>\])\s*")


def read(builder: DocumentBuilder, text: str) -> None:
    """Add the cells of a notebook of format 3 or 4."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError("is not a notebook (it is not JSON)") from error
    given: dict[str, Any] = cast("dict[str, Any]", notebook) if isinstance(notebook, dict) else {}
    sheets = _objects(given.get("worksheets"))
    cells = _objects(given.get("cells")) or [c for s in sheets for c in _objects(s.get("cells"))]
    if not cells:
        raise SourceError("is not a notebook with cells")
    _read_metadata(builder, given.get("metadata"))
    _read_front_matter(builder, cells[0])
    for number, cell in enumerate(cells, start=1):
        builder.place(f"cell {number}")
        _read_cell(builder, cell)


def _read_metadata(builder: DocumentBuilder, given: Any) -> None:
    values = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    title = values.get("title")
    builder.title = builder.title or (title if isinstance(title, str) else "")
    plain = {key: value for key, value in values.items() if not isinstance(value, (dict, list))}
    restricting = {key: values[key] for key in values if access_key(key)}
    builder.metadata |= metadata({**plain, **restricting})


def _read_front_matter(builder: DocumentBuilder, cell: dict[str, Any]) -> None:
    """Take the front matter that Quarto and others have in the first cell."""
    if cell.get("cell_type") not in ("raw", "markdown"):
        return
    found, cell["source"] = split(_joined(cell.get("source", cell.get("input"))))
    builder.title = builder.title or found.title
    both = [*builder.metadata.items(), *found.metadata.items()]
    builder.metadata |= found.metadata | access(both)


def _read_cell(builder: DocumentBuilder, cell: dict[str, Any]) -> None:
    source = _joined(cell.get("source", cell.get("input")))
    match cell.get("cell_type"):
        case "markdown":
            markdown.read(builder, source)
        case "heading":
            level = cell.get("level")
            markdown.read(builder, f"{'#' * (level if isinstance(level, int) else 1)} {source}")
        case "code":
            if not _SETTINGS.fullmatch(source):
                builder.code(source)
            for output in _objects(cell.get("outputs")):
                _read_output(builder, output)
        case _:
            builder.plain_text(source)


def _read_output(builder: DocumentBuilder, output: dict[str, Any]) -> None:
    if output.get("output_type") in ("error", "pyerr"):
        builder.code(_shortened(builder, f"{output.get('ename', '')}: {output.get('evalue', '')}"))
        return
    data = output.get("data")
    forms: dict[str, Any] = cast("dict[str, Any]", data) if isinstance(data, dict) else output
    page = _joined(forms.get("text/html", forms.get("html")))
    if written := _joined(forms.get("text/markdown")):
        markdown.read(builder, _shortened(builder, written))
    elif "<table" in page and len(page) <= 5 * OUTPUT_LIMIT:
        html.read_fragment(builder, page)
    else:
        text = _TERMINAL.sub("", _joined(forms.get("text/plain", forms.get("text"))))
        if not _OBJECT.fullmatch(text):
            builder.code(_shortened(builder, text))


def _shortened(builder: DocumentBuilder, text: str) -> str:
    if len(text) <= OUTPUT_LIMIT:
        return text
    builder.warn(f"an output of {len(text):,} characters is kept only in part")
    return f"{text[: OUTPUT_LIMIT * 3 // 4]}\n...\n{text[-OUTPUT_LIMIT // 4 :]}"


def _objects(value: Any) -> list[dict[str, Any]]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(str(line) for line in cast("list[Any]", value))
    return value if isinstance(value, str) else ""
