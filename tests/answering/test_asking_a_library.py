"""``Library.ask``: the steps in their order, with and without a language model."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import packwise
from messages_api import KEY, broken_stream, hang_up, silence, status, text
from packwise.answering.answer import Answer
from packwise.answering.synthesis import clean
from packwise.candidates import Filter
from packwise.errors import UsageError
from packwise.library import Library, open_library
from packwise.models.claude import ClaudeModel, connect_claude
from packwise.models.tokens import token_counter
from packwise.settings import Settings
from packwise.stores.locate import open_store
from tiny_span_reader import make_reader

ON_TOPIC = "How long does a restore take?"
OFF_TOPIC = "Who won the football world cup in 1998?"


@pytest.fixture(scope="module")
def library(notes_pack):
    with open_library(str(notes_pack)) as opened:
        yield opened


@pytest.fixture
def with_model(notes_pack, model):
    with Library(open_store(str(notes_pack)), llm=model) as opened:
        yield opened


def stages(answer):
    return [stage.name for stage in answer.trace.stages]


def test_without_a_model_sentences_answer_with_their_sources(library):
    answer = library.ask(ON_TOPIC)
    assert "forty minutes" in answer.text
    assert answer.sources == ("Backups",)
    assert answer.answered_by == "extractive"
    assert answer.query_type == "vector_search"
    assert answer.degraded == ()
    citation = answer.citations[0]
    assert f"[{citation.marker}]" in answer.text
    assert citation.id == "operations/backups.md#0"
    assert citation.document == "operations/backups.md"
    assert "forty minutes" in citation.text


def test_a_span_reader_that_is_named_finds_the_short_answer(notes_pack, tmp_path):
    reader = make_reader(tmp_path / "reader")
    with open_library(str(notes_pack), settings=Settings(answer_reader=str(reader))) as library:
        answer = library.ask(ON_TOPIC)
    (step,) = [stage for stage in answer.trace.stages if stage.name == "extract"]
    assert step.notes["best_short"] == "forty"
    assert answer.text.startswith("forty [1]")
    assert answer.degraded == ()


def test_without_the_span_reader_that_is_named_the_answer_says_so(notes_pack, tmp_path):
    missing = Settings(answer_reader=str(tmp_path / "nowhere"))
    with open_library(str(notes_pack), settings=missing) as library:
        answer = library.ask(ON_TOPIC)
    assert "forty minutes" in answer.text
    (line,) = answer.degraded
    assert line.startswith("no span reader: ")
    assert "PACKWISE_ANSWER_READER" in line


def test_the_steps_are_on_record_in_their_order(library):
    names = stages(library.ask("when is the database backed up?"))
    order = [n for n in names if n in ("vector", "fusion", "gate", "documents", "packing")]
    assert order == ["vector", "fusion", "gate", "documents", "packing"]
    assert names[-2:] == ["extract", "knowledge"]


class CountingEmbedder:
    """An embedder that writes down what it is asked to embed."""

    def __init__(self, embedder):
        self.embedder, self.asked = embedder, []

    def __getattr__(self, name):
        return getattr(self.embedder, name)

    def embed_query(self, text):
        self.asked.append(text)
        return self.embedder.embed_query(text)


def test_a_question_is_embedded_once(library, tmp_path):
    (tmp_path / "lids.md").write_text("# Lids\n\nA lid is closed by [two hooks](hooks.md).\n")
    (tmp_path / "hooks.md").write_text("# Hooks\n\nThe hooks of a lid are made of brass.\n")
    packwise.build([str(tmp_path)], str(tmp_path / "pack"))
    counting = CountingEmbedder(library.embedder)
    with Library(open_store(str(tmp_path / "pack")), embedder=counting) as opened:
        # One article, so that the linked one is looked at.
        opened.ask("How is a lid closed?", max_results=1)
    assert counting.asked == ["How is a lid closed?"]


def test_the_answer_as_a_dictionary_is_plain_json(library):
    found = library.ask(ON_TOPIC).as_dict()
    seed = ["answer", "sources", "entities", "facts", "cypher_query", "query_type", "token_usage"]
    assert list(found)[: len(seed)] == seed
    assert {"confidence", "degraded", "citations", "trace"} <= found.keys()
    assert found["trace"]["packing"]["selected"]
    assert json.loads(json.dumps(found)) == found


def test_a_language_model_writes_the_answer_when_there_is_one(with_model, server, model):
    server.will(text("About forty minutes [1].", given=900, made=9))
    answer = with_model.ask(ON_TOPIC)
    assert answer.text == "About forty minutes [1]."
    assert answer.answered_by == model.name
    assert answer.sources == ("Backups",)
    assert answer.usage.as_dict() == {"input_tokens": 900, "output_tokens": 9, "api_calls": 1}


def test_sources_are_only_those_the_answer_cites(with_model, server):
    server.will(text("I do not know."))
    answer = with_model.ask(ON_TOPIC)
    assert answer.sources == answer.citations == ()
    assert answer.degraded == ("the answer cites no source",)


def test_synthesis_can_be_switched_off_for_one_question_or_all(notes_pack, model, server):
    with Library(open_store(str(notes_pack)), llm=model) as library:
        assert library.ask(ON_TOPIC, synthesis=False).answered_by == "extractive"
    quiet = Settings.load(synthesis="off")
    with Library(open_store(str(notes_pack)), llm=model, settings=quiet) as library:
        assert library.ask(ON_TOPIC).answered_by == "extractive"
        assert library.ask(OFF_TOPIC).answered_by == "none"
    assert server.requests == []


def test_the_environment_names_the_model(notes_pack, server, monkeypatch):
    monkeypatch.setenv("PACKWISE_LLM_URL", f"{server.url}/v1")
    monkeypatch.setenv("PACKWISE_LLM_MODEL", "local-model")
    server.will(text("Forty [1]."))
    with open_library(str(notes_pack)) as library:
        assert library.ask(ON_TOPIC).answered_by == "local-model"
    assert server.requests[0].body["model"] == "local-model"


def test_a_key_without_the_sdk_degrades_to_sentences(notes_pack, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setitem(__import__("sys").modules, "anthropic", None)
    with open_library(str(notes_pack)) as library:
        answer = library.ask(ON_TOPIC)
    assert "forty minutes" in answer.text
    (line,) = answer.degraded
    assert "packwise[claude]" in line


class Impatient(ClaudeModel):
    def complete(self, prompt, *, timeout=0.2, **how):
        return super().complete(prompt, timeout=timeout, **{**how, "retries": 0})


def test_a_silent_model_is_not_waited_for(notes_pack, server):
    server.will(silence())
    model = Impatient(connect_claude(KEY, server.url))
    with Library(open_store(str(notes_pack)), llm=model) as library:
        answer = library.ask(ON_TOPIC)
    assert "forty minutes" in answer.text
    assert "no answer in time" in answer.degraded[0]


@pytest.mark.parametrize("failure", [status(500, headers={"Retry-After": "0"}), hang_up()])
def test_a_failing_model_leaves_sentences_and_a_line(with_model, server, failure):
    server.will(failure)
    answer = with_model.ask(ON_TOPIC)
    assert answer.answered_by == "extractive"
    assert answer.degraded[0].startswith("no synthesis, sentences of the documents")


def test_a_stream_ends_with_its_answer(with_model, server):
    server.will(text("About forty minutes [1]."))
    *pieces, answer = with_model.ask_stream(ON_TOPIC)
    assert len(pieces) > 1
    assert isinstance(answer, Answer)
    assert "".join(pieces) == answer.text == "About forty minutes [1]."
    assert answer.sources == ("Backups",)


def test_a_stream_without_a_model_yields_the_sentences(library):
    *pieces, answer = library.ask_stream(ON_TOPIC)
    assert "".join(pieces) == answer.text
    *pieces, answer = library.ask_stream(OFF_TOPIC)
    assert "".join(pieces) == answer.text
    assert answer.query_type == "confidence_gated_fallback"


def test_a_stream_that_breaks_off_is_replaced(with_model, server):
    server.will(broken_stream("The answer is"))
    *pieces, answer = with_model.ask_stream(ON_TOPIC)
    assert "The answer is".startswith("".join(pieces))
    assert pieces
    assert "forty minutes" in answer.text
    assert answer.degraded


def test_a_wrong_question_is_refused_before_the_first_piece(library):
    with pytest.raises(UsageError, match="empty"):
        library.ask_stream("  ")


def test_who_stops_listening_to_a_stream_hangs_up(with_model, server):
    server.will(text("one two three four five six", pieces=6))
    pieces = with_model.ask_stream(ON_TOPIC)
    assert next(pieces)
    pieces.close()
    assert list(pieces) == []


def test_what_is_sent_fits_the_budget_whole(notes_pack, claude, server):
    server.will(text("Forty [1]."))
    counter = token_counter(claude.name)
    with Library(open_store(str(notes_pack)), llm=claude) as library:
        for budget in (500, 560, 700, 2000):
            server.requests.clear()
            answer = library.ask(ON_TOPIC, budget=budget)
            assert answer.answered_by == claude.name
            (request,) = server.requests
            sent = counter.count(request.system) + counter.count(request.prompt)
            assert sent <= budget
            assert answer.context.passages


def test_a_budget_too_small_for_any_passage_says_so(notes_pack, claude, server):
    with Library(open_store(str(notes_pack)), llm=claude) as library:
        answer = library.ask(ON_TOPIC, budget=60)
        assert answer.answered_by == "extractive"
        assert "leaves no room" in answer.degraded[0]
        nothing = library.ask(ON_TOPIC, budget=0)
        assert nothing.answered_by == "none"
    assert server.requests == []


def test_examples_beside_the_pack_are_shown_but_never_the_questions_own(
    notes_pack, tmp_path, claude, server
):
    pack = tmp_path / "with-examples"
    shutil.copytree(notes_pack, pack)
    rows = [
        {"question": ON_TOPIC, "answer": "LEAKED"},
        {"question": "How long does a restore take", "answer": "LEAKED TOO"},
        {"question": "How often are backups tested?", "answer": "Once a month. [1]"},
    ]
    (pack / "few_shot_examples.json").write_text(json.dumps(rows))
    server.will(text("Forty [1]."))
    with Library(open_store(str(pack)), llm=claude) as library:
        library.ask(ON_TOPIC)
        library.ask(ON_TOPIC, few_shot=False)
        rows.append({"question": "What is a tenant?", "answer": "A customer. [2]"})
        (pack / "few_shot_examples.json").write_text(json.dumps(rows))
        library.ask(ON_TOPIC)
        library.ask(ON_TOPIC, exclude=frozenset({"What is a tenant?"}))
    shown, without, more, excluded = (request.prompt for request in server.requests)
    assert "Once a month. [1]" in shown
    assert "LEAKED" not in shown + without + more + excluded
    assert "Once a month" not in without
    assert "A customer. [2]" in more
    assert "A customer. [2]" not in excluded


def test_entities_and_facts_are_those_of_the_context(library):
    answer = library.ask("What is a mirror?")
    assert answer.facts[0].startswith("A mirror is a server")
    shown = " ".join(passage.text for passage in answer.context.passages)
    for fact in answer.facts:
        assert fact in " ".join(shown.split())
    assert all(isinstance(name, str) and name for name in answer.entities)


def test_local_expansion_searches_once_more_and_sends_nothing(with_model, server):
    answer = with_model.ask(ON_TOPIC, expansion="local", synthesis=False)
    assert stages(answer)[0] == "expansion"
    (alternative,) = answer.trace.stages[0].notes["alternatives"]
    assert alternative.startswith(ON_TOPIC)
    assert "forty minutes" in answer.text
    assert server.requests == []


def test_expansion_without_a_model_is_a_line_in_degraded(library):
    answer = library.ask(ON_TOPIC, expansion="llm")
    assert answer.degraded == ("no query expansion: no language model is configured",)
    assert "forty minutes" in answer.text


def test_a_filter_holds_for_every_step(library):
    answer = library.ask(
        "what is signed with the signing key?",
        where=Filter(documents=("guides/keys.md",)),
        threshold=0.0,
    )
    assert {p.document for p in answer.context.passages} == {"guides/keys.md"}


def test_the_threshold_is_a_setting(notes_pack):
    with open_library(
        str(notes_pack), settings=Settings.load(context_confidence_threshold=1.0)
    ) as library:
        assert library.ask(ON_TOPIC).query_type == "confidence_gated_fallback"
        assert library.ask(ON_TOPIC, threshold=0.1).query_type == "vector_search"


@pytest.mark.parametrize("question", ["", "   ", "\n\t", "\x00", "\x00 \x1b"])
def test_a_question_that_asks_nothing_is_refused_in_one_line(library, question):
    with pytest.raises(UsageError, match="empty") as caught:
        library.ask(question)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "question",
    [
        "🙂🙃🙂",
        "how long\x00 does a restore\x00 take?",
        "\ud800 restore",
        "?!.,;",
        "restore " * 12_500,
        "Как долго длится восстановление?",
        "‮restore a backup‬",
        "a" * 100_000,
    ],
    ids=range(8),
)
def test_odd_questions_get_a_sane_answer(library, question):
    answer = library.ask(question)
    assert answer.text
    json.dumps(answer.as_dict(), ensure_ascii=False).encode()


@given(st.text(max_size=60))
@hypothesis_settings(max_examples=30)
def test_any_text_is_answered_or_refused_as_empty(library, question):
    if not clean(question).strip():
        with pytest.raises(UsageError, match="empty"):
            library.ask(question)
        return
    answer = library.ask(question)
    assert answer.text
    assert 0.0 <= answer.confidence <= 1.0


@pytest.mark.parametrize("given", [{"expansion": "magic"}, {"budget": -1}, {"policy": "none"}])
def test_wrong_options_are_refused(library, given):
    with pytest.raises(UsageError):
        library.ask(ON_TOPIC, **given)


def test_other_options_are_python_errors(library):
    with pytest.raises(TypeError):
        library.ask(ON_TOPIC, no_such_option=1)


def test_many_threads_may_ask_at_once(library):
    questions = [ON_TOPIC, "What is a mirror?", "how do I rotate the signing key?"] * 4
    alone = {question: library.ask(question).text for question in questions}
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda question: library.ask(question).text, questions))
    assert together == [alone[question] for question in questions]


def test_a_title_the_caller_may_not_see_is_not_among_the_entities(tmp_path):
    source = tmp_path / "notes"
    source.mkdir()
    (source / "open.md").write_text(
        "---\ntenant: a\n---\n# Mill road\n\nThe old mill on the road was sold to "
        "[a certain buyer](hidden.md) in the spring of that year, for a small sum.\n"
    )
    (source / "hidden.md").write_text(
        "---\ntenant: b\n---\n# Zebedee Holdings\n\nZebedee Holdings buys old mills.\n"
    )
    pack = str(tmp_path / "pack")
    packwise.build([str(source)], pack)
    question = "who bought the old mill on the road?"
    with packwise.open(pack) as library:
        everything = library.ask(question, threshold=0.0)
        seen = library.ask(question, threshold=0.0, where=Filter(tenant="a"))
    assert "Zebedee Holdings" in everything.entities
    assert seen.sources
    assert "Zebedee Holdings" not in seen.entities


def test_an_instruction_is_not_shown_as_a_name_unless_it_is_asked_for(tmp_path):
    source = tmp_path / "notes"
    source.mkdir()
    (source / "console.md").write_text(
        "# The console\n\nThe mill's console shows the water level. Press CTRL and the red key to "
        "stop the wheel. Then Harbour City is told, and Press CTRL stays on the screen.\n"
    )
    pack = str(tmp_path / "pack")
    packwise.build([str(source)], pack)
    with packwise.open(pack) as library:
        stored = [
            name.key
            for key in library.store.passages_of(["console.md"], 1)["console.md"]
            for name in library.store.entities_of([key])[key].entities
        ]
        shown = library.ask("how is the wheel stopped?", threshold=0.0).entities
        asked = library.ask("what does Press CTRL do to the wheel?", threshold=0.0).entities
    assert "press ctrl" in stored
    assert "Harbour City" in shown
    assert "Press CTRL" not in shown
    assert "Press CTRL" in asked


def test_an_answer_says_how_likely_it_is_right(library):
    answer = library.ask(ON_TOPIC)
    record = answer.as_dict()
    assert (record["probability"], record["certainty"]) == (
        round(answer.probability, 6),
        answer.certainty,
    )
    assert answer.certainty == ("likely" if answer.probability >= 0.75 else "unsure")
    far = library.ask(OFF_TOPIC, threshold=0.0)
    assert far.probability < answer.probability


def test_a_question_that_is_not_covered_is_refused_with_the_closest_passage(library):
    answer = library.ask(OFF_TOPIC)
    assert (answer.certainty, answer.query_type) == ("not covered", "confidence_gated_fallback")
    closest = library.search(OFF_TOPIC, 1).hits[0].passage
    assert answer.text.startswith("These documents do not cover the question. ")
    assert closest.doc_title in answer.text
    assert " ".join(closest.text.split())[:100] in answer.text


def test_an_unsure_answer_shows_the_best_passages(library):
    asked = "Which colour does the release manager like?"
    answer = library.ask(asked, threshold=0.0)
    assert answer.certainty != "likely"
    if answer.certainty == "unsure":
        best = {hit.passage.id for hit in library.search(asked, 3).hits}
        assert len(best & {name for c in answer.citations for name in c.ids}) >= 2


def test_terse_notes_are_read_before_they_are_refused(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    note = "# VPN\n\nServer vpn2.corp, cert expires 1 March\n"
    (folder / "vpn.md").write_text(note, encoding="utf-8")
    (folder / "ship.md").write_text("# Ship\n\nRollback: ./ship prod --previous\n", "utf-8")
    packwise.build([str(folder)], str(tmp_path / "pack"))
    with open_library(tmp_path / "pack") as library:
        answer = library.ask("when does the VPN certificate expire?")
        assert "1 March" in answer.text
        assert "Rollback" not in answer.text


def test_a_row_that_a_question_names_is_shown_however_unlike_it_looks(tmp_path):
    towns = "Acton Bexley Camden Dalston Ealing Fulham Greenwich Hackney Islington Kilburn".split()
    features = [
        {"type": "Feature", "properties": {"bay": f"{town} Wharf", "racks": 7 * n, "kit": f"k{n}"}}
        for n, town in enumerate(towns)
    ]
    (tmp_path / "notes").mkdir()
    content = json.dumps({"type": "FeatureCollection", "features": features})
    (tmp_path / "notes" / "docks.geojson").write_text(content)
    packwise.build([tmp_path / "notes"], tmp_path / "pack")
    with open_library(str(tmp_path / "pack")) as opened:
        answer = opened.ask("What stands in the yard beside Hackney Wharf?")
        assert answer.certainty != "not covered"
        assert "| Hackney Wharf | 49 | k7 |" in answer.text
        assert opened.ask("Who conducts the choir of the opera?").certainty == "not covered"
