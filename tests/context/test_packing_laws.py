"""What holds for every question, budget and policy.

``PACKWISE_LAW_CASES=10000 pytest tests/context/test_packing_laws.py`` tries that many cases.
"""

import math
import os
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packing_world import MemoryStore, candidate, cut, passage

import packwise
from packwise.candidates import PACKING_POLICIES, Candidate, Scores
from packwise.context.packer import pack
from packwise.models.tokens import token_counter
from packwise.settings import Settings

CASES = int(os.environ.get("PACKWISE_LAW_CASES", "250"))
WORDS = "signing key release mirror backup restore tenant disk rotate revoke how what when".split()
questions = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
every_policy = st.sampled_from(PACKING_POLICIES)
policies = st.sampled_from([policy for policy in PACKING_POLICIES if policy != "baseline"])
budgets = st.one_of(st.integers(0, 30), st.integers(0, 900))

# Sentences that repeat, tables, code, odd white space, other scripts, text without an end.
SENTENCES = [
    "The signing key rotates every thirty days.",
    "It was first released in 1999, and 42 mirrors hold it.",
    "A mirror is a server that keeps a copy of every release.",
    "Restore the backup first.\n\nThen start the tenant.",
    "1. Stop the disk.\n2. Rotate the key.\n3. Wait.",
    "| name | value |\n|---|---|\n| disk | 5 GB |",
    "```sh\nrevoke --key old\n```",
    "Der Schlüssel läuft nach dreißig Tagen ab.",
    "签名密钥每三十天轮换一次。",
    "no end here",
    "When?   Never…",
    "# not a heading [1] but text",
]
texts = st.lists(st.sampled_from(SENTENCES), min_size=0, max_size=7).map(" ".join)
scores = st.one_of(st.floats(-1, 2), st.sampled_from([0.0, 0.016, 0.5, float("nan"), float("inf")]))


@st.composite
def worlds(draw):
    """A store of a few documents in overlapping or adjoining chunks, and candidates of it in
    any order, some of them twice."""
    held = []
    for number in range(draw(st.integers(0, 4))):
        text = draw(texts)
        path = draw(st.sampled_from([(), ("Keys",), ("Keys", "Rotation")]))
        name = f"document-{number}"
        if len(text) < 2 or draw(st.booleans()):
            held.append(passage(name, text, path=path, title=draw(st.sampled_from(["", "Keys"]))))
            continue
        borders = sorted({0, len(text), *draw(st.lists(st.integers(1, len(text)), max_size=3))})
        overlap = draw(st.integers(0, 30))
        spans = [(max(0, a - overlap), b) for a, b in pairwise(borders)]
        held.extend(cut(name, text, *spans, path=path))
    store = MemoryStore(held)
    chosen = draw(st.lists(st.integers(0, len(held) - 1), max_size=10)) if held else []
    return store, [lifted(k, held[k], draw(scores), draw(st.booleans())) for k in chosen]


def lifted(key, found, score, by_graph):
    """A candidate; one that graph ranking raised has a final score above the combined one."""
    if not by_graph:
        return candidate(key, found, score)
    return Candidate(key, found, Scores(vector=0.2, combined=0.1, final=score))


def check_laws(context, candidates, budget, again):
    assert token_counter().count(context.text) == context.tokens <= budget
    shown = [id for packed in context.passages for id in packed.ids]
    assert len(shown) == len(set(shown)) or all(
        packed.reduced for packed in context.passages if shown.count(packed.id) > 1
    )
    places = sorted((p.document, a, b) for p in context.passages for a, b in p.spans)
    assert all(one[0] != two[0] or one[2] <= two[1] for one, two in pairwise(places))
    chosen = {entry.id for entry in context.trace.selected if entry.attached_to is None}
    dropped = Counter(entry.id for entry in context.trace.dropped)
    offered = Counter(one.passage.id for one in candidates)
    assert dropped + Counter(chosen) == offered
    assert context.trace.candidates == len(candidates)
    assert again().trace.as_json() == context.trace.as_json()


@settings(max_examples=CASES, suppress_health_check=list(HealthCheck))
@given(
    world=worlds(),
    question=questions,
    budget=budgets,
    policy=policies,
)
def test_any_candidates_are_packed_by_the_laws(world, question, budget, policy):
    store, candidates = world

    def packed():
        return pack(
            question, candidates, store=store, settings=Settings(), budget=budget, policy=policy
        )

    check_laws(packed(), candidates, budget, packed)


