"""A passage that is stored twice is found once."""

import json

import pytest

import packwise

ROWS = [
    {"id": "a", "title": "A", "url": "https://x.test/keys", "text": "Keys hang by the door."},
    {"id": "b", "title": "B", "url": "https://x.test/keys", "text": "Keys hang near the door."},
    {"id": "c", "title": "C", "url": "https://x.test/more", "text": "Keys hang above the door."},
    {"id": "d", "title": "D", "url": "", "text": "Keys hang by the door."},
]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repeated")
    source = folder / "rows.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    packwise.build([str(source)], str(folder / "pack"))
    with packwise.open(str(folder / "pack")) as opened:
        yield opened


def test_one_place_of_one_page_and_one_text_are_shown_once(library):
    ranking = library.search("Where do the keys hang?")
    found = [hit.passage for hit in ranking.hits]
    assert [p.url for p in found].count("https://x.test/keys") == 1
    assert [p.text for p in found].count("Keys hang by the door.") <= 1
    assert "https://x.test/more" in [p.url for p in found]
    dropped = {drop.id.partition("#")[0] for drop in ranking.trace.dropped}
    assert dropped | {p.document for p in found} >= {"c"}
    assert len(dropped) == len(ROWS) - len(found)
    assert all(drop.reason.startswith("same text as ") for drop in ranking.trace.dropped)
