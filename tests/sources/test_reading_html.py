"""What becomes of HTML."""

import time

import pytest

from packwise.errors import SourceError


def page(body, head=""):
    return f"<!doctype html><html lang=de><head>{head}</head><body>{body}</body></html>"


def test_the_head_gives_title_address_language_and_metadata(read):
    head = (
        "<title> A\n title </title><link rel=canonical href='https://example.org/a'>"
        "<meta name=Author content='Ada  L.'><meta name=viewport content=x>"
    )
    document = read("html", page("<p>text", head))
    assert (document.title, document.url, document.lang) == (
        "A title",
        "https://example.org/a",
        "de",
    )
    assert dict(document.metadata) == {"author": "Ada L."}


def test_the_first_heading_is_a_better_title_than_the_head_has(read):
    head = "<title>A - Site</title>"
    assert read("html", page("<h1>A</h1><p>text", head)).title == "A"


def test_white_space_means_nothing_but_in_code(read, blocks):
    body = "<p>one\n   two <i> three</i></p><pre>a\n  b<br>c</pre>"
    assert blocks(read("html", page(body))) == [("text", "one two three"), ("code", "a\n  b\nc")]


def test_a_paragraph_that_is_all_code_is_code_unless_it_is_part_of_an_item(read, blocks):
    body = "<p>Run</p><div><p><code>make key<br>make lock</code></p></div><p><code>make</code>"
    body += "<ul><li><p>Then</p><p><code>make box</code></p></ul>"
    assert blocks(read("html", page(body))) == [
        ("text", "Run"),
        ("code", "make key\nmake lock"),
        ("text", "make"),
        ("list", "- Then\n  make box"),
    ]


def test_a_line_that_begins_with_a_bold_target_names_what_follows(read, blocks):
    said = "It sets how that is done, and for how long, as told here. "
    body = "<h1>Box</h1><h2>Settings</h2><p>All of them.</p>"
    for name in ("lock", "open"):
        bold = f"<b><a name={name}></a><a href=#{name}>{name}</a></b>"
        line = f"<div>{bold} <i>&lt;how&gt;</i> {'[x]' * 30}</div>"
        body += f"<a name=x></a>{line}<a name=y></a>{line.replace('how', 'who')}"
        body += f"<pre>{said}</pre><p>{said * 3}</p>"
    document = read("html", page(body + "<div><b>no target</b> and <p>text</p></div>"))
    assert [s.path[-1] for s in document.sections] == [
        "Settings",
        f"lock <how> {'[x]' * 30}",
        f"open <how> {'[x]' * 30}",
    ]
    assert blocks(document)[1:3] == [
        ("text", f"lock <who> {'[x]' * 30}"),
        ("text", said.strip()),
    ]


def test_two_line_breaks_end_a_paragraph(read, blocks):
    document = read("html", page("a<br>b<br><br>c"))
    assert blocks(document) == [("text", "a\nb"), ("text", "c")]


def test_furniture_goes_inside_and_outside_the_content(read):
    body = (
        "<header>logo</header><nav>menu</nav><div role=navigation>crumbs</div>"
        "<article><header><h1>T</h1></header><p>text<a class=headerlink href=#t>¶</a>"
        "<a href=#u> ¶</a></p><p><a href=#t><img alt=top src=up.gif></a></p>"
        "<aside>a hint</aside><p hidden>secret</p><p style='display: none'>gone</p>"
        "<button>Copy</button></article><aside>adverts</aside><footer>legal</footer>"
    )
    document = read("html", page(body))
    assert document.title == "T"
    assert document.text == "text\n\na hint"


@pytest.mark.parametrize(
    "attribute",
    [
        'aria-hidden="true"',
        "hidden",
        'role="navigation"',
        'role="banner"',
        'role="search"',
        'class="a toc b"',
        'class="sr-only"',
        'class="viewcode-link"',
        'style="color: red; DISPLAY : none"',
    ],
)
def test_what_a_reader_does_not_see_is_left_out(attribute, read):
    document = read("html", page(f"<p>seen <span {attribute}>unseen <b>deep</b></span> too</p>"))
    assert document.text == "seen too"


