"""Small PDF and Office files, written by hand so that each fault can be put into one."""

import io
import zipfile

FONTS = {"F": "Helvetica", "B": "Helvetica-Bold", "C": "Courier", "W": "Wingdings-Regular"}
BITMAPS = (
    "<</Type/Font/Subtype/Type3/FontBBox[0 0 500 700]/FontMatrix[.001 0 0 .001 0 0]"
    "/CharProcs<<{}>>/Encoding<</Differences[0 {}]>>/FirstChar 0/LastChar 127/Widths[{}]>>"
)
"""The font ``T``: bitmaps whose letters have no names, as TeX makes them."""
FONT = "<</Type/Font/Subtype/Type1/Encoding/WinAnsiEncoding/BaseFont/{}>>"


def pdf(*pages: list[tuple], outline: list[tuple[str, int]] = (), extra: str = "", size=(595, 842)):
    """A PDF. A page is a list of (x, y, size, text) or (x, y, size, text, font), or of a bare
    string: operators as they are."""
    objects: list[bytes] = []

    def add(body: str | bytes) -> int:
        objects.append(body if isinstance(body, bytes) else body.encode("latin-1"))
        return len(objects)

    catalog, tree = add(""), add("")
    fonts = " ".join(f"/{key} {add(FONT.format(name))} 0 R" for key, name in FONTS.items())
    drawn = add("<</Length 20>>stream\n500 0 0 0 400 700 d1\nendstream")
    codes = " ".join(f"/a{code}" for code in range(128))
    procedures = " ".join(f"/a{code} {drawn} 0 R" for code in range(128))
    fonts += f" /T {add(BITMAPS.format(procedures, codes, '500 ' * 128))} 0 R"
    image = add(
        "<</Type/XObject/Subtype/Image/Width 1/Height 1/ColorSpace/DeviceGray"
        "/BitsPerComponent 8/Length 1>>stream\n0\nendstream"
    )
    numbers = []
    for page in pages:
        parts = []
        for line in page:
            if isinstance(line, str):
                parts.append(line)
                continue
            x, y, points, text, font = (*line, "F")[:5]
            text = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
            parts.append(f"BT /{font} {points} Tf {x} {y} Td ({text}) Tj ET")
        stream = "\n".join(parts)
        content = add(f"<</Length {len(stream)}>>stream\n{stream}\nendstream")
        numbers.append(
            add(
                f"<</Type/Page/Parent {tree} 0 R/MediaBox[0 0 {size[0]} {size[1]}]"
                f"/Contents {content} 0 R/Resources<</Font<<{fonts}>>/XObject<</I {image} 0 R>>>>>>"
            )
        )
    objects[tree - 1] = (
        f"<</Type/Pages/Count {len(numbers)}/Kids[{' '.join(f'{n} 0 R' for n in numbers)}]>>"
    ).encode()
    root = f"<</Type/Catalog/Pages {tree} 0 R"
    if outline:
        top = add("")
        first = len(objects) + 1
        last = first + len(outline) - 1
        for at, (title, page) in enumerate(outline):
            following = f"/Next {first + at + 1} 0 R" if first + at < last else ""
            add(
                f"<</Title({title})/Parent {top} 0 R{following}/Dest[{numbers[page - 1]} 0 R/Fit]>>"
            )
        count = len(outline)
        objects[top - 1] = f"<</First {first} 0 R/Last {last} 0 R/Count {count}>>".encode()
        root += f"/Outlines {top} 0 R"
    objects[catalog - 1] = (root + ">>").encode()
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, 2)
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(out.tell())
        out.write(f"{number} 0 obj\n".encode() + body + b"\nendobj\n")
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    out.write(b"".join(f"{place:010} 00000 n \n".encode() for place in places))
    out.write(
        f"trailer<</Size {len(objects) + 1}/Root {catalog} 0 R{extra}>>\n"
        f"startxref\n{start}\n%%EOF".encode()
    )
    return out.getvalue()


ENCRYPTED = (
    f"/Encrypt<</Filter/Standard/V 1/R 2/P -4/O<{'61' * 32}>/U<{'62' * 32}>>>/ID[<6162><6162>]"
)

SCAN = "q 500 0 0 700 40 60 cm /I Do Q"
"""A picture that covers most of a page."""

_NAMES = (
    'xmlns:w="w" xmlns:r="r" xmlns:a="a" xmlns:p="p" xmlns:c="c" xmlns="m" xmlns:mc="mc" '
    'xmlns:text="t" xmlns:table="tb" xmlns:office="o" xmlns:xlink="x"'
)


def zipped(parts: dict[str, str | bytes]) -> bytes:
    """A zip file. In XML the names of the parts' elements are bound to namespaces."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, body in parts.items():
            if isinstance(body, str) and body.startswith("<"):
                at = min(body.find(end) for end in (">", "/>", " ") if end in body)
                body = f"{body[:at]} {_NAMES}{body[at:]}"
            file.writestr(name, body)
    return out.getvalue()


def relations(**targets: str) -> str:
    rows = (
        f'<Relationship Id="{id}" Type="x/{kind}" Target="{target}"/>'
        for id, (kind, _, target) in ((id, one.partition(":")) for id, one in targets.items())
    )
    return f"<Relationships>{''.join(rows)}</Relationships>"
