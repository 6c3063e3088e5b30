"""Readers: what reads files of which suffix.

A reader is one function, named in a ``Reader`` with the suffixes it reads. It takes one of three
forms:

- ``Reads.TEXT``: ``read(builder: DocumentBuilder, text: str) -> None`` gets decoded text.
- ``Reads.FILE``: ``read(builder: DocumentBuilder, file: SourceFile) -> None`` opens the file.
- ``Reads.STREAM``: ``read(file: SourceFile) -> Iterator[Item | Problem]`` yields many documents,
  with one of them in memory at a time. Their ids start with ``file.prefix``.

A reader adds headings, paragraphs, lists, tables and code to the builder in reading order, calls
``builder.place("page 12")`` where a page, sheet, slide or cell begins, and ``builder.warn(...)``
for what it could not read. If there is nothing to read it raises ``SourceError`` with the bare
reason ("is encrypted").

Built-in readers are the table below. Other packages add theirs by an entry point in the group
``packwise.sources`` that leads to a ``Reader``; for its suffixes it takes precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packwise.errors import SourceError
from packwise.lazy_pattern import lazy_pattern
from packwise.sources.decoding import holds_prose

GROUP = "packwise.sources"
"""The entry points of other packages' readers."""


class Reads(Enum):
    """What the function of a reader is given, and what it returns."""

    TEXT = "text"
    FILE = "file"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Reader:
    """How files of one format are read.

    ``function`` is a callable, or ``module:name`` to be imported when it is first needed.
    ``needs`` are the modules it imports, and ``pip`` is what to install if one is missing.
    ``uses`` are modules without which it reads less; files are read again when one is installed.
    ``accepts`` is a function of the path that says whether a file with a suffix that many formats
    share is one of these. A higher ``version`` makes builds read unchanged files again.
    ``lines`` says that its files are text that people read by line: passages then know their lines.
    """

    format: str
    suffixes: tuple[str, ...]
    reads: Reads
    function: str | Callable[..., Any]
    needs: tuple[str, ...] = ()
    pip: str = ""
    uses: tuple[str, ...] = ()
    accepts: str | Callable[[Path], bool] | None = None
    version: str = ""
    lines: bool = False

    def load(self) -> Callable[..., Any]:
        return _loaded(self.function)

    def may_read(self, path: Path) -> bool:
        return self.accepts is None or bool(_loaded(self.accepts)(path))

    @property
    def may_be_packed(self) -> bool:
        """Whether gzipped files of these suffixes are read too: where a file is one document, and
        is known by its name alone."""
        return self.reads is not Reads.STREAM and self.accepts is None

    @property
    def missing(self) -> bool:
        """Whether a library that it needs is not installed."""
        return not all(map(installed, self.needs))

    @property
    def identity(self) -> str:
        """What decides, besides the file, what becomes of it: part of the source hash."""
        lines = "lines" if self.lines else ""
        return " ".join((self.format, self.version, lines, *filter(installed, self.uses))).strip()


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read. ``label`` names it in messages; ``id`` is empty where the documents in it
    have ids of their own."""

    path: Path
    id: str
    label: str
    reader: Reader

    @property
    def prefix(self) -> str:
        """What the ids of the documents in this file start with."""
        return f"{self.id}/" if self.id else ""


GRAMMARS = {
    ending: (f"tree_sitter_{name}", function)
    for name, function, endings in (
        ("javascript", "language", ".js .mjs .cjs .jsx"),
        ("typescript", "language_typescript", ".ts"),
        ("typescript", "language_tsx", ".tsx"),
        ("go", "language", ".go"),
        ("rust", "language", ".rs"),
        ("java", "language", ".java"),
        ("c", "language", ".c .h"),
        ("cpp", "language", ".cc .cpp .hpp"),
        ("ruby", "language", ".rb"),
        ("c_sharp", "language", ".cs"),
        ("bash", "language", ".sh"),
        ("php", "language_php", ".php"),
    )
    for ending in endings.split()
}
"""The module and the function of the tree-sitter grammar for each suffix."""

_NO_SUFFIX = lazy_pattern(r"(?:\.\d+)?(?:\.gz)?")
"""What the names of text files without a suffix end in: ``LICENSE``, ``Apache-2.0``,
``NEWS.gz``."""
_OF_SECTION = lazy_pattern(r"[1-9](?!ds|gp|mf)[a-z]{2,12}")
_MANUALS = tuple(
    f".{number}{kind}{packed}"
    for number in range(1, 10)
    for kind in ("", "p", "x")
    for packed in ("", ".gz")
)
_PLAIN = lazy_pattern(
    r"(?i)(?:install|hacking|contributing|upgrad(?:e|ing)|todo|manual|tutorial"
    r"|(?:[\w+-]{1,60}[._-])?(?:readme|faq|howto))"
    r"(?:[.-](?:debian|source|unix|linux|windows|win32|macos))?(\.gz)?"
)
"""Names without a suffix that text files have by custom."""

BUILT_IN = (
    Reader(
        "markdown",
        (".md", ".markdown"),
        Reads.TEXT,
        "packwise.sources.markdown:read",
        version="4",
        lines=True,
    ),
    Reader(
        "html",
        (".html", ".htm", ".xhtml", ".shtml"),
        Reads.TEXT,
        "packwise.sources.html:read",
        version="6",
        lines=True,
    ),
    Reader(
        "rst",
        (".rst",),
        Reads.TEXT,
        "packwise.sources.rst:read",
        version="3",
        lines=True,
    ),
    Reader(
        "text",
        (".txt", ".text"),
        Reads.TEXT,
        "packwise.sources.plain_text:read",
        version="5",
        lines=True,
    ),
    Reader(
        "rows",
        (".jsonl", ".jsonl.gz"),
        Reads.STREAM,
        "packwise.sources.jsonl:rows",
        accepts="packwise.sources.jsonl:may_hold_documents",
    ),
    Reader(
        "pdf",
        (".pdf",),
        Reads.FILE,
        "packwise.sources.pdf:read",
        needs=("pypdfium2",),
        pip="packwise[pdf]",
        uses=("rapidocr",),
        version="7",
    ),
    Reader("docx", (".docx", ".docm"), Reads.FILE, "packwise.sources.docx:read", version="2"),
    Reader("pptx", (".pptx", ".pptm"), Reads.FILE, "packwise.sources.pptx:read", version="2"),
    Reader("xlsx", (".xlsx", ".xlsm"), Reads.FILE, "packwise.sources.xlsx:read", version="4"),
    Reader("csv", (".csv", ".tsv"), Reads.FILE, "packwise.sources.csv_rows:read", version="4"),
    Reader("epub", (".epub",), Reads.FILE, "packwise.sources.epub:read", version="3"),
    Reader("odt", (".odt",), Reads.FILE, "packwise.sources.odt:read"),
    Reader("notebook", (".ipynb",), Reads.TEXT, "packwise.sources.notebook:read", version="3"),
    Reader(
        "asciidoc",
        (".adoc", ".asciidoc", ".asc"),
        Reads.TEXT,
        "packwise.sources.asciidoc:read",
        version="6",
        lines=True,
    ),
    Reader("org", (".org",), Reads.TEXT, "packwise.sources.org:read", version="2", lines=True),
    Reader(
        "json",
        (".json", ".geojson"),
        Reads.STREAM,
        "packwise.sources.json_files:read",
        accepts="packwise.sources.json_files:may_hold_documents",
    ),
    Reader("mail", (".eml",), Reads.FILE, "packwise.sources.mail:read", version="4"),
    Reader("mbox", (".mbox", ".mbx"), Reads.STREAM, "packwise.sources.mail:messages", version="4"),
    Reader(
        "mediawiki",
        (".xml", ".xml.bz2", ".xml.gz"),
        Reads.STREAM,
        "packwise.sources.mediawiki:articles",
        accepts="packwise.sources.mediawiki:is_dump",
    ),
    Reader(
        "info",
        (".info", *(f".info-{n}" for n in range(1, 100))),
        Reads.FILE,
        "packwise.sources.info_pages:read",
        version="2",
    ),
    Reader(
        "wikitext",
        (".wiki", ".mediawiki"),
        Reads.TEXT,
        "packwise.sources.wikitext:read",
        version="2",
        lines=True,
    ),
    Reader(
        "man",
        _MANUALS,
        Reads.FILE,
        "packwise.sources.man_pages:read",
        accepts="packwise.sources.man_pages:is_manual",
        version="3",
    ),
    Reader(
        "python",
        (".py", ".pyi"),
        Reads.TEXT,
        "packwise.sources.source_code:read_python",
        accepts="packwise.sources.source_code:is_written_by_hand",
        lines=True,
    ),
    Reader(
        "code",
        tuple(GRAMMARS),
        Reads.FILE,
        "packwise.sources.source_code:read",
        version="2",
        needs=("tree_sitter", *dict.fromkeys(module for module, _ in GRAMMARS.values())),
        pip="packwise[code]",
        accepts="packwise.sources.source_code:is_written_by_hand",
        lines=True,
    ),
    Reader(
        "config",
        (".toml", ".yaml", ".yml", ".ini", ".cfg", ".conf", ".properties"),
        Reads.FILE,
        "packwise.sources.config_files:read",
        accepts="packwise.sources.config_files:is_written_by_hand",
        lines=True,
    ),
)


@cache
def readers() -> Mapping[str, Reader]:
    """The reader of each suffix. Raises ``SourceError`` if another package's cannot be loaded."""
    found = {suffix: reader for reader in BUILT_IN for suffix in reader.suffixes}
    packed = (reader for reader in BUILT_IN if reader.may_be_packed)
    found |= {f"{suffix}.gz": reader for reader in packed for suffix in reader.suffixes}
    for entry in entry_points(group=GROUP):
        owner = entry.dist.name if entry.dist else entry.module
        try:
            reader = entry.load()
        except Exception as error:
            # Whatever another package's import raises, the message names the package.
            raise SourceError(
                f"the reader {entry.name} of {owner} cannot be loaded ({error})",
                fix=f"pip uninstall {owner}",
            ) from error
        if not isinstance(reader, Reader):
            raise SourceError(
                f"the reader {entry.name} of {owner} is not a packwise.Reader",
                fix=f"pip uninstall {owner}",
            )
        found.update(dict.fromkeys(reader.suffixes, reader))
    return found


