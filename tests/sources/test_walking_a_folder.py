"""What a walk finds, what it passes over, and that it ends."""

import gzip
import os
import shutil
import subprocess

import pytest

from packwise.errors import SourceError
from packwise.sources import open_source
from packwise.sources.ignore import IgnoreRules


def test_files_come_in_a_fixed_order_with_readable_suffixes_only(folder):
    root = folder(
        {"b.md": "x", "a/z.TXT": "x", "a.html": "x", "c.xyz": "x", "Makefile": "x", "d.tar.gz": "x",
         "id_rsa": "x"}
    )  # fmt: skip
    source = open_source(str(root))
    assert list(source.ids()) == ["a.html", "a/z.TXT", "b.md"]
    assert source.skipped == {
        ".tar.gz": 1,
        ".xyz": 1,
        "named like credentials": 1,
        "no suffix": 1,
    }


PROSE = (
    "You may copy and distribute this text as you like.\nNo warranty comes with it, not even\n" * 3
)


def test_prose_without_a_suffix_is_read_as_text_and_other_files_are_not(folder):
    root = folder(
        {
            "LICENSE": PROSE,
            "a-note": "Call the warden before noon",
            "Apache-2.0": PROSE,
            "GFDL-1.3": PROSE,
            "notes": "会議は三月一日に東京の本社で開かれます。資料は前日までに送ってください。\n",
            "Makefile": "all: $(OBJS)\n\t$(CC) -o $@ $^ $(LDFLAGS)\nclean:\n\trm -f *.o\n",
            "run": "#!/bin/sh\n" + PROSE,
            "key": "QWxhZGRpbjpvcGVuIHNlc2FtZQQWxhZGRpbjpvcGVuIHNlc2FtZQ\n" * 4,
            "data.7": "1 2 3 4\n5 6 7 8\n",
            "manual.1": ".TH MANUAL 1\n.SH NAME\nmanual \\- a page of words that are prose\n",
        }
    )
    (root / "image").write_bytes(b"\x89PNG\0\0" * 40)
    (root / "NEWS.gz").write_bytes(gzip.compress(PROSE.encode()))
    (root / "image.gz").write_bytes(gzip.compress(b"\x89PNG\0\0" * 40))
    (root / "cut.gz").write_bytes(gzip.compress(PROSE.encode())[:-9])
    source = open_source(str(root))
    assert list(source.ids()) == [
        *("Apache-2.0", "GFDL-1.3", "LICENSE", "NEWS.gz", "a-note", "manual.1", "notes")
    ]
    assert source.skipped == {".7": 1, "no suffix": 4, ".gz": 2}
    assert all(item.read().text for item in source.items() if item.id == "NEWS.gz")
    assert {file.id: file.reader.format for file in source.listing.files}["manual.1"] == "man"


def test_a_single_file_of_prose_without_a_suffix_is_a_source(folder):
    root = folder({"LICENSE": PROSE, "README": PROSE, "notes.TXT": PROSE})
    sources = [open_source(str(root / name)) for name in ("LICENSE", "README", "notes.TXT")]
    assert [list(source.ids()) for source in sources] == [["LICENSE"], ["README"], ["notes.TXT"]]
    assert [source.name for source in sources] == ["LICENSE", "README", "notes"]


def test_built_in_rules_can_be_taken_back(folder):
    files = {f"{place}/a.md": "x" for place in (".github", "_build", "node_modules", "docs")}
    root = folder({**files, ".packwiseignore": "!.github/\n!_build/\n"})
    assert list(open_source(str(root)).ids()) == [".github/a.md", "_build/a.md", "docs/a.md"]


