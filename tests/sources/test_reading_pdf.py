"""What becomes of PDF files."""

import gzip
import time
import tracemalloc
import zlib

import pytest

from office_files import ENCRYPTED, SCAN, pdf
from packwise.errors import SourceError
from packwise.sources import pdf as pdf_reader
from packwise.sources.pdf_layout import parts
from packwise.sources.pdf_words import PdfSegment, PdfWord

LINE = "The pump is checked every week by the person on duty"


@pytest.fixture
def read_pdf(folder, opened):
    def read(*pages, **options):
        found = opened(folder({"a.pdf": pdf(*pages, **options)}))
        return found.documents["a.pdf"]

    return read


def paragraph(y, *lines, x=60, size=10):
    return [(x, y - 12 * at, size, line) for at, line in enumerate(lines)]


def test_headings_lists_code_and_tables_are_found(read_pdf, blocks):
    document = read_pdf(
        [
            (60, 800, 20, "Pump manual", "B"),
            (60, 740, 14, "Maintenance", "B"),
            *paragraph(720, LINE, LINE, "and then it is oil-", "ed again. " + LINE),
            (60, 660, 10, "\x95 Open the valve slowly"),
            (60, 648, 10, "\x95 Close it again"),
            (60, 620, 10, "for pump in pumps:", "C"),
            (84, 608, 10, "check(pump)", "C"),
            *[
                (x, 570 - 14 * row, 10, cell)
                for row, cells in enumerate([("Part", "Bolt", "Torque"), ("Lid", "M6", "9 Nm")] * 2)
                for x, cell in zip((60, 200, 320), cells, strict=True)
            ],
        ]
    )
    assert document.title == "Pump manual"
    assert document.sections[-1].path[-1] == "Maintenance"
    shown = dict(blocks(document))
    assert "it is oiled again" in document.text
    assert shown["list"] == "- Open the valve slowly\n- Close it again"
    assert shown["code"] == "for pump in pumps:\n    check(pump)"
    assert shown["table"].splitlines()[:2] == ["Part | Bolt | Torque", "Lid | M6 | 9 Nm"]


def test_two_columns_are_read_one_after_the_other(read_pdf):
    left = [f"left line {n} of the first column here" for n in range(12)]
    right = [f"right line {n} of the second column" for n in range(12)]
    document = read_pdf(
        [(60, 800, 10, "A line across both of the columns which stands above everything else here")]
        + [line for n in range(12) for line in ((60, 760 - 12 * n, 10, left[n]),
                                                (330, 760 - 12 * n, 10, right[n]))]
    )  # fmt: skip
    words = document.text.replace("\n", " ")
    assert words.index("A line across") < words.index("left line 0")
    assert words.index("left line 11") < words.index("right line 0")


def test_the_columns_of_a_folded_card_are_not_those_of_a_table(read_pdf, blocks):
    """Three columns of keys and what they do, whose lines do not stand in rows."""
    lines: list[tuple] = []
    for column, (x, pitch) in enumerate(((26, 9), (306, 10.3), (587, 11.7))):
        for n in range(24):
            y = 560 - pitch * n
            lines += [(x, y, 8, f"C-{column}{n}"), (x + 75, y, 8, f"moves {column} by {n} lines")]
    document = read_pdf(lines, size=(842, 595))
    assert [kind for kind, _ in blocks(document)] == ["table"] * 3
    rows = document.text.replace("\n\n", "\n").splitlines()
    assert rows[:2] == ["C-00 | moves 0 by 0 lines", "C-01 | moves 0 by 1 lines"]
    assert rows[-1] == "C-223 | moves 2 by 23 lines"


def test_a_table_with_cells_of_several_lines_stays_a_table(read_pdf, blocks):
    lines: list[tuple] = []
    y = 760.0
    for n in range(12):
        lines += [(60, y, 10, f"Part {n}"), (330, y - 0.6, 10, f"is checked in week {n}")]
        if n % 3 == 0:
            lines.append((330, y - 12.6, 10, "by two people"))
        y -= 24 + n % 3
    document = read_pdf(lines)
    ((kind, shown),) = blocks(document)
    assert kind == "table"
    assert shown.startswith("Part 0 | is checked in week 0 by two people\nPart 1 | ")


def test_dots_that_lead_to_figures_are_no_columns_of_a_table(read_pdf, blocks):
    names = {"Robbery.": ("102.1", "25.5"), "Arson.": ("-", "4.3"), "Fraud.": ("173.7", "5.1")}
    words = [
        (x, 700 - 14 * row, 10, text, "F")
        for row, (name, figures) in enumerate(names.items())
        for x, text in ((60, name), *((x, ".") for x in range(130, 230, 14)),
                        *zip((250, 320), figures, strict=True))
    ]  # fmt: skip
    contents = [(60, 500, 10, "Introduction"), *((x, 500, 10, ".") for x in range(130, 230, 14))]
    document = read_pdf([*words, *contents, (250, 500, 10, "7")])
    assert blocks(document) == [
        ("table", "Robbery. | 102.1 | 25.5\nArson. | - | 4.3\nFraud. | 173.7 | 5.1"),
        ("text", "Introduction … 7"),
    ]


