"""Files and their readers: the table, other packages, missing libraries, places."""

import re
from importlib.metadata import EntryPoint

import pytest

from packwise.errors import SourceError
from packwise.sources import Item, Problem, Reader, Reads, open_source, readers
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.linked_text import LinkedText
from packwise.sources.links import LinkResolver
from packwise.sources.source_items import hashed


def read_pages(builder, file):
    """A made-up format: pages that begin with a form feed."""
    pages = file.path.read_text().split("\f")
    if not any(page.strip() for page in pages):
        raise SourceError("has no text")
    for number, page in enumerate(pages, start=1):
        builder.place(f"page {number}")
        builder.plain_text(page)
    builder.warn("its pictures were left out")


def read_cards(file):
    """A made-up format: one document per line."""
    for number, line in enumerate(file.path.read_text().splitlines(), start=1):
        if not line:
            yield Problem(f"{file.label}:{number}", "is empty")
            continue
        builder = DocumentBuilder(title=line)
        builder.plain_text(line)
        id = f"{file.prefix}card {number}"
        built = builder.build(id, LinkResolver(()))
        yield Item(id, hashed(line.encode(), "cards"), file.label, lambda built=built: built)


PAGES = Reader("pages", (".pages",), Reads.FILE, read_pages)
CARDS = Reader("cards", (".cards", ".cards.gz"), Reads.STREAM, read_cards)
LOST = Reader("lost", (".lost", ".gone"), Reads.FILE, read_pages, ("no_such_library",), "lost[all]")
ODD = Reader(
    "odd", (".odd",), Reads.FILE, read_pages, accepts=lambda path: b"odd" in path.read_bytes()
)


@pytest.fixture
def installed(monkeypatch):
    """Install readers as if other packages brought them."""

    def install(*others, broken=()):
        names = {f"reader{i}": reader for i, reader in enumerate(others)}
        found = [EntryPoint(name, f"{__name__}:{name}", readers.GROUP) for name in names]
        found += [EntryPoint(name, f"{name}:reader", readers.GROUP) for name in broken]
        load = EntryPoint.load
        monkeypatch.setattr(EntryPoint, "load", lambda self: names.get(self.name) or load(self))
        monkeypatch.setattr(readers, "entry_points", lambda group: found)
        readers.readers.cache_clear()

    yield install
    monkeypatch.undo()
    readers.readers.cache_clear()


def test_every_built_in_reader_exists_and_reads_its_own_suffixes():
    suffixes = [suffix for reader in readers.BUILT_IN for suffix in reader.suffixes]
    assert len(set(suffixes)) == len(suffixes)
    for reader in readers.BUILT_IN:
        assert callable(reader.load())
        assert bool(reader.needs) <= reader.pip.startswith("packwise[")
        assert all(suffix == readers.suffix(f"x{suffix}") for suffix in reader.suffixes)


def test_another_package_adds_a_reader_of_one_document(installed, folder, opened):
    installed(PAGES)
    found = opened(folder({"a.pages": "First page.\fSecond page.", "empty.pages": " "}))
    document = found.items["a.pages"].read()
    assert document.text == "First page.\n\nSecond page."
    assert [document.place(at, at + 1) for at in (0, 20)] == ["page 1", "page 2"]
    assert document.place(0, len(document.text)) == "pages 1-2"
    assert document.warnings == ("its pictures were left out",)
    with pytest.raises(SourceError, match=r"empty\.pages: has no text$"):
        found.items["empty.pages"].read()


def test_another_package_adds_a_reader_of_many_documents(installed, folder, opened):
    installed(CARDS)
    root = folder({"a.cards": "one\n\nthree", "b.md": "text"})
    found = opened(root)
    assert list(found.documents) == ["a.cards/card 1", "a.cards/card 3", "b.md"]
    assert [problem.reason for problem in found.problems] == ["is empty"]
    assert list(open_source(str(root / "a.cards")).ids()) == ["card 1", "card 3"]


