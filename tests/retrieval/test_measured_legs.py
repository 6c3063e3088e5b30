"""A build measures what each leg finds in the store, and the weights follow it."""

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

import packwise
from packwise.errors import DataError
from packwise.retrieval.fusion import MeasuredWeights, Weights, leg_weights
from packwise.retrieval.profile import (
    PROFILE,
    GaugedEmbedder,
    LegProfile,
    Profile,
    load_profile,
    measure,
)
from packwise.settings import Settings

LEGS = LegProfile(probes=40, vector=0.5, keyword=0.5, best=0.7, spread=0.05, scale=0.065)
USUAL = Weights(0.7, 0.3)
TOWNS = ("Ardle", "Brack", "Corvey", "Dunmore", "Eskhill", "Farrow", "Garve", "Hexby", "Inver")
GOODS = ("barley", "copper", "linen", "salt", "timber", "wool", "glass", "coal", "herring")


def write_documents(folder, number=40, extra=""):
    folder.mkdir(exist_ok=True)
    for i in range(number):
        town, good, other = TOWNS[i % 9], GOODS[(i * 4 + i // 9) % 9], GOODS[(i * 2 + i // 3) % 9]
        text = (
            f"# Ledger {i}\n\n{town} shipped {good} along the old canal in the year {1700 + i}. "
            f"The warehouse of {town} kept {other} for merchants who paid {i + 3} crowns. "
            f"A clerk wrote that {good} from {town} was weighed twice before sunset. "
            f"Ship number {i * 17} carried the last of the {other} home.{extra}\n"
        )
        (folder / f"ledger-{i:02}.md").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    write_documents(folder / "notes")
    packwise.build([str(folder / "notes")], str(folder / "pack"))
    return folder / "pack"


class Blind:
    """An embedder that cannot read questions: each has nearly the same vector."""

    def __init__(self, embedder):
        self._embedder = embedder

    def __getattr__(self, name):
        return getattr(self._embedder, name)

    def embed_query(self, text):
        vector = self._embedder.embed_query("?")
        vector[len(text) % self._embedder.dim] += 0.05
        return vector / np.linalg.norm(vector)


def test_a_build_leaves_a_profile_beside_the_manifest(pack):
    with packwise.open(pack) as library:
        profile = load_profile(library.info())
    assert profile is not None
    legs = profile.legs("en")
    assert legs is not None
    assert legs.probes >= 12
    assert 0 < legs.vector <= 1
    assert 0 < legs.keyword <= 1
    assert 0.3 < legs.best < 1
    assert profile.gate == ()


def test_a_profile_does_not_depend_on_how_many_threads_measure(pack):
    with packwise.open(pack) as library:
        alone, together = (measure(library.store, library.embedder, n) for n in (1, 3))
    assert alone.languages
    assert together == alone


def test_an_embedder_that_cannot_read_the_documents_loses_its_weight(pack):
    with packwise.open(pack) as library:
        seeing = measure(library.store, library.embedder).legs("")
        blind = measure(library.store, Blind(library.embedder)).legs("")
    assert seeing is not None
    assert blind is not None
    assert blind.keyword == seeing.keyword
    assert blind.keyword_lead > seeing.keyword_lead
    weights = MeasuredWeights().weights(blind, blind.best, USUAL)
    assert weights.keyword > 0.7


def test_search_uses_the_profile_and_says_so_in_its_weights(pack):
    question = "Which town shipped barley along the canal?"
    with packwise.open(pack) as library:
        profile = load_profile(library.info())
        assert profile is not None
        ranking = library.search(question)
        best = max(hit.scores.vector for hit in ranking.hits)
        (fusion,) = [s for s in ranking.trace.stages if s.name == "fusion"]
        expected = leg_weights(question, library.settings, profile=profile).after(best)
        assert fusion.notes["weights"] == pytest.approx(
            [expected.vector, expected.keyword], abs=1e-5
        )
    with packwise.open(pack, settings=Settings.load(query_adaptive_weights=False)) as library:
        (fusion,) = [s for s in library.search(question).trace.stages if s.name == "fusion"]
        assert fusion.notes["weights"] == [0.7, 0.3]


def test_the_keyword_leg_counts_more_where_it_finds_far_more():
    usual = MeasuredWeights().weights(LEGS, 0.7, USUAL)
    somewhat = MeasuredWeights().weights(replace(LEGS, keyword=0.6), 0.7, USUAL)
    far = MeasuredWeights().weights(replace(LEGS, vector=0.1), 0.7, USUAL)
    assert usual.keyword == pytest.approx(1 / (1 + math.exp(0.7)))
    assert somewhat == usual
    assert far.keyword == 0.85


def test_cosines_that_spread_further_count_less():
    wide = MeasuredWeights().weights(replace(LEGS, scale=0.13), 0.7, USUAL)
    assert wide.keyword == pytest.approx(1 / (1 + math.exp(0.7 - 2 * math.log(2))))


def test_a_question_closer_than_the_stores_own_sentences_is_answered_by_meaning():
    weights = [MeasuredWeights().weights(LEGS, c, USUAL).keyword for c in (0.5, 0.7, 0.75, 0.95)]
    assert weights[0] == weights[1]
    odds = [math.log(share / (1 - share)) for share in weights]
    assert odds[1] - odds[2] == pytest.approx(0.6)
    assert weights[3] < 0.05


def test_a_question_with_a_number_is_answered_by_words():
    profile = Profile("v", {"": LEGS})
    asked = ("What was the revenue in 2019?", "What was the revenue?")
    shares = [leg_weights(q, Settings.load({}), profile=profile).after(0.7).keyword for q in asked]
    with_number, without = (math.log(share / (1 - share)) for share in shares)
    assert without == pytest.approx(-0.7)
    assert with_number - without == pytest.approx(0.7)


def test_configured_weights_shift_the_measured_ones():
    more = MeasuredWeights().weights(LEGS, 0.7, Weights(0.3, 0.7))
    assert more.keyword > MeasuredWeights().weights(LEGS, 0.7, USUAL).keyword


def test_each_language_has_its_own_legs():
    thai = replace(LEGS, vector=0.05)
    profile = Profile("v", {"": LEGS, "th": thai})
    assert profile.legs("th") is thai
    assert profile.legs("fr") is LEGS
    assert Profile("v", {}).legs("th") is None


def test_a_store_without_a_profile_is_weighed_by_the_intent_of_the_question(pack, tmp_path):
    with packwise.open(pack) as library:
        info = replace(library.info(), location=str(tmp_path))
    assert load_profile(info) is None
    unmeasured = leg_weights("What is a monad?", Settings.load({}), profile=None)
    assert unmeasured.after(0.6) == unmeasured.weights == Weights(0.5, 0.5)


def test_a_store_is_measured_again_when_enough_of_it_changed(tmp_path):
    notes, out = tmp_path / "notes", tmp_path / "pack"
    write_documents(notes)
    packwise.build([str(notes)], str(out))
    first = json.loads((out / PROFILE).read_text())
    write_documents(notes, 4, " The ink had faded.")
    packwise.build([str(notes)], str(out))
    kept = json.loads((out / PROFILE).read_text())
    assert (first["changed"], kept["changed"]) == (0, 4)
    assert kept["languages"] == first["languages"]
    write_documents(notes, 8, " Rain had spoiled the paper.")
    packwise.build([str(notes)], str(out))
    assert json.loads((out / PROFILE).read_text())["changed"] == 0


def test_a_damaged_profile_is_one_line_that_says_what_to_do(pack, tmp_path):
    (tmp_path / PROFILE).write_text("[1]")
    with packwise.open(pack) as library:
        info = replace(library.info(), location=str(tmp_path))
    with pytest.raises(DataError, match="is not a profile") as raised:
        load_profile(info)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"spread": 0},
        {"scale": -1.0},
        {"best": math.nan},
        {"vector": math.inf},
        {"keyword": -5.0},
        {"probes": 10**400},
        {"probes": "many"},
    ],
)
def test_numbers_that_no_measurement_gives_are_one_line(pack, tmp_path, wrong):
    with packwise.open(pack) as library:
        info = replace(library.info(), location=str(tmp_path))
    stored = asdict(Profile(info.embedder_version, {"": LEGS}))
    (tmp_path / PROFILE).write_text(json.dumps(stored))
    assert load_profile(info).languages == {"": LEGS}
    stored["languages"][""] |= wrong
    (tmp_path / PROFILE).write_text(json.dumps(stored))
    with pytest.raises(DataError, match="is not a profile"):
        load_profile(info)


