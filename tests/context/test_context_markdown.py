"""Lists, tables and code reach the context whole, as Markdown, with what explains them."""

import time
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import packwise
from packwise.candidates import PACKING_POLICIES
from packwise.context.markdown import MarkdownText
from packwise.context.packer import pack
from packwise.documents import Block, BlockKind, Passage
from packwise.models.tokens import token_counter
from packwise.packs.build import build_pack
from packwise.reading.units import read_units
from packwise.settings import Settings

FILLER = "The harbour office keeps a ledger of every ship that ever came in from the sea. "
PAGES = {
    "ports": f"""# Server

{FILLER * 3}

The server uses the following ports:

- 8080 for plain requests
- 8443 for encrypted requests
- 9100 for metrics

{FILLER * 3}
""",
    "client": f"""# Client

{FILLER * 2}

Create a client like this:

```python
def client(url):
    session = connect(url)

    return session
```

{FILLER * 2}
""",
    "limits": """# Limits

| tier | seats | price |
|---|---|---|
| free | 3 | 0 |
| team | 40 | 12 |
""",
    "airports": "# Airports\n\n| code | city | runways |\n|---|---|---|\n"
    + "\n".join(f"| AP{i} | City number {i} | {i % 4} runways of asphalt |" for i in range(120)),
    "steps": "# Steps\n\nTo move a tenant:\n\n"
    + "\n".join(
        f"{i}. Run step {i} of the move and wait until it says done." for i in range(1, 90)
    ),
    "indented": "# Indented\n\nText before.\n\n        deep = 1\n    shallow = 2\n\nText after.\n",
    "ticks": "# Ticks\n\nQuote it:\n\n````\n```\ninner\n```\n````\n",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocks")
    for name, text in PAGES.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    build_pack([str(folder)], str(folder / "pack"))
    with packwise.open(str(folder / "pack")) as opened:
        yield opened


def test_a_list_comes_with_the_sentence_that_announces_it(library):
    text = library.context("which ports does the server use?", 90).text
    assert (
        "The server uses the following ports:\n\n- 8080 for plain requests\n"
        "- 8443 for encrypted requests\n- 9100 for metrics"
    ) in text


def test_an_item_brings_the_sentence_that_announces_its_list(library):
    text = library.context("8443 encrypted requests", 60).text
    assert "The server uses the following ports:" in text
    assert "- 8443 for encrypted requests" in text


def test_code_is_fenced_and_in_one_piece(library):
    for policy in PACKING_POLICIES[:2]:
        text = library.context("how do I create a client?", 200, policy=policy).text
        assert (
            "Create a client like this:\n\n```\ndef client(url):\n    session = connect(url)\n\n"
            "    return session\n```\n"
        ) in text + "\n"


def test_the_fence_is_longer_than_any_in_the_code(library):
    assert "````\n```\ninner\n```\n````" in library.context("quote ticks inner", 300).text


def test_the_first_line_of_code_keeps_its_indent(library):
    assert "```\n    deep = 1\nshallow = 2\n```" in library.context("deep shallow", 300).text


def test_a_small_table_is_a_markdown_table(library):
    text = library.context("how many seats has the team tier?", 60).text
    assert "[1]\ntier | seats | price\n--- | --- | ---\nfree | 3 | 0\nteam | 40 | 12" in text


@pytest.mark.parametrize("row", [3, 60, 110])
def test_a_row_comes_with_its_column_names(library, row):
    text = library.context(f"how many runways has AP{row}?", 120).text
    assert f"AP{row} | City number {row}" in text
    assert "\ncode | city | runways\n--- | --- | ---\n" in text


def test_later_steps_come_with_what_announces_them(library):
    text = library.context("step 80 of the move of a tenant", 90).text
    assert "80. Run step 80 of the move" in text
    assert "To move a tenant:" in text


QUESTIONS = [
    "which ports does the server use?",
    "how do I create a client?",
    "how many seats has the team tier?",
    "runways of AP17 and AP93",
    "what is step 70 of the move?",
    "ledger of the harbour office",
    "deep shallow inner quote",
]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    question=st.sampled_from(QUESTIONS),
    budget=st.integers(0, 900),
    policy=st.sampled_from(["coverage", "seed"]),
    price=st.sampled_from([0.0, 0.1]),
)
def test_blocks_are_packed_by_the_laws(library, question, budget, policy, price):
    chosen = Settings(packing_token_price=price)
    hits = library.search(question, 20).hits
    context = pack(
        question, hits, store=library.store, settings=chosen, budget=budget, policy=policy
    )
    assert token_counter().count(context.text) == context.tokens <= budget
    assert sum(line.startswith("```") for line in context.text.splitlines()) % 2 == 0
    places = sorted((p.document, a, b) for p in context.passages for a, b in p.spans)
    assert all(one[0] != two[0] or one[2] <= two[1] for one, two in pairwise(places))
    for shown in context.passages:
        document = library.store.document(shown.document).text
        assert all(document[a:b] in shown.text for a, b in shown.spans)
        if not context.trace.warnings:
            assert not shown.text.rstrip().endswith("ports:")
            assert not shown.text.rstrip().endswith("like this:")
            assert ("def client" in shown.text) == ("return session" in shown.text)
            assert ("team |" in shown.text) <= ("tier | seats" in shown.text)


def text_and_blocks(*parts):
    """A text of these parts with a blank line between them, and its blocks."""
    text, blocks = "", []
    for kind, part in parts:
        text += "\n\n" if text else ""
        blocks.append(Block(kind, len(text), len(text) + len(part)))
        text += part
    return text, tuple(blocks)


def test_code_and_tables_are_units_until_they_are_too_long():
    code, table = "x = 1\n\ny = 2. Z = 3", "name | value\na | 1\nb | 2"
    text, blocks = text_and_blocks((BlockKind.CODE, code), (BlockKind.TABLE, table))
    assert [text[a:b] for a, b in read_units(text, blocks).spans] == [code, table]
    long = "\n\n".join(f"def f{i}():\n    return {i}" for i in range(60))
    text, blocks = text_and_blocks((BlockKind.CODE, long))
    found = [text[a:b] for a, b in read_units(text, blocks).spans]
    assert found == long.split("\n\n")
    rows = "\n".join(f"name {i} | value {i}" for i in range(100))
    text, blocks = text_and_blocks((BlockKind.TABLE, rows))
    read = read_units(text, blocks)
    assert [text[a:b] for a, b in read.spans] == rows.split("\n")
    assert read.brings == (0, *[1] * 99)


kinds = st.sampled_from(list(BlockKind))
pieces = st.text(alphabet="ab .:\n|-1", min_size=1, max_size=60).filter(str.strip)


@given(st.lists(st.tuples(kinds, pieces), min_size=1, max_size=5))
def test_units_of_blocks_hold_every_character_that_is_not_space_in_order(parts):
    text, blocks = text_and_blocks(*parts)
    spans = read_units(text, blocks).spans
    assert all(a < b for a, b in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    kept = "".join(text[a:b] for a, b in spans)
    assert "".join(kept.split()) == "".join(text.split())


def test_a_line_of_rules_in_a_table_takes_linear_time():
    text = "a | b\n" + "=" * 100_000 + "x"
    table = Block(BlockKind.TABLE, 0, len(text))
    passage = Passage("a#0", "a", "A", (), 0, text, 0, len(text), "", blocks=(table,))
    started = time.thread_time()
    MarkdownText([passage], lambda start, end: text[start:end])
    assert time.thread_time() - started < 5
