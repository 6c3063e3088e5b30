"""What the streams of a PDF file unpack to, counted before its library unpacks them whole."""

from __future__ import annotations

import mmap
import re
import zlib
from pathlib import Path

from packwise.errors import SourceError
from packwise.sources.zipped import PART_LIMIT

_STREAM = re.compile(rb"(?<!end)stream\r?\n")
_END = b"endstream"
_RATIO = 1032
"""Deflate packs no better, so a stream shorter than the limit by this cannot exceed it."""
_DICTIONARY = 1024
"""Bytes before a stream in which its dictionary is looked for."""
_PIECE, _UNPACKED = 1 << 16, 1 << 20


def check_streams(path: Path) -> None:
    """Raise ``SourceError`` if a stream unpacks to more than ``PART_LIMIT``.

    Images do not count: they are unpacked only where a page is read by OCR.
    """
    if not path.stat().st_size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for found in _STREAM.finditer(data):
            start = found.end()
            if data.find(_END, start, start + PART_LIMIT // _RATIO) > -1:
                continue
            head = data[max(0, found.start() - _DICTIONARY) : found.start()]
            if b"/Image" not in head.rpartition(b" obj")[2] and _exceeds(data, start):
                raise SourceError(f"unpacks to more than {PART_LIMIT >> 20} MiB")


def _exceeds(data: mmap.mmap, at: int) -> bool:
    """Whether the bytes from here on are deflated and unpack to more than the limit."""
    unpacker, total, waiting = zlib.decompressobj(), 0, b""
    while total <= PART_LIMIT and not unpacker.eof:
        piece = waiting or data[at : at + _PIECE]
        at += 0 if waiting else len(piece)
        try:
            total += len(unpacker.decompress(piece, _UNPACKED))
        except zlib.error:
            return False
        waiting = unpacker.unconsumed_tail
        if not piece:
            return False
    return total > PART_LIMIT