def test_a_table_of_contents_is_left_out(read_pdf):
    def listed(pages):
        lines = [f"{n} How to open box {n} {'. ' * 20}{page}" for n, page in enumerate(pages)]
        lines = [(60, 700 - 14 * n, 10, line) for n, line in enumerate(lines)]
        titles = [(60, 760, 14, "Contents", "B"), (60, 730, 10, "of which one goes on in a line")]
        return read_pdf([*titles, *lines], [(60, 700, 10, LINE + ".")]).text

    assert listed([1, 2, 2, 7, 9, 11]) == LINE + "."
    # Fewer lines, or figures in no order, are something else.
    assert "box 3" in listed([1, 2, 2, 7])
    assert "box 3" in listed([5, 2, 11, 7, 9, 1])
    entries = [(60, 600 - 14 * n, 10, f"{n} Box {n} {'. ' * 20}{n}") for n in range(6)]
    told = [(60, 500 - 14 * n, 10, LINE) for n in range(12)]
    kept = read_pdf([*entries, *told]).text
    assert "Box 3" not in kept
    assert kept.count(LINE) == 12


def described(y, name, *lines, beside=False):
    told = paragraph(y if beside else y - 12, *lines, x=120)
    return [(60, y, 10, name, "C"), *told]


def test_names_in_a_fixed_font_left_of_what_describes_them_are_sections(read_pdf, blocks):
    document = read_pdf(
        [
            (60, 800, 14, "Options", "B"),
            *paragraph(780, LINE, LINE),
            *described(750, "CLOSE_LID (-J)", *[LINE] * 4),
            *described(684, "BAUD", *[LINE] * 4, beside=True),
            *described(630, "PS1 <S>", beside=True),
            *described(618, "ps1 <S>", *[LINE] * 4),
            *described(552, "ZLE", "It is short", beside=True),
            *paragraph(524, LINE, LINE),
        ],
        outline=[("Options", 0)],
    )
    told = " ".join([LINE] * 4)
    assert blocks(document)[1:] == [
        ("text", f"CLOSE_LID (-J)\n{told}"),
        ("text", f"BAUD\n{told}"),
        ("text", f"PS1 <S>, ps1 <S>\n{told}"),
        ("text", "ZLE\nIt is short"),
        ("text", f"{LINE} {LINE}"),
    ]
    names = ["".join(section.path[-1:]) for section in document.sections]
    assert names == ["", "CLOSE_LID (-J)", "BAUD", "PS1 <S>, ps1 <S>", "ZLE", ""]


def test_code_above_a_line_that_is_indented_as_the_first_of_its_paragraph_stays_code(
    read_pdf, blocks
):
    lines = [(84, 722, 10, LINE), *paragraph(710, LINE, LINE)]
    document = read_pdf(
        [*paragraph(760, LINE, LINE), (60, 734, 10, "pump --check --all", "C"), *lines]
    )
    assert ("code", "pump --check --all") in blocks(document)


def test_the_index_of_a_manual_is_left_out(read_pdf, blocks):
    entries = [
        (60, 760 - 12 * at, 10, f"pump {name}" + " ." * 20 + f" {at * 7 % 40}")
        for at, name in enumerate("closed lids oiled old open pumped red round small".split())
    ]
    index = [(60, 800, 14, "Concept Index", "B"), (60, 780, 12, "P", "B"), *entries]
    notes = [(60, 800, 14, "Notes", "B"), *paragraph(780, "The pump of 1931 was checked in 1932")]
    document = read_pdf(
        [*paragraph(800, LINE)], index, notes, outline=[("Concept Index", 1), ("Notes", 2)]
    )
    assert blocks(document) == [("text", LINE), ("text", "The pump of 1931 was checked in 1932")]


def test_the_size_of_a_font_that_a_matrix_scales_is_that_on_the_page(read_pdf, blocks):
    rows = {"Robbery.": ("102.1", "25.5"), "Arson.": ("9.8", "4.3"), "Fraud.": ("173.7", "5.1")}
    page = [
        f"BT /F 1 Tf 10 0 0 10 {x} {700 - 14 * row} Tm ({text}) Tj ET"
        for row, (name, figures) in enumerate(rows.items())
        for x, text in zip((60, 150, 220), (name, *figures), strict=True)
    ]
    shown = "Robbery. | 102.1 | 25.5\nArson. | 9.8 | 4.3\nFraud. | 173.7 | 5.1"
    assert blocks(read_pdf(page)) == [("table", shown)]


