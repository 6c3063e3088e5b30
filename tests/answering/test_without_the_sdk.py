"""Everything but Claude itself works where the anthropic package is not installed."""

import subprocess
import sys

import pytest

from messages_api import text
from packwise.answering.answer import NumberedPassage
from packwise.answering.blocks import SourcePassage
from packwise.answering.extractive import extract
from packwise.answering.synthesis import synthesize
from packwise.documents import Passage
from packwise.errors import ModelMissing
from packwise.models.llm import load_llm
from packwise.retrieval.expansion import expand

EVIDENCE = (
    NumberedPassage(1, "a#0", "Watt", "Watt", "James Watt improved the steam engine.", 0.6),
)


@pytest.fixture
def no_sdk(monkeypatch):
    monkeypatch.setitem(sys.modules, "anthropic", None)


@pytest.mark.usefixtures("no_sdk")
def test_asking_for_claude_names_the_package_to_install():
    with pytest.raises(ModelMissing) as missing:
        load_llm(env={"ANTHROPIC_API_KEY": "sk-ant-secret"})
    assert len(str(missing.value).splitlines()) == 1
    assert "pip install 'packwise[claude]'" in str(missing.value)
    assert "secret" not in str(missing.value)


@pytest.mark.usefixtures("no_sdk")
def test_another_server_answers_and_expands(server):
    model = load_llm(env={"PACKWISE_LLM_URL": server.url, "PACKWISE_LLM_MODEL": "local"})
    server.will(text('["Who made it better?", "Whose work is it?"]'), text("James Watt [1]."))
    assert len(expand("Who improved it?", model).alternatives) == 2
    assert synthesize(model, "Who improved it?", EVIDENCE).sources == ("Watt",)


@pytest.mark.usefixtures("no_sdk")
def test_no_model_at_all_still_answers():
    assert load_llm(env={}) is None
    text = "James Watt improved the steam engine."
    passage = Passage("a#0", "a", "Watt", (), 0, text, 0, len(text), "")
    assert extract("Who improved the steam engine?", [SourcePassage(1, passage)]).cited == (1,)


def test_nothing_heavy_is_loaded_before_it_is_used():
    code = (
        "import sys\n"
        "import packwise.models.llm, packwise.retrieval.expansion\n"
        "import packwise.answering.synthesis, packwise.answering.extractive\n"
        "from packwise.models.llm import load_llm\n"
        "load_llm(env={})\n"
        "heavy = {'anthropic', 'httpx', 'httpx2', 'pydantic', 'onnxruntime', 'tokenizers'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
