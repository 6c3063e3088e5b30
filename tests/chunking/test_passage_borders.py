"""Where a section is cut, and what a passage carries."""

from __future__ import annotations

import re
from itertools import pairwise
from types import MappingProxyType

import pytest

from packwise.chunking import chunk
from packwise.documents import BlockKind, Document, content_hash
from packwise.settings import Settings

TEXT, LIST, CODE, TABLE = BlockKind.TEXT, BlockKind.LIST, BlockKind.CODE, BlockKind.TABLE
LIMITS = Settings(passage_tokens=100, passage_overlap=0.0)


def sentence(n: int, words: int = 8) -> str:
    """A sentence of ``words`` + 2 tokens."""
    return f"Nr {n} " + " ".join(["word"] * (words - len(str(n)))) + "."


def prose(first: int, last: int) -> str:
    return " ".join(sentence(n) for n in range(first, last))


def cut(document: Document, embedder, tokens: int = 100, overlap: float = 0.0) -> list[str]:
    settings = Settings(passage_tokens=tokens, passage_overlap=overlap)
    return [passage.text for passage in chunk(document, embedder, settings)]


def test_a_section_that_fits_is_one_passage_without_overlap(words, document_of):
    blocks = [(TEXT, prose(0, 4)), (CODE, "x = 1"), (LIST, "- a\n- b")]
    document = document_of([((), blocks), (("Use",), [(TEXT, prose(4, 6))])])
    assert cut(document, words, overlap=0.125) == [
        f"{prose(0, 4)}\n\nx = 1\n\n- a\n- b",
        prose(4, 6),
    ]


def test_sections_are_kept_apart_however_short(words, document_of):
    document = document_of([((name,), [(TEXT, "Short.")]) for name in ("A", "B", "C")])
    passages = chunk(document, words, Settings())
    assert [(p.section_path, p.text) for p in passages] == [
        (("A",), "Short."),
        (("B",), "Short."),
        (("C",), "Short."),
    ]


def test_a_section_a_little_too_long_becomes_even_halves(words, document_of):
    document = document_of([((), [(TEXT, prose(0, 11))])])
    sizes = [words.count(text) for text in cut(document, words)]
    assert len(sizes) == 2
    assert max(sizes) - min(sizes) <= words.count(sentence(0))


def test_the_heading_counts_towards_the_limit(words, document_of):
    body = [(TEXT, prose(0, 9))]
    assert len(cut(document_of([((), body)]), words)) == 1
    headed = document_of([(("A section with a heading of some length",), body)], "The guide")
    assert len(cut(headed, words)) == 2


def test_a_heading_that_fills_the_limit_leaves_a_quarter_for_the_text(words, document_of):
    document = document_of([((), [(TEXT, prose(0, 8))])], "long " * 200)
    texts = cut(document, words)
    assert all(words.count(text) <= 25 for text in texts)
    assert len(texts) < 8


def test_no_passage_is_longer_than_the_embedder_reads(words, document_of):
    document = document_of([((), [(TEXT, prose(0, 40))])], "Guide")
    narrow = type(words)(words.token_spans, window=64)
    for passage in chunk(document, narrow, Settings(passage_tokens=4096)):
        assert words.count(passage.indexed_text) + 2 <= 64


def test_a_paragraph_border_nearby_is_preferred_to_the_even_size(words, document_of):
    document = document_of([((), [(TEXT, prose(0, 7)), (TEXT, prose(7, 12))])])
    assert cut(document, words) == [prose(0, 7), prose(7, 12)]


def test_a_paragraph_border_far_off_is_not(words, document_of):
    document = document_of([((), [(TEXT, sentence(0)), (TEXT, prose(1, 12))])])
    sizes = [words.count(text) for text in cut(document, words)]
    assert len(sizes) == 2
    assert min(sizes) > 40


def test_code_and_tables_stay_whole(words, document_of):
    code = "\n\n".join(f"def f{n}(x):\n    return x * {n}" for n in range(4))
    table = "\n".join(f"row {n} | {n}" for n in range(12))
    blocks = [(TEXT, prose(0, 5)), (CODE, code), (TEXT, prose(5, 9)), (TABLE, table)]
    texts = cut(document_of([((), blocks)]), words, overlap=0.125)
    assert sum(code in text for text in texts) == 1
    assert sum(table in text for text in texts) == 1
    assert sum("def f" in text for text in texts) == 1


