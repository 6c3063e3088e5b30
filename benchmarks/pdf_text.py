"""PDF text beside ``pdftotext``, on real files: ``python benchmarks/pdf_text.py FOLDER``.

Per file: how many of the words of ``pdftotext -layout`` are found, how many runs of four words of
``pdftotext`` (which follows the reading order) stand in the same order, how many bookmarks of the
file are headings of a section, and seconds of computing per page of both.
``benchmarks/format_files.py`` fetches the files into the same folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
import pypdfium2 as pdfium

from packwise import Document, Item, open_source

_WORD = re.compile(r"\w+")
_LIGATURES = str.maketrans({"ﬁ": "fi", "ﬂ": "fl", "ﬀ": "ff", "ﬃ": "ffi", "ﬄ": "ffl"})
_BROKEN = re.compile(r"(?<=[a-z])-\s*\n\s*(?=[a-z])")


def _words(text: str) -> list[str]:
    return _WORD.findall(_BROKEN.sub("", text.translate(_LIGATURES)).casefold())


def _children() -> float:
    """Seconds of computing in processes that ended."""
    return sum(os.times()[2:4])


def _peer(path: Path, *options: str) -> tuple[list[str], float]:
    started = _children()
    done = subprocess.run(["pdftotext", *options, str(path), "-"], capture_output=True, check=True)
    return _words(done.stdout.decode("utf-8", "replace")), _children() - started


def _share(wanted: Sequence[object], found: Sequence[object]) -> float:
    counted = Counter(wanted)
    return (counted & Counter(found)).total() / max(counted.total(), 1)


def _runs(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words[at : at + 4]) for at in range(len(words) - 3)]


def _headings(path: Path, document: Document) -> tuple[int, int]:
    """How many bookmarks are headings of sections, and how many there are."""
    found = {"".join(_words(heading)) for section in document.sections for heading in section.path}
    found |= {re.sub(r"^(?:[a-z]?\d+)+", "", heading) for heading in found}
    found.add("".join(_words(document.title)))
    with pdfium.PdfDocument(path) as pdf:
        titles = ["".join(_words(entry.get_title())) for entry in pdf.get_toc(max_depth=6)]
    titles = [re.sub(r"^(?:[a-z]?\d+)+", "", title) or title for title in titles if title]
    return sum(title in found for title in titles), len(titles)


def main(folder: str) -> None:
    """Print a table in Markdown: one row per file, and the mean of each kind."""
    click.echo("| kind | file | pages | words | order | headings | s/page | pdftotext s/page |")
    click.echo("|---|---|---|---|---|---|---|---|")
    root = Path(folder)
    found = [*root.glob("files/pdf/*/*.pdf"), *root.glob("pdf-text/*/*.pdf")]
    for path in sorted(found, key=lambda path: (path.parent.name, path.name)):
        started = time.process_time()
        (item,) = open_source(str(path)).items()
        assert isinstance(item, Item)
        document = item.read()
        seconds = time.process_time() - started
        with pdfium.PdfDocument(path) as pdf:
            pages = len(pdf)
        own = _words(f"{document.title}\n\n{document.text}")
        layout, peer_seconds = _peer(path, "-layout")
        reading, _ = _peer(path)
        right, all_titles = _headings(path, document)
        click.echo(
            f"| {path.parent.name} | {path.name} | {pages} | {_share(layout, own):.3f} "
            f"| {_share(_runs(reading), _runs(own)):.3f} "
            f"| {f'{right}/{all_titles}' if all_titles else ''} "
            f"| {seconds / pages:.3f} | {peer_seconds / pages:.3f} |",
        )


if __name__ == "__main__":
    main(sys.argv[1])
