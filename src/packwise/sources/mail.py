"""Mail: one message (EML) or many (mbox), without signatures and repeated quotations.

What someone wrote is a section with their name and the date, so that every passage says who wrote
it. A message inside another is read like it, an attached text below the name of its file.
A quotation is dropped if the message it answers is earlier in the same file; otherwise it is
kept and marked, as it may be all there is of that message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from email import policy
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parseaddr, parsedate_to_datetime
from functools import partial
from itertools import islice
from typing import Any

from packwise.documents import Document, Link
from packwise.errors import SourceError
from packwise.sources import html
from packwise.sources.access import access, access_key
from packwise.sources.decoding import file_bytes
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText, clean
from packwise.sources.links import LinkResolver
from packwise.sources.readers import SourceFile
from packwise.sources.source_items import Entry, Item, Problem, hashed, reason_of

MESSAGE_LIMIT = 64 << 20
"""The most bytes in a message; a longer one is a problem."""

_MOST_PARTS = 200
"""Messages and groups of parts in a message; the parser's time grows with their square."""
_PART = re.compile(rb"(?im)^content-type:\s{0,20}(?:multipart|message)/")
_HEADER_FAULTS = (
    ValueError,
    LookupError,
    AttributeError,
    TypeError,
    IndexError,
    HeaderParseError,
    RecursionError,
)

_LONGEST_ATTACHMENT = 1 << 20
"""Characters of an attached text that are read."""

_PARSER = BytesParser(policy=policy.default)
_SHOWN = ("From", "To", "Cc", "Date", "Subject")
_PREFIX = re.compile(r"(?i)^\s*(?:(?:re|fwd?|aw|wg|sv|antw)(?:\[\d+\])?:\s*)+")
_LIST_TAG = re.compile(r"^\s*(?:\[[^\]]{1,40}\]\s*)+")
_SIGNATURE_LINES = 25
"""Lines of a signature, with what a mailing list adds below it."""
_QUOTED = re.compile(r"(?m)(?:^>[^\n]*(?:\n|\Z))+")
_ATTRIBUTION = re.compile(
    r"(?im)^(?:On|Am|Le|El|Il|Op)\b[^\n]{0,200}(?:\n[^\n>]{0,200})?"
    r"(?:wrote|writes|schrieb|écrit|escribió|scritto|schreef)[^\n]{0,40}:[ \t]*\n+(?=>)"
    r"|^[^\n]{1,200} (?:wrote|writes):[ \t]*\n+(?=>)"
)
_ORIGINAL = re.compile(r"(?im)^-{2,}\s*(?:original|forwarded) message\s*-{2,}[ \t]*$")
_ENCODED = re.compile(r"=\?[\w.-]{1,40}\?[bqBQ]\?[^?\s]{0,200}\?=")
_HEADER_LINE = re.compile(rb"[A-Z][A-Za-z-]{1,60}:[ \t]")
_MESSAGE_ID = re.compile(r"<([^<>\s]+)>")


def read(builder: DocumentBuilder, file: SourceFile) -> None:
    """Add one message."""
    _read_message(builder, file_bytes(file.path), drop_quotes=False)


def messages(file: SourceFile) -> Iterator[Entry]:
    """The messages of an mbox file, one in memory at a time."""
    seen: set[str] = set()
    number = 0
    try:
        for number, raw in enumerate(_split(file), start=1):
            label = f"{file.label}: message {number}"
            if len(raw) > MESSAGE_LIMIT:
                yield Problem(label, f"is longer than {MESSAGE_LIMIT >> 20} MiB")
                continue
            message = _headers(raw)
            own = _own_id(message)
            parents = [parent for parent in _parents(message) if parent in seen]
            name = own if own and own not in seen else f"message {number}"
            seen.add(own)
            parent = f"{file.prefix}{parents[-1]}" if parents else ""
            yield Item(
                id=f"{file.prefix}{name}",
                source_hash=hashed(raw, "mail-3", parent),
                location=label,
                load=partial(_load, raw, f"{file.prefix}{name}", parent),
            )
    except OSError as error:
        yield Problem(file.label, f"cannot be read after message {number} ({reason_of(error)})")
    if not number:
        yield Problem(file.label, "holds no mail")


