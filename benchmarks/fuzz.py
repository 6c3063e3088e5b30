"""Fuzz the readers, names, sentences and chunking: for crashes, and for time that grows too fast.

    python benchmarks/fuzz.py [--cases 10000] [--target markdown ...] [--seed 7]
    python benchmarks/fuzz.py --guided --target markdown     by coverage, with atheris

Each case repeats a few fragments of markup many times. Formats that need a frame (rows, notebooks,
mail, dumps) get half of them inside one; PDF, Office, OpenDocument and EPUB files get them, and
other bytes, into one of their parts. A case is reported if it raises anything but ``SourceError``,
takes 20 seconds, or if four times the text takes more than ten times as long and goes on growing:
a reader that gives up after a fixed time, as one of code does, also slows down once. ``--guided``
looks for cases that reach new code instead (``pip install atheris``).
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
import time
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from packwise.chunking import chunk
from packwise.documents import Document
from packwise.errors import SourceError
from packwise.language.analyzer import terms
from packwise.language.entities import facts_in
from packwise.language.names import names_in
from packwise.language.questions import parse_question
from packwise.language.sentences import sentence_spans
from packwise.language.untrusted import clean, suspicions, without_markers
from packwise.models.base import Embedder
from packwise.models.embedder import load_embedder
from packwise.packs.deadline import deadline
from packwise.serving.inert_markdown import inert
from packwise.settings import Settings
from packwise.sources import open_source, wikitext
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.files import parse
from packwise.sources.links import LinkResolver
from packwise.sources.readers import BUILT_IN, Reader, Reads, readers

FRAGMENTS = (
    "a|Ab |word |. |\n|\n\n|  |\t|    |- |* |** |# |## |> |1. |`|``|```|~~~|[|](|]|![|(|)|<|>|</|"
    "<p>|"
    '<div a="|<table><tr><td>|<!--|-->|&amp;|:a:`|`_|.. a::|.. |=====|-----|+---+|::|{{|}}|[[|]]|'
    "|-\n|{||==|'''|.SH A\n|.TP\n|\\fB|\\|.Fl |*|/**|//|#|def a():|class A:|\"|\"\"\"|'|{|}|:|,|"
    "[1,|"
    '{"a":|From a\n|> a\n|--\n|On a wrote:\n|===\n|----\n|!!! note\n|:::{a}|#+BEGIN_SRC\n|:A:\n|'
    "---\n|acl: |http://a|@|www.|_|__|é|漢|\u200b|\x1b[|(AB) |called “|is a |A. B. |e.g. "
).split("|")
BINARY = ("pdf", "docx", "pptx", "xlsx", "epub", "odt")
SMALL, LARGE = 2_000, 8_000
SLOW_SECONDS, GROWTH, MOST_SECONDS = 0.25, 10.0, 20.0
STEADY = 2.0
"""How much longer four times a slow text takes where the time has a limit."""


def targets() -> dict[str, Callable[[str], object]]:
    """What is fuzzed, by name: every reader of this installation, and the rules of language."""
    found: dict[str, Callable[[str], object]] = {
        "names": names_in,
        "sentences": sentence_spans,
        "facts": facts_in,
        "chunking": chunked,
        "questions": parse_question,
        "terms": terms,
        "untrusted": lambda text: (without_markers(clean(text)), suspicions(text)),
        "inert": inert,
        "wikitext": lambda text: wikitext.read(DocumentBuilder(), text),
    }
    for reader in BUILT_IN:
        if reader.format in BINARY and not reader.missing:
            found[reader.format] = lambda text, kind=reader.format: read_mutated(text, kind)
        elif not reader.missing and readers()[reader.suffixes[0]] is reader:
            found[reader.format] = lambda text, which=reader: read_framed(text, which)
    return found


def chance_of(text: str) -> random.Random:
    """The same choices for a case and for the longer one that it is compared with."""
    return random.Random(text[: SMALL // 2])


def chunked(text: str) -> None:
    """Cut a text into passages: as one block, or as what a reader makes of it."""
    chance = chance_of(text)
    document = Document("a", "A", text)
    if chance.random() < 0.5:
        document = parse("text", text).build("a", LinkResolver(()))
    chunk(document, embedder(), Settings())


@cache
def embedder() -> Embedder:
    """The default embedder, of which chunking uses the tokens."""
    return load_embedder(Settings().embedder, Settings())


def read_framed(text: str, reader: Reader) -> None:
    """Read a text as a file of this format, half of the time inside what the format needs."""
    chance = chance_of(text)
    endings = [ending for ending in reader.suffixes if not ending.endswith((".gz", ".bz2"))]
    if chance.random() < 0.5 and reader.format in FRAMES:
        text = FRAMES[reader.format](text, chance)
    read_bytes(text.encode("utf-8", "replace"), chance.choice(endings))


def row(text: str, chance: random.Random) -> str:
    """An object with the text in one of its values."""
    values: list[object] = [text, [text], {"a": text}, 1, None, [[text, 1], [2]], {"b": [text]}]
    keys = ["id", "title", "text", "body", "html", "metadata", "acl", "url", text[:50]]
    chosen = chance.sample(keys, 3)
    return json.dumps({"text": "A text.", **{key: chance.choice(values) for key in chosen}})


def rows(text: str, chance: random.Random) -> str:
    """Rows with parts of the text."""
    return "\n".join(row(text[:500], chance) for _ in range(max(1, len(text) // 500)))


def notebook(text: str, chance: random.Random) -> str:
    """A notebook of which one cell has the text."""
    data = {chance.choice(("text/plain", "text/html", "text/markdown")): [text]}
    output = {"output_type": chance.choice(("stream", "display_data")), "text": text, "data": data}
    cell = {"cell_type": chance.choice(("markdown", "code", "raw")), "outputs": [output]}
    source = chance.choice([text, text.splitlines(True), [text], {"a": text}, None])
    return json.dumps({"cells": [cell | {"source": source}], "metadata": {}, "nbformat": 4})


def message(text: str, chance: random.Random) -> str:
    """A message with the text as a header, a body or an attachment."""
    kind = chance.choice(("text/plain", "text/html", "message/rfc822", "application/pdf"))
    coding = chance.choice(("8bit", "base64", "quoted-printable", "x-unknown"))
    charset = chance.choice(("utf-8", "latin-1", "utf-7", "nonsense"))
    header = " ".join(text[:500].split()) if chance.random() < 0.3 else "A subject"
    part = (
        f'Content-Type: {kind}; charset="{charset}"; name="{header[:40]}"\n'
        f"Content-Transfer-Encoding: {coding}\n\n{text}\n"
    )
    if chance.random() < 0.5:
        return f"From: a@example.org\nSubject: {header}\nMIME-Version: 1.0\n{part}"
    boundary = 'Content-Type: multipart/mixed; boundary="b"'
    return f"From: a@example.org\nSubject: {header}\n{boundary}\n\n--b\n{part}\n--b\n{part}--b--\n"


def dump(text: str, chance: random.Random) -> str:
    """A dump of MediaWiki with one article of the text."""
    content = text.replace("&", "&amp;").replace("<", "&lt;")
    revision = f"<revision><text>{content}</text></revision>"
    page = f"<page><title>{content[:30]} A</title><ns>0</ns><id>1</id>{revision}</page>"
    return f"<mediawiki>{page}{text if chance.random() < 0.1 else ''}</mediawiki>"


DATE = "Mon Jan  1 00:00:00 2024"
FRAMES: dict[str, Callable[[str, random.Random], str]] = {
    "rows": rows,
    "json": lambda text, chance: f"[{rows(text, chance)}]".replace("\n", ",\n"),
    "notebook": notebook,
    "mail": message,
    "mbox": lambda text, chance: (
        f"From a@b Mon Jan  1 00:00:00 2024\n{message(text, chance)}\n" * 2
    ),
    "mediawiki": dump,
    "man": lambda text, chance: f".TH A 1\n.SH NAME\na - b\n.SH TEXT\n{text}",
    "csv": lambda text, chance: f'a,b,c\n1,"{text}",2\n{text}\n',
    "html": lambda text, chance: (
        f"<html><head><title>A</title></head><body><p>{text}</body></html>"
    ),
    "rst": lambda text, chance: f"A\n=\n\n{text}",
    "python": lambda text, chance: f'def a():\n    """{text}"""\n',
}


def read_mutated(text: str, kind: str) -> None:
    """Read a small file of this kind into which a text and some other bytes were put."""
    chance = chance_of(text)
    content = samples()[kind]
    if kind == "pdf":
        return read_bytes(mutated(content, text, chance), ".pdf")
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as parts, zipfile.ZipFile(out, "w") as made:
        chosen = chance.choice(parts.namelist())
        for name in parts.namelist():
            part = parts.read(name)
            made.writestr(name, mutated(part, text, chance) if name == chosen else part)
    return read_bytes(out.getvalue(), f".{kind}")


def mutated(content: bytes, text: str, chance: random.Random) -> bytes:
    """The content with the text in one place, or with a few other bytes, or cut."""
    at = chance.randrange(len(content) + 1)
    match chance.randrange(4):
        case 0:
            return content[:at]
        case 1:
            changed = bytearray(content)
            for _ in range(chance.randint(1, 20)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            return bytes(changed)
        case 2:
            return content[:at] + content[chance.randrange(at + 1) :]
        case _:
            # Between two tags, so that the file may stay whole.
            at = content.find(b">", at) + 1
            safe = text if chance.random() < 0.3 else text.replace("<", "").replace("&", "")
            return content[:at] + safe.encode("utf-8", "replace") + content[at:]


@cache
def samples() -> dict[str, bytes]:
    """A small file of each kind."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
    from office_files import pdf, relations, zipped

    line = "<text:p>A line of text.</text:p>"
    sheet = (
        '<row r="1"><c r="A1" t="inlineStr"><is><t>A cell</t></is></c><c r="B1"><v>2</v></c></row>'
    )
    shape = "<p:sp><p:txBody><a:p><a:r><a:t>A slide.</a:t></a:r></a:p></p:txBody></p:sp>"
    shape = f"<p:spTree>{shape}</p:spTree>"
    sheets = '<sheets><sheet name="a" r:id="r1"/></sheets>'
    sheet = f"<sheetData>{sheet}</sheetData>"
    run = "<w:p><w:r><w:t>A paragraph.</w:t></w:r></w:p>"
    book = '<manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest>'
    return {
        "pdf": pdf(
            [(50, 700, 12, "A line of text."), (50, 680, 12, "Another.")], outline=[("A", 1)]
        ),
        "docx": zipped(
            {
                "word/document.xml": f"<w:document><w:body>{run}<w:tbl><w:tr><w:tc>{run}</w:tc>"
                "</w:tr></w:tbl></w:body></w:document>",
                "word/styles.xml": '<w:styles><w:style w:styleId="Heading1"/></w:styles>',
            }
        ),
        "pptx": zipped(
            {
                "ppt/presentation.xml": '<p:presentation><p:sldIdLst><p:sldId r:id="r1"/>'
                "</p:sldIdLst></p:presentation>",
                "ppt/_rels/presentation.xml.rels": relations(r1="slide:slides/slide1.xml"),
                "ppt/slides/slide1.xml": f"<p:sld><p:cSld>{shape}</p:cSld></p:sld>",
            }
        ),
        "xlsx": zipped(
            {
                "xl/workbook.xml": f"<workbook>{sheets}</workbook>",
                "xl/_rels/workbook.xml.rels": relations(r1="worksheet:worksheets/sheet1.xml"),
                "xl/worksheets/sheet1.xml": f"<worksheet>{sheet}</worksheet>",
            }
        ),
        "odt": zipped(
            {
                "content.xml": "<office:document-content><office:body><office:text>"
                f"{line}</office:text></office:body></office:document-content>",
            }
        ),
        "epub": zipped(
            {
                "META-INF/container.xml": "<container><rootfiles>"
                '<rootfile full-path="b.opf"/></rootfiles></container>',
                "b.opf": f'<package>{book}<spine><itemref idref="a"/></spine></package>',
                "a.xhtml": "<html><body><h1>A</h1><p>A paragraph.</p></body></html>",
            }
        ),
    }


