"""What is known of the rows of a file without parsing it again: their hashes, ids and places.

A listing is kept in the cache folder. As long as the file stays the same, it is not read; when it
changed, a row with a known hash has the id that it had.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from packwise.errors import MALFORMED
from packwise.file_hashes import read_own, replace_file
from packwise.settings import cache_folder
from packwise.sources.source_items import PARSER_VERSION

DIGEST_BYTES = 16
_CHECKSUM_BYTES = 32
_FORMAT = f"rows 1 {PARSER_VERSION}"


@dataclass(slots=True)
class RowListing:
    """The rows that are documents, in their order.

    ``own`` says of each whether it has an id of its own rather than its line's; ``odd`` are those
    that are not UTF-8. ``places`` has three numbers per row: its line, where it starts and its
    length. ``problems`` are reasons by the row that they precede, each with its line after a colon,
    or with nothing where it is about the whole file.
    """

    ids: list[str] = field(default_factory=list[str])
    own: bytearray = field(default_factory=bytearray)
    digests: bytearray = field(default_factory=bytearray)
    places: array[int] = field(default_factory=lambda: array("q"))
    odd: set[int] = field(default_factory=set[int])
    problems: dict[int, list[tuple[str, str]]] = field(
        default_factory=dict[int, list[tuple[str, str]]]
    )

    def digest(self, at: int) -> bytes:
        """The hash of a row."""
        return bytes(self.digests[DIGEST_BYTES * at : DIGEST_BYTES * (at + 1)])

    def named(self) -> dict[bytes, int]:
        """The rows with ids of their own by their hashes."""
        return {self.digest(at): at for at, own in enumerate(self.own) if own}

    def content(self, prefix: str) -> bytes:
        """The listing as bytes."""
        texts = {
            "format": _FORMAT,
            "prefix": prefix,
            "ids": self.ids,
            "odd": sorted(self.odd),
            "problems": sorted(self.problems.items()),
        }
        # Ids may hold lone surrogates, which only JSON's own escapes can write.
        head = json.dumps(texts).encode("ascii")
        body = head + b"\n" + self.own + self.digests + self.places.tobytes()
        return hashlib.sha256(body).digest() + body  # See ``digest_of``.

    @classmethod
    def of(cls, content: bytes, prefix: str) -> RowListing | None:
        """The inverse of ``content``; ``None`` if it is damaged or made by other rules."""
        body = content[_CHECKSUM_BYTES:]
        if hashlib.sha256(body).hexdigest() != digest_of(content):
            return None
        head, _, rest = body.partition(b"\n")
        try:
            texts = cast("dict[str, Any]", json.loads(head))
            if (texts["format"], texts["prefix"]) != (_FORMAT, prefix):
                return None
            ids = cast("list[str]", texts["ids"])
            problems = {at: [(place, why) for place, why in of] for at, of in texts["problems"]}
            count, places = len(ids), array("q")
            places.frombytes(rest[count * (1 + DIGEST_BYTES) :])
            own, digests = rest[:count], rest[count : count * (1 + DIGEST_BYTES)]
            found = cls(
                ids, bytearray(own), bytearray(digests), places, set(texts["odd"]), problems
            )
        except MALFORMED:
            return None
        return found if len(places) == 3 * count else None


def digest_of(content: bytes) -> str:
    """The checksum that the content of a listing begins with."""
    return content[:_CHECKSUM_BYTES].hex()


def kept_content(path: Path) -> bytes:
    """What was last kept for a file; empty if there is nothing."""
    return read_own(_place(path)) or b""


def keep_content(path: Path, content: bytes) -> None:
    """Keep what was found in a file, if that is possible."""
    with contextlib.suppress(OSError):
        replace_file(_place(path), content)


def _place(path: Path) -> Path:
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    return cache_folder() / "rows" / name