def _split(file: SourceFile) -> Iterator[bytes]:
    """The raw messages: each starts at a line ``From `` after an empty one. The first may start
    with a header instead, where a file is one message as it was sent."""
    lines: list[bytes] = []
    size = 0
    blank = True
    with file.path.open("rb") as opened:
        while line := opened.readline(1 << 20):
            if blank and line.startswith(b"From "):
                if lines:
                    yield b"".join(lines)
                lines, size = [line[:0]], 0
            elif opened.tell() == len(line) and _HEADER_LINE.match(line):
                lines, size = [line], len(line)
            elif lines and size <= MESSAGE_LIMIT:
                lines.append(line[1:] if line.startswith((b">From ", b">>From ")) else line)
                size += len(line)
            blank = not line.strip()
    if lines:
        yield b"".join(lines)


def _load(raw: bytes, id: str, parent: str) -> Document:
    builder = DocumentBuilder()
    _read_message(builder, raw, drop_quotes=bool(parent))
    document = builder.build(id, LinkResolver(()))
    return replace(document, links=(*document.links, Link(parent))) if parent else document


def _headers(raw: bytes) -> EmailMessage:
    return _PARSER.parsebytes(raw, headersonly=True)


def _own_id(message: EmailMessage) -> str:
    found = _MESSAGE_ID.search(_header(message, "Message-ID"))
    return clean(found[1]) if found else ""


def _parents(message: EmailMessage) -> list[str]:
    given = f"{_header(message, 'References')} {_header(message, 'In-Reply-To')}"
    return [clean(found) for found in _MESSAGE_ID.findall(given)]


def _header(message: EmailMessage, name: str) -> str:
    try:
        value = message.get(name)
        # Within a word, where the standard forbids it, the parser leaves an encoded letter.
        text = _ENCODED.sub(_decoded, str(value)) if value is not None else ""
        return " ".join(clean(text).split())
    except _HEADER_FAULTS:
        # A header that breaks the parser of the standard library is shown as it was sent.
        raw = dict(message.raw_items()).get(name, "")
        return " ".join(clean(str(raw)).split())


def _decoded(found: re.Match[str]) -> str:
    return str(make_header(decode_header(found[0])))


def _read_message(builder: DocumentBuilder, raw: bytes, *, drop_quotes: bool) -> None:
    if sum(1 for _ in islice(_PART.finditer(raw), _MOST_PARTS + 1)) > _MOST_PARTS:
        raise SourceError(f"has more than {_MOST_PARTS} messages in one another")
    message = _PARSER.parsebytes(raw)
    headers = _shown_headers(message)
    if not headers:
        raise SourceError("is not mail (it has no headers)")
    subject = _LIST_TAG.sub("", _PREFIX.sub("", headers.get("Subject", "")))
    thread = _PREFIX.sub("", subject).strip()
    builder.title = headers.get("Subject", "")
    own = {name: message.get_all(name, [])[0] for name in message if access_key(name)}
    builder.metadata |= {
        **({"thread": thread} if thread else {}),
        **{name.lower(): headers[name] for name in ("From", "Date") if name in headers},
        **access((name, str(value)) for name, value in own.items()),
    }
    _add_message(builder, message, headers, drop_quotes=drop_quotes)


