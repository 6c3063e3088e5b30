"""On request a context is held to the model's own count of its text."""

import pytest
from packing_world import MemoryStore, passage, prose

from messages_api import COUNT, KEY, ModelServer, counted, status
from packwise.context.packer import pack
from packwise.errors import PackwiseError, SettingError
from packwise.models.tokens import token_counter
from packwise.settings import Settings

BY_API = Settings(tokenizer_model="claude-opus-4-8", token_counts="api", packing_token_price=0.0)


@pytest.fixture
def server(monkeypatch):
    with ModelServer() as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        yield running


@pytest.fixture
def store():
    names = "river tower garden market valley harbour forest island bridge".split()
    return MemoryStore([passage(name, prose(name, 8)) for name in names])


def packed(store, budget=600, settings=BY_API):
    return pack("which river?", store.candidates(), store=store, settings=settings, budget=budget)


@pytest.mark.parametrize("ratio", [0.9, 1.2, 1.5, 1.8, 2.6])
def test_the_text_fills_the_budget_by_the_models_own_count(server, store, ratio):
    def own(text):
        return int(token_counter("o200k_base").count(text) * ratio) + 7

    server.will(counted(own))
    context = packed(store)
    assert own(context.text) == context.tokens <= 600
    assert context.trace.exact
    assert context.tokens > 480
    assert {request.path for request in server.requests} == {COUNT}
    assert server.requests[0].body["model"] == "claude-opus-4-8"


def test_after_five_counts_that_do_not_fit_the_estimate_decides(server, store):
    server.will(counted(lambda _: 601))
    context = packed(store)
    assert len(server.requests) == 5
    assert not context.trace.exact
    assert 0 < context.tokens <= 600


def test_an_empty_context_asks_for_nothing(server, store):
    assert packed(store, budget=0).tokens == 0
    assert server.requests == []


def test_a_failing_count_is_an_error_that_does_not_show_the_key(server, store):
    server.will(status(401, f"invalid x-api-key {KEY}"))
    with pytest.raises(PackwiseError) as error:
        packed(store)
    assert KEY not in str(error.value)


def test_without_a_key_or_a_claude_model_it_says_what_to_set(monkeypatch, store):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(SettingError, match="no API counts"):
        packed(store)
    with pytest.raises(SettingError, match="no API counts"):
        packed(store, settings=Settings(token_counts="api"))
