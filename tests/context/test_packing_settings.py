"""Every packing variable of the specification works by its name, and says when it cannot."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from packing_world import MemoryStore, passage, prose

from packwise.cli import app
from packwise.context.packer import pack
from packwise.errors import SettingError
from packwise.models.tokens import token_counter
from packwise.settings import Settings

# Name in the environment, in Python, on the command line; a value, and what it becomes.
VARIABLES = [
    ("CONTEXT_TOKEN_BUDGET", "context_token_budget", "--budget", "120", 120),
    ("TOKENIZER_MODEL", "tokenizer_model", "--tokenizer-model", "gpt-4", "gpt-4"),
    ("PACKING_PER_DOC_CAP", "packing_per_doc_cap", "--per-doc-cap", "3", 3),
    ("PACKING_PER_SECTION_CAP", "packing_per_section_cap", "--per-section-cap", "2", 2),
    ("PACKING_NOVELTY_ALPHA", "packing_novelty_alpha", "--novelty-alpha", "0.25", 0.25),
    (
        "PACKING_ANSWERABILITY_BONUS",
        "packing_answerability_bonus",
        "--answerability-bonus",
        "0.2",
        0.2,
    ),
    ("SECTION_REUNIFICATION", "section_reunification", "--reunification", "off", False),
]
SHOWN = {
    "context_token_budget": lambda trace: trace["budget"],
    "tokenizer_model": lambda trace: trace["tokenizer"],
    "packing_per_doc_cap": lambda trace: trace["settings"]["per_document_cap"],
    "packing_per_section_cap": lambda trace: trace["settings"]["per_section_cap"],
    "packing_novelty_alpha": lambda trace: trace["settings"]["novelty_alpha"],
    "packing_answerability_bonus": lambda trace: trace["settings"]["answerability_bonus"],
    "section_reunification": lambda trace: trace["settings"]["reunification"],
}


def traced(notes_pack, *options, env=None):
    arguments = ["context", str(notes_pack), "what is a mirror?", *options, "--json"]
    done = CliRunner().invoke(app, arguments, env=env)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["trace"]


@pytest.mark.parametrize(("variable", "name", "option", "value", "meant"), VARIABLES)
def test_the_environment_python_and_the_command_line_agree(
    notes_pack, variable, name, option, value, meant
):
    assert getattr(Settings.load({variable: value}), name) == meant
    assert getattr(Settings.load({}, **{name: meant}), name) == meant
    assert SHOWN[name](traced(notes_pack, env={variable: value})) == meant
    assert SHOWN[name](traced(notes_pack, option, value)) == meant


@pytest.mark.parametrize(
    ("variable", "bad"),
    [
        ("CONTEXT_TOKEN_BUDGET", "many"),
        ("CONTEXT_TOKEN_BUDGET", "-1"),
        ("PACKING_PER_DOC_CAP", "0"),
        ("PACKING_PER_SECTION_CAP", "1.5"),
        ("PACKING_NOVELTY_ALPHA", "2"),
        ("PACKING_ANSWERABILITY_BONUS", "nan"),
        ("SECTION_REUNIFICATION", "perhaps"),
        ("PACKWISE_TOKEN_COUNTS", "guess"),
    ],
)
def test_a_bad_value_is_named_with_its_variable(variable, bad):
    with pytest.raises(SettingError, match=variable):
        Settings.load({variable: bad})


def test_an_unknown_tokenizer_is_an_error_of_one_line(notes_pack):
    arguments = ["context", str(notes_pack), "what?", "--tokenizer-model", "abacus"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code != 0
    assert isinstance(done.exception, (SystemExit, SettingError))
    assert "abacus" in done.output or "abacus" in str(done.exception)


def test_a_claude_budget_is_kept_with_the_stated_margin():
    store = MemoryStore([passage(name, prose(name)) for name in ("river", "tower", "garden")])
    settings = Settings(tokenizer_model="claude-opus-4-8", packing_token_price=0.0)
    packed = pack("which river?", store.candidates(), store=store, settings=settings, budget=200)
    assert not packed.trace.exact
    assert 1.8 * token_counter("o200k_base").count(packed.text) <= packed.tokens <= 200


def test_caps_hold_the_seed_policy():
    topics = ("river", "tower", "garden")
    parts = [
        passage("a", prose(topic), order=3 * i, start=5000 * i, path=(topic,))
        for i, topic in enumerate(topics)
    ]
    vectors = np.eye(4, 8)
    store = MemoryStore([*parts, passage("b", prose("market"))], vectors)
    reached = {}
    for cap in (1, 2, 3):
        settings = Settings(packing_per_doc_cap=cap, section_reunification=False)
        packed = pack(
            "river tower",
            store.candidates(),
            store=store,
            settings=settings,
            budget=4000,
            policy="seed",
        )
        reached[cap] = sum(entry.document == "a" for entry in packed.trace.selected)
    assert reached == {1: 1, 2: 2, 3: 3}
