"""What holds for every question, budget and policy."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import packwise
from packwise.context.packer import pack
from packwise.models.tokens import token_counter
from packwise.settings import PACKING_POLICIES, Settings

WORDS = "signing key release mirror backup restore tenant disk rotate revoke how what when".split()
questions = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
policies = st.sampled_from([policy for policy in PACKING_POLICIES if policy != "baseline"])


@pytest.fixture(scope="module")
def library(notes_pack):
    with packwise.open(str(notes_pack)) as opened:
        yield opened


@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=questions, budget=st.integers(0, 700), policy=policies, few=st.integers(1, 10))
def test_packing_keeps_its_laws(library, question, budget, policy, few):
    candidates = library.search(question, few, mode="keyword").hits

    def packed():
        return pack(
            question,
            candidates,
            store=library.store,
            settings=Settings(),
            budget=budget,
            policy=policy,
        )

    context = packed()
    assert token_counter().count(context.text) == context.tokens <= budget
    shown = [id for passage in context.passages for id in passage.ids]
    assert len(shown) == len(set(shown))
    dropped = [entry.id for entry in context.trace.dropped]
    chosen = {entry.id for entry in context.trace.selected if entry.attached_to is None}
    assert sorted([*dropped, *chosen]) == sorted(hit.passage.id for hit in candidates)
    assert packed().trace.as_json() == context.trace.as_json()
    for passage in context.passages:
        document = library.store.document(passage.document)
        assert all(document.text[a:b] in passage.text for a, b in passage.spans)