@pytest.mark.parametrize(
    "attribute",
    [
        'aria-hidden="false"',
        'role="note"',
        'class="tocs"',
        'style="display: block"',
        'role="tabpanel" hidden',
    ],
)
def test_what_a_reader_sees_is_kept(attribute, read):
    assert read("html", page(f"<p>all <span {attribute}>of it</span></p>")).text == "all of it"


def test_a_page_of_several_articles_is_read_whole(read):
    document = read("html", page("<article><p>one</article><article><p>two</article>"))
    assert document.text == "one\n\ntwo"


def test_a_main_element_without_text_is_not_trusted(read):
    assert read("html", page("<main></main><div>text</div>")).text == "text"
    two = page("<div role=main> </div><div>Site</div><main>text</main>")
    assert read("html", two).text == "text"


@pytest.mark.parametrize(
    ("title", "above", "begins"),
    [
        ("lid(1)", "<h1>lid(1) Manual Page</h1><h2>NAME</h2><p>lid - close a box</p>", "NAME"),
        ("The lid", "<h1>The lid</h1><p>Ada L., 2020</p>", "Ada L."),
        ("lid - The box site", "<h1>The box site</h1><p>All about boxes.</p>", "A box"),
        ("Lids", "<h1>Lids</h1><ul><li><a href=a>Home</a><li><a href=b>News</a></ul>", "A box"),
        ("Lids", "<h1>Lids</h1><h1>Boxes</h1><p>A hut.</p>", "A box"),
        ("", "<h1>Lids</h1><p>A hut.</p>", "A box"),
    ],
)
def test_what_stands_above_the_content_with_its_title_is_read(title, above, begins, read):
    told = "<p>A box has a lid.</p>" * 9
    body = f"<div id=header><div>{above}</div></div><div id=content><h2>Use</h2>{told}</div>"
    text = read("html", page(body, f"<title>{title}</title>")).text
    assert text.removeprefix("Use").lstrip().startswith(begins)
    assert text.count("A box has a lid.") == 9


def test_a_table_for_layout_is_read_as_text(read, blocks):
    nested = "<table><tr><td><h2>H</h2><table><tr><td>a<td>b</table></td></tr></table>"
    document = read("html", page(nested))
    assert blocks(document) == [("table", "a | b")]
    assert document.sections[0].path == ("H",)


def test_a_term_stays_with_its_definition(read, blocks):
    body = "<dl><dt>f(x)</dt><dd><p>Calls f.</p><p>More.</p></dd><dt>g</dt><dd>Gee.</dd></dl>"
    document = read("html", page(body))
    assert blocks(document) == [("text", "f(x)\nCalls f."), ("text", "More."), ("text", "g\nGee.")]


def test_a_link_around_blocks_keeps_the_first_of_them(read):
    document = read("html", page("<a href=x.html><p>one</p><p>two</p></a>"))
    assert document.text == "one\n\ntwo"
    assert [link.href for link in document.links] == ["x.html"]


def test_an_unclosed_list_and_a_list_in_a_cell_do_not_mix(read, blocks):
    body = "<table><tr><td>a<ul><li>b</ul></td></tr></table><ul><li>c<ol><li>d</ul><p>e"
    document = read("html", page(body))
    assert blocks(document) == [("table", "a b"), ("list", "- c\n  1. d"), ("text", "e")]


def test_of_several_first_headings_none_is_the_title(read):
    document = read(
        "html", page("<h1>1. One</h1><p>a<h1>2. Two</h1><p>b", "<title>All — Site</title>")
    )
    assert document.title == "All"
    assert [section.path for section in document.sections] == [("1. One",), ("2. Two",)]


def test_what_is_named_like_navigation_goes_if_it_is_little_else_than_links(read):
    links = "".join(f"<li><a href=p{i}.html>Page {i}</a>" for i in range(5))
    body = (
        f"<div class='left-sidebar'>Project 1.2<ul>{links}</ul></div>"
        f"<div id=main-menu><ul>{links}</ul></div><div class=sphinxsidebar>Version 1.2</div>"
        "<div class='with-sidebar'><p>A page with a <a href=b.html>link</a> and some text.</div>"
        f"<ul>{links}</ul>"
    )
    document = read("html", page(body))
    assert document.text.startswith("A page with a link and some text.")
    # A list of links that nothing calls navigation may be what a reader looks for.
    assert document.text.count("Page 3") == 1