def reader_of(format: str) -> Reader:
    """The reader of a format."""
    return next(reader for reader in readers().values() if reader.format == format)


def reader_for(path: Path) -> Reader | None:
    """The reader of a file: that of its suffix or, if its name has none and it holds prose, that
    of text; ``None`` if there is none."""
    ending = suffix(path.name)
    known = readers().get(ending)
    if known is not None and (not _NO_SUFFIX.fullmatch(ending) or known.may_read(path)):
        return known
    return reader_of("text") if _NO_SUFFIX.fullmatch(ending) and holds_prose(path) else known


def common_suffixes() -> str:
    """The first suffix of every reader, for messages."""
    return " ".join(dict.fromkeys(reader.suffixes[0] for reader in readers().values()))


def suffix(name: str) -> str:
    """The suffix of a file name in lower case; ``.gz`` or ``.bz2`` and the one before it count as
    one. A ``README`` and the like are text, and so is one on a subject: ``README.ssl``. A manual
    page of ``3perl`` is one of section 3."""
    if plain := _PLAIN.fullmatch(name):
        return f".txt{plain[1] or ''}"
    stem, dot, last = name.lower().rpartition(".")
    if not stem or not dot:
        return ""
    if last in ("gz", "bz2"):
        return f"{suffix(stem)}.{last}"
    if _OF_SECTION.fullmatch(last):
        return f".{last[0]}"
    on_subject = stem == "readme" and f".{last}" not in readers()
    return ".txt" if on_subject else f".{last}"


