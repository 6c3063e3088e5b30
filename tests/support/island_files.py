"""Five files of five formats about one island, as a newcomer may have them."""

from office_files import pdf, relations, zipped

_STYLES = (
    '<w:styles><w:style w:styleId="T"><w:name w:val="Title"/></w:style>'
    '<w:style w:styleId="H"><w:name w:val="heading 1"/></w:style></w:styles>'
)


def _paragraph(text: str, style: str = "") -> str:
    mark = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f"<w:p><w:pPr>{mark}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def _ferry() -> bytes:
    body = (
        _paragraph("Ferry rules", "T")
        + _paragraph("Boarding", "H")
        + _paragraph("Boarding closes ten minutes before the ferry leaves.")
        + _paragraph("Bicycles", "H")
        + _paragraph("A ticket for a bicycle costs four pounds. A tandem costs six pounds.")
    )
    return zipped(
        {
            "_rels/.rels": relations(a="officeDocument:word/document.xml"),
            "word/_rels/document.xml.rels": relations(s="styles:styles.xml"),
            "word/styles.xml": _STYLES,
            "word/document.xml": f"<w:document><w:body>{body}</w:body></w:document>",
        }
    )


_GARDEN = """# The walled garden

The garden opens at **nine** and closes at dusk. See [the ferry](ferry.docx) for the way there.

## Plants

1. Roses by the south wall
   - Rosa gallica
   - Rosa alba
2. Figs in the glasshouse

| plant | planted | height |
|---|---|---|
| quince | 1904 | 5 m |
| mulberry | 1881 | 9 m |

## Watering

Run the pump before sunrise:

```python
def water(minutes: int) -> None:
    pump.start()  # twenty litres a minute
```
"""
_MUSEUM = """<html><head><title>The whaling museum</title></head><body>
<h1>The whaling museum</h1><p>Admission to the museum is free on Sundays. On other days it costs
six pounds.</p><h2>Collections</h2><ul><li>Harpoons from the brig Ellery</li><li>Scrimshaw</li>
</ul><p>The curator is Ida Voss, see https://example.org/voss for her hours.</p></body></html>"""


def island_files() -> dict[str, bytes]:
    """The files by name."""
    light = pdf(
        [
            (72, 760, 20, "The harbour light", "B"),
            (72, 720, 11, "The lighthouse at Port Ellery was built in 1871."),
            (72, 704, 11, "Its lamp reaches nineteen nautical miles."),
        ],
        [
            (72, 760, 14, "Keepers", "B"),
            (72, 730, 11, "The last keeper, Ada Merrin, left the tower in 1988."),
            (72, 714, 11, "Since then the lamp has been automatic."),
        ],
    )
    return {
        "lighthouse.pdf": light,
        "ferry.docx": _ferry(),
        "garden.md": _GARDEN.encode(),
        "boats.csv": b"boat,owner,berth\nMerganser,Tom Hale,B12\nPetrel,Ida Voss,B14\n",
        "museum.html": _MUSEUM.encode(),
    }
