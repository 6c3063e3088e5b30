"""Answers without a language model: which parts of the passages are taken, and how they read."""

import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.answering.block_ranking import rank_blocks, weighted_question
from packwise.answering.blocks import PartKind, SourcePassage, answer_blocks, blocks_of
from packwise.answering.extractive import extract, short_answer
from packwise.chunking import chunk
from packwise.documents import Passage
from packwise.language.questions import AnswerKind, parse_question
from packwise.language.word_classes import WordClass, words_of
from packwise.settings import Settings
from packwise.sources.files import parse
from packwise.sources.links import LinkResolver
from packwise.stores.base import TermStatistics

OIL = (
    "The 1973 oil crisis began in October 1973 when the members of OAPEC proclaimed an oil "
    "embargo. By the end of the embargo in March 1974, the price of oil had risen from US$3 per "
    "barrel to nearly $12 globally. The embargo caused an oil crisis with many effects on "
    "politics and the economy."
)
STEAM = (
    "The steam engine was improved by James Watt in Glasgow. He added a separate condenser. "
    "This made the engine four times as efficient."
)
REDIS = (
    "Redis keeps its data in memory. The server listens on port 6379 unless the configuration "
    "says otherwise. A replica copies the data of its master."
)


class Tokens:
    """The part of an embedder that chunking uses: a token per word."""

    version, window = "words", 512

    def token_spans(self, text):
        return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


def read(markdown, *, tokens=200, name="guide.md"):
    """The passages of a Markdown file, as a build makes them."""
    document = parse("markdown", markdown).build(name, LinkResolver([name]))
    return chunk(document, Tokens(), Settings(passage_tokens=tokens, passage_overlap=0.0))


def sources(passages, score=0.6):
    return [
        SourcePassage(rank + 1, passage, score - rank / 100, rank)
        for rank, passage in enumerate(passages)
    ]


def bare(text, n=1):
    """A passage as an old pack gives it: without blocks."""
    return Passage(f"d{n}#0", f"d{n}", f"Title {n}", (), 0, text, 0, len(text), "")


def evidence(*bodies):
    return sources([bare(body, n) for n, body in enumerate(bodies, start=1)])


def ranked(question, found, statistics=None, cross_encoder=None):
    blocks = blocks_of(found)
    return rank_blocks(weighted_question(question, blocks, statistics), blocks, cross_encoder)


WORLD = evidence(OIL, STEAM, REDIS)

PORTS = """# Server

The server needs some room. It uses the following ports:

- 6379 for clients
- 16379 for the cluster bus

Everything else is closed.

## Install

To install the server, run this command:

```shell
apt-get install redis
systemctl enable redis
```

## Limits

| setting | default | meaning |
| --- | --- | --- |
| maxclients | 10000 | most clients at a time |
| timeout | 0 | seconds until an idle client is closed |
"""


@pytest.mark.parametrize(
    ("question", "text", "marker"),
    [
        ("When did the 1973 oil crisis begin?", "began in October 1973", 1),
        ("What was the price of oil in March 1974?", "nearly $12", 1),
        ("Who improved the steam engine?", "James Watt", 2),
        ("Which port does the server listen on?", "port 6379", 3),
        ("what does a replica copy", "copies the data of its master", 3),
    ],
)
def test_the_sentence_that_answers_comes_first(question, text, marker):
    best = ranked(question, WORLD).blocks[0].block
    assert text in best.text
    assert best.source.marker == marker
    assert f"[{marker}]" in extract(question, WORLD).text


def test_a_list_is_shown_whole_with_the_sentence_that_announces_it():
    answer = extract("Which ports does the server use?", sources(read(PORTS)))
    assert re.search(
        r"It uses the following ports:( \[1\])?\n\n- 6379 for clients\n- 16379 for the cluster bus",
        answer.text,
    )


def test_code_is_shown_in_a_fence_line_by_line_under_the_sentence_above_it():
    answer = extract("How do I install the server?", sources(read(PORTS)))
    assert (
        "To install the server, run this command: [2]\n\n"
        "```\napt-get install redis\nsystemctl enable redis\n```" in answer.text
    )


def test_a_table_row_is_shown_under_its_column_names():
    answer = extract("What is the default of maxclients?", sources(read(PORTS)))
    assert "| setting | default | meaning |\n| --- | --- | --- |" in answer.text
    assert "| maxclients | 10000 | most clients at a time |" in answer.text


