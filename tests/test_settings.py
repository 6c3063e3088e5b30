"""Settings: where a value comes from, and what "set by the user" means."""

import pickle
from dataclasses import fields, replace

import pytest

from packwise.errors import SettingError
from packwise.settings import Settings

SPECIFIED = """
CONTEXT_CONFIDENCE_THRESHOLD CONTEXT_TOKEN_BUDGET HYBRID_KEYWORD_WEIGHT HYBRID_VECTOR_WEIGHT
MMR_ALPHA PACKING_ANSWERABILITY_BONUS PACKING_NOVELTY_ALPHA PACKING_PER_DOC_CAP
PACKING_PER_SECTION_CAP QUERY_ADAPTIVE_WEIGHTS RERANKER RERANK_TOPK RETRIEVAL_K_BASE
RETRIEVAL_TRACE SECTION_REUNIFICATION TOKENIZER_MODEL
""".split()


def test_every_variable_has_the_prefix_and_every_setting_says_what_and_why():
    for f in fields(Settings):
        assert f.metadata["env"].startswith("PACKWISE_")
        assert f.metadata["meaning"]
        assert f.metadata["why"]


def test_the_names_of_the_specification_are_aliases():
    aliases = {f.metadata["alias"]: f.metadata["env"] for f in fields(Settings)}
    assert {alias: aliases[alias] for alias in SPECIFIED} == {
        alias: f"PACKWISE_{alias}" for alias in SPECIFIED
    }


@pytest.mark.parametrize(
    ("env", "value", "origin"),
    [
        ({}, 12, "default"),
        ({"RETRIEVAL_K_BASE": "20"}, 20, "RETRIEVAL_K_BASE"),
        ({"PACKWISE_RETRIEVAL_K_BASE": "30"}, 30, "PACKWISE_RETRIEVAL_K_BASE"),
        (
            {"PACKWISE_RETRIEVAL_K_BASE": "30", "RETRIEVAL_K_BASE": "20"},
            30,
            "PACKWISE_RETRIEVAL_K_BASE",
        ),
        ({"PACKWISE_RETRIEVAL_K_BASE": "", "RETRIEVAL_K_BASE": "12"}, 12, "RETRIEVAL_K_BASE"),
    ],
)
def test_the_prefixed_name_wins_over_the_alias(env, value, origin):
    settings = Settings.load(env)
    assert (settings.k_base, settings.origin("k_base")) == (value, origin)


def test_an_override_wins_over_the_environment():
    settings = Settings.load({"RETRIEVAL_K_BASE": "20"}, k_base=12)
    assert (settings.k_base, settings.origin("k_base")) == (12, "override")
    assert Settings.load({"RETRIEVAL_K_BASE": "20"}, k_base=None).origin("k_base") == (
        "RETRIEVAL_K_BASE"
    )


def test_an_error_names_the_variable_that_was_set():
    with pytest.raises(SettingError, match=r"^RETRIEVAL_K_BASE takes a whole number, not 'x'"):
        Settings.load({"RETRIEVAL_K_BASE": "x"})
    with pytest.raises(SettingError, match=r"no such setting: nothing"):
        Settings.load({}, nothing=1)


def test_the_origin_takes_no_part_in_equality():
    explicit = Settings.load({"CONTEXT_CONFIDENCE_THRESHOLD": "0.5"})
    assert explicit == Settings.load({})
    assert hash(explicit) == hash(Settings.load({}))
    assert pickle.loads(pickle.dumps(explicit)).origin("context_confidence_threshold") == (
        "CONTEXT_CONFIDENCE_THRESHOLD"
    )


def test_a_changed_copy_keeps_the_other_origins():
    settings = Settings.load({"RETRIEVAL_K_BASE": "12"}).override(threads="2")
    assert settings.threads == 2
    assert settings.origin("threads") == "override"
    assert settings.origin("k_base") == "RETRIEVAL_K_BASE"
    assert settings.origin("fusion") == "default"
    with pytest.raises(SettingError, match="threads takes 0 or more"):
        settings.override(threads=-1)


def test_without_a_record_a_value_other_than_the_default_is_an_override():
    assert Settings(k_base=13).origin("k_base") == "override"
    assert replace(Settings(), fusion="rrf").origin("fusion") == "override"
    assert Settings().origin("k_base") == "default"
