"""From a SOURCE argument to a source."""

from __future__ import annotations

import re
from pathlib import Path

from packwise.errors import SourceError
from packwise.sources.items import Source

_URL = re.compile(r"(?i)https?://")


def open_source(argument: str) -> Source:
    """The source an argument names: ``python:reference``, a folder, a BEIR folder or a file.

    A folder is walked at once (its files are not read yet). Raises ``SourceError`` for
    what does not exist, holds nothing to read, or has no reader.
    """
    from packwise.sources import python_reference

    if argument == python_reference.ARGUMENT:
        return python_reference.PythonReference()
    if argument.startswith("python:"):
        raise SourceError(f"{argument}: no such source", fix=f"use {python_reference.ARGUMENT}")
    if _URL.match(argument):
        raise SourceError(
            f"{argument}: web pages are not fetched", fix="save the page as .html and name the file"
        )
    path = Path(argument)
    try:
        path.stat()
        is_folder = path.is_dir()
    except FileNotFoundError:
        raise SourceError(f"{argument}: no such file or folder", fix="check the path") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SourceError(f"{argument}: {reason}", fix="check the path") from error
    return _open_folder(path, argument) if is_folder else _open_file(path, argument)


def _open_file(path: Path, label: str) -> Source:
    from packwise.sources.files import open_file

    return open_file(path, label)


def _open_folder(path: Path, label: str) -> Source:
    from packwise.sources import beir, formats
    from packwise.sources.files import FilesSource
    from packwise.sources.walk import readable, walk

    corpus = beir.corpus_in(path)
    if corpus is not None:
        return beir.open_beir(path, corpus)
    listing = walk(path)
    if not listing.files:
        if listing.problems:
            raise SourceError(str(listing.problems[0]), fix="check its permissions")
        known = " ".join(formats.SUFFIXES)
        raise SourceError(f"{label}: no documents in this folder", fix=f"add files of {known}")
    resolved = path.resolve()
    return FilesSource(readable(resolved.name) or "root", str(resolved), listing)