def pip_command(suffixes: Mapping[str, int]) -> str:
    """The command that installs what reads files of these suffixes; empty if nothing does."""
    known = (readers().get(one) for one in suffixes)
    wanted = dict.fromkeys(r.pip for r in known if r is not None and r.missing)
    return f"pip install {' '.join(repr(name) for name in wanted)}" if wanted else ""


FORBIDDEN = "robots.txt does not allow it"
"""Why a page is left out that its site does not want to be read."""
CREDENTIALS = "named like credentials"
"""Why a file without a suffix is left out that may hold a key."""


def left_out(skipped: Mapping[str, int]) -> list[str]:
    """One line per kind of file that was left out: how many, and what would read them."""
    lines: list[str] = []
    unknown: list[str] = []
    for ending, count in sorted(skipped.items(), key=lambda item: (-item[1], item[0])):
        if ending == FORBIDDEN:
            lines.append(f"{count:,} {'page' if count == 1 else 'pages'}: {ending}")
            continue
        if ending == CREDENTIALS:
            lines.append(f"{count:,} {ending}")
            continue
        if ending not in readers():
            unknown.append(f"{count:,} {ending}")
            continue
        files = f"{count:,} {ending} {'file' if count == 1 else 'files'}"
        lines.append(f"{files}: {pip_command({ending: count}) or 'without documents'}")
    if unknown:
        lines.append(f"{', '.join(unknown)}: no reader")
    return lines


@cache
def installed(module: str) -> bool:
    """Whether a module can be imported."""
    return find_spec(module) is not None


def _loaded(function: str | Callable[..., Any]) -> Callable[..., Any]:
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    return getattr(import_module(module), name)
