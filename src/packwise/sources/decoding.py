"""Bytes into text: which files are text, and in which encoding."""

from __future__ import annotations

import codecs
import gzip
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

from packwise.errors import SourceError
from packwise.language.detection import detect
from packwise.lazy_pattern import lazy_pattern
from packwise.sources.linked_text import clean

SIZE_LIMIT = 64 << 20
"""The most bytes in a file that is one document; a larger file is a problem."""

_BLOCK = 1 << 20

_NOT_TEXT_SHARE = 0.10
"""A file with a larger share of unreadable bytes than this is not text."""

_PROSE_SAMPLE = 8192
_FEWEST_WORDS = 5
_LONGEST_WORD = 30
"""Letters; what has more is a key."""

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_STRIKES = lazy_pattern(rb"(\S)\x08\1|_\x08")
"""A letter that is printed twice to make it bold, or underlined."""
_STRUCK = lazy_pattern(r"[^\n]\x08")
_BOLD = lazy_pattern(r"(?:(\S)\x08\1| )+")
_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b")) + b"\x7f"
_CHARSET = lazy_pattern(rb"""(?i)<meta[^>]{0,200}?charset\s*=\s*["']?([\w\-]{1,40})""")


def file_bytes(path: Path) -> bytes:
    """The file's bytes, unpacked if it is gzipped. Raises ``SourceError`` with the bare reason if
    it is not to be read."""
    check_size(path, SIZE_LIMIT)
    if path.suffix.lower() != ".gz":
        with path.open("rb") as file:
            return file.read(SIZE_LIMIT)
    return b"".join(_unpacked(path, SIZE_LIMIT))


def unpack(path: Path, target: Path, limit: int) -> None:
    """Write what a gzipped file holds. Raises ``SourceError`` with the bare reason if it is
    damaged, or holds more bytes than the limit."""
    with target.open("xb") as plain:
        plain.writelines(_unpacked(path, limit))


def _unpacked(path: Path, limit: int) -> Iterator[bytes]:
    left = limit
    try:
        with gzip.open(path) as packed:
            while block := packed.read(_BLOCK):
                left -= len(block)
                if left < 0:
                    raise SourceError(f"holds more than {limit >> 20} MiB")
                yield block
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SourceError(f"is not a whole gzip file ({error})") from error


def holds_prose(path: Path) -> bool:
    """Whether a file holds lines of words, whatever its name says: a licence, notes, a letter; not
    code, data or keys."""
    try:
        check_size(path, SIZE_LIMIT)
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            sample = file.read(_PROSE_SAMPLE)
        # The last line of a sample may be cut.
        whole = sample if len(sample) < _PROSE_SAMPLE else sample.rpartition(b"\n")[0]
        text, _ = decode(whole)
    except (OSError, EOFError, zlib.error, SourceError):
        return False
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if text.isascii() and len(text.split()) < _FEWEST_WORDS:
        return False
    return not text.startswith("#!") and 2 * sum(map(_is_words, lines)) > len(lines)


def _is_words(line: str) -> bool:
    signs = sum(not (char.isalpha() or char in " ,.'") for char in line)
    longest = max(map(len, line.split()))
    return signs <= 0.1 * len(line) and (longest <= _LONGEST_WORD or not line.isascii())