def best_first(candidates):
    finals = [one.scores.final if math.isfinite(one.scores.final) else 0.0 for one in candidates]
    return [candidates[i] for i in sorted(range(len(finals)), key=lambda i: -finals[i])]


def check_the_best(packed, candidates):
    """The best passage is in if it has room alone, else it is over budget; the best three
    that differ are no stubs."""
    trace, ranked = packed(candidates).trace, best_first(candidates)
    reasons = {entry.rank: entry.reason for entry in trace.dropped}
    if ranked and ranked[0].passage.text.strip():
        alone = packed(ranked[:1])
        assert reasons.get(1, "over_budget") == "over_budget"
        assert (1 in reasons) <= (not alone.passages or bool(alone.trace.warnings))
    distinct = [rank for rank in range(1, len(ranked) + 1) if reasons.get(rank) != "duplicate_of"]
    assert all(reasons.get(rank) != "below_quality" for rank in distinct[:3])


@settings(max_examples=CASES, suppress_health_check=list(HealthCheck))
@given(
    world=worlds(),
    question=questions,
    budget=budgets,
    policy=every_policy,
    price=st.sampled_from([0.0, 0.1, 5.0]),
)
def test_the_best_passage_is_in_or_over_budget(world, question, budget, policy, price):
    store, candidates = world
    chosen = Settings(packing_token_price=price)

    def packed(some):
        options = {"settings": chosen, "budget": budget, "policy": policy}
        return pack(question, some, store=store, **options)

    check_the_best(packed, candidates)


@pytest.fixture(scope="module")
def library(notes_pack):
    with packwise.open(str(notes_pack)) as opened:
        yield opened


@settings(
    max_examples=min(CASES, 1000), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(question=questions, budget=st.integers(0, 700), policy=policies, few=st.integers(1, 10))
def test_the_passages_of_a_pack_are_packed_by_the_laws(library, question, budget, policy, few):
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
    check_laws(context, candidates, budget, packed)
    for shown in context.passages:
        document = library.store.document(shown.document)
        assert all(document.text[a:b] in shown.text for a, b in shown.spans)


@settings(
    max_examples=min(CASES, 1000), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    question=questions,
    budget=st.integers(0, 700),
    policy=every_policy,
    copies=st.lists(st.integers(0, 9), max_size=6),
)
def test_copies_take_no_place_from_the_passages_of_a_pack(
    library, question, budget, policy, copies
):
    """Copies of some hits in another document, each ranked right behind its original, change
    neither the text nor what else is said of the others."""
    hits = list(library.search(question, 10).hits)
    crowded = []
    for place, hit in enumerate(hits):
        crowded.append(hit)
        for number in range(copies.count(place)):
            name = f"copy-{place}-{number}"
            copy = replace(hit.passage, id=f"{name}#0", document=name)
            crowded.append(replace(hit, passage=copy))

    def packed(candidates):
        store, chosen = library.store, {"budget": budget, "policy": policy}
        return pack(question, candidates, store=store, settings=Settings(), **chosen)

    alone, beside = packed(hits), packed(crowded)
    check_the_best(packed, hits)
    check_the_best(packed, crowded)
    assert beside.text == alone.text
    reasons = {entry.id: entry.reason for entry in beside.trace.dropped}
    assert {entry.id: entry.reason for entry in alone.trace.dropped}.items() <= reasons.items()
    made = [one.passage.id for one in crowded if one.passage.id.startswith("copy-")]
    assert all(reasons[name] == "duplicate_of" for name in made)


@pytest.mark.parametrize("policy", PACKING_POLICIES)
@pytest.mark.parametrize("budget", [0, 1, 2, 5])
def test_an_empty_or_tiny_budget_is_kept(policy, budget):
    store = MemoryStore([passage("a", SENTENCES[0]), passage("b", SENTENCES[1])])
    context = pack(
        "which key?",
        store.candidates(),
        store=store,
        settings=Settings(),
        budget=budget,
        policy=policy,
    )
    assert context.tokens <= budget
    assert token_counter().count(context.text) <= budget
    assert len(context.trace.dropped) + len(context.trace.selected) == 2


def test_nothing_to_pack_is_an_empty_context():
    context = pack("which key?", [], store=MemoryStore(), settings=Settings(), budget=100)
    assert (context.text, context.tokens, context.passages) == ("", 0, ())
