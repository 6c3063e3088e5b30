"""A library as tools of a language model, in the formats of Anthropic and OpenAI.

    tools = LibraryTools(library)
    client.messages.create(tools=tools.anthropic(), ...)
    tools.call("search_passages", {"query": "..."})

``run_anthropic`` and ``run_openai`` are whole loops: they call the model, run the tools that it
asks for, and return its answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packwise.errors import PackwiseError
from packwise.integrations.hits import hit_metadata
from packwise.library import Library

if TYPE_CHECKING:
    from anthropic import Anthropic
    from openai import OpenAI

SEARCH = "search_passages"
ASK = "ask_library"
_MOST = 20

_PARAMETERS: dict[str, dict[str, Any]] = {
    SEARCH: {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, as a question."},
            "k": {"type": "integer", "description": f"Passages to return, 1 to {_MOST}."},
        },
        "required": ["query"],
    },
    ASK: {
        "type": "object",
        "properties": {"question": {"type": "string", "description": "The question."}},
        "required": ["question"],
    },
}
_DESCRIPTIONS = {
    SEARCH: "Find the passages of the library that answer a question, best first, each with its"
    " source. Low confidence means that the library has little on it.",
    ASK: "Answer a question from the library, with sources and the probability of being right.",
}


@dataclass(frozen=True, slots=True)
class LibraryTools:
    """The tools of one library. ``about`` says what it contains, for the model."""

    library: Library
    about: str = ""
    names: tuple[str, ...] = field(default=(SEARCH, ASK))

    def anthropic(self) -> list[dict[str, Any]]:
        """The ``tools`` of Anthropic's Messages API."""
        return [
            {
                "name": name,
                "description": self._description(name),
                "input_schema": _PARAMETERS[name],
            }
            for name in self.names
        ]

    def openai(self) -> list[dict[str, Any]]:
        """The ``tools`` of OpenAI's chat completions."""
        return [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": self._description(name),
                    "parameters": _PARAMETERS[name],
                },
            }
            for name in self.names
        ]

    def call(self, name: str, arguments: Any) -> tuple[str, bool]:
        """Run a tool. Returns its result as JSON, and whether it is an error, which the model
        can then correct."""
        try:
            return json.dumps(self._result(name, arguments), ensure_ascii=False), False
        except (PackwiseError, KeyError, TypeError, ValueError, AttributeError) as error:
            return json.dumps({"error": str(error) or type(error).__name__}), True

    def _description(self, name: str) -> str:
        return (
            f"{_DESCRIPTIONS[name]} The library: {self.about}"
            if self.about
            else _DESCRIPTIONS[name]
        )

    def _result(self, name: str, arguments: Any) -> dict[str, Any]:
        if name not in self.names:
            raise ValueError(f"there is no tool {name!r}; known: {', '.join(self.names)}")
        if name == ASK:
            answer = self.library.ask(str(arguments["question"]))
            return {
                "answer": answer.text,
                "certainty": str(answer.certainty),
                "probability": round(answer.probability, 3),
                "sources": [citation.as_dict() for citation in answer.citations],
            }
        k = min(max(int(arguments.get("k") or 5), 1), _MOST)
        ranking = self.library.search(str(arguments["query"]), k=k)
        return {
            "confidence": round(ranking.confidence, 3),
            "passages": [{"text": hit.passage.text, **hit_metadata(hit)} for hit in ranking.hits],
        }


def run_anthropic(
    client: Anthropic, tools: LibraryTools, question: str, *, model: str, turns: int = 8
) -> str:
    """Let Claude answer a question with the tools, in at most ``turns`` turns."""
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(turns):
        offered: Any = tools.anthropic()
        reply = client.messages.create(
            model=model, max_tokens=2048, tools=offered, messages=messages
        )
        if reply.stop_reason != "tool_use":
            return "".join(block.text for block in reply.content if block.type == "text")
        messages.append({"role": "assistant", "content": reply.content})
        results: list[dict[str, Any]] = []
        for block in reply.content:
            if block.type == "tool_use":
                content, failed = tools.call(block.name, block.input)
                result = {"type": "tool_result", "tool_use_id": block.id, "content": content}
                results.append({**result, "is_error": failed})
        messages.append({"role": "user", "content": results})
    raise PackwiseError(f"the model did not answer in {turns} turns", fix="allow more turns")


def run_openai(
    client: OpenAI, tools: LibraryTools, question: str, *, model: str, turns: int = 8
) -> str:
    """Let a model with OpenAI's protocol answer a question with the tools."""
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(turns):
        offered: Any = tools.openai()
        reply = client.chat.completions.create(model=model, tools=offered, messages=messages)
        said = reply.choices[0].message
        if not said.tool_calls:
            return said.content or ""
        messages.append(said.model_dump(exclude_none=True))
        for asked in said.tool_calls:
            if asked.type == "function":
                content, _ = tools.call(asked.function.name, _parsed(asked.function.arguments))
                messages.append({"role": "tool", "tool_call_id": asked.id, "content": content})
    raise PackwiseError(f"the model did not answer in {turns} turns", fix="allow more turns")


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return None