def test_rules_of_deeper_folders_have_the_last_word(folder):
    root = folder(
        {
            ".gitignore": "*.txt\n/top.md\n",
            "a.txt": "x",
            "top.md": "x",
            "sub/.gitignore": "!keep.txt\n",
            "sub/.packwiseignore": "drop.md\n",
            "sub/keep.txt": "x",
            "sub/b.txt": "x",
            "sub/drop.md": "x",
            "sub/top.md": "x",
        }
    )
    assert list(open_source(str(root)).ids()) == ["sub/keep.txt", "sub/top.md"]


def test_virtual_environments_and_packs_are_passed_over(folder):
    root = folder(
        {
            "a.md": "x",
            "env/pyvenv.cfg": "",
            "env/lib/b.md": "x",
            "my-pack/pack.sqlite": "",
            "my-pack/SKILL.md": "x",
        }
    )
    assert list(open_source(str(root)).ids()) == ["a.md"]


def test_rows_in_a_folder_are_read_if_they_are_documents(folder, opened):
    root = folder(
        {
            "rows.jsonl": '{"id": "r", "text": "one", "links": ["s", "https://x.org/"]}\n',
            "questions.jsonl": '{"id": "q", "question": "what?"}\n',
            "set/corpus.jsonl": '{"_id": "c", "text": "two"}\n',
            "set/queries.jsonl": '{"_id": "q", "text": "what?"}\n',
        }
    )
    found = opened(root)
    assert list(found.documents) == ["rows.jsonl/r", "set/corpus.jsonl/c"]
    links = found.documents["rows.jsonl/r"].links
    assert [link.href for link in links] == ["rows.jsonl/s", "https://x.org/"]
    assert found.sources[0].skipped == {".jsonl": 2}
    assert list(found.sources[0].ids()) == list(found.items)


def test_a_link_back_up_is_reported_and_the_walk_ends(folder, opened):
    root = folder({"a/b/c.md": "x"})
    (root / "a/b/up").symlink_to(root / "a", target_is_directory=True)
    (root / "a/here").symlink_to(".", target_is_directory=True)
    found = opened(root)
    assert list(found.items) == ["a/b/c.md"]
    assert [problem.location for problem in found.problems] == [
        str(root / "a/b/up"),
        str(root / "a/here"),
    ]
    assert all("link back" in problem.reason for problem in found.problems)


def test_linked_folders_are_read_once(folder, opened, tmp_path):
    one = folder({"x.md": "x"}, name="one")
    two = folder({"y.md": "y"}, name="two")
    (one / "to-two").symlink_to(two, target_is_directory=True)
    (two / "to-one").symlink_to(one, target_is_directory=True)
    root = folder({"real/a.md": "x"})
    (root / "inner").symlink_to(root / "real", target_is_directory=True)
    (root / "outer").symlink_to(one, target_is_directory=True)
    (root / "again").symlink_to(one, target_is_directory=True)
    assert list(opened(root).items) == ["again/to-two/y.md", "again/x.md", "real/a.md"]


def test_links_that_lead_nowhere_are_reported_by_name(folder, opened):
    root = folder({"a.md": "x"})
    (root / "gone.md").symlink_to("nowhere.md")
    (root / "self.md").symlink_to("self.md")
    found = opened(root)
    assert list(found.items) == ["a.md"]
    assert [problem.location for problem in found.problems] == [
        str(root / "gone.md"),
        str(root / "self.md"),
    ]


def test_a_name_that_is_no_utf8_can_be_stored(folder, opened):
    root = folder({"a.md": "x"})
    (root / os.fsdecode(b"caf\xe9.md")).write_text("text")
    found = opened(root)
    assert list(found.documents) == ["a.md", "caf\ufffd.md"]


@pytest.mark.parametrize("files", [{}, {"a.xyz": "x"}, {".hidden.md": "x"}])
def test_a_folder_without_documents_is_refused(files, folder):
    root = folder(files)
    with pytest.raises(SourceError, match="no documents") as refused:
        open_source(str(root))
    assert refused.value.fix
    assert "\n" not in str(refused.value)


