"""What becomes of PowerPoint presentations."""

from office_files import relations, zipped


def slide(*shapes):
    return f"<p:sld><p:cSld><p:spTree>{''.join(shapes)}</p:spTree></p:cSld></p:sld>"


def shape(*lines, kind=""):
    mark = f'<p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr>' if kind else ""
    text = "".join(
        f'<a:p><a:pPr lvl="{level}"/><a:r><a:t>{line}</a:t></a:r></a:p>' for level, line in lines
    )
    return f"<p:sp>{mark}<p:txBody>{text}</p:txBody></p:sp>"


def test_powerpoint_keeps_slides_bullets_tables_and_notes(read_file, blocks):
    cell = "<a:tc><a:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:txBody></a:tc>"
    table = (
        f"<p:graphicFrame><a:tbl><a:tr>{cell.format('Year')}{cell.format('Sales')}</a:tr>"
        f"<a:tr>{cell.format('2024')}{cell.format('17')}</a:tr></a:tbl></p:graphicFrame>"
    )
    content = zipped(
        {
            "_rels/.rels": relations(a="officeDocument:ppt/presentation.xml"),
            "ppt/presentation.xml": '<p:presentation><p:sldIdLst><p:sldId id="9" r:id="B"/>'
            '<p:sldId id="8" r:id="A"/></p:sldIdLst></p:presentation>',
            "ppt/_rels/presentation.xml.rels": relations(A="slide:slides/s1.xml",
                                                         B="slide:slides/s2.xml"),
            "ppt/slides/s1.xml": slide(shape((0, "Later")), shape((0, "7"), kind="sldNum")),
            "ppt/slides/s2.xml": slide(
                shape((0, "point"), (1, "detail"), (0, "more")), table,
                shape((0, "The plan"), kind="title"),
            ),
            "ppt/slides/_rels/s2.xml.rels": relations(n="notesSlide:../notes/n.xml"),
            "ppt/notes/n.xml": slide(shape((0, "Say hello first."), kind="body")),
        }
    )  # fmt: skip
    document = read_file("a.pptx", content)
    assert [section.path for section in document.sections] == [("The plan",), ("Slide 2",)]
    assert blocks(document) == [
        ("list", "- point\n  - detail\n- more"),
        ("table", "Year | Sales\n2024 | 17"),
        ("text", "Say hello first."),
        ("text", "Later"),
    ]
    at = document.text.index("Say hello")
    assert document.place(at, at + 3) == "slide 1"


def test_shapes_of_a_slide_are_read_by_rows(read_file):
    def placed(text, x, y):
        frame = f'<a:xfrm><a:off x="{x}" y="{y}"/><a:ext cx="90" cy="20"/></a:xfrm>'
        box = f"<p:spPr>{frame}</p:spPr>"
        return shape((0, text)).replace("<p:txBody>", f"{box}<p:txBody>")

    shapes = (
        placed("Level 2", 10, 200), placed("high", 300, 105), placed("Level 1", 10, 100),
        placed("low", 300, 198), shape((0, "The levels"), kind="body"),
        f"<p:grpSp>{placed('right', 9, 30)}{placed('left', 3, 30)}</p:grpSp>",
    )  # fmt: skip
    content = zipped(
        {
            "ppt/presentation.xml": '<p:presentation><p:sldId id="9" r:id="A"/></p:presentation>',
            "ppt/_rels/presentation.xml.rels": relations(A="slide:slides/s1.xml"),
            "ppt/slides/s1.xml": slide(*shapes),
        }
    )
    lines = read_file("a.pptx", content).text.split("\n\n")
    assert lines[-7:] == ["Level 1", "high", "Level 2", "low", "The levels", "left", "right"]


def test_the_values_of_a_chart_on_a_slide_are_a_table(read_file, blocks):
    def points(name, *values):
        found = "".join(f'<c:pt idx="{n}"><c:v>{v}</c:v></c:pt>' for n, v in enumerate(values))
        return f"<c:{name}><c:cache>{found}</c:cache></c:{name}>"

    series = "".join(
        f"<c:ser>{points('tx', name)}{points('cat', 'North', 'South')}{points('val', *v)}</c:ser>"
        for name, v in (("2007", (26, 31)), ("2008", (7, 28.5)))
    )
    frame = '<p:graphicFrame><a:graphicData><c:chart r:id="C"/></a:graphicData></p:graphicFrame>'
    content = zipped(
        {
            "ppt/presentation.xml": '<p:presentation><p:sldId id="9" r:id="A"/></p:presentation>',
            "ppt/_rels/presentation.xml.rels": relations(A="slide:slides/s1.xml"),
            "ppt/slides/s1.xml": f"<p:sld><p:cSld><p:spTree>{frame}</p:spTree></p:cSld></p:sld>",
            "ppt/slides/_rels/s1.xml.rels": relations(C="chart:../charts/c.xml"),
            "ppt/charts/c.xml": f"<c:chartSpace><c:plotArea>{series}</c:plotArea></c:chartSpace>",
        }
    )
    shown = blocks(read_file("a.pptx", content))
    assert shown == [("table", "| 2007 | 2008\nNorth | 26 | 7\nSouth | 31 | 28.5")]