def test_what_introduces_a_block_stays_with_it(words, document_of):
    code = "\n".join(["call(this, that)"] * 6)
    lead = "Call it as follows, once for each of them:"
    blocks = [(TEXT, prose(0, 6)), (TEXT, lead), (CODE, code), (TEXT, prose(6, 9))]
    texts = cut(document_of([((), blocks)]), words)
    assert any(f"{lead}\n\n{code}" in text for text in texts)


def test_code_too_long_for_a_passage_is_cut_between_its_parts(words, document_of):
    parts = [f"def f{n}(x):\n    y = x * {n}\n    return y" for n in range(12)]
    texts = cut(document_of([((), [(CODE, "\n\n".join(parts))])]), words)
    assert len(texts) > 1
    for text in texts:
        assert all(part in parts for part in text.split("\n\n"))


def test_a_table_too_long_for_a_passage_is_cut_between_rows(words, document_of):
    rows = ["name | sum", "--- | ---"] + [f"item {n} | {n}" for n in range(40)]
    texts = cut(document_of([((), [(TABLE, "\n".join(rows))])]), words)
    assert len(texts) > 1
    assert "\n".join(texts).split("\n") == rows
    assert texts[0].startswith("name | sum\n--- | ---\nitem 0 | 0")


def test_later_parts_of_a_table_have_its_column_names_as_lead(words, document_of):
    rows = ["name | sum", "--- | ---"] + [f"item {n} | {n}" for n in range(40)]
    passages = chunk(document_of([((), [(TABLE, "\n".join(rows))])]), words, LIMITS)
    assert len(passages) > 2
    assert [p.lead for p in passages] == ["", *["name | sum"] * (len(passages) - 1)]
    for passage in passages:
        assert words.count(passage.indexed_text) <= LIMITS.passage_tokens
        assert passage.content_hash == content_hash(passage.indexed_text)


def test_later_parts_of_a_list_have_the_sentence_that_announces_it_as_lead(words, document_of):
    items = "\n".join(f"- port number {n} is taken by service {n}" for n in range(30))
    blocks = [(TEXT, "Read this. These ports are used:"), (LIST, items), (TEXT, "More text.")]
    passages = chunk(document_of([((), blocks)]), words, LIMITS)
    assert len(passages) > 2
    assert {p.lead for p in passages[1:]} == {"These ports are used:"}
    assert passages[0].lead == ""


def test_blocks_of_a_passage_are_the_parts_of_the_sections_blocks_that_it_shows(words, document_of):
    blocks = [(TEXT, "One two three. " * 20), (CODE, "x = 1\ny = 2"), (TEXT, "After it.")]
    document = document_of([((), blocks)])
    passages = chunk(document, words, LIMITS)
    assert len(passages) > 1
    shown = [(b.kind, document.text[b.start : b.end]) for p in passages for b in p.blocks]
    assert (CODE, "x = 1\ny = 2") in shown
    assert all(p.start <= b.start < b.end <= p.end for p in passages for b in p.blocks)


def test_the_head_of_a_table_is_not_left_alone(words, document_of):
    head = " | ".join(["head"] * 45)
    rows = [f"{n} | " + " | ".join("abcd") for n in range(9)]
    texts = cut(document_of([((), [(TABLE, "\n".join([head, *rows]))])]), words)
    assert texts == ["\n".join([head, rows[0]]), "\n".join(rows[1:])]


def test_a_row_of_several_lines_is_one_row(words, document_of):
    ruling = "+---+---+"
    rows = [f"| {n} | one |\n|   | two |\n{ruling}" for n in range(10)]
    table = "\n".join([ruling, "| n | words |", "+===+===+", *rows])
    texts = cut(document_of([((), [(TABLE, table)])]), words)
    assert len(texts) > 2
    assert all(text.endswith(ruling) for text in texts)
    assert all(text.startswith("| ") for text in texts[1:])


def test_list_items_stay_whole(words, document_of):
    items = [f"- {prose(n, n + 2)}" for n in range(0, 16, 2)]
    texts = cut(document_of([((), [(LIST, "\n".join(items))])]), words)
    assert len(texts) > 1
    assert "\n".join(texts).split("\n") == items


def test_a_list_is_rather_cut_between_items_than_between_their_parts(words, document_of):
    items = [f"- {sentence(n)}\n  - {sentence(n)}\n  - {sentence(n)}" for n in range(5)]
    texts = cut(document_of([((), [(LIST, "\n".join(items))])]), words)
    assert [text.count("- Nr") for text in texts] in ([6, 9], [9, 6])