def test_the_contents_of_a_page_are_no_text_of_it(read):
    links = "".join(f"<li><a href=#s{i}>Question {i}?</a>" for i in range(4))
    sections = "".join(f"<h2 id=s{i}>Question {i}?</h2><p>Answer {i}." for i in range(4))
    document = read("html", page(f"<h1>FAQ</h1><ul>{links}</ul>{sections}"))
    assert document.text.count("Question 2?") == 1
    lines = links.replace("<li>", "<br>")
    document = read("html", page(f"<h1>FAQ</h1><p>{lines}</p>{sections}"))
    assert document.text.count("Question 2?") == 1
    mixed = read("html", page(f"<ul>{links}<li>and <a href=#s9>more</a></ul>{sections}"))
    assert mixed.text.count("Question 2?") == 2


def test_the_element_with_most_of_the_text_is_the_content(read):
    body = (
        "<table><tr><td>Site, its address and its slogan</td></tr></table>"
        "<div class=body><p>" + "What the page is about. " * 5 + "</div><p>Printed on paper."
    )
    document = read("html", page(body))
    assert document.text == ("What the page is about. " * 5).strip()
    short = read("html", page("<div class=body><p>Short.</div><p>" + "All the rest. " * 9))
    assert "All the rest." in short.text


def test_links_to_the_pages_before_and_after_are_no_content(read):
    page = (
        '<table class="nav"><tr><td><a href="a.html"><img src="p.png" alt="Prev"></a></td>'
        '<th>The Box Manual</th><td><a href="c.html"><img src="n.png" alt="Next"></a></td></tr>'
        "</table><p>Open the box. <a href='d.html'>Next</a> to it is the key.</p>"
        '<a href="a.html">&lt;-previous</a><a href="c.html">next-&gt;</a>'
        '<p><a rel="next" href="c.html">Chapter 3: Keys</a></p>'
    )
    assert read("html", page).text == "Open the box. Next to it is the key."


def test_the_bars_of_texinfo_are_no_content(read):
    shown = ("&lt;&lt;", "&lt;", "Up", "&gt;", "&gt;&gt;", "Top", "Contents", "Index", "?")
    cells = "".join(f"<td>[<a href='{n}.html'> {word} </a>]</td>" for n, word in enumerate(shown))
    bar = f"<table class=header><tr>{cells}<td> &nbsp; </td></tr></table>"
    assert read("html", page(f"{bar}<p>Open the box.</p>{bar}")).text == "Open the box."
    told = "<table class=header><tr><td>Box</td><td>[<a href=b.html>oak</a>]</td></tr></table>"
    assert read("html", page(told)).text == "Box | [oak]"


def test_the_index_of_a_book_is_left_out(read):
    entries = "".join(
        f"<dt>word {n}</dt><dd><a href='{n}.html'>The chapter of word {n}</a></dd>"
        for n in range(9)
    )
    head = "<html><head><title>{}</title></head><body><dl>{}</dl></body></html>"
    for title in ("63. Concept Index", "Options Index (zsh)", "Table of Contents (zsh)"):
        assert read("html", head.format(title, entries)).text == ""
    assert "word 3" in read("html", head.format("63. Concepts", entries)).text
    told = entries.replace("</dd>", " " + "is told here at length " * 5 + "</dd>")
    assert "word 3" in read("html", head.format("Concept Index", told)).text


def test_spaces_that_do_not_break_a_line_are_spaces(read):
    document = read("html", "<p>one&nbsp;&nbsp;two</p><pre>a&nbsp;= 1;\nb = 2;</pre>")
    assert document.text == "one two\n\na = 1;\nb = 2;"


def test_a_table_of_one_row_names_what_is_said_below_it(read):
    said = "<p>It limits how many boxes are open at a time, and how long each of them is. </p>" * 2
    options = ("most_boxes", "least_boxes")
    page = "".join(
        f"<table><tr><td>{name}</td><td>Type: integer</td></tr></table>{said}" for name in options
    )
    document = read("html", f"<h1>Options</h1>{page}")
    assert [section.path for section in document.sections] == [(name,) for name in options]
    first = document.sections[0]
    assert document.text[first.start :].startswith("most_boxes | Type: integer")


