"""Which passages are read for an answer without a language model."""

import packwise
from packwise.answering.answer import AnswerRequest
from packwise.answering.evidence import sources, with_further_sections
from packwise.retrieval.documents import best_articles

QUESTION = "How do I mark a test that is expected to fail?"
RUNS = "\n\n".join(
    f"## Run {n}\n\nTest {n} is expected to fail. "
    + f"Mark how test {n} fails when it fails. " * 25
    for n in range(3)
)
LONG = "# Rerunning\n\n" + "\n\n".join(
    f"The test fails as expected in run {n}, and a test that fails again is marked in run {n}. " * 8
    for n in range(12)
)


def test_a_long_section_leaves_room_for_others(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "rerunning.md").write_text(LONG)
    (folder / "runs.md").write_text("# Runs\n\n" + RUNS)
    (folder / "xfail.md").write_text(
        "# Xfail\n\nUse the xfail marker if a test cannot succeed yet."
    )
    packwise.build([str(folder)], str(tmp_path / "pack"))
    with packwise.open(tmp_path / "pack") as library:
        hits = library.search(QUESTION, k=30).hits
        read = sources(library.store, hits)
    of_rerunning = [hit for hit in hits if hit.passage.document == "rerunning.md"]
    assert len(of_rerunning) > 3, "the long section has many passages among the best"
    documents = [source.passage.document for source in read]
    long = [place for place, name in enumerate(documents) if name == "rerunning.md"]
    assert documents.index("xfail.md") < long[2], "after two passages of a section come others"
    assert max(long) == len(documents) - 1, "then the rest of it"
    parts = [part.id for source in read for part in source.parts[:1]]
    assert len(parts) == len(set(parts))
    assert [source.rank for source in read] == list(range(len(read)))


def test_a_long_section_that_the_question_names_is_read_in_the_order_of_the_search(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "rerunning.md").write_text(LONG.replace("# Rerunning", "# Tests\n\n## Failing again"))
    (folder / "runs.md").write_text("# Runs\n\n" + RUNS)
    packwise.build([str(folder)], str(tmp_path / "pack"))
    with packwise.open(tmp_path / "pack") as library:
        hits = library.search("What does failing again mean?", k=30).hits
        places = [
            [source.passage.document for source in sources(library.store, hits, question=question)]
            for question in ("What does failing again mean?", "What fails again in a run?")
        ]
    assert places[0].index("runs.md") > 2 >= places[1].index("runs.md")


def test_a_passage_that_was_read_with_its_neighbour_is_not_read_again(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "rerunning.md").write_text(LONG)
    packwise.build([str(folder)], str(tmp_path / "pack"))
    with packwise.open(tmp_path / "pack") as library:
        read = sources(library.store, library.search(QUESTION, k=30).hits)
    first = {part.id for part in read[0].parts}
    assert len(first) > 1
    assert not first & {source.parts[0].id for source in read[1:]}


def test_the_section_beside_the_best_passage_is_read_too(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "timeouts.md").write_text(
        "# Client\n\n## Timeouts\n\nSet a timeout for a request with `timeout=5`.\n\n"
        "## Timeouts of a whole session\n\nA request without a timeout waits for ever.\n"
    )
    packwise.build([str(folder)], str(tmp_path / "pack"))
    with packwise.open(tmp_path / "pack") as library:
        hits = library.search("How long does a request without a timeout wait?", k=2).hits
        read = sources(library.store, hits)
    assert [source.passage.id for source in read] == [hit.passage.id for hit in hits]


WAYS = "".join(
    f"<dt>script {way}</dt><dd>{'It is called so before anything else is done. ' * 4}</dd>"
    for way in ("install", "upgrade", "abort-upgrade", "configure", "remove", "purge", "undo")
)
"""More than stays in one section with the sentence that announces it."""


def test_an_announcement_is_shown_with_the_terms_it_announces(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "scripts.html").write_text(
        "<h1>Scripts</h1><h2>Calls</h2>"
        f"<p>The script of a package may be called in these ways:</p><dl>{WAYS}</dl>"
    )
    packwise.build([str(folder)], str(tmp_path / "pack"))
    with packwise.open(tmp_path / "pack") as library:
        assert ("Calls", "script upgrade") in [
            hit.passage.section_path for hit in library.search("upgrade", k=9).hits
        ], "each way is a section"
        text = library.ask("How may the script of a package be called?", synthesis=False).text
    assert "in these ways:" in text
    assert text.index("in these ways:") < text.index("script install") < text.index("abort-upgrade")


def test_more_than_three_sections_of_a_manual_in_one_file_are_read(tmp_path):
    tools = "\n\n".join(
        f"## Tool {n}\n\nIt compares sorted boxes, box by box, in the way of tool {n}, and says "
        f"which box of the sorted boxes is number {n}."
        for n in range(5)
    )
    told = "It writes what two of them have in common, and what only one has."
    page = f"# Tools\n\n{tools}\n\n## Compare two sorted boxes box by box\n\n{told}\n"
    (tmp_path / "manual.md").write_text(page)
    (tmp_path / "other.md").write_text("# Two boxes\n\nTwo boxes were compared in another place.\n")
    packwise.build([str(tmp_path / "manual.md"), str(tmp_path / "other.md")], str(tmp_path / "p"))
    question = "How do I compare two sorted boxes box by box?"
    with packwise.open(tmp_path / "p") as library:
        ranking = library.search(question, k=30)
        asked = {n: AnswerRequest(max_sections=n) for n in (2, 3)}
        chosen = best_articles(ranking.hits, num_docs=1, max_sections=2).candidates
        assert with_further_sections(chosen, ranking, asked[2]) == list(chosen)
        read = with_further_sections(chosen, ranking, asked[3])
        assert read[: len(chosen)] == list(chosen)
        assert len(read) > 5
        assert {hit.passage.document for hit in read} == {"manual.md"}
        assert told in library.ask(question, max_results=1, synthesis=False).text


def test_a_further_section_is_read_before_a_worse_passage_of_another_article(tmp_path):
    tools = "\n\n".join(
        f"## Tool {n}\n\nThis tool compares two sorted boxes, box by box.\n" for n in range(5)
    )
    (tmp_path / "manual.md").write_text(f"# Tools\n\n{tools}")
    (tmp_path / "other.md").write_text("# Boxes\n\nA box was sorted by hand in another place.\n")
    packwise.build([str(tmp_path / "manual.md"), str(tmp_path / "other.md")], str(tmp_path / "p"))
    with packwise.open(tmp_path / "p") as library:
        ranking = library.search("How do I compare two sorted boxes box by box?", k=30)
        chosen = best_articles(ranking.hits).candidates
        assert [hit.passage.document for hit in chosen] == [*["manual.md"] * 3, "other.md"]
        read = with_further_sections(chosen, ranking, AnswerRequest())
    assert [hit.passage.document for hit in read] == [*["manual.md"] * 5, "other.md"]