def test_a_list_without_marks_is_cut_between_its_lines(words, document_of):
    lines = [f"term {n}\n  {sentence(n)}" for n in range(12)]
    texts = cut(document_of([((), [(LIST, "\n".join(lines))])]), words)
    assert len(texts) == 2
    assert all(text.startswith("term") for text in texts)


def test_an_endless_sentence_is_cut_at_clauses_then_commas_then_words(words, document_of):
    clauses = ["; ".join(["and so it goes on"] * 40), ", ".join(["more of it"] * 60), "on " * 150]
    for text, border in zip(clauses, ("; ", ", ", " "), strict=True):
        texts = cut(document_of([((), [(TEXT, text.strip())])]), words)
        assert len(texts) > 1
        assert border.join(part.removesuffix(border.strip()) for part in texts) == text.strip()


def test_a_sentence_that_fits_is_not_cut(words, document_of):
    long = sentence(1, 80)
    texts = cut(document_of([((), [(TEXT, f"{prose(2, 4)} {long} {prose(4, 6)}")])]), words)
    assert any(long in text for text in texts)


def test_a_list_run_together_is_cut_rather_than_leave_a_crumb(words, document_of):
    text = ", ".join(["one thing"] * 70) + ". See below."
    sizes = [words.count(text) for text in cut(document_of([((), [(TEXT, text)])]), words, 282)]
    assert len(sizes) == 2
    assert min(sizes) > 100


def test_an_endless_word_is_cut_between_tokens(words, document_of):
    word = "abcd" * 1000
    texts = cut(document_of([((), [(TEXT, f"Before {word} after.")])]), words)
    assert "".join(texts).replace(" ", "") == f"Before{word}after."
    assert all(words.count(text) <= 100 for text in texts)
    assert len(texts) < 20


def test_the_pieces_of_a_torn_word_are_counted_as_the_words_they_become(words, document_of):
    def spans(text):
        """One token a letter, but a word of more than a hundred letters is one token."""
        found = (match.span() for match in re.finditer(r"\w+", text))
        return [
            span
            for a, b in found
            for span in ([(a, b)] if b - a > 100 else [(i, i + 1) for i in range(a, b)])
        ]

    embedder = type(words)(spans)
    for tail in range(0, 48, 6):
        text = "x" * 2064 + " of" * tail
        document = document_of([((), [(TEXT, text)])])
        assert all(len(spans(part)) <= 32 for part in cut(document, embedder, 32))


def test_a_passage_never_grows_with_what_has_no_tokens(words, document_of):
    text = "start " + "_" * 50_000 + " end"
    unseen = type(words)(lambda t: [s for s in words.token_spans(t) if "_" not in t[slice(*s)]])
    passages = cut(document_of([((), [(CODE, text)])]), unseen)
    assert max(map(len, passages)) <= 100 * 64
    assert "".join(passages).count("_") == 50_000


def test_pieces_of_a_section_overlap_by_whole_sentences(words, document_of):
    document = document_of([((), [(TEXT, prose(0, 40))])])
    passages = chunk(document, words, Settings(passage_tokens=100, passage_overlap=0.125))
    assert len(passages) > 3
    for before, after in pairwise(passages):
        repeated = document.text[after.start : before.end]
        share = words.count(repeated) / words.count(after.text)
        assert 0.1 <= share <= 0.15
        assert repeated.startswith("Nr ")
        assert repeated.endswith("word.")


def repeated_sentences(document, passages):
    pairs = pairwise(passages)
    return [document.text[after.start : before.end].count("Nr ") for before, after in pairs]


@pytest.mark.parametrize(
    ("overlap", "sentences"),
    [
        (0.0, [0, 0, 0]),
        # An even passage has 80 tokens: a sentence of 10 is twice what is wanted, or more.
        (0.055, [0, 0, 0, 0]),
        (0.07, [1, 1, 1, 1]),
        (0.2, [2, 2, 2, 2]),
        (0.3, [3, 3, 3, 3, 3]),
    ],
)
def test_the_overlap_is_the_share_the_setting_names(words, document_of, overlap, sentences):
    document = document_of([((), [(TEXT, prose(0, 40))])])
    settings = Settings(passage_tokens=100, passage_overlap=overlap)
    assert repeated_sentences(document, chunk(document, words, settings)) == sentences


