"""What the routes of the OpenAI protocol share: the question of a conversation, and the answer as
text for a client that renders Markdown."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from packwise.answering.answer import Answer
from packwise.candidates import Filter
from packwise.language.untrusted import clean
from packwise.models.tokens import token_counter
from packwise.serving.api_errors import bad_request
from packwise.serving.follow_ups import complete_question
from packwise.serving.inert_markdown import InertStream, inert
from packwise.serving.openai_models import ChatMessage
from packwise.serving.questions import answer_record, ask_options
from packwise.serving.state import RequestContext
from packwise.serving.store_registry import ServedStore

# What a chat client would turn into links or markup.
_MARKUP = re.compile(r"[\\`*\[\]<>]|(?<=!)\(")
_WEB_PAGE = re.compile(r"https?://\S+$", re.IGNORECASE)
_TEXT_PARTS = ("text", "input_text", "output_text")
_EXTRA = (
    "confidence probability certainty gate sources query_type answered_by degraded trace_id".split()
)


def question_of(messages: Sequence[ChatMessage], param: str = "messages") -> str:
    """The last user message, together with the one before it if it refers to that one."""
    texts = [_text(message) for message in messages if message.role == "user"]
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise bad_request(f"{param}: there is no user message with text", param=param)
    return complete_question(texts[-1], texts[:-1])


def _text(message: ChatMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    parts = [part.get("text") for part in message.content or () if part.get("type") in _TEXT_PARTS]
    return "\n".join(part for part in parts if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class Conversation:
    """A question of a client of the OpenAI protocol."""

    context: RequestContext
    store: ServedStore
    question: str
    options: dict[str, Any]

    @classmethod
    def of(
        cls, context: RequestContext, model: str, question: str, most: int | None, param: str
    ) -> Conversation:
        """A question to the store that ``model`` names; an answer has at most ``most`` tokens."""
        question = context.state.check_question(question, param)
        store = context.open_store(model, question)
        options = ask_options(context.caller, context.caller.filter(Filter()))
        if most is not None:
            options["max_tokens"] = most
        return cls(context, store, question, options)

    async def answer(self) -> Answer:
        library = self.store.library
        ask = lambda: library.ask(self.question, **self.options)  # noqa: E731
        return await self.context.state.workers.run(ask, heavy=True)

    async def pieces(self) -> AsyncIterator[str | Answer | None]:
        """The text piece by piece, its sources included; then the answer. ``None`` while there
        is nothing to send."""
        library, workers = self.store.library, self.context.state.workers
        sent, shown = "", InertStream()
        async for piece in workers.stream(
            lambda: library.ask_stream(self.question, **self.options)
        ):
            if piece is None:
                yield None
                continue
            if isinstance(piece, str):
                sent += piece
                if text := shown.feed(piece):
                    yield text
                continue
            if text := shown.close():
                yield text
            tail = source_lines(piece)
            if sent.strip() != piece.text.strip():
                # What was sent cannot be taken back, so the new answer follows it.
                text = inert(piece.text)
                tail = f"\n\nThe answer broke off; this one replaces it:\n\n{text}{tail}"
            if tail:
                yield tail
            yield piece

    def extra(self, answer: Answer) -> dict[str, Any]:
        """What the protocol has no field for."""
        record = answer_record(self.context, self.store, answer)
        return {name: record[name] for name in _EXTRA}


def shown_text(answer: Answer) -> str:
    """An answer with its sources."""
    return inert(answer.text) + source_lines(answer)


def source_lines(answer: Answer) -> str:
    """The cited passages as numbered lines under the answer."""
    lines: list[str] = []
    for citation in answer.citations:
        parts = dict.fromkeys(map(_escaped, [citation.title, *citation.section_path]))
        url = f" ({_escaped(citation.url)})" if is_web_page(citation.url) else ""
        place = f", {_escaped(citation.place)}" if citation.place else ""
        title = " > ".join(part for part in parts if part)
        lines.append(f"[{citation.marker}] {title}{place}{url}")
    return "\n\nSources:\n" + "\n".join(lines) if lines else ""


def is_web_page(url: str) -> bool:
    """Whether an address is one that a browser opens."""
    return bool(_WEB_PAGE.match(url))


def _escaped(text: str) -> str:
    """A title or URL on one line, with its markup escaped."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(clean(text).split()))


def tokens_used(answer: Answer, text: str) -> tuple[int, int]:
    """Tokens read and written: the language model's own counts, or without a model the tokens
    counted here."""
    if answer.usage.api_calls:
        return answer.usage.input_tokens, answer.usage.output_tokens
    counter = token_counter("gpt-4o")
    read = counter.count(answer.question)
    if answer.context is not None:
        read += answer.context.tokens
    return read, counter.count(text)
