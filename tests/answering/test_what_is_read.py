"""Which passages are read for an answer without a language model."""

import packwise
from packwise.answering.evidence import sources

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