def test_another_package_may_replace_a_reader(installed, folder, opened):
    installed(Reader("markdown2", (".md",), Reads.TEXT, DocumentBuilder.plain_text))
    assert opened(folder({"a.md": "# Still markup"})).documents["a.md"].text == "# Still markup"


def test_a_reader_may_refuse_files_that_only_share_its_suffix(installed, folder, opened):
    installed(ODD)
    found = opened(folder({"a.odd": "odd text", "b.odd": "even text"}))
    assert list(found.items) == ["a.odd"]
    assert readers.left_out(found.sources[0].skipped) == ["1 .odd file: without documents"]


def test_a_broken_reader_is_an_error_that_names_its_package(installed, folder):
    installed(broken=["no_such_package"])
    with pytest.raises(SourceError, match="no_such_package cannot be loaded"):
        open_source(str(folder({"a.md": "text"})))
    installed("not a reader")
    with pytest.raises(SourceError, match=r"is not a packwise\.Reader"):
        open_source(str(folder({"a.md": "text"})))


def test_files_whose_library_is_missing_are_counted_with_the_command_that_brings_it(
    installed, folder
):
    installed(LOST)
    root = folder({"a.lost": "1", "b.lost": "2", "c.gone": "3", "d.png": "4", "e.md": "text"})
    (root / "id_rsa").write_text("key")
    source = open_source(str(root))
    assert source.skipped == {".gone": 1, ".lost": 2, ".png": 1, "named like credentials": 1}
    assert readers.left_out(source.skipped) == [
        "2 .lost files: pip install 'lost[all]'",
        "1 .gone file: pip install 'lost[all]'",
        "1 named like credentials",
        "1 .png: no reader",
    ]
    (root / "e.md").unlink()
    expected = "no documents in this folder (2 .lost files: pip install 'lost[all]'; 1 .gone"
    with pytest.raises(SourceError, match=re.escape(expected)) as caught:
        open_source(str(root))
    assert caught.value.fix == "pip install 'lost[all]'"
    with pytest.raises(SourceError, match=r"library that reads \.lost files is not installed"):
        open_source(str(root / "a.lost"))


def test_a_library_installed_later_or_a_new_version_has_files_read_again(installed, folder, opened):
    root = folder({"a.pages": "text"})
    hashes = set()
    for uses, version in ((), ""), (("no_such_library",), ""), (("json",), ""), ((), "2"):
        installed(Reader("pages", (".pages",), Reads.FILE, read_pages, uses=uses, version=version))
        hashes.add(opened(root).hashes["a.pages"])
    assert len(hashes) == 3


def test_places_begin_where_the_reader_says():
    builder = DocumentBuilder(title="T")
    builder.paragraph(LinkedText("Before any place."))
    builder.place("page 1")
    builder.heading(2, LinkedText("Heading"))
    builder.paragraph(LinkedText("over the page"), places=[(5, "page 2")])
    builder.open_list()
    for number, item in enumerate(("on two", "on three"), start=2):
        builder.place(f"page {number}")
        builder.open_item()
        builder.paragraph(LinkedText(item))
    builder.close_list()
    rows = [[LinkedText("name")], [], [LinkedText("value")]]
    builder.table(rows, [f"sheet Q1, row {number}" for number in (1, 2, 3)])
    document = builder.build("a", LinkResolver(()))

    def place_of(part):
        start = document.text.index(part)
        return document.place(start, start + len(part))

    shown = ["Before", "Heading", "over", "the page", "over the", "- on two", "- on three"]
    expected = ["page 1", "page 1", "page 1", "page 2", "pages 1-2", "page 2", "page 3"]
    assert [place_of(part) for part in shown[1:]] == expected[1:]
    assert place_of("Before") == ""
    assert place_of("name\nvalue") == "sheet Q1, rows 1-3"
    assert place_of("on three\n\nname") == "page 3 to sheet Q1, row 1"