def test_letters_of_a_tex_font_without_names_are_read(read_pdf, monkeypatch):
    monkeypatch.setattr(pdf_reader, "installed", lambda module: False)
    lines = ["The \x1crst e\x1eect is de\x1cned \x10by hand\x11 \x15 no other is", LINE, LINE, LINE]
    document = read_pdf([(60, 700 - 14 * n, 10, line, "T") for n, line in enumerate(lines)])
    assert document.text.startswith("The first effiect is defined “by hand” – no other is")
    assert not document.warnings


def test_running_headers_footers_and_page_numbers_are_left_out_and_pages_are_kept(read_pdf):
    names = "alpha beta gamma delta epsilon zeta".split()
    document = read_pdf(
        *(
            [
                (60, 815, 8, f"Pump manual, issue 7 - chapter {number}"),
                *paragraph(700, f"The {name} pump stands in hall {name}. {LINE}.", f"{LINE}."),
                (290, 30, 8, str(number)),
            ]
            for number, name in enumerate(names, start=1)
        )
    )
    assert "issue 7" not in document.text
    assert "\n\n3" not in document.text
    at = document.text.index("hall delta")
    assert document.place(at, at + 10) == "page 4"
    assert document.place(0, len(document.text)) == "pages 1-6"


def test_a_paragraph_goes_on_over_the_page(read_pdf):
    document = read_pdf(
        paragraph(80, LINE, "and the second half of this sen-"),
        paragraph(780, "tence stands on the next page.", LINE),
    )
    assert "of this sentence stands on the next page." in document.text
    at = document.text.index("of this")
    assert document.place(at, at + 40) == "pages 1-2"


def test_bookmarks_are_headings_even_where_they_look_like_text(read_pdf):
    document = read_pdf(
        [(60, 780, 10, "1 Installing"), *paragraph(740, LINE, LINE)],
        [(60, 780, 10, "2 Removing"), *paragraph(740, LINE, LINE)],
        outline=[("Installing", 1), ("Removing", 2)],
    )
    assert [section.path for section in document.sections] == [("1 Installing",), ("2 Removing",)]


def test_a_bookmark_is_one_heading_however_many_lines_it_takes(read_pdf):
    title = "Why would anybody who has a chest of drawers want to have another box beside it?"
    lines = ["1.1 Why would anybody who has a chest of draw-", "ers want to have another box be-"]
    document = read_pdf(
        [
            *[
                (60 + 35 * (n > 0), 780 - 18 * n, 14, line)
                for n, line in enumerate([*lines, "side it?"])
            ],
            *paragraph(690, LINE, LINE),
            (60, 640, 14, "1.2 What is a lid?"),
            *paragraph(610, LINE, LINE),
        ],
        outline=[(title, 1), ("What is a lid?", 1)],
    )
    assert [section.path for section in document.sections] == [
        (f"1.1 {title}",),
        ("1.2 What is a lid?",),
    ]
    assert document.text.count("want to have another box") == 1


def test_a_bookmark_below_a_table_is_a_heading(read_pdf):
    cells = [("Part", "Bolt", "Torque"), *[("Lid", "M6", "9 Nm"), ("Key", "M4", "3 Nm")] * 2]
    document = read_pdf(
        [
            (60, 780, 14, "1.1 Bolts"),
            *[
                (x, 740 - 14 * row, 10, cell)
                for row, line in enumerate(cells)
                for x, cell in zip((60, 200, 320), line, strict=True)
            ],
            (60, 620, 14, "1.2 Lids"),
            *paragraph(590, LINE, LINE),
        ],
        outline=[("Bolts", 1), ("Lids", 1)],
    )
    assert [section.path for section in document.sections] == [("1.1 Bolts",), ("1.2 Lids",)]
    assert [block.kind for block in document.sections[0].blocks] == ["table"]


def test_a_slide_has_its_first_line_as_heading(read_pdf):
    slides = [
        [(40, 350, 18, f"Topic {name}"), *paragraph(300, LINE, LINE, size=18)]
        for name in ("one", "two")
    ]
    document = read_pdf(*slides, size=(700, 400))
    assert [section.path[-1] for section in document.sections] == ["Topic one", "Topic two"]


def test_scanned_pages_are_part_of_a_warning(read_pdf, monkeypatch):
    monkeypatch.setattr(pdf_reader, "installed", lambda module: False)
    document = read_pdf(paragraph(700, LINE, LINE), [SCAN], [SCAN])
    assert document.warnings == ("2 of 3 pages have no text: pip install 'packwise[ocr]'",)