def test_by_default_an_eighth_of_a_passage_repeats_the_one_before(words, document_of):
    document = document_of([((), [(TEXT, " ".join([prose(0, 40)] * 6))])])
    passages = chunk(document, words, Settings())
    assert {words.count(passage.text) for passage in passages} <= {290, 300, 310}
    assert repeated_sentences(document, passages) == [4] * 8


def test_a_sentence_is_not_repeated_in_part(words, document_of):
    long = "; ".join(["and so it goes on"] * 30) + "."
    document = document_of([((), [(TEXT, f"{long} {prose(0, 20)}")])])
    passages = chunk(document, words, Settings(passage_tokens=100, passage_overlap=0.125))
    own = [document.text[before.end :].lstrip() for before in passages[:-1]]
    assert own[1].startswith("Nr 0 ")
    for text, (before, after) in zip(own, pairwise(passages), strict=True):
        if text.startswith("Nr "):
            assert after.start >= before.end or after.text.startswith("Nr ")


def test_a_passage_with_little_text_of_its_own_repeats_little(words, document_of):
    long, short, last = sentence(0, 73), sentence(1, 10), sentence(2, 14)
    code = " ".join(["x"] * 98)
    blocks = [(TEXT, f"{long} {short}"), (TEXT, last), (CODE, code)]
    texts = cut(document_of([((), blocks)]), words, overlap=0.125)
    assert texts == [f"{long} {short}", last, code]


def test_without_overlap_no_text_is_repeated(words, document_of):
    document = document_of([((), [(TEXT, prose(0, 40))])])
    assert " ".join(cut(document, words)) == prose(0, 40)


def test_code_and_tables_are_not_repeated_and_sections_share_nothing(words, document_of):
    code = "\n".join(["run(x)"] * 3)
    body = [(TEXT, prose(0, 8)), (CODE, code), (TEXT, prose(8, 16)), (CODE, code)]
    document = document_of([(("A",), body), (("B",), body)])
    passages = chunk(document, words, Settings(passage_tokens=100, passage_overlap=0.3))
    for before, after in pairwise(passages):
        if before.section_path != after.section_path:
            assert after.start >= before.end
        assert code not in document.text[after.start : before.end]


def test_a_run_of_words_without_stops_still_overlaps(words, document_of):
    document = document_of([((), [(TEXT, "uh huh " * 200)])])
    passages = chunk(document, words, Settings(passage_tokens=100, passage_overlap=0.125))
    assert all(after.start < before.end for before, after in pairwise(passages))


def test_a_passage_carries_what_its_document_and_section_know(words, document_of):
    made = document_of([(("Use", "Limits"), [(TEXT, "  It has none.  ")])], "Guide")
    metadata = MappingProxyType({"team": "docs"})
    document = Document(
        made.id, made.title, made.text, made.sections, url="u", lang="en", metadata=metadata
    )
    (passage,) = chunk(document, words, Settings())
    assert passage.heading == "Guide > Use > Limits"
    assert passage.header == "Limits"
    assert passage.indexed_text == "Guide > Use > Limits\nIt has none."
    assert (passage.doc_title, passage.url, passage.lang) == ("Guide", "u", "en")
    assert passage.metadata is metadata
    assert passage.embedder_version == "spans-1"


def test_the_content_hash_follows_heading_and_text(words, document_of):
    def hashed(path, text):
        (passage,) = chunk(document_of([(path, [(TEXT, text)])]), words, Settings())
        return passage.content_hash

    assert hashed(("A",), "Same.") == hashed(("A",), "Same.")
    assert len({hashed(("A",), "Same."), hashed(("B",), "Same."), hashed(("A",), "Other.")}) == 3


def test_a_document_without_sections_is_cut_like_one_section(words):
    text = f"{prose(0, 6)}\n\n{prose(6, 12)}"
    assert cut(Document("d", "", text, ()), words) == [prose(0, 6), prose(6, 12)]


@pytest.mark.parametrize("text", ["", " \n\n\t"])
def test_an_empty_document_has_no_passages(words, document_of, text):
    assert cut(Document("d", "Title", text, ()), words) == []
    assert cut(document_of([(("A",), [(TEXT, text)]), (("B",), [])]), words) == []


def test_a_section_is_tokenized_once(words, document_of):
    seen: list[str] = []

    def spans(text):
        seen.append(text)
        return words.token_spans(text)

    document = document_of([(("A",), [(TEXT, prose(0, 40))])], "Guide")
    chunk(document, type(words)(spans), Settings(passage_tokens=100))
    assert seen == [f"Guide > A\n{prose(0, 40)}"]
