"""Builds of folders that hold one file that is broken, hostile or very large.

    python benchmarks/unreadable.py FOLDER [--embedder potion-base-8M] [--only TEXT]

Each file is made in FOLDER beside a readable note and built by ``packwise build`` in a process of
its own. Prints Markdown: what the command says of the file, whether the note is in the pack, and
the seconds (on the clock and of the processor) and the memory that the process used at most.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

NOTE = "# Ferry\n\nThe ferry to the island leaves at 7:45 from the north pier on weekdays.\n"
ROWS, PAGES, BOMB = 1_000_000, 5_000, 1 << 30
LINE = "Clause {0} of the lease sets the rent of unit {0} to {1} euro per month."
ENCRYPTED = f"/Encrypt<</Filter/Standard/V 1/R 2/P -4/O<{'61' * 32}>/U<{'62' * 32}>>>/ID[<61><61>]"
SHEET = "xl/worksheets/sheet1.xml"
WORKBOOK = {
    "xl/workbook.xml": '<workbook xmlns="m" xmlns:r="r"><sheets><sheet name="Rents" sheetId="1" '
    'r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": '<Relationships><Relationship Id="rId1" Type="x/worksheet" '
    'Target="worksheets/sheet1.xml"/></Relationships>',
}


def pdf(path: Path, pages: list[str], extra: str = "") -> None:
    """A PDF whose pages have these operators."""
    font = "<</Type/Font/Subtype/Type1/Encoding/WinAnsiEncoding/BaseFont/Helvetica>>"
    image = (
        "<</Type/XObject/Subtype/Image/Width 1/Height 1/ColorSpace/DeviceGray"
        "/BitsPerComponent 8/Length 1>>stream\n0\nendstream"
    )
    kids = " ".join(f"{6 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>",
        font,
        image,
    ]
    for at, page in enumerate(pages):
        objects.append(f"<</Length {len(page)}>>stream\n{page}\nendstream")
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents {5 + 2 * at} 0 R"
            "/Resources<</Font<</F 3 0 R>>/XObject<</I 4 0 R>>>>>>"
        )
    out = io.BytesIO()
    out.write(b"%PDF-1.4\n")
    places: list[int] = []
    for number, body in enumerate(objects, start=1):
        places.append(out.tell())
        out.write(f"{number} 0 obj\n{body}\nendobj\n".encode())
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    out.write(b"".join(f"{place:010} 00000 n \n".encode() for place in places))
    trailer = f"trailer<</Size {len(objects) + 1}/Root 1 0 R{extra}>>\nstartxref\n{start}\n%%EOF"
    path.write_bytes(out.getvalue() + trailer.encode())


def text_page(at: int) -> str:
    """The operators of a page with forty lines of text."""
    lines = (LINE.format(40 * at + n, 500 + (40 * at + n) * 7 % 900) for n in range(40))
    shown = "".join(f"({line}) Tj 0 -18 Td " for line in lines)
    return f"BT /F 10 Tf 60 780 Td {shown}ET"


def encrypted_pdf(path: Path) -> None:
    """A PDF that asks for a password."""
    pdf(path, [text_page(0)], ENCRYPTED)


def scanned_pdf(path: Path) -> None:
    """Three pages that hold nothing but a picture."""
    pdf(path, ["q 500 0 0 700 40 60 cm /I Do Q"] * 3)


def long_pdf(path: Path) -> None:
    """A PDF with very many pages of text."""
    pdf(path, [text_page(at) for at in range(PAGES)])


def cut_docx(path: Path) -> None:
    """The beginning of a zip file."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("word/document.xml", "<w:document/>" * 999)
    path.write_bytes(whole.getvalue()[:60])


