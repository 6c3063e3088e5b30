"""What a source yields: items that can be read, and problems with those that cannot.

A build compares ``Item.source_hash`` with the stored one and calls ``Item.read()`` only for new
or changed items. A ``Problem`` takes the place of a document that cannot be read; it is data,
not an exception, so the build continues.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

from packwise.documents import Document, with_lengths
from packwise.errors import SourceError

PARSER_VERSION = "4"
"""Part of every source hash. Increase it when a reader's result changes for the same bytes."""


@dataclass(frozen=True, slots=True)
class Item:
    """A document that can be read.

    ``location`` names it in messages. ``warning`` says what is wrong with a document that can
    still be read, for example that bytes were replaced.
    """

    id: str
    source_hash: str
    location: str
    load: Callable[[], Document] = field(repr=False, compare=False)
    warning: str = ""

    def read(self) -> Document:
        """Parse the document. It has this item's id and source hash.

        Raises ``SourceError``, with the location in its message, if that fails.
        """
        try:
            document = self.load()
        except SourceError:
            raise
        except OSError as error:
            raise SourceError(f"{self.location}: {reason_of(error)}") from error
        except Exception as error:
            # Parsers meet everything that people write; one file that breaks one of them
            # must not end a build of thousands.
            raise SourceError(
                f"{self.location}: cannot be parsed ({type(error).__name__})"
            ) from error
        return replace(document, id=self.id, source_hash=self.source_hash)


@dataclass(frozen=True, slots=True)
class Problem:
    """A document that cannot be read, and why, in words that follow its location."""

    location: str
    reason: str

    def __str__(self) -> str:
        return f"{self.location}: {self.reason}"


Entry = Item | Problem


class Source(Protocol):
    """A place that documents come from; ``open_source`` makes one from an argument."""

    @property
    def name(self) -> str:
        """A short name from the user's argument: that of the folder or file."""
        ...

    @property
    def location(self) -> str:
        """Equal for two sources if and only if they are the same place."""
        ...

    @property
    def skipped(self) -> Mapping[str, int]:
        """The number of files that are not read, by suffix."""
        ...

    def ids(self) -> Iterator[str]:
        """The ids of all documents, readable or not, with as little reading as possible."""
        ...

    def items(self) -> Iterator[Entry]:
        """Every document, always in the same order."""
        ...


def reason_of(error: Exception) -> str:
    """What went wrong, in the system's words."""
    return getattr(error, "strerror", None) or type(error).__name__


def hashed(raw: bytes, *parts: str) -> str:
    """The source hash of raw bytes and everything else that decides what they become."""
    digest = hashlib.blake2b(raw, digest_size=16)
    digest.update(_with_lengths(PARSER_VERSION, *parts))
    return digest.hexdigest()


_with_lengths = lru_cache(maxsize=16)(with_lengths)  # For the rows of a file it is the same.
