"""What a source hands out: items that can be read, and problems with those that cannot.

A build compares ``Item.source_hash`` with what it has stored and calls ``Item.read()``
only for what is new or changed. A ``Problem`` stands in the stream where a document
could not be had; it is data, not an exception, so the rest goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from packwise.documents import Document
from packwise.errors import SourceError

PARSER_VERSION = "1"
"""Part of every source hash: raise it when a reader's result changes for equal bytes."""


@dataclass(frozen=True, slots=True)
class Item:
    """A document that can be read.

    ``location`` names it in messages. ``warning`` is what a user should know although
    the document can be read, such as bytes that had to be replaced; else empty.
    """

    id: str
    source_hash: str
    location: str
    load: Callable[[], Document] = field(repr=False, compare=False)
    warning: str = ""

    def read(self) -> Document:
        """Parse it. The document carries this item's id and source hash.

        Raises ``SourceError``, with the location in its message, when that fails.
        """
        try:
            document = self.load()
        except SourceError:
            raise
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise SourceError(f"{self.location}: {reason}") from error
        except Exception as error:
            # Parsers meet whatever people have written; one file that breaks one of
            # them must not end a build of thousands.
            raise SourceError(
                f"{self.location}: cannot be parsed ({type(error).__name__})"
            ) from error
        return replace(document, id=self.id, source_hash=self.source_hash)


@dataclass(frozen=True, slots=True)
class Problem:
    """A document that cannot be had, and why, in words that follow its name."""

    location: str
    reason: str

    def __str__(self) -> str:
        return f"{self.location}: {self.reason}"


Entry = Item | Problem


class Source(Protocol):
    """A place documents come from; ``open_source`` makes one from an argument."""

    @property
    def name(self) -> str:
        """Short, from the user's argument: a folder's or a file's name."""
        ...

    @property
    def location(self) -> str:
        """Equal for two sources exactly when they are the same place."""
        ...

    @property
    def skipped(self) -> Mapping[str, int]:
        """How many files were passed over, by suffix, because no reader takes them."""
        ...

    def ids(self) -> Iterator[str]:
        """The ids ``items`` may yield, without reading more than it takes to know them."""
        ...

    def items(self) -> Iterator[Entry]:
        """Every document, always in the same order. Each call starts anew."""
        ...


def hashed(raw: bytes, *parts: str) -> str:
    """The source hash of raw bytes and of whatever else decides what they become."""
    digest = hashlib.blake2b(raw, digest_size=16)
    for part in (PARSER_VERSION, *parts):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()
