"""What becomes of Word, Excel, CSV, EPUB and OpenDocument files."""

import tracemalloc
import zipfile

import pytest

from office_files import relations, zipped
from packwise.errors import SourceError
from packwise.sources import row_groups
from packwise.sources import zipped as zipped_module

WORD = {"_rels/.rels": relations(a="officeDocument:word/document.xml")}
STYLES = (
    "<w:styles>"
    '<w:style w:styleId="T"><w:name w:val="Title"/></w:style>'
    '<w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:styleId="H2"><w:name w:val="Own"/><w:basedOn w:val="H1"/>'
    '<w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style></w:styles>'
)


def p(text, style="", extra=""):
    mark = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f"<w:p><w:pPr>{mark}{extra}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def item(text, level=0, number=1):
    marks = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'
    return p(text, extra=marks)


def docx(body, **parts):
    return zipped({**WORD, "word/document.xml": f"<w:document><w:body>{body}</w:body></w:document>",
                   **parts})  # fmt: skip


def test_word_keeps_headings_lists_tables_links_and_footnotes(read_file, blocks):
    cell = "<w:tc><w:tcPr>{}</w:tcPr>" + "{}</w:tc>"
    down = "<w:vMerge/>"
    table = (
        "<w:tbl><w:tr>" + cell.format("", p("Name")) + cell.format("", p("Place")) + "</w:tr><w:tr>"
        + cell.format('<w:vMerge w:val="restart"/>', p("Pump")) + cell.format("", p("Hall 1"))
        + "</w:tr><w:tr>" + cell.format(down, p("")) + cell.format("", p("Hall 2"))
        + "</w:tr></w:tbl>"
    )  # fmt: skip
    body = (
        p("The manual", "T") + p("Start", "H1") + p("Before", "H2")
        + '<w:p><w:r><w:t>See </w:t></w:r><w:hyperlink r:id="L"><w:r><w:t>the site</w:t></w:r>'
        '</w:hyperlink><w:r><w:t>.</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r>'
        "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
        + item("first") + item("inner", 1, 2) + item("second") + table
        + f"<w:sdt><w:sdtContent>{p('In a control.')}</w:sdtContent></w:sdt>"
    )  # fmt: skip
    level = '<w:abstractNum w:abstractNumId="7"><w:lvl w:ilvl="0"><w:numFmt w:val="{}"/></w:lvl>'
    numbering = (
        f"<w:numbering>{level.format('decimal')}</w:abstractNum>"
        '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num></w:numbering>'
    )
    parts = {
        "word/_rels/document.xml.rels": relations(
            L="hyperlink:https://example.org/",
            s="styles:styles.xml",
            n="numbering:numbering.xml",
            f="footnotes:footnotes.xml",
            c="comments:comments.xml",
        ).replace('org/"', 'org/" TargetMode="External"'),
        "word/styles.xml": STYLES,
        "word/numbering.xml": numbering,
        "word/footnotes.xml": f'<w:footnotes><w:footnote w:id="2">{p("A note.")}</w:footnote>'
        "</w:footnotes>",
        "word/comments.xml": f"<w:comments><w:comment>{p('secret')}</w:comment></w:comments>",
    }
    document = read_file("a.docx", docx(body, **parts))
    assert document.title == "The manual"
    assert [section.path for section in document.sections] == [("Start",), ("Start", "Before")]
    assert blocks(document) == [
        ("text", "See the site."),
        ("text", "A note."),
        ("list", "1. first\n  - inner\n2. second"),
        ("table", "Name | Place\nPump | Hall 1\nPump | Hall 2"),
        ("text", "In a control."),
    ]
    assert [(link.href, link.anchor) for link in document.links] == [
        ("https://example.org/", "the site")
    ]


def test_word_has_the_pages_that_word_saw_last(read_file):
    turn = "<w:r><w:lastRenderedPageBreak/></w:r>"
    body = p("One.") + f"<w:p>{turn}<w:r><w:t>Two.</w:t></w:r></w:p>" + p("Two again.")
    document = read_file("a.docx", docx(body))
    at = document.text.index("Two.")
    assert (document.place(0, 4), document.place(at, at + 4)) == ("page 1", "page 2")