def bomb(path: Path, inside: str, head: bytes, parts: Mapping[str, str]) -> None:
    """A small zip file with a part of 1 GiB."""
    block = b" " * (1 << 20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, body in parts.items():
            file.writestr(name, body)
        with file.open(inside, "w", force_zip64=True) as part:
            part.write(head)
            for _ in range(BOMB // len(block)):
                part.write(block)


def bomb_docx(path: Path) -> None:
    """A document of white space."""
    bomb(path, "word/document.xml", b'<w:document xmlns:w="w"><w:body>', {})


def bomb_epub(path: Path) -> None:
    """A book whose list of parts does not end."""
    bomb(path, "META-INF/container.xml", b"<container>", {})


def bomb_pdf(path: Path) -> None:
    """A page whose content unpacks to 1 GiB."""
    packer, block = zlib.compressobj(9), b" " * (1 << 20)
    packed = b"".join(packer.compress(block) for _ in range(1024)) + packer.flush()
    pdf(path, ["PLACE"])
    head = f"<</Filter/FlateDecode/Length {len(packed)}>>stream\n".encode()
    path.write_bytes(path.read_bytes().replace(b"<</Length 5>>stream\nPLACE", head + packed))


def bomb_xlsx(path: Path) -> None:
    """A sheet of white space."""
    bomb(path, SHEET, b"<worksheet><sheetData>", WORKBOOK)


def rows() -> Iterator[bytes]:
    """The XML of a sheet with very many rows, piece by piece."""
    yield b"<worksheet><sheetData>"
    for start in range(0, ROWS, 10_000):
        yield "".join(
            f'<row r="{n + 1}"><c t="inlineStr"><is><t>unit {n}</t></is></c><c><v>{n * 7 % 900}</v>'
            f'</c><c t="inlineStr"><is><t>rented by tenant {n % 997}</t></is></c></row>'
            for n in range(start, start + 10_000)
        ).encode()
    yield b"</sheetData></worksheet>"


def long_xlsx(path: Path) -> None:
    """A workbook with one long sheet."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, body in WORKBOOK.items():
            file.writestr(name, body)
        with file.open(SHEET, "w", force_zip64=True) as part:
            for block in rows():
                part.write(block)


FILES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "an encrypted PDF": ("lease.pdf", encrypted_pdf),
    "a scan without text": ("scan.pdf", scanned_pdf),
    "a DOCX that is cut off": ("cut.docx", cut_docx),
    "a DOCX that unpacks to 1 GiB": ("bomb.docx", bomb_docx),
    "an XLSX that unpacks to 1 GiB": ("bomb.xlsx", bomb_xlsx),
    "an EPUB that unpacks to 1 GiB": ("bomb.epub", bomb_epub),
    "a PDF page that unpacks to 1 GiB": ("bomb.pdf", bomb_pdf),
    "an XLSX of 1,000,000 rows": ("rents.xlsx", long_xlsx),
    "a PDF of 5,000 pages": ("leases.pdf", long_pdf),
}


def main() -> None:
    """Make and build every file, and print one row for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--embedder", default="potion-base-8M")
    parser.add_argument("--only", default="", help="part of a name in the first column")
    given = parser.parse_args()
    sys.stdout.write(
        "| file | what the build says | passages | note built | seconds | CPU seconds | MB |\n"
        "| --- | --- | ---: | --- | ---: | ---: | ---: |\n"
    )
    for kind, (name, make) in FILES.items():
        if given.only in kind:
            sys.stdout.write(row(kind, name, make, given.folder, given.embedder))
            sys.stdout.flush()


def row(kind: str, name: str, make: Callable[[Path], None], folder: Path, embedder: str) -> str:
    """Build one folder and say how that went."""
    work = folder / name.replace(".", "-")
    shutil.rmtree(work, ignore_errors=True)
    (work / "files").mkdir(parents=True)
    (work / "files" / "note.md").write_text(NOTE)
    make(work / "files" / name)
    command = [sys.executable, "-m", "packwise", "build", str(work / "files")]
    command += ["--out", str(work / "pack"), "--embedder", embedder, "--json"]
    started = time.monotonic()
    with (work / "out").open("w+") as out:
        process = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        result = json.load(out)
    said = [one["reason"] for one in (*result["problems"], *result["warnings"])]
    found = subprocess.run(
        [
            sys.executable,
            "-m",
            "packwise",
            "search",
            str(work / "pack"),
            "when does the ferry leave",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    built = "yes" if "north pier" in found.stdout else "no"
    line = "; ".join(said).replace("|", "\\|")
    return (
        f"| {kind} | {line} | {result['passages']:,} | {built} | {seconds:.0f} "
        f"| {usage.ru_utime + usage.ru_stime:.0f} | {usage.ru_maxrss / 1024:.0f} |\n"
    )


if __name__ == "__main__":
    main()
