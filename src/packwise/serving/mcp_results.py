"""Results of the MCP tools, small enough for an agent's context.

A field that is empty is left out, the schemas have no titles, and the text of a result is its
JSON without spaces.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, cast

from mcp.types import CallToolResult, TextContent
from pydantic import AfterValidator, BaseModel

from packwise.answering.answer import Certainty
from packwise.language.untrusted import clean
from packwise.models.tokens import token_counter

# An agent's user may read a result in a terminal, so hidden characters are removed.
CleanText = Annotated[str, AfterValidator(clean)]


class PassageSource(BaseModel):
    """Where a passage comes from."""

    title: CleanText = ""
    section: CleanText = ""
    document: CleanText
    url: CleanText = ""
    place: CleanText = ""
    suspicious: list[str] = []


class FoundPassage(PassageSource):
    """A passage that was found; ``score`` is between 0 and 1."""

    text: CleanText
    score: float


class NumberedSource(PassageSource):
    """The source of what is marked ``[marker]``."""

    marker: int


class _ToolResult(BaseModel):
    pack: str
    covered: bool
    confidence: float


class SearchToolResult(_ToolResult):
    """Passages, best first; ``left_out`` did not fit into the budget."""

    passages: list[FoundPassage]
    left_out: int = 0
    notes: list[CleanText] = []


class ContextToolResult(_ToolResult):
    """A text whose passages are marked."""

    text: CleanText
    tokens: int
    citations: list[NumberedSource]
    left_out: int = 0


class AskToolResult(_ToolResult):
    """An answer, how likely it is right, and the passages that it cites."""

    answer: CleanText
    certainty: Certainty
    probability: float
    answered_by: str
    sources: list[CleanText]
    citations: list[NumberedSource]
    notes: list[CleanText] = []


class PackSummary(BaseModel):
    """A pack; without sizes for callers who see only a part of it."""

    name: str
    kind: str
    documents: int | None = None
    passages: int | None = None
    articles: list[CleanText]
    questions: list[CleanText] = []


class PackList(BaseModel):
    """The packs of this server."""

    packs: list[PackSummary]


class ArticleToolResult(BaseModel):
    """An article, or the requested part of it; ``characters`` is the length of the whole."""

    pack: str
    title: CleanText
    document: CleanText
    url: CleanText = ""
    text: CleanText
    start: int = 0
    characters: int
    sections: list[CleanText] = []
    links: list[CleanText] = []


class Neighbour(BaseModel):
    """An article, and how it is related to what was asked for."""

    title: CleanText
    document: CleanText
    relation: CleanText


class NeighboursToolResult(BaseModel):
    """What is around an article or a name."""

    pack: str
    name: CleanText
    articles: list[Neighbour]
    names: list[CleanText] = []
    left_out: int = 0


def tool_result(values: BaseModel) -> CallToolResult:
    """A result with its JSON as text, for clients that read only that."""
    content = values.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=content)


def tokens_of(values: BaseModel) -> int:
    """The tokens of a result as an agent reads it."""
    (text,) = tool_result(values).content
    assert isinstance(text, TextContent)
    return token_counter("gpt-4o").count(text.text)


def slim(schema: Any) -> Any:
    """A JSON schema without what only costs tokens: titles, defaults and, within properties,
    alternatives to null."""
    if isinstance(schema, list):
        return [slim(entry) for entry in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for name, value in cast("dict[str, Any]", schema).items():
        if name in ("properties", "$defs"):
            kept[name] = {key: slim(entry) for key, entry in value.items()}
        elif name == "anyOf" and {"type": "null"} in value and len(value) == 2:
            kept |= slim(next(entry for entry in value if entry != {"type": "null"}))
        elif name != "title" and not (name == "default" and value in (None, "", [])):
            kept[name] = slim(value)
    return kept


def slim_result(schema: Any) -> Any:
    """The slim schema of a result, without descriptions: the tool's own says what they mean."""
    if isinstance(schema, list):
        return [slim_result(entry) for entry in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    found = cast("dict[str, Any]", slim(schema))
    kept = {name: value for name, value in found.items() if name not in ("description", "default")}
    for name in ("properties", "$defs"):
        if name in kept:
            kept[name] = {key: slim_result(entry) for key, entry in kept[name].items()}
    return {name: slim_result(v) if name == "items" else v for name, v in kept.items()}
