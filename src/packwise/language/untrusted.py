"""Text that someone else wrote, on its way to a language model or to a reader.

A document may hide words in characters that no one sees, imitate the markers and headings of a
context, or address the model that reads it. ``clean`` removes what is invisible, ``quoted`` makes
markers and headings of a document unlike our own, and ``suspicions`` says what a reader should be
warned about.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache, partial

from packwise.lazy_pattern import lazy_pattern

# Controls, soft hyphens, zero-width and bidirectional characters, fillers that show nothing,
# invisible operators, annotations, language tags and the selectors that can carry any message.
_HIDDEN = lazy_pattern(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Emoji and some scripts need joiners and selectors, but after characters of their own, and of
# each kind one at a time.
_NEEDLESS = lazy_pattern(
    "(?<![^\x00-\x7f])[\u200c\u200d\ufe00-\ufe0f]+|[\u200c\u200d]+(?![^\x00-\x7f])"
    "|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]+|(?<=[\u200c\u200d])[\u200c\u200d\ufe00-\ufe0f]+"
)
_LINE_ENDS = lazy_pattern("\r\n?|[\x85\u2028\u2029]")
# Anything but ASCII, letters of European languages, dashes, quotes and the like.
_UNUSUAL = lazy_pattern(
    "[^\t\n -~\u00a1-\u00ac\u00ae-\u024f\u2010-\u2027\u2030-\u203b\u20ac\u2122]"
)

_NUMBER = r"\d{1,4}"
# Markers stand apart: items[1] is an index. Code in backticks keeps its brackets.
_MARKER = lazy_pattern(
    rf"(?P<code>`[^`\n]{{1,400}}`)|(?<![\w)\]])\[[ \t]*(?P<one>{_NUMBER})[ \t]*\]"
    rf"|(?<![\w)\]])\[(?P<several>[ \t]*[1-9]\d{{0,3}}(?:[ \t]*[,;][ \t]*{_NUMBER})+[ \t]*\])"
    r"|\[[ \t]*(?P<source>sources?[ \t]*:[^\[\]\n]{1,300})\]",
    re.IGNORECASE,
)
_HEADING_OR_FENCE = lazy_pattern(r"(?m)^([ \t]*(?:>[ \t]*)*)(?=#{1,6}(?:[ \t]|$)|```|~~~)")

# Reason, words without which the pattern cannot match (they are found much faster), pattern.
_PATTERNS = (
    (
        "instructions",
        ("ignore", "disregard", "forget", "override", "bypass", "follow"),
        r"\b(?:ignore|disregard|forget|override|bypass|do not follow|stop following)\b"
        r"[^.\n]{0,60}\b(?:instructions?|prompts?|rules?|guidelines?|directions?|documents?"
        r"|everything (?:above|before)|the above|messages?|context|sources)\b",
    ),
    (
        "instructions",
        ("are now", "from now on", "pretend", "developer mode", "jailbreak", "instruct", "system"),
        r"\b(?:you are now|from now on,? you|pretend (?:to be|you are)|developer mode|jailbreak"
        r"|new (?:system )?instructions?|(?:your|the|hidden) system prompt"
        r"|instructions? (?:to|for) (?:the|any|all|every) (?:ai|assistants?|(?:language )?models?"
        r"|llms?|agents?|chatbots?))\b",
    ),
    (
        "instructions",
        ("user", "reader", "human", "anyone"),
        r"\b(?:do not|don't|never) (?:tell|inform|warn|mention)\b[^.\n]{0,40}\b(?:users?|readers?"
        r"|human|anyone)\b",
    ),
    (
        "instructions",
        ("system prompt", "api key", "tenant key", "secret", "credentials", "your instructions"),
        r"\b(?:reveal|print|repeat|output|leak|send|exfiltrate|post)\b[^.\n]{0,60}\b(?:system "
        r"prompts?|api keys?|tenant keys?|secrets?|credentials|your instructions)\b",
    ),
    (
        "instructions",
        ("assistant", " ai", "\nai", "language model", "llm", "chatbot"),
        r"\b(?:assistants?|ais?|language models?|llms?|chatbots?)\b[^.\n]{0,40}"
        r"\b(?:must|shall|are to|is to|please|instructed)\b",
    ),
    (
        "instructions",
        ("ignor", "忽略", "無視", "игнор"),
        r"\bignorier\w*\b[^.\n]{0,60}\b(?:anweisung|regel)|\bignore[zr]?\b[^.\n]{0,60}\bconsigne"
        r"|\bignor[ae]\b[^.\n]{0,60}\b(?:instruccion|istruzion|reglas)"
        r"|忽略[^。\n]{0,20}(?:指令|说明|提示)|以前の指示を無視|игнорируй[^.\n]{0,40}инструкц",
    ),
    (
        "roles",
        ("<|", "inst]", "sys>>", "system", "assist", "human", "developer", "user>", "## "),
        r"<\|\s*(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id)"
        r"|\[/?INST\]|<</?SYS>>|</?(?:system|assistant|human|user)(?:[ _-](?:prompt|message))?>"
        r"|(?m:^[ \t>*#]*(?:system|assistant|human|developer)(?: (?:prompt|message))?[ \t]*:)"
        r"|(?m:^#{2,} [ \t]*(?:instruction|system|response)\b)",
    ),
    (
        "tool calls",
        ("tool_", "function_call", "invoke", "antml:", '"name"'),
        r"</?(?:tool_calls?|function_calls?|tool_use|tool_response|tool_result|invoke|antml:\w+)\b"
        r"|\"(?:tool_calls?|function_call|tool_use)\"[ \t]*:"
        r"|\"name\"[ \t]*:[ \t]*\"[\w.-]{1,60}\"[ \t\n]*,[ \t\n]*"
        r"\"(?:arguments|parameters|input)\"[ \t]*:",
    ),
    (
        "fences",
        ("===", "<", "end of", "begin of", "start of"),
        r"(?m:^[^\S\n]*={3,}[ \t]*(?:end|begin|start|document|context|example)\b)"
        r"|</?(?:documents?|context|sources?|search_results?|quoted?|data|untrusted\w{0,20})>"
        r"|(?m:^[^\w\n]{3,12}[ \t]*(?:end|begin|start) of (?:the )?"
        r"(?:document|context|data|quote|file|input|text)\b)",
    ),
    (
        "remote images",
        ("![", "<img"),
        r"!\[[^\]]{0,200}\](?:\(\s*<?https?://|\[)|<img\b[^<>]{0,200}\bsrc\s*=",
    ),
)
_compiled = cache(partial(re.compile, flags=re.IGNORECASE))
# What only a hidden message or a reversed text needs; the rest is common in honest documents.
_SMUGGLED = lazy_pattern(
    "[\u202d\u202e\u2066-\u2068\U000e0000-\U000e0fff]"
    "|[\u200b-\u200f\u2060-\u2064\ufeff]{4}|[\ufe00-\ufe0f]{2}"
    "|(?:[a-zA-Z][\u200b-\u200d\u2060\ufeff\u00ad]){3}"
)


def clean(text: str) -> str:
    """The text without lone surrogates and without characters that no one sees, its lines ended
    by line feeds."""
    if not _UNUSUAL.search(text):
        return text
    sound = text.encode("utf-8", "replace").decode("utf-8")
    seen = _HIDDEN.sub("", _LINE_ENDS.sub("\n", sound))
    return unicodedata.normalize("NFC", _NEEDLESS.sub("", seen))


def without_markers(text: str) -> str:
    """The text with its own bracketed numbers and ``[Source: ...]`` changed, outside code in
    backticks, so that none can be taken for one of our markers."""
    return _MARKER.sub(_unmarked, text) if "[" in text else text


def _unmarked(found: re.Match[str]) -> str:
    if inner := found["one"] or found["source"]:
        return f"({inner.strip()})"
    # An interval keeps its brackets; a citation is not read after a backslash.
    return f"\\[{found['several']}" if found["several"] else found[0]


@lru_cache(maxsize=4096)
def quoted(text: str) -> str:
    """A stretch of prose of a document as it stands in a context: cleaned, with neither markers,
    headings nor code fences that a reader could take for the context's own."""
    return without_markers(_HEADING_OR_FENCE.sub(r"\1\\", clean(text)))


@lru_cache(maxsize=4096)
def suspicions(text: str) -> tuple[str, ...]:
    """Why a text may be addressed to the model that reads it, rather than to people: instructions,
    roles of a chat, tool calls, fences, remote images, hidden characters. Empty for most texts.

    A text about such attacks looks the same, so this is a warning and no filter.
    """
    seen = clean(text)
    low = f" {seen.lower()}"
    found = [
        reason
        for reason, words, pattern in _PATTERNS
        if any(word in low for word in words) and _compiled(pattern).search(seen)
    ]
    if _SMUGGLED.search(text):
        found.append("hidden characters")
    return tuple(dict.fromkeys(found))