def test_pages_turn_within_a_table_of_word(read_file):
    turn = "<w:r><w:lastRenderedPageBreak/></w:r>"
    rows = "".join(
        f"<w:tr><w:tc><w:p>{mark}<w:r><w:t>row {n}</w:t></w:r></w:p></w:tc>"
        f"<w:tc><w:p>{mark}</w:p></w:tc></w:tr>"
        for n, mark in ((1, ""), (2, turn), (3, ""))
    )
    document = read_file("a.docx", docx(p("Before.") + f"<w:tbl>{rows}</w:tbl>" + p("After.")))
    places = [document.place(at, at + 5) for at in map(document.text.index, ("row 1", "row 2"))]
    assert places == ["page 1", "page 2"]
    assert document.place(len(document.text) - 6, len(document.text)) == "page 2"


def test_lines_of_code_in_word_are_one_block_and_contents_are_left_out(read_file, blocks):
    styles = "".join(
        f'<w:style w:styleId="{id}"><w:name w:val="{name}"/></w:style>'
        for id, name in (("C", "Source Code"), ("I", "toc 1"))
    )
    body = p("1. Start 4", "I") + p("Run:") + p("make", "C") + p("", "C") + p("test", "C")
    parts = {
        "word/_rels/document.xml.rels": relations(s="styles:styles.xml"),
        "word/styles.xml": f"<w:styles>{styles}</w:styles>",
    }
    shown = blocks(read_file("a.docx", docx(body + p("Done."), **parts)))
    assert shown == [("text", "Run:"), ("code", "make\n\ntest"), ("text", "Done.")]


def test_cells_of_word_with_a_line_per_value_become_rows(read_file, blocks):
    def row(*cells):
        return "<w:tr>" + "".join(f"<w:tc>{cell}</w:tc>" for cell in cells) + "</w:tr>"

    names, values = "".join(map(p, ("Gross", "Tax", "Net"))), "".join(map(p, ("9", "2", "7")))
    prose = p("Two lines") + p("of text.")
    table = row(p("Item"), p("2007")) + row(names, values) + row(prose, p("One line."))
    ((_, shown),) = blocks(read_file("a.docx", docx(f"<w:tbl>{table}</w:tbl>")))
    assert shown == "Item | 2007\nGross | 9\nTax | 2\nNet | 7\nTwo lines of text. | One line."


def test_words_of_text_boxes_in_word_stay_apart(read_file):
    boxes = "".join(f"<w:txbxContent>{p(word)}</w:txbxContent>" for word in ("Client", "Server"))
    document = read_file("a.docx", docx(f"<w:p><w:r><w:drawing>{boxes}</w:drawing></w:r></w:p>"))
    assert document.text == "Client Server"


def test_bold_lines_are_headings_where_no_style_says_so(read_file):
    bold = "<w:p><w:r><w:rPr><w:b/></w:rPr><w:t>Opening hours</w:t></w:r></w:p>"
    document = read_file("a.docx", docx(bold + p("From nine to five.")))
    assert document.sections[-1].path == ("Opening hours",)


def sheet(*rows, tail=""):
    cells = "".join(
        f'<row r="{number}">{"".join(row)}</row>' for number, row in enumerate(rows, start=1) if row
    )
    return f"<worksheet><sheetData>{cells}</sheetData>{tail}</worksheet>"


def text(place, value):
    return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'


def number(place, value, style=0):
    return f'<c r="{place}" s="{style}"><v>{value}</v></c>'


WORKBOOK = {
    "_rels/.rels": relations(a="officeDocument:xl/workbook.xml"),
    "xl/workbook.xml": '<workbook><sheets><sheet name="Q1" r:id="A"/>'
    '<sheet name="Old" r:id="B" state="hidden"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": relations(A="worksheet:worksheets/s.xml",
                                            B="worksheet:worksheets/t.xml"),
    "xl/styles.xml": '<styleSheet><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/>'
    '<xf numFmtId="9"/></cellXfs></styleSheet>',
    "xl/sharedStrings.xml": "<sst><si><t>Region</t></si><si><r><t>No</t></r><r><t>rth</t></r></si>"
    "</sst>",
    "xl/worksheets/t.xml": sheet([text("A1", "hidden")]),
}  # fmt: skip
Q1 = sheet(
    [text("A1", "Sales of the first quarter")],
    ['<c r="A2" t="s"><v>0</v></c>', text("B2", "Day"), text("C2", "Share"), text("D2", "Sum")],
    ['<c r="A3" t="s"><v>1</v></c>', number("B3", 45292, 1), number("C3", 0.255, 2),
     '<c r="D3"><f>1+2</f><v>0.30000000000000004</v></c>'],
    ['<c r="A4"/>', number("B4", 45293, 1), number("C4", 0.5, 2), number("D4", 4)],
    [],
    [text("A6", "Checked by Ann")],
    tail='<mergeCells><mergeCell ref="A3:A4"/></mergeCells>',
)  # fmt: skip


