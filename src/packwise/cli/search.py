"""``packwise search``: hits with their scores, and the words that matched."""

from __future__ import annotations

import re
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
    clean,
    json_option,
    note,
    number,
    out,
    parse_where,
    print_json,
    print_table,
    text_argument,
    where_option,
)

if TYPE_CHECKING:
    from rich.text import Text

    from packwise.retrieval.pipeline import Ranking
    from packwise.trace import Trace

_SNIPPET = 320


@click.command()
@click.argument("store")
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
    """Find the best passages of STORE for QUERY."""
    if tenant:
        from packwise.cli.db import search_nodes
        from packwise.nodes.store import has_nodes

        if has_nodes(store, tenant):
            search_nodes(store, query, (tenant,), k=k, fusion=fusion or "weighted", as_json=as_json)
            return
        where = (*where, f"tenant={tenant}")
    from packwise.library import open_library

    with open_library(store) as library:
        ranking = library.search(
            query,
            k,
            mode=mode,
            fusion=fusion,
            where=parse_where(where),
            alternatives=also,
            graph=graph,
            rerank=rerank,
        )
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


def show(ranking: Ranking, *, full: bool = False) -> None:
    """Print a ranking for people."""
    from rich.text import Text

    console = out()
    if not ranking.hits:
        console.print(Text("nothing found", style="yellow"))
        return
    for rank, hit in enumerate(ranking.hits, start=1):
        heading = Text(f"{rank}. ", style="bold")
        heading.append(clean(hit.passage.heading or hit.passage.document), style="bold cyan")
        console.print(heading)
        console.print(Text(_scores_line(hit), style="dim"))
        body = clean(hit.passage.text) if full else _snippet(hit.passage.text, ranking.query.text)
        console.print(_highlighted(body, ranking.query.text))
        console.print()
    timings = ranking.trace.timings_ms()
    steps = ", ".join(f"{name} {ms:.1f}" for name, ms in timings.items())
    line = f"confidence {ranking.confidence:.2f}   {sum(timings.values()):.1f} ms ({steps})"
    console.print(Text(line, style="dim"))


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
    return f"   {'   '.join(parts)}   {clean(hit.passage.url or hit.passage.document)}"


def _snippet(text: str, query: str) -> str:
    """The part of a passage with most of the query's words, cut between words."""
    flat = " ".join(clean(text).split())
    if len(flat) <= _SNIPPET:
        return flat
    starts = [m.start() for m in _matches(flat, query)]
    begin = 0
    if starts:
        best = max(starts, key=lambda s: (sum(s <= t < s + _SNIPPET - 40 for t in starts), -s))
        begin = max(0, min(best - 40, len(flat) - _SNIPPET))
    if begin:
        begin = flat.find(" ", begin) + 1
    end = len(flat)
    if begin + _SNIPPET < len(flat):
        end = max(flat.rfind(" ", begin, begin + _SNIPPET), begin + 1)
    return f"{'… ' if begin else ''}{flat[begin:end]}{' …' if end < len(flat) else ''}"


def _highlighted(text: str, query: str) -> Text:
    from rich.text import Text

    shown = Text(text)
    for match in _matches(text, query):
        shown.stylize("bold yellow", match.start(), match.end())
    return shown


def _matches(text: str, query: str) -> list[re.Match[str]]:
    """The words of a text that the keyword leg matches with the query."""
    from packwise.language.analyzer import terms

    wanted = set(terms(query))
    return [m for m in re.finditer(r"[^\W_]+(?:['’][^\W_]+)*", text) if wanted & set(terms(m[0]))]