def _add_message(
    builder: DocumentBuilder, message: EmailMessage, headers: dict[str, str], *, drop_quotes: bool
) -> None:
    if written := ", ".join(filter(None, (_sender(headers), _day(headers.get("Date", ""))))):
        builder.heading(2, LinkedText(written))
    builder.paragraph(LinkedText("\n".join(f"{name}: {value}" for name, value in headers.items())))
    body = _read_body(builder, message, drop_quotes=drop_quotes)
    parts = [part for part in _parts(message) if part is not body]
    attached = [_attachment(part) for part in parts if part.get_filename()]
    if attached:
        builder.paragraph(LinkedText("Attachments: " + ", ".join(attached)))
    # What is attached to this message stands before the messages inside it.
    for part in sorted(parts, key=lambda part: part.get_content_type() == "message/rfc822"):
        if part.get_content_type() == "text/plain" and part.get_filename():
            builder.heading(3, LinkedText(clean(part.get_filename())))
            builder.plain_text(clean(_content(part))[:_LONGEST_ATTACHMENT])
        elif part.get_content_type() == "message/rfc822":
            (inner,) = part.get_payload()[:1] or (EmailMessage(),)
            inside = _shown_headers(inner)
            # One that says who may see it has a reader of its own.
            if inside and not any(access_key(name) for name in inner):
                _add_message(builder, inner, inside, drop_quotes=False)


def _shown_headers(message: EmailMessage) -> dict[str, str]:
    return {name: value for name in _SHOWN if (value := _header(message, name))}


def _sender(headers: dict[str, str]) -> str:
    name, address = parseaddr(headers.get("From", ""))
    return name or address


def _day(date: str) -> str:
    try:
        return parsedate_to_datetime(date).date().isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""  # The date as it was sent is among the headers.


def _parts(message: EmailMessage) -> Iterator[Any]:
    """The parts of a message, without those of messages inside it."""
    waiting: list[Any] = [message]
    while waiting:
        part = waiting.pop(0)
        if part.get_content_maintype() == "multipart" and part.is_multipart():
            waiting[:0] = part.get_payload()
        else:
            yield part


def _attachment(part: Any) -> str:
    return f"{clean(part.get_filename())} ({part.get_content_type()})"


def _read_body(builder: DocumentBuilder, message: EmailMessage, *, drop_quotes: bool) -> Any:
    """Add the text of a message; returns the part that holds it."""
    body: Any = None
    try:
        body = message.get_body(preferencelist=("plain", "html"))
    except (AttributeError, KeyError, TypeError):
        body = next((p for p in message.walk() if p.get_content_maintype() == "text"), None)
    if body is None:
        return None
    text = clean(_content(body))
    if body.get_content_subtype() == "html":
        html.read_fragment(builder, text)
    else:
        _read_plain(builder, text, drop_quotes=drop_quotes)
    return body


def _content(body: Any) -> str:
    """The text of a body; as UTF-8 if it is that, rather than what its header declares."""
    try:
        text = str(body.get_content())
    except (LookupError, ValueError, AttributeError, KeyError):
        text = ""
    if text and "\ufffd" not in text:
        return text
    content = body.get_payload(decode=True) or b""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return text or content.decode("utf-8", "replace")


def _without_signature(text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    for at in range(max(len(lines) - _SIGNATURE_LINES - 1, 0), len(lines)):
        if lines[at] in ("--", "-- ") and not any(line.startswith(">") for line in lines[at:]):
            return "\n".join(lines[:at])
    return text


def _read_plain(builder: DocumentBuilder, text: str, *, drop_quotes: bool) -> None:
    text = _without_signature(text.replace("\xa0", " "))
    if drop_quotes and (original := _ORIGINAL.search(text)):
        text = text[: original.start()]
    position = 0
    for quoted in _QUOTED.finditer(text):
        own = text[position : quoted.start()]
        builder.plain_text(
            _ATTRIBUTION.sub("", own + ">").removesuffix(">") if drop_quotes else own
        )
        if not drop_quotes:
            lines = (line.lstrip("> ") for line in quoted[0].splitlines())
            builder.plain_text("Quoted: " + "\n".join(lines).strip())
        position = quoted.end()
    builder.plain_text(text[position:])