def test_a_row_from_a_later_part_of_a_table_still_has_its_column_names():
    rows = "\n".join(f"| option{n} | {n} | sets the number {n} |" for n in range(60))
    passages = read(f"# Options\n\n| name | default | meaning |\n| --- | --- | --- |\n{rows}\n")
    assert len(passages) > 2
    parts = [part for source in sources(passages) for part in answer_blocks(source)]
    assert {p.above for p in parts if p.kind is PartKind.ROW} == {"name | default | meaning"}
    passages.sort(key=lambda passage: "option55" not in passage.text)
    answer = extract("What is the default of option55?", sources(passages))
    assert "| name | default | meaning |" in answer.text
    assert "| option55 | 55 | sets the number 55 |" in answer.text


def test_an_item_from_a_later_part_of_a_list_still_has_what_announces_it():
    items = "\n".join(f"- key{n} moves the cursor {n} columns to the left" for n in range(60))
    passages = read(f"# Keys\n\nThese keys move the cursor:\n\n{items}\n", tokens=100)
    blocks = [block for source in sources(passages) for block in answer_blocks(source)]
    assert {block.above for block in blocks if block.kind is PartKind.ITEM} == {
        "These keys move the cursor:"
    }


def test_a_sentence_that_announces_something_is_no_answer_by_itself():
    kinds = [(b.kind, b.text) for s in sources(read(PORTS)) for b in answer_blocks(s)]
    assert not any(k is PartKind.TEXT and text.endswith(":") for k, text in kinds)


def test_a_long_paragraph_is_taken_in_parts_of_whole_sentences():
    page = "Alpha is a tool. It reads files. " + "Something else is said at length here. " * 12
    parts = answer_blocks(sources([bare(page)])[0])
    assert parts[0].text.startswith("Alpha is a tool. It reads files. Something")
    assert all(len(part.text) <= 320 and part.text.endswith(".") for part in parts)
    assert " ".join(part.text for part in parts) == page.strip()


def test_a_short_paragraph_is_shown_with_the_one_beside_it():
    page = "## DOWNLOAD_TIMEOUT\n\nDefault: 180\n\nHow long the downloader waits for a page.\n"
    answer = extract("How long does the downloader wait?", sources(read(page)))
    assert answer.text == "Default: 180\n\nHow long the downloader waits for a page. [1]"


def test_terse_notes_answer():
    notes = read("# VPN\n\nServer vpn2.corp, cert expires 1 March\n\n# Port\n\n9999\n")
    assert "1 March" in extract("when does the VPN certificate expire?", sources(notes)).text
    assert "9999" in extract("which port?", sources(notes)).text


@pytest.mark.parametrize(
    ("question", "short"),
    [
        ("When did the 1973 oil crisis begin?", "October 1973"),
        ("Who improved the steam engine?", "James Watt"),
        ("Which port does the server listen on?", "6379"),
    ],
)
def test_a_short_answer_is_the_name_or_date_asked_for(question, short):
    found = short_answer(ranked(question, WORLD))
    assert found is not None
    assert short in found.text


@pytest.mark.parametrize(
    "question", ["Why did prices rise?", "How is the engine improved?", "steam"]
)
def test_reasons_ways_and_bare_words_get_no_short_answer(question):
    assert extract(question, WORLD).short is None


def test_the_same_sentence_from_two_documents_is_said_once():
    answer = extract("Who improved the steam engine?", evidence(STEAM, STEAM))
    assert answer.text.count("He added a separate condenser.") == 1


def test_a_question_in_the_text_is_not_its_own_answer():
    page = "How do I stop the server?\n\nSend it the signal TERM and wait."
    best = ranked("How do I stop the server?", evidence(page)).blocks[0].block
    assert "TERM" in best.text


def test_a_rare_word_counts_for_more_than_a_common_one():
    found = evidence("The system starts the system service.", "Zanthium stops.")
    known = TermStatistics(1000, 20.0, {"system": 900, "servic": 800, "zanthium": 1})
    best = ranked("zanthium system service", found, statistics=known).blocks[0]
    assert best.block.text == "Zanthium stops."


class Zebras:
    """Stands in for a cross-encoder: likes the letter z."""

    name = "z"

    def score(self, question, texts):
        return np.array([1.0 if "z" in text else 0.0 for text in texts], dtype=np.float32)


def test_the_cross_encoder_may_overrule_the_words():
    found = evidence("A zebra.", "The cat sat on the red mat.")
    assert "cat" in ranked("cat on a mat", found).blocks[0].block.text
    best = ranked("cat on a mat", found, cross_encoder=Zebras())
    assert "zebra" in best.blocks[0].block.text
    assert (best.judge, ranked("cat", found).judge) == ("cross", "words")


def test_without_evidence_there_is_no_answer():
    for found in ([], evidence(""), evidence("   \n\n")):
        answer = extract("What is this?", found)
        assert (answer.text, answer.cited, answer.short, answer.probability) == ("", (), None, 0.0)
    assert short_answer(ranked("What?", [])) is None