def test_a_count_without_end_is_one_line(pack, tmp_path):
    with packwise.open(pack) as library:
        info = replace(library.info(), location=str(tmp_path))
    stored = asdict(Profile(info.embedder_version, {})) | {"changed": math.inf}
    (tmp_path / PROFILE).write_text(json.dumps(stored))
    with pytest.raises(DataError, match="is not a profile"):
        load_profile(info)


def test_the_scale_of_an_unknown_embedder_is_measured(pack):
    with packwise.open(pack) as library:
        known = library.embedder
        unknown = Unscaled(known)
        profile = measure(library.store, unknown)
        gauged = GaugedEmbedder(unknown, profile.gate)
        off = library.search("Who scored in the cup final?", mode="vector").hits[0].scores.vector
        on = library.search("Which town shipped barley?", mode="vector").hits[0].scores.vector
    assert [similarity for _, similarity in profile.gate] == [0.0, 0.211, 0.638, 1.0]
    assert gauged.similarity(off) < 0.5 < gauged.similarity(on)
    assert gauged.similarity(1.0) == 1.0
    assert gauged.name == known.name


class Unscaled:
    """An embedder of which only its vectors are known."""

    def __init__(self, embedder):
        self._embedder = embedder

    def __getattr__(self, name):
        return getattr(self._embedder, name)

    def similarity(self, cosine):
        return None


def test_another_version_of_a_passage_does_not_count_against_a_leg(tmp_path):
    """A page and its source differ in a few marks, and each sentence is in both."""
    write_documents(tmp_path / "one")
    alone = measured(tmp_path / "one", tmp_path / "alone")
    copies = tmp_path / "one" / "copies"
    copies.mkdir()
    for path in sorted((tmp_path / "one").glob("*.md")):
        (copies / path.name).write_text(path.read_text().replace(" the ", " the *own* "))
    both = measured(tmp_path / "one", tmp_path / "both")
    assert both.vector > 0.8 * alone.vector
    assert both.keyword > 0.8 * alone.keyword


def measured(source, pack):
    packwise.build(str(source), str(pack))
    with packwise.open(str(pack)) as library:
        profile = load_profile(library.info())
    assert profile is not None
    legs = profile.legs("en")
    assert legs is not None
    return legs