def test_a_function_of_generated_documentation_is_named_without_its_parameters(read):
    told = f"<p>{'It connects. ' * 15}</p>"
    fields = "".join(
        f"<dt>{name}</dt><dd>{'what is said about it ' * 9}</dd>"
        for name in ("Parameters", "Returns", "Raises")
    )

    def described(name):
        listed = f"<dl class='field-list simple'>{fields}</dl>" if name == "box.connect" else ""
        signature = f"{name}(host, port=22, user=None, key=None)"
        return f"<dt>{signature}</dt><dd>{told}{listed}</dd>"

    names = ("box.connect", "box.reconnect", "box.close")
    document = read("html", f"<h1>API</h1><dl>{''.join(map(described, names))}</dl>")
    assert [section.path for section in document.sections] == [(f"{name}()",) for name in names]
    assert "box.connect(host, port=22, user=None, key=None)" in document.text


def test_the_forms_of_a_call_have_one_name(read):
    def described(*forms):
        terms = "".join(f"<dt>: {form}</dt>" for form in forms)
        return f"{terms}<dd>{'It draws lines between points. ' * 6}</dd>"

    plot = described("plot (y)", "plot (x, y)", "plot (x, y, fmt)", "h = plot (...)")
    page = f"<h1>Plots</h1><dl>{plot}{described('line (x)', 'line (x, y)')}{described('bar')}</dl>"
    names = ["plot, h = plot", "line (x), line (x, y)", "bar"]
    assert [section.path[-1] for section in read("html", page).sections] == names


def test_a_note_in_a_table_beside_its_icon_is_text(read, blocks):
    row = "<tr><td rowspan=2><img src=note.png alt='[Note]'></td><th>Note</th></tr>"
    note = f"<div class=note><table>{row}<tr><td colspan=2><p>Keep the key.</p></td></tr></table>"
    assert blocks(read("html", page(f"<p>Open it.</p>{note}</div><p>Close it."))) == [
        ("text", "Open it."),
        ("text", "Note"),
        ("text", "Keep the key."),
        ("text", "Close it."),
    ]


def test_the_caption_of_a_figure_names_no_section_and_is_said_once(read, blocks):
    caption = "<p class=title><b>Figure 3.2. The box</b></p>"
    image = "<div><div><img src=box.png alt='The box'></div></div>"
    said = "It is shown here as it was before it was painted, with the lid open and the key in it."
    body = f"<h1>Boxes</h1><div class=figure>{caption}{image}</div><p>{said}</p>"
    document = read("html", page(body))
    assert blocks(document) == [("text", "Figure 3.2. The box"), ("text", said)]
    assert [section.path for section in document.sections] == [()]
    assert blocks(read("html", page(image))) == [("text", "The box")]
    assert blocks(read("html", page(f"<figure>{image}</figure>"))) == [("text", "The box")]
    described = image.replace("The box", said)
    figure = f"<figure>{described}<figcaption>The box</figcaption></figure>"
    assert ("text", said) in blocks(read("html", page(figure)))


def test_labels_in_bold_name_sections_but_captions_do_not(read):
    said = "It is shown here as it was before it was painted, with the lid open and the key in it."

    def sections(*labels: str) -> list[tuple[str, ...]]:
        body = "".join(f"<p><b>{label}</b></p><p>{said}</p><p>{said}</p>" for label in labels)
        return [one.path for one in read("html", page(f"<h1>Boxes</h1>{body}")).sections]

    assert sections("The box", "The lid") == [("The box",), ("The lid",)]
    for name in ("Figure 3.2. ", "Fig. 4 ", "Table 2: ", "Abb. 7 ", "Tabla 1. "):
        assert sections(f"{name}The box", f"{name}The lid") == [()], name


SAID = "It is shown here as it was before it was painted, with the lid open and the key in it. "


def test_items_that_begin_with_a_line_in_bold_type_are_sections(read, blocks):
    def items(said: str) -> str:
        told = "".join(
            f"<a name=m{n}></a><li><p><b>Most {n}</b></p><p>{said}</p></li>"
            for n in ("keys", "lids")
        )
        return f"<h1>Boxes</h1><h2>Limits</h2><ol>{told}</ol>"

    document = read("html", page(items(SAID * 2)))
    assert [section.path for section in document.sections][-2:] == [
        ("Limits", "Most keys"),
        ("Limits", "Most lids"),
    ]
    assert blocks(read("html", page(items("Ten.")))) == [
        ("list", "1. Most keys\n   Ten.\n2. Most lids\n   Ten.".replace("   ", "  "))
    ]