def read_bytes(content: bytes, ending: str) -> None:
    """Read a file of these bytes with this suffix."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"case{ending}"
        path.write_bytes(content)
        reader = readers()[ending]
        if reader.reads is Reads.STREAM and not reader.may_read(path):
            return
        with deadline(MOST_SECONDS):
            for entry in open_source(str(path)).items():
                if hasattr(entry, "read"):
                    entry.read()  # pyright: ignore


def sizes(number: int) -> tuple[int, int]:
    """Of ten cases nine are small: they find faults as well, and ten times as many are tried."""
    return (SMALL, LARGE) if number % 10 == 0 else (SMALL // 8, LARGE // 8)


def case(size: int, parts: list[str]) -> str:
    """A text of about this size: a start, a repeated middle, an end."""
    middle = "".join(parts[1:-1]) or "a"
    return parts[0] + middle * (size // len(middle)) + parts[-1]


def seconds(target: Callable[[str], object], text: str) -> float:
    """The seconds of computing that a case takes."""
    started = time.thread_time()
    try:
        target(text)
    except SourceError as error:
        # A reader that breaks is caught for the sake of the build; here it is a fault.
        if "cannot be parsed" in error.message or "takes longer" in error.message:
            raise RuntimeError(repr(error.__cause__)) from error
    return time.thread_time() - started


def fault(
    target: Callable[[str], object], chance: random.Random, number: int
) -> tuple[str, list[str]]:
    """What is wrong with the next case, if anything, and its parts."""
    parts = chance.choices(FRAGMENTS, k=chance.randint(2, 6))
    less, more = sizes(number)
    try:
        small = seconds(target, case(less, parts))
        large = seconds(target, case(more, parts))
        if large > SLOW_SECONDS:
            # The first case of a kind also loads what reads it.
            large = min(large, seconds(target, case(more, parts)))
        if not (large > SLOW_SECONDS and large > GROWTH * small):
            return "", parts
        if seconds(target, case(4 * more, parts)) < STEADY * large:
            return "", parts
    except Exception as error:  # noqa: BLE001 - any of them is what fuzzing looks for
        return f"{type(error).__name__}: {error}", parts
    return f"{small:.2f} s for {less}, {large:.2f} s for {more} characters", parts


def guided(target: Callable[[str], object], cases: int, seed: int) -> None:
    """Let atheris look for cases that reach new code; it ends the process, with a code other
    than 0 if there was a fault."""
    import atheris

    def one(data: bytes) -> None:
        seconds(target, data.decode("utf-8", "replace"))

    atheris.instrument_all()
    options = [f"-runs={cases}", f"-seed={seed}", "-max_len=4096", "-timeout=30"]
    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


def main() -> None:
    """Fuzz; the exit code is 1 if there was a fault."""
    known = targets()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--target", action="append", choices=list(known))
    parser.add_argument("--guided", action="store_true", help="by coverage, one target")
    arguments = parser.parse_args()
    faults = 0
    if arguments.guided:
        if not arguments.target:
            parser.error("--guided needs a --target")
        guided(known[arguments.target[0]], arguments.cases, arguments.seed)
    for name in arguments.target or known:
        chance = random.Random(f"{arguments.seed} {name}")
        found = 0
        for number in range(arguments.cases):
            wrong, parts = fault(known[name], chance, number)
            if wrong:
                found += 1
                sys.stdout.write(f"  {name}: {wrong}: {parts!r}\n")
        sys.stdout.write(f"{name}: {arguments.cases} cases, {found} faults\n")
        sys.stdout.flush()
        faults += found
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