GIT_CASES = [
    "a.md",
    "/a.md",
    "sub/",
    "sub/a.md",
    "*.txt",
    "**/deep",
    "sub/**",
    "sub/**/b.md",
    "*\n!b.md",
    "*\n!*/\n!b.md",
    "sub/*\n!sub/b.md",
    "[ab].md",
    "[!a].md",
    "[[:digit:]].md",
    "?.md",
    "\\#x.md",
    "\\!y.md",
    "#x.md",
    "b.md  ",
    "z\\ ",
    "a\\*.md",
    "s*b/a.md",
    "**/sub/deep/*",
    "**",
    "[b-a].md",
    "[a",
    "deep\n!deep",
    "//a.md",
]


@pytest.mark.skipif(shutil.which("git") is None, reason="git decides what is right here")
@pytest.mark.parametrize("rules", GIT_CASES)
def test_ignore_rules_mean_what_they_mean_to_git(rules, folder):
    names = ["a.md", "b.md", "1.md", "#x.md", "!y.md", "z ", "a*.md", "c.txt"]
    places = ["", "sub/", "sub/deep/", "deep/"]
    root = folder({f"{place}{name}": "x" for place in places for name in names})
    (root / ".gitignore").write_text(rules + "\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    listing = ["git", "ls-files", "-z", "-o", "--exclude-per-directory=.gitignore"]
    listed = subprocess.run(listing, cwd=root, check=True, capture_output=True, text=True).stdout
    expected = {name for name in listed.split("\0") if name and name != ".gitignore"}
    held = IgnoreRules().with_lines(rules.split("\n"))

    def kept(path):
        parts = path.split("/")
        folders = ["/".join(parts[:n]) for n in range(1, len(parts))]
        if any(held.ignored(folder, folder=True) for folder in folders):
            return False
        return not held.ignored(path, folder=False)

    assert {
        f"{place}{name}" for place in places for name in names if kept(place + name)
    } == expected


def test_a_site_made_by_sphinx_is_read_without_its_sources_and_lists_of_links(folder):
    made = ["index.html", "genindex.html", "genindex-A.html", "search.html", "_sources/index.txt"]
    files = dict.fromkeys((*made, "_modules/program/auth.html", "sub/search.html"), "x")
    root = folder({**files, "searchindex.js": ""})
    assert list(open_source(str(root)).ids()) == ["index.html", "sub/search.html"]
    (root / "searchindex.js").unlink()
    assert len(list(open_source(str(root)).ids())) == len(files)
    (root / "_static").mkdir()
    (root / "_static" / "theme.js").write_text("// Shows and hides the list of pages.\nshow();\n")
    assert list(open_source(str(root)).ids()) == ["index.html", "sub/search.html"]


@pytest.mark.parametrize(
    ("marks", "beside"),
    [
        (["search/search_index.json"], ["404.html", "js/base.js", "search/main.js"]),
        (["doxygen.css"], ["menu.js", "search/all_0.js", "box_8h_source.html", "functions_b.html"]),
        (
            ["element-list", "help-doc.html"],
            ["a/class-use/Box.html", "index-all.html", "script.js"],
        ),
        (["package-list", "help-doc.html"], ["a/b/package-use.html", "src-html/a/Box.html"]),
        (["book.js"], ["print.html", "toc.html", "theme.js"]),
    ],
)
def test_of_a_made_site_only_its_pages_are_read(folder, marks, beside):
    script = "// Shows and hides the list of pages.\nfunction show() {}\n"
    pages = {"index.html": "x", "deep/print.html": "x", "deep/js/own.js": script}
    root = folder({**pages, **dict.fromkeys(beside, script)})
    assert set(open_source(str(root)).ids()) == {*pages, *beside}
    for mark in marks:
        (root / mark).parent.mkdir(exist_ok=True)
        (root / mark).write_text('{"docs": [{"location": "", "text": "All pages once more."}]}')
    assert set(open_source(str(root)).ids()) == set(pages)