def test_a_line_that_shows_how_something_is_written_names_what_follows(read):
    def written(name: str) -> str:
        return f"<p><b>SET {name};<br>SET {name} = </b><i>how</i><b>;</b></p><p>{SAID * 2}</p>"

    document = read("html", page(f"<h1>Box</h1>{written('lid')}{written('key')}"))
    assert [section.path for section in document.sections] == [("SET lid",), ("SET key",)]
    assert document.text.startswith("SET lid\n\nSET lid;\nSET lid = how;\n\nIt is shown")
    body = f"<p><b>open</b> <i>box</i></p><p>{SAID * 2}</p>" * 2
    lines = body.replace("open", "close", 1)
    assert [section.path[-1:] for section in read("html", page(lines)).sections] == [
        ("close box",),
        ("open box",),
    ]


def test_a_bold_line_below_a_target_of_links_may_be_a_sentence(read):
    def line(name: str, before: str) -> str:
        told = f"<b>({name}) It says that my box is closed, and it is not.</b>"
        return f"{before}<p>{told}</p><p>{SAID * 2}</p>"

    targets = [f"<a name=q{name}></a> " for name in "12"]
    document = read("html", page("".join(map(line, "12", targets))))
    assert [section.path[-1][:3] for section in document.sections] == ["(1)", "(2)"]
    document = read("html", page("".join(map(line, "12", ("", "")))))
    assert [section.path for section in document.sections] == [()]


def test_a_lower_heading_that_repeats_the_title_is_no_section(read):
    body = "<h2>4.1. Lids</h2><p>All lids.</p><h3>4.1.1. Keys</h3><p>All keys.</p>"
    document = read("html", f"<title>4.1. Lids</title><body>{body}")
    assert [section.path for section in document.sections] == [(), ("4.1.1. Keys",)]
    document = read("html", f"<title>Boxes</title><body>{body}")
    assert [section.path[0] for section in document.sections] == ["4.1. Lids"] * 2


def test_a_large_drawing_does_not_make_a_page_plain_text(read):
    paths = "<path d=M0 />" * 5000
    drawing = f"<svg>{paths}<text>lid</text></svg>"
    document = read("html", page(f"<h1>Boxes</h1>{drawing}<h2>Lids</h2><p>A lid closes.</p>"))
    assert (document.title, document.text) == ("Boxes", "Lids\n\nA lid closes.")
    assert [section.path for section in document.sections] == [("Lids",)]


@pytest.mark.parametrize(
    ("inside", "end"),
    [("", ""), ("<meta name=acl content=staff>", "</svg>"), ("<meta name=acl content=staff>", "")],
)
def test_an_access_list_beside_a_large_drawing_is_never_lost(read, inside, end):
    drawing = f"<svg>{'<path d=M0 />' * 5000}{inside}{end}"
    body = f"<h1>Boxes</h1>{drawing}<meta name=acl content=staff><p>A lid closes.</p>"
    with pytest.raises(SourceError, match="acl"):
        read("html", page(body))


def test_a_drawing_without_an_end_takes_no_text_along(read):
    drawing = f"<svg>{'<path d=M0 />' * 5000}"
    document = read("html", page(f"<h1>Boxes</h1>{drawing}<p>A lid closes.</p>"))
    assert "A lid closes." in document.text


@pytest.mark.parametrize("unit", ["<svg>", "<svg></svg", "</svg <svg", "<svg\n</svgx"])
def test_drawings_are_left_out_in_time_proportional_to_their_number(read, unit):
    started = time.thread_time()
    read("html", page(unit * 20_000 + "<p>A lid closes.</p>"))
    assert time.thread_time() - started < 5


def test_classes_of_paragraphs_mean_headings_and_code(read, blocks):
    body = "<h1>Boxes</h1><p class=MsoHeading2>Keys</p><p>A key is brass.</p>"
    body += "<p class=code>make key<br>make lock</p>"
    body += "<p class=bold>1.2 Locks of\n brass</p><p>A lock is iron.</p>"
    body += "<p><b>1.2.1 Rust</b></p><p>It is red.</p>"
    document = read("html", page(body))
    assert [section.path for section in document.sections] == [
        ("Keys",),
        ("1.2 Locks of brass",),
        ("1.2 Locks of brass", "1.2.1 Rust"),
    ]
    assert ("code", "make key\nmake lock") in blocks(document)