def test_excel_shows_values_as_a_person_sees_them(read_file, blocks):
    document = read_file("a.xlsx", zipped({**WORKBOOK, "xl/worksheets/s.xml": Q1}))
    assert blocks(document) == [
        ("text", "Sales of the first quarter"),
        (
            "table",
            "Region | Day | Share | Sum\n"
            "North | 2024-01-01 | 25.5% | 0.3\n"
            "North | 2024-01-02 | 50% | 4",
        ),
        ("text", "Checked by Ann"),
    ]
    assert document.sections[0].path == ("Q1",)
    at = document.text.index("North")
    assert document.place(at, document.text.index("4\n\n") + 1) == "sheet Q1, rows 3-4"
    assert document.warnings == ("1 hidden sheet was left out",)


def test_a_workbook_with_missing_parts_is_read_as_far_as_it_goes(read_file):
    bare = {"xl/worksheets/sheet1.xml": Q1}
    document = read_file("a.xlsx", zipped(bare))
    assert "45292" in document.text
    assert document.warnings == ("its shared texts are missing: cells with text are empty",)


def test_long_tables_are_cut_into_groups_that_repeat_their_header(read_file, monkeypatch):
    monkeypatch.setattr(row_groups, "_GROUP", 3)
    rows = "".join(f"{n};{n * n}\n" for n in range(1, 8))
    document = read_file("a.csv", "number;square\n" + rows)
    assert document.text.count("number | square") == 2
    at = document.text.index("7 | 49")
    assert document.place(at, at + 1) == "row 8"


def test_notes_above_the_header_are_text_and_empty_rows_keep_it(read_file, blocks):
    content = (
        "Lots of people,,\nwrite,some notes,\nName,Age,Born\nAda,36,1815\nBen,84,1706\n"
        ",,\nCleo,39,69\n,,\nchecked,by Ann\nand,Ben\n"
    )
    assert blocks(read_file("a.csv", content)) == [
        ("text", "Lots of people"),
        ("text", "write some notes"),
        ("table", "Name | Age | Born\nAda | 36 | 1815\nBen | 84 | 1706"),
        ("table", "Name | Age | Born\nCleo | 39 | 69"),
        ("table", "checked | by Ann\nand | Ben"),
    ]


def test_names_of_columns_that_repeat_get_the_name_of_their_group(read_file, blocks):
    content = "Source,,Target,\nName,Port,Name,Port\nhost1,1,switch2,7\nhost2,1,switch2,8\n"
    ((kind, shown),) = blocks(read_file("a.csv", content))
    assert kind == "table"
    assert shown.splitlines()[:2] == [
        "Source Name | Source Port | Target Name | Target Port",
        "host1 | 1 | switch2 | 7",
    ]


def test_rows_of_a_wide_table_carry_the_names_of_their_columns(read_file, blocks):
    names = [f"quantity measured on day {n}" for n in range(12)]
    document = read_file("a.tsv", "\t".join(names) + "\n" + "\t".join("1" * 12) + "\n")
    ((kind, shown),) = blocks(document)
    assert kind == "list"
    assert shown.startswith(f"- {names[0]}: 1; {names[1]}: 1")


def test_each_part_of_a_long_row_begins_with_its_name(read_file, blocks):
    names = ["number", "country", *(f"membership of organisation {n}" for n in range(20))]
    cells = ["7", "Croatia", *map(str, range(2000, 2020))]
    ((_, shown),) = blocks(read_file("a.tsv", "\t".join(names) + "\n" + "\t".join(cells) + "\n"))
    first, *more = shown.splitlines()
    assert first.startswith("- number: 7; country: Croatia; ")
    assert more
    assert all(part.startswith("- country: Croatia; ") for part in more)
    assert [shown.count(f": {year}") for year in range(2000, 2020)] == [1] * 20


