"""What holds for the passages of every document."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.chunking import chunk
from packwise.documents import BlockKind, content_hash, passage_id
from packwise.language.sentences import sentence_spans
from packwise.settings import Settings

WORD = st.sampled_from(
    'the a passage holds what one asks for Dr. e.g. 3.5 U.S. (see it) — "quoted." x, y; '
    "internationalisation 状態。 naïve 🙂 os.path.join foo_bar http://a.b/c?d=e".split(" ")
)
SENTENCE = st.builds(
    lambda words, stop: " ".join(words).capitalize() + stop,
    st.lists(WORD, min_size=1, max_size=30),
    st.sampled_from([".", "!", "?", ":", "", "...", '."']),
)
PROSE = st.lists(SENTENCE, min_size=1, max_size=12).map(" ".join)
LIST = st.lists(SENTENCE, min_size=1, max_size=8).map(
    lambda items: "\n".join(f"{'  ' * (i % 3 == 2)}- {item}" for i, item in enumerate(items))
)
CODE = st.lists(
    st.sampled_from(["def f(x):", "    return x + 1", "", "print(f(1))", "# " + "note " * 20]),
    min_size=1,
    max_size=30,
).map("\n".join)
TABLE = st.lists(st.lists(WORD, min_size=2, max_size=4), min_size=1, max_size=20).map(
    lambda rows: "\n".join(" | ".join(row) for row in rows)
)
BLOCK = st.one_of(
    st.tuples(st.just(BlockKind.TEXT), st.one_of(PROSE, st.text(max_size=200))),
    st.tuples(st.just(BlockKind.LIST), LIST),
    st.tuples(st.just(BlockKind.CODE), CODE),
    st.tuples(st.just(BlockKind.TABLE), TABLE),
    st.tuples(st.sampled_from(BlockKind), st.text(max_size=80)),
)
SECTIONS = st.lists(
    st.tuples(
        st.sampled_from([(), ("Use",), ("Use", "Limits"), ("Notes",)]),
        st.lists(BLOCK, max_size=6),
    ),
    max_size=4,
)
SETTINGS = st.builds(
    lambda size, overlap: Settings(passage_tokens=size, passage_overlap=overlap),
    st.sampled_from([32, 48, 80, 200]),
    st.sampled_from([0.0, 0.125, 0.3]),
)
LAW = settings(max_examples=50, deadline=None)


@LAW
@given(SECTIONS, SETTINGS)
def test_a_passage_is_the_text_at_its_offsets_and_knows_where_it_stands(
    words, document_of, sections, limits
):
    document = document_of(sections, "Guide")
    paths = {section.path for section in document.sections}
    for order, passage in enumerate(chunk(document, words, limits)):
        assert passage.text == document.text[passage.start : passage.end]
        assert passage.text == passage.text.strip() != ""
        assert passage.id == passage_id("guide", order)
        assert (passage.document, passage.order_index) == ("guide", order)
        assert passage.section_path in paths
        assert passage.content_hash == content_hash(passage.indexed_text)
        assert passage.embedder_version == words.version
        assert (passage.url, passage.lang) == ("https://example.org", "en")


@LAW
@given(SECTIONS, SETTINGS)
def test_every_character_of_every_block_is_in_a_passage(words, document_of, sections, limits):
    document = document_of(sections)
    covered = bytearray(len(document.text))
    for passage in chunk(document, words, limits):
        covered[passage.start : passage.end] = b"\1" * (passage.end - passage.start)
    for section in document.sections:
        for block in section.blocks:
            for i in range(block.start, block.end):
                assert covered[i] or document.text[i].isspace()


@LAW
@given(SECTIONS, SETTINGS)
def test_passages_stand_in_reading_order_and_within_one_section(
    words, document_of, sections, limits
):
    document = document_of(sections)
    passages = chunk(document, words, limits)
    for before, after in pairwise(passages):
        assert before.start < after.start
        assert before.end < after.end
    for passage in passages:
        assert [
            section.path
            for section in document.sections
            if section.start <= passage.start and passage.end <= section.end
        ] == [passage.section_path]


@LAW
@given(SECTIONS, SETTINGS, st.sampled_from(["", "Guide", "A guide to very long titles of guides"]))
def test_no_passage_with_its_heading_is_above_the_limit(
    words, document_of, sections, limits, title
):
    for passage in chunk(document_of(sections, title), words, limits):
        assert words.count(passage.indexed_text) <= limits.passage_tokens


@LAW
@given(SECTIONS, SETTINGS)
def test_code_tables_list_items_and_sentences_that_fit_are_whole_in_some_passage(
    words, document_of, sections, limits
):
    document = document_of(sections)
    passages = chunk(document, words, limits)
    for section in document.sections:
        heading = words.count(" > ".join(dict.fromkeys(section.path)))
        room = limits.passage_tokens - heading
        # Longer than this it is no sentence: a list or a table run together.
        sentence_room = min(room, max(0.6 * room, 120))
        for start, end, is_sentence in _wholes(document.text, section):
            text = document.text[start:end]
            # A stretch without a token counts for one every 64 characters.
            size = words.count(text) + len(text) // 64
            if text.strip() and size <= (sentence_room if is_sentence else room):
                assert any(p.start <= start and end <= p.end for p in passages), text


def _wholes(text, section):
    for block in section.blocks:
        content = text[block.start : block.end]
        if block.kind in (BlockKind.CODE, BlockKind.TABLE):
            spans = [(0, len(content))]
        elif block.kind is BlockKind.LIST:
            spans = [m.span() for m in re.finditer(r"^ *- [^\n]*", content, re.MULTILINE)]
        else:
            spans = sentence_spans(content)
        for start, end in spans:
            piece = content[start:end]
            lead = len(piece) - len(piece.lstrip())
            stop = start + len(piece.rstrip())
            is_sentence = block.kind is BlockKind.TEXT
            yield block.start + start + lead, block.start + stop, is_sentence


@LAW
@given(SECTIONS, SETTINGS)
def test_overlap_is_bounded_whole_sentences_of_prose_and_within_a_section(
    words, document_of, sections, limits
):
    document = document_of(sections)
    text = document.text
    blocks = [block for section in document.sections for block in section.blocks]
    fixed = [block for block in blocks if block.kind in (BlockKind.CODE, BlockKind.TABLE)]
    prose = [block for block in blocks if block.kind is BlockKind.TEXT]
    openings = {
        block.start + start
        for block in prose
        for start, _ in sentence_spans(text[block.start : block.end])
    }
    for before, after in pairwise(chunk(document, words, limits)):
        if after.start >= before.end:
            continue
        repeated = text[after.start : before.end]
        assert before.section_path == after.section_path
        assert words.count(repeated) <= 2 * limits.passage_overlap * words.count(after.text) + 1
        assert not any(block.start < before.end and after.start < block.end for block in fixed)
        own = before.end + len(text[before.end :]) - len(text[before.end :].lstrip())
        if own in openings and any(b.start <= after.start < b.end for b in prose):
            assert after.start in openings


@LAW
@given(SECTIONS, SETTINGS)
def test_the_same_document_gives_the_same_passages(words, document_of, sections, limits):
    document = document_of(sections, "Guide")
    assert chunk(document, words, limits) == chunk(document, words, limits)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.one_of(
            SENTENCE,
            st.text(max_size=60),
            st.text("abcdefgh0123", min_size=40, max_size=400),
            st.text("あ漢字。、", min_size=20, max_size=120),
        ),
        min_size=1,
        max_size=10,
    )
)
def test_the_limit_holds_in_the_tokens_of_the_default_embedder(bge, document_of, pieces):
    document = document_of([(("Use",), [(BlockKind.TEXT, " ".join(pieces))])], "Guide")
    for passage in chunk(document, bge, Settings(passage_tokens=48)):
        assert bge.count(passage.indexed_text) <= 48
