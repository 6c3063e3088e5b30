"""``packwise search``: hits with their scores, and the words that matched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from packwise.candidates import (
    FUSIONS,
    GRAPHS,
    MODES,
    RERANKERS,
    Candidate,
    Fusion,
    GraphRanking,
    Mode,
    Reranker,
)
from packwise.cli.console import (
    Part,
    clean,
    in_terminal,
    json_option,
    note,
    number,
    parse_where,
    print_json,
    print_table,
    say,
    split_stores,
    text_argument,
    where_option,
)
from packwise.documents import located

if TYPE_CHECKING:
    from packwise.retrieval.ranking import Ranking
    from packwise.trace import Trace

_SNIPPET = 320


@click.command()
@click.argument("store", metavar="STORE...")
@text_argument("query")
@click.option("-k", default=5, show_default=True, help="How many passages.")
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="hybrid",
    show_default=True,
    help="Which search legs to use.",
)
@click.option("--fusion", type=click.Choice(FUSIONS), help="How the legs are combined.")
@where_option
@click.option("--graph", type=click.Choice(GRAPHS), help="The graph ranking.")
@click.option("--rerank", type=click.Choice(RERANKERS), help="The reranker.")
@click.option(
    "--also", multiple=True, metavar="TEXT", help="Another phrasing to search; may be repeated."
)
@click.option(
    "--tenant",
    default="",
    metavar="ID",
    help="Only this tenant; for a postgresql:// STORE its knowledge nodes, if it has any.",
)
@click.option("--full", is_flag=True, help="Show whole passages instead of snippets.")
@click.option("--trace", is_flag=True, help="Show what each stage did.")
@json_option
def search(
    store: str,
    query: str,
    k: int,
    mode: Mode,
    fusion: Fusion | None,
    where: tuple[str, ...],
    graph: GraphRanking | None,
    rerank: Reranker | None,
    also: tuple[str, ...],
    tenant: str,
    full: bool,
    trace: bool,
    as_json: bool,
) -> None:
    """Find the best passages of one or more STOREs for QUERY."""
    stores, query = split_stores(store, query)
    if tenant and not stores[1:]:
        from packwise.cli.db_nodes import search_nodes
        from packwise.nodes.store import has_nodes

        if has_nodes(store, tenant):
            search_nodes(store, query, (tenant,), k=k, fusion=fusion, as_json=as_json)
            return
    if tenant:
        where = (*where, f"tenant={tenant}")
    from packwise.library import open_library

    rankings: dict[str, Ranking] = {}
    for name in stores:
        with open_library(name) as library:
            rankings[name] = library.search(
                query,
                k,
                mode=mode,
                fusion=fusion,
                where=parse_where(where),
                alternatives=also,
                graph=graph,
                rerank=rerank,
            )
    if len(rankings) > 1:
        _show_merged(rankings, k, full=full, as_json=as_json)
        return
    ranking = rankings[store]
    if as_json:
        from packwise.serving.json_records import ranking_record

        result = ranking_record(ranking)
        if trace:
            result["trace"] = ranking.trace.as_dict()
        print_json(result)
        return
    show(ranking, full=full)
    for line in ranking.trace.degraded:
        note(f"note: {line}")
    if trace:
        show_trace(ranking.trace)


def _show_merged(rankings: Mapping[str, Ranking], k: int, *, full: bool, as_json: bool) -> None:
    """One ranking over several stores."""
    from packwise.retrieval.merging import merge_rankings
    from packwise.retrieval.ranking import hit_record

    found = merge_rankings(rankings, k)
    query = next(iter(rankings.values())).query.text
    confidences = {store: round(ranking.confidence, 6) for store, ranking in rankings.items()}
    if as_json:
        hits = [{"store": f.store, **hit_record(f.hit, n)} for n, f in enumerate(found, start=1)]
        print_json({"query": query, "hits": hits, "confidence": confidences})
        return
    _show_hits([(f.hit, f"{clean(f.store)}: ") for f in found], query, full)
    say((", ".join(f"confidence {c:.2f} in {s}" for s, c in confidences.items()), "dim"))


def _show_hits(hits: Sequence[tuple[Candidate, str]], query: str, full: bool) -> None:
    """Print hits, each with what goes before its heading."""
    if not hits:
        say(("nothing found", "yellow"))
    for rank, (hit, before) in enumerate(hits, start=1):
        passage = hit.passage
        heading = clean(passage.heading or passage.document)
        say((f"{rank}. {before}", "bold"), (heading, "bold cyan"))
        say((_scores_line(hit), "dim"))
        body = clean(passage.text) if full else _snippet(passage.text, query, passage.lang)
        # Nothing else shows what is highlighted.
        say(*(_highlighted(body, query, passage.lang) if in_terminal() else (body,)))
        say()


def show(ranking: Ranking, *, full: bool = False) -> None:
    """Print a ranking for people."""
    _show_hits([(hit, "") for hit in ranking.hits], ranking.query.text, full)
    if not ranking.hits:
        return
    timings = ranking.trace.timings_ms()
    steps = ", ".join(f"{name} {ms:.1f}" for name, ms in timings.items())
    line = f"confidence {ranking.confidence:.2f}   {sum(timings.values()):.1f} ms ({steps})"
    say((line, "dim"))


def show_trace(trace: Trace) -> None:
    """Print what each stage did, and why each passage was dropped."""
    rows = [
        (stage.name, f"{stage.ms:.2f}", ", ".join(f"{k} {v}" for k, v in stage.notes.items()))
        for stage in trace.stages
    ]
    rows += [(drop.stage, "", f"dropped {drop.id}: {drop.reason}") for drop in trace.dropped]
    print_table("what each stage did", ("stage", ">ms", "notes"), rows)


def _scores_line(hit: Candidate) -> str:
    scores = hit.scores
    named = {
        "score": scores.final,
        "vector": scores.vector,
        "keyword": scores.keyword,
        "cross-encoder": scores.cross,
        "graph": scores.graph or None,
        "combined": None if scores.rrf is None else scores.combined,
    }
    parts = [
        f"{name} {'+' if name == 'graph' else ''}{number(value)}"
        for name, value in named.items()
        if value is not None
    ]
    where = located(hit.passage.url or hit.passage.document, hit.passage.place)
    return f"   {'   '.join(parts)}   {clean(where)}"


def _snippet(text: str, query: str, lang: str) -> str:
    """The part of a passage with most of the query's words, cut between words."""
    flat = " ".join(clean(text).split())
    if len(flat) <= _SNIPPET:
        return flat
    starts = [start for start, _ in _matches(flat, query, lang)]
    begin = 0
    if starts:
        best = max(starts, key=lambda s: (sum(s <= t < s + _SNIPPET - 40 for t in starts), -s))
        begin = max(0, min(best - 40, len(flat) - _SNIPPET))
    # Where there are no spaces near, between any two characters.
    if begin:
        begin = flat.find(" ", begin, begin + 40) + 1 or begin
    end = len(flat)
    if begin + _SNIPPET < len(flat):
        space = flat.rfind(" ", begin + _SNIPPET // 2, begin + _SNIPPET)
        end = space if space > 0 else begin + _SNIPPET
    return f"{'… ' if begin else ''}{flat[begin:end]}{' …' if end < len(flat) else ''}"


def _highlighted(text: str, query: str, lang: str) -> Iterator[Part]:
    at = 0
    for start, end in _matches(text, query, lang):
        # Pairs of characters overlap.
        begin = max(start, at)
        yield text[at:begin]
        yield text[begin:end], "bold yellow"
        at = max(end, at)
    yield text[at:]


def _matches(text: str, query: str, lang: str) -> list[tuple[int, int]]:
    """Where a text has words that the keyword leg matches with the query."""
    from packwise.language.analyzer import terms
    from packwise.language.word_classes import words_of

    wanted = set(terms(query, lang))
    if text.isascii():
        words = re.finditer(r"[^\W_]+(?:['’][^\W_]+)*", text)
        return [m.span() for m in words if wanted & set(terms(m[0], lang))]
    # The term of a pair of characters is longer than the first of them.
    return [
        (
            word.start,
            max(word.end, word.start + len(word.term)) if word.text in word.term else word.end,
        )
        for word in words_of(text, lang)
        if word.term in wanted
    ]