@pytest.mark.parametrize(
    ("content", "first"),
    [
        ("a,b\n1,2\n3,4\n", "a | b"),
        ("a;b\n1,5;2\n3,5;4\n", "a | b"),
        ("name\tsize\nlid\t2\n", "name | size"),
        ("1,2\n3,4\n", "column 1 | column 2"),
        ('"x, y",z\n"1, 2",3\n', "x, y | z"),
        ("Größe,n\nä,1\n".encode("latin-1"), "Größe | n"),
        ("\ufeffa,b\n1,2\n".encode(), "a | b"),
    ],
)
def test_dialect_encoding_and_header_of_csv_are_recognised(read_file, content, first):
    assert read_file("a.csv", content).text.splitlines()[0] == first


def test_what_is_beyond_the_limit_is_left_out_with_a_warning(read_file, monkeypatch):
    monkeypatch.setattr(row_groups, "MOST_ROWS", 100)
    document = read_file("a.csv", "n,m\n" + "".join(f"{n},{n}\n" for n in range(500)))
    assert "98 | 98" in document.text
    assert "100 | 100" not in document.text
    assert document.warnings == ("the rows after 100 were left out",)


def test_a_sheet_of_many_rows_needs_little_memory(folder, opened, monkeypatch):
    monkeypatch.setattr(row_groups, "MOST_ROWS", 1_000)
    rows = "".join(
        f'<row r="{n}"><c r="A{n}"><v>{n}</v></c><c r="B{n}"><v>1</v></c></row>'
        for n in range(1, 40_001)
    )
    body = f"<worksheet><sheetData>{rows}</sheetData></worksheet>"
    root = folder({"a.xlsx": zipped({**WORKBOOK, "xl/worksheets/s.xml": body})})
    del rows, body
    item = opened(root).items["a.xlsx"]
    tracemalloc.start()
    document = item.read()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "the rows after 1,000 were left out (sheet Q1)" in document.warnings
    assert peak < 5e6


EPUB = {
    "META-INF/container.xml": '<container><rootfiles><rootfile full-path="o/b.opf"/></rootfiles>'
    "</container>",
    "o/b.opf": "<package><metadata><title>The book</title><language>en</language></metadata>"
    '<manifest><item id="a" href="one.xhtml"/><item id="b" href="t%20wo.xhtml"/>'
    '<item id="n" href="nav.xhtml" properties="nav"/></manifest>'
    '<spine><itemref idref="n"/><itemref idref="b"/><itemref idref="a"/></spine></package>',
    "o/one.xhtml": b"<html><body><h1>End</h1><p>It ends.</p></body></html>",
    "o/t wo.xhtml": b"<html><body><h1>Start</h1><p>It begins.</p></body></html>",
    "o/nav.xhtml": b"<html><body><nav>Start</nav></body></html>",
}


def test_a_book_is_read_in_the_order_of_its_spine(read_file):
    document = read_file("a.epub", zipped(EPUB))
    assert (document.title, document.lang) == ("The book", "en")
    assert [section.path for section in document.sections] == [("Start",), ("End",)]


def test_a_book_packed_with_its_folder_is_read(read_file):
    document = read_file("a.epub", zipped({f"book/{name}": part for name, part in EPUB.items()}))
    assert [section.path for section in document.sections] == [("Start",), ("End",)]


def test_a_page_of_a_book_is_read_once_however_many_places_in_it_are_named(read_file):
    book = EPUB["o/b.opf"].replace("<manifest>", '<manifest><item id="c" href="one.xhtml#o8"/>')
    book = book.replace("</spine>", '<itemref idref="c"/><itemref idref="b"/></spine>')
    document = read_file("a.epub", zipped({**EPUB, "o/b.opf": book}))
    assert [document.text.count(words) for words in ("It begins.", "It ends.")] == [1, 1]