def test_a_font_that_decodes_to_wrong_letters_is_part_of_a_warning(read_pdf, monkeypatch):
    monkeypatch.setattr(pdf_reader, "installed", lambda module: False)
    wrong = "".join(chr(ord(letter) - 29) if letter != " " else " " for letter in LINE)
    document = read_pdf(paragraph(700, LINE), paragraph(700, *[wrong] * 6))
    (warning,) = document.warnings
    assert warning == "1 of 2 pages decode to wrong letters: pip install 'packwise[ocr]'"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pdf([(60, 700, 10, LINE)], extra=ENCRYPTED), "is encrypted -> save a copy without"),
        (b"%PDF-1.4\n" + b"rubbish " * 100, "is not a PDF file that can be read"),
        (pdf([SCAN], [SCAN]), r"none of its 2 pages has text -> pip install 'packwise\[ocr\]'"),
        (pdf([]), "none of its 1 pages can be read"),
        (b"", "is not a PDF file that can be read"),
    ],
)
def test_what_cannot_be_read_is_one_line(folder, opened, monkeypatch, content, reason):
    monkeypatch.setattr(pdf_reader, "installed", lambda module: False)
    found = opened(folder({"a.pdf": content}))
    with pytest.raises(SourceError, match=rf"a\.pdf: {reason}") as caught:
        found.items["a.pdf"].read()
    assert "\n" not in str(caught.value)


def page_that_unpacks_to(megabytes, dictionary=b""):
    packed = zlib.compress(b" " * (megabytes << 20), 9)
    page = b"5 0 obj\n<</Filter/FlateDecode" + dictionary + b"/Length %d>>stream\n" % len(packed)
    return pdf([(60, 700, 10, LINE)]) + page + packed + b"\nendstream\nendobj\n"


def test_a_page_that_unpacks_to_very_much_is_not_unpacked(folder, opened):
    image = b"/Subtype/Image/Width 12000/Height 12000"
    found = opened(
        folder(
            {
                "bomb.pdf": page_that_unpacks_to(130),
                "scan.pdf": page_that_unpacks_to(130, image),
                "long.pdf": page_that_unpacks_to(20),
            }
        )
    )
    tracemalloc.start()
    with pytest.raises(SourceError, match=r"bomb\.pdf: unpacks to more than 128 MiB"):
        found.items["bomb.pdf"].read()
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()
    assert found.items["scan.pdf"].read().text == found.items["long.pdf"].read().text == LINE


def test_a_long_file_is_read_up_to_a_limit_with_a_warning(read_pdf, monkeypatch):
    monkeypatch.setattr(pdf_reader, "MOST_PAGES", 3)
    document = read_pdf(*([(60, 700, 10, f"{LINE} {name}")] for name in "abcde"))
    assert document.warnings == ("the pages after 3 were left out",)
    assert document.text.endswith("duty c")


def test_bullets_of_a_font_of_signs_begin_items(read_pdf, blocks):
    document = read_pdf(
        [
            *paragraph(800, LINE, LINE, LINE + "."),
            *[
                part
                for n, line in enumerate(("Open the valve", "Wait for a minute", "Close it"))
                for part in ((60, 700 - 14 * n, 10, "q", "W"), (75, 700 - 14 * n, 10, line))
            ],
        ]
    )
    assert blocks(document)[-1] == ("list", "- Open the valve\n- Wait for a minute\n- Close it")


def test_a_large_line_with_a_bullet_is_an_item_and_no_heading(read_pdf, blocks):
    document = read_pdf(
        [
            *paragraph(800, LINE, LINE, LINE + "."),
            (60, 704, 14, "\x95"),
            (80, 697, 14, "Full support of encryption"),
            (60, 674, 14, "\x95"),
            (80, 667, 14, "Pure Python"),
        ]
    )
    assert len(document.sections) == 1
    assert blocks(document)[-1] == ("list", "- Full support of encryption\n- Pure Python")


def test_a_compressed_file_is_unpacked(folder, opened):
    page = gzip.compress(pdf([(60, 700, 10, "The valve closes at nine bar.")]))
    found = opened(folder({"manual.pdf.gz": page, "broken.pdf.gz": page[:-9]}))
    assert found.items["manual.pdf.gz"].read().text == "The valve closes at nine bar."
    with pytest.raises(SourceError, match="not a whole gzip file"):
        found.items["broken.pdf.gz"].read()


def test_many_lines_that_begin_in_a_fixed_font_are_read_in_linear_time():
    lines = [
        PdfSegment(
            (
                PdfWord("name", 60, 80, 12 * at, 10, False, True),
                PdfWord("told", 85, 95, 12 * at, 10, False, False),
            )
        )
        for at in range(8000)
    ]
    names = [PdfSegment(line.words[:1]) for line in lines]
    told = PdfSegment((PdfWord("told", 90, 99, -12, 10, False, False),))
    started = time.thread_time()
    assert list(parts(lines))
    assert [part.text for part in parts([*names, told])][1:] == [", ".join(["name"] * 7), "told"]
    assert time.thread_time() - started < 3
