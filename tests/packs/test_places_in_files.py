"""From a page, a slide or a row of a file to the place that search and answers name."""

import json

import pytest
from click.testing import CliRunner

import packwise
from office_files import pdf
from packwise.answering.blocks import AnswerBlock, PartKind, SourcePassage, with_neighbours
from packwise.cli import app
from packwise.documents import Passage

TEXTS = {
    1: "The north pump moves forty litres of water per minute.",
    2: "The south pump was painted green by the apprentice Olga Berg.",
    3: "Spare seals are kept in the red cabinet beside the stairs.",
}


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    root = tmp_path_factory.mktemp("places")
    docs = root / "docs"
    docs.mkdir()
    pages = [
        [(60, 740, 16, f"Part {name}", "B"), (60, 700, 10, text)]
        for name, text in zip(("one", "two", "three"), TEXTS.values(), strict=True)
    ]
    (docs / "pumps.pdf").write_bytes(pdf(*pages))
    rows = "".join(f"valve {n},{n * 3},hall {n % 7}\n" for n in range(1, 121))
    (docs / "valves.csv").write_text("name,pressure,location\n" + rows)
    packwise.build([str(docs)], str(root / "pack"))
    return root / "pack"


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_search_names_the_page(pack):
    question = "Who painted the south pump green?"
    first = json.loads(run("search", pack, question, "--json"))["hits"][0]
    assert (first["document"], first["place"]) == ("pumps.pdf", "page 2")
    assert "pumps.pdf, page 2" in " ".join(run("search", pack, question).split())


def test_search_names_the_rows_and_repeats_their_header(pack):
    with packwise.open(str(pack)) as library:
        hit = library.search("pressure of valve 100", 1).hits[0].passage
    assert "valve 100 | 300" in hit.text
    first, _, last = hit.place.removeprefix("rows ").partition("-")
    assert int(first) <= 101 <= int(last)
    assert hit.lead == "name | pressure | location" or hit.text.startswith("name | pressure")


def test_answers_and_contexts_name_the_page(pack):
    question = "Where are spare seals kept?"
    answer = json.loads(run("ask", pack, question, "--json"))
    assert answer["citations"][0]["place"] == "page 3"
    assert "pumps.pdf, page 3" in " ".join(run("ask", pack, question).split())
    context = json.loads(run("context", pack, question, "--json"))
    assert context["passages"][0]["place"] == "page 3"


def test_a_part_of_a_neighbouring_passage_is_cited_with_its_own_place():
    first, second = (
        Passage(f"v#{n}", "v", "", (), n, text, at, at + len(text), "", place=f"rows {n}1-{n}9")
        for n, at, text in ((1, 0, "valve 1 is shut"), (2, 17, "valve 2 is open"))
    )
    source = SourcePassage(1, with_neighbours(second, [first]), parts=(second, first))
    at = source.passage.text.index("valve 2")
    open_valve = AnswerBlock(PartKind.ROW, source, at, at + len(second.text))
    assert open_valve.places == ["rows 21-29"]
    both = AnswerBlock(PartKind.ROW, source, 0, at + len(second.text))
    assert both.places == ["rows 11-19", "rows 21-29"]