def test_an_opendocument_text_keeps_its_structure(read_file, blocks):
    content = (
        "<office:document-content><office:body><office:text>"
        '<text:h text:outline-level="1">Top</text:h><text:p>One<text:s/>two'
        '<text:a xlink:href="https://example.org/">here</text:a></text:p>'
        "<text:list><text:list-item><text:p>item</text:p></text:list-item></text:list>"
        "<table:table><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>"
        "<table:table-cell><text:p>b</text:p></table:table-cell></table:table-row></table:table>"
        "</office:text></office:body></office:document-content>"
    )
    document = read_file("a.odt", zipped({"content.xml": content}))
    assert document.title == "Top"
    assert blocks(document) == [("text", "One twohere"), ("list", "- item"), ("table", "a | b")]


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        (
            "<text:note-citation>1</text:note-citation>"
            "<text:note-body><text:p>aside</text:p></text:note-body>",
            "One (aside) two",
        ),
        ("<text:p>aside</text:p>", "One (aside) two"),
    ],
)
def test_a_note_of_an_opendocument_text_stands_in_brackets(read_file, note, shown):
    content = (
        "<office:document-content><office:body><office:text>"
        f"<text:p>One<text:note>{note}</text:note> two</text:p>"
        "</office:text></office:body></office:document-content>"
    )
    assert read_file("a.odt", zipped({"content.xml": content})).text == shown


BOMB = b"<w:document>" + b" " * (3 << 20)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.docx", b"not a zip", r"cannot be read as Word \(.docx\)"),
        ("a.docx", zipped({"x": "y"}), r"has no word/document.xml"),
        ("a.docx", docx("<w:p>")[:-40], r"cannot be read as Word \(.docx\)"),
        ("a.docx", zipped({**WORD, "word/document.xml": "<w:p>"}), "is damaged"),
        ("a.docx", zipped({**WORD, "word/document.xml": BOMB}), "unpacks to more than 1 MiB"),
        ("a.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"0" * 600, "is encrypted or"),
        ("a.xlsx", zipped({"xl/workbook.xml": "<workbook/>"}), "is a workbook without sheets"),
        ("a.pptx", zipped({"ppt/presentation.xml": "<p:presentation/>"}), "without slides"),
        ("a.epub", zipped({"mimetype": "x"}), "as EPUB: it has no META-INF"),
        ("a.epub", zipped({**EPUB, "META-INF/rights.xml": "<r/>"}), "is protected against copying"),
        ("a.csv", b"a\0b\n", "is not text"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_line(folder, opened, monkeypatch, name, content, reason):
    monkeypatch.setattr(zipped_module, "PART_LIMIT", 1 << 20)
    found = opened(folder({name: content}))
    with pytest.raises(SourceError, match=reason) as caught:
        found.items[name].read()
    assert "\n" not in str(caught.value)


def test_a_bomb_in_a_sheet_ends_with_one_line(folder, opened, monkeypatch):
    monkeypatch.setattr(zipped_module, "STREAM_LIMIT", 2 << 20)
    rows = "<row><c><v>1</v></c></row>" * 200_000
    body = f"<worksheet><sheetData>{rows}</sheetData></worksheet>"
    found = opened(folder({"a.xlsx": zipped({**WORKBOOK, "xl/worksheets/s.xml": body})}))
    with pytest.raises(SourceError, match=r"a\.xlsx: unpacks to more than"):
        found.items["a.xlsx"].read()


@pytest.mark.parametrize("inside", [" " * (3 << 20), f"<row>{'<c><v>1</v></c>' * 200_000}</row>"])
def test_a_piece_of_a_sheet_fits_in_memory(folder, opened, monkeypatch, inside):
    monkeypatch.setattr(zipped_module, "PART_LIMIT", 2 << 20)
    body = f"<worksheet><sheetData>{inside}</sheetData></worksheet>"
    found = opened(folder({"a.xlsx": zipped({**WORKBOOK, "xl/worksheets/s.xml": body})}))
    with pytest.raises(SourceError, match="unpacks to more than 2 MiB between two rows"):
        found.items["a.xlsx"].read()


def test_a_password_on_a_zip_is_named(folder, opened, tmp_path):
    path = tmp_path / "z.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("word/document.xml", "<w:document/>")
    raw = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(mark) + at] |= 1
    found = opened(folder({"a.docx": bytes(raw)}))
    with pytest.raises(SourceError, match="is encrypted"):
        found.items["a.docx"].read()