@pytest.mark.parametrize("question", ["", "?", "\x00", "🙂", "\ud800", "the of and", "x" * 100_000])
def test_odd_questions_get_a_sane_answer(question):
    answer = extract(question, WORLD)
    assert 1 <= len(answer.blocks) <= 3
    assert answer.cited


def test_a_long_context_does_not_take_long():
    bodies = [f"{OIL} {STEAM} Number {n} is here. " * 20 for n in range(8)]
    started = time.thread_time()
    assert extract("When did the 1973 oil crisis begin?", evidence(*bodies)).blocks
    assert time.thread_time() - started < 2.0


@pytest.mark.parametrize("text", ["1," * 20_000, "a-" * 20_000, "((((" * 10_000, "9" * 40_000])
def test_hostile_text_is_read_in_linear_time(text):
    started = time.thread_time()
    words_of(text)
    extract("What is 1?", evidence(text + "."))
    assert time.thread_time() - started < 2.0


@given(st.text(max_size=80), st.lists(st.text(max_size=120), max_size=4))
@settings(max_examples=80, deadline=None)
def test_any_text_gives_parts_of_it_and_only_known_sources(question, bodies):
    found = evidence(*bodies)
    answer = extract(question, found)
    assert len(answer.blocks) <= 3
    for block in answer.blocks:
        assert block.text == block.source.passage.text[block.start : block.end]
    assert set(answer.cited) <= {source.marker for source in found}
    scores = [one.score for one in ranked(question, found).blocks]
    assert scores == sorted(scores, reverse=True)
    assert answer == extract(question, found)


MARKDOWN = st.lists(
    st.sampled_from(
        [
            "Some text about ports and keys.",
            "The options are:\n\n- one\n- two\n  - nested\n- three",
            "```\nrun --now\n\n  stop\n```",
            "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |",
            "# Heading",
            "A sentence. Another one. And:",
        ]
    ),
    max_size=8,
).map("\n\n".join)


@given(MARKDOWN, st.sampled_from([16, 40, 200]))
@settings(max_examples=60, deadline=None)
def test_every_word_of_a_passage_is_in_one_of_its_blocks_or_announces_one(markdown, tokens):
    for source in sources(read(markdown, tokens=tokens)):
        blocks = answer_blocks(source)
        shown = " ".join(f"{block.above} {block.text}" for block in blocks)
        missing = [word for word in re.findall(r"\w+", source.passage.text) if word not in shown]
        assert not missing


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who wrote it?", AnswerKind.PERSON),
        ("To whom was it sold?", AnswerKind.PERSON),
        ("When did it end?", AnswerKind.TIME),
        ("In what year did it end?", AnswerKind.TIME),
        ("Where is it?", AnswerKind.PLACE),
        ("Which city is it in?", AnswerKind.PLACE),
        ("What countries border it?", AnswerKind.PLACE),
        ("How many legs has it?", AnswerKind.NUMBER),
        ("What is the population of Warsaw?", AnswerKind.NUMBER),
        ("Why is it blue?", AnswerKind.REASON),
        ("How does it work?", AnswerKind.MANNER),
        ("What is a monad?", AnswerKind.DEFINITION),
        ("What did they sell?", AnswerKind.OBJECT),
        ("Which algorithm is used?", AnswerKind.WHICH),
        ("What kind of fuel is used?", AnswerKind.WHICH),
        ("install on linux", AnswerKind.OTHER),
        ("", AnswerKind.OTHER),
    ],
)
def test_what_a_question_asks_for(question, kind):
    assert parse_question(question).answer is kind


def test_the_words_of_a_question_share_its_weight_by_rarity():
    asked = parse_question("Which rare word?").weighted(lambda t: 3.0 if t == "rare" else 1.0)
    assert asked.weights == pytest.approx({"rare": 0.75, "word": 0.25})


def test_words_are_told_apart_by_spelling_and_lists():
    kinds = {
        w.text: w.kind for w in words_of('In May 1973, Ann quickly paid $1,200.50 (12%) for "it".')
    }
    assert kinds["In"] is WordClass.PREPOSITION
    assert kinds["May"] is WordClass.MONTH
    assert kinds["1973"] is WordClass.YEAR
    assert kinds["Ann"] is WordClass.NAME
    assert kinds["quickly"] is WordClass.ADVERB
    assert kinds["$1,200.50"] is kinds["12%"] is WordClass.NUMBER
    assert kinds["("] is WordClass.OPEN
    assert kinds["it"] is WordClass.PRONOUN