def test_a_bold_paragraph_that_has_no_number_is_a_label(read, blocks):
    document = read("html", page("<p class=bold>Takes 1.2 kg</p><p>It is 1.2 m.</p>"))
    assert [section.path for section in document.sections] == [()]
    assert blocks(document) == [("text", "Takes 1.2 kg"), ("text", "It is 1.2 m.")]


def test_the_numbers_of_paragraphs_are_no_text(read, blocks):
    body = "<div><label><a href='#o8'>8</a></label><p id=o8>A key.</p></div>"
    body += "<label>9</label><p>A box.</p><label><a href='b.html'>7</a></label>"
    body += "<p>So.</p><label><a href='#o8'>Keys</a></label>"
    texts = [text for _, text in blocks(read("html", page(body)))]
    assert texts == ["A key.", "9", "A box.", "7", "So.", "Keys"]


@pytest.mark.parametrize(
    "opening",
    [
        "<?xml version='1.0'?><html>",
        "<html xmlns='http://www.w3.org/1999/xhtml'>",
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "xhtml11.dtd"><html>',
    ],
)
def test_empty_elements_of_xhtml_do_not_swallow_what_follows(opening, read, blocks):
    head = f"{opening}<head><title/>"
    head += "<script src='a.js' data-x='1/2'/></head>"
    body = "<body><p><a id='k'/>A key.<br/>It is brass.</p><div/><p>A <a href='b/'>box</a>.</p>"
    document = read("html", f"{head}{body}</body></html>")
    assert blocks(document) == [("text", "A key.\nIt is brass."), ("text", "A box.")]


def test_the_name_of_its_file_says_nothing_about_an_image(read):
    images = "<img src=a.png alt='_images/main-window.jpg'><img src=b.png alt='A red box'>"
    assert read("html", page(f"<p>Seen: {images}.</p>")).text == "Seen: A red box."
    text = "Seen: ![a/b.svg](a/b.svg)![A red box](c.png), as b.svg shows.\n"
    assert read("markdown", text).text == "Seen: A red box, as b.svg shows."


def test_what_doxygen_writes_as_rows_and_tables_is_code(read, blocks):
    body = (
        "<div id=top><div id=titlearea><table><tr><td>Boxes 1.0</td></tr></table></div></div>"
        "<div class=contents><p>Open it:</p><div class=fragment>"
        "<div class=line><a class=lineno>1</a>Box box;</div>"
        "<div class=line>&#160; box.<a href=o.html>open</a>();</div>"
        "<div class=ttc><div class=ttname>Box::open</div></div></div>"
        "<h2 class=memtitle>open()</h2><table class=memname><tr><td>void Box::open </td><td>(</td>"
        "<td>Key&#160;</td><td><em>key</em></td><td>)</td></tr></table><p>Opens it.</p>"
        "<table class=memberdecls><tr><td><h2>Sizes</h2></td></tr><tr class='memitem:a'>"
        "<td>int </td><td>size () const</td></tr><tr class='memdesc:a'><td></td><td>How many.</td>"
        "</tr></table></div><div id=nav-path class=navpath><ul><li>box.h</li></ul></div>"
    )
    assert blocks(read("html", page(body))) == [
        ("text", "Open it:"),
        ("code", "Box box;\n  box.open();"),
        ("code", "void Box::open (Key key)"),
        ("text", "Opens it."),
        ("code", "int size () const"),
        ("text", "How many."),
    ]


def test_items_with_headings_are_sections(read, blocks):
    body = (
        "<h2>Methods</h2><ul><li><section><h3>open</h3><p>Opens it.<ul><li>fast<li>slow</ul>"
        "</section></li><li><section><h3>close</h3><p>Closes it.</section></li></ul>"
        "<ol><li>end</ol>"
    )
    document = read("html", page(body))
    assert [section.path[-1] for section in document.sections] == ["Methods", "open", "close"]
    assert blocks(document) == [
        ("text", "Opens it."),
        ("list", "- fast\n- slow"),
        ("text", "Closes it."),
        ("list", "1. end"),
    ]