def check_size(path: Path, limit: int) -> None:
    """Raise ``SourceError`` with the bare reason unless this is a file within the limit."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise SourceError("is not a regular file")
    if found.st_size > limit:
        size = found.st_size / (1 << 20)
        raise SourceError(f"is larger than {limit >> 20} MiB ({size:.0f} MiB)")


def decode(raw: bytes, *, html: bool = False) -> tuple[str, str]:
    """The text, with ``\\n`` line ends and no control characters, and a warning if the encoding
    was guessed or any bytes were replaced.

    The encoding is what a byte order mark or an HTML head declares, else UTF-8, else the one
    that gives the likeliest text. Raises ``SourceError`` with the bare reason (no location) if
    the bytes are not text.
    """
    mark = next((name for start, name in _BYTE_ORDER_MARKS if raw.startswith(start)), "")
    mark = mark or _unmarked(raw)
    if not mark and b"\0" in raw:
        raise SourceError("is not text (it holds NUL bytes)")
    if not mark or mark == "utf-8-sig":
        control = len(raw) - len(raw.translate(None, _CONTROL)) - len(_STRIKES.findall(raw))
        if control > _NOT_TEXT_SHARE * len(raw):
            raise SourceError("is not text (too many control characters)")
    encoding = mark or "utf-8"
    declared = _CHARSET.findall(raw[:4096])[:1] if html and not mark else []
    for name in (encoding, *(charset.decode("ascii") for charset in declared)):
        try:
            return _cleaned(raw.decode(name)), ""
        except (UnicodeDecodeError, LookupError):
            continue
    text = raw.decode(encoding, "replace")
    lost = text.count("\ufffd")
    # UTF-8 with faults has more characters beyond ASCII than faults.
    if not mark and 2 * lost > len(text) - len(text.encode("ascii", "ignore")):
        guess = _guessed(raw)
        if guess:
            return _cleaned(raw.decode(guess, "replace")), f"not UTF-8: read as {_name(guess)}"
    if lost > _NOT_TEXT_SHARE * len(text):
        raise SourceError(f"is not UTF-8 text ({lost / len(text):.0%} of it cannot be read)")
    counted = "one byte is" if lost == 1 else f"{lost} bytes are"
    return _cleaned(text), f"{counted} not {encoding.upper()}: replaced"


def _cleaned(text: str) -> str:
    """Text without control characters. Where it strikes letters twice, as for a printer, to make
    them bold, it has them once, and a line that is all bold and stands alone is underlined."""
    if "\b" not in text:
        return clean(text)
    lines = text.replace("\r\n", "\n").split("\n")
    for at, line in enumerate(lines[:-1]):
        alone = not lines[at + 1].strip() and (at == 0 or not lines[at - 1].strip())
        if alone and line[:1] != " " and _BOLD.fullmatch(line):
            lines[at + 1] = ("-" if at else "=") * len(_STRUCK.sub("", line))
    return clean(_STRUCK.sub("", "\n".join(lines)))


def _unmarked(raw: bytes) -> str:
    """The encoding of text whose bytes show it without a mark; empty if none does."""
    if b"\x1b$B" in raw or b"\x1b$@" in raw:
        return "iso2022_jp"
    head = raw[:4096]
    if b"\0" not in head or len(raw) % 2:
        return ""
    even, odd = head[::2].count(0), head[1::2].count(0)
    low = bytes(head[::2] if odd else head[1::2])
    ascii_share = sum(0 < byte < 128 for byte in low) / len(low)
    if min(even, odd) == 0 and ascii_share > 0.3 and max(even, odd) > 0.3 * len(low):
        return "utf-16-le" if odd else "utf-16-be"
    return ""


def _guessed(raw: bytes) -> str:
    """The encoding that gives the likeliest text; empty if none does.

    Only the lines with bytes beyond ASCII say anything about it. A few such bytes are most
    often Western European.
    """
    lines = b"\n".join(line for line in raw.splitlines() if not line.isascii())[:_SAMPLE]
    high = bytes(byte for byte in lines if byte > 127)
    guess = ""
    if len(high) >= _ENOUGH:
        from charset_normalizer import from_bytes

        best = from_bytes(lines, cp_isolation=list(_ENCODINGS)).best()
        guess = best.encoding if best is not None else ""
        if guess in _LATIN and (known := _by_language(high, lines, raw[:_SAMPLE])):
            return known
    if guess in ("", "cp1250"):
        # Windows-1250 and ISO 8859-2 differ in a few letters, which are signs in the other.
        rivals = ["cp1252", guess or "cp1252"]
        rivals += ["iso8859_2"] if not any(0x80 <= byte < 0xA0 for byte in high) else []
        rivals = rivals[:1] if len(high) < _ENOUGH else rivals[1:]
        guess = max(rivals, key=lambda name: _letters(high, name))
    text = high.decode(guess, "replace")
    if text == high.decode("cp1252", "replace"):
        guess = "cp1252"
    likely = sum(char.isalpha() or char in _SIGNS for char in text)
    return guess if 2 * likely > len(text) else ""


def _by_language(high: bytes, *texts: bytes) -> str:
    """The encoding that gives text of a language that is written in it, by the first of these
    texts that shows its language; empty if none does. Its relatives give letters too, but those
    of other languages."""
    if 2 * sum(byte >= 0xC0 for byte in high) <= len(high):
        return ""
    for text in texts:
        langs = {name: detect(text.decode(name, "replace")) for name in _WRITTEN}
        if any(langs.values()):
            return next((name for name, lang in langs.items() if lang in _WRITTEN[name]), "")
    return ""


def _letters(high: bytes, encoding: str) -> int:
    return sum(map(str.isalpha, high.decode(encoding, "replace")))


def _name(encoding: str) -> str:
    """An encoding as people write it: Windows-1252, ISO-8859-2, KOI8-R."""
    name = encoding.upper().replace("_", "-").replace("ISO8859", "ISO-8859")
    return name.replace("CP125", "Windows-125")


_LATIN = ("cp1250", "cp1254", "cp1257", "iso8859_2", "mac_roman", "cp437", "cp850")
_WRITTEN = {
    "cp1252": "ca da de en es eu fi fr gl is it nl no pt sv".split(),
    "cp1254": ["tr"],
    "cp1257": "et lt lv".split(),
}
_SIGNS = "“”„‘’–—…€§©®™°«»£•·"
_SAMPLE = 64 << 10
_ENOUGH = 4
_ENCODINGS = (
    "cp1252 cp1250 cp1251 cp1253 cp1254 cp1255 cp1256 cp1257 iso8859_2 iso8859_5 iso8859_7 koi8_r "
    "koi8_u cp866 cp932 euc_jp gb18030 big5 euc_kr mac_roman cp437 cp850"
).split()
