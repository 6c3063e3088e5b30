"""``packwise search``: hits with their scores, and the words that matched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, get_args

import click

from packwise.candidates import GRAPHS, RERANKERS, Candidate, Fusion, Mode
from packwise.cli.console import clean, number, out, parse_where, print_json

if TYPE_CHECKING:
    from rich.text import Text

    from packwise.retrieval.pipeline import Ranking

_SNIPPET = 320


@click.command()
@click.argument("store")
@click.argument("query")
@click.option("-k", default=5, show_default=True, help="How many passages.")
@click.option(
    "--mode",
    type=click.Choice(get_args(Mode)),
    default="hybrid",
    show_default=True,
    help="Which legs search.",
)
@click.option(
    "--fusion", type=click.Choice(get_args(Fusion)), default=None, help="How the legs are joined."
)
@click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only passages of that document, path, lang or metadata; may be repeated.",
)
@click.option("--graph", type=click.Choice(GRAPHS), default=None, help="How rank flows.")
@click.option("--rerank", type=click.Choice(RERANKERS), default=None, help="A second look.")
@click.option(
    "--also", multiple=True, metavar="TEXT", help="The question in other words; may be repeated."
)
@click.option(
    "--tenant",
    default="",
    metavar="ID",
    help="Only what is that tenant's: its knowledge nodes, where a postgresql:// STORE has any.",
)
@click.option("--full", is_flag=True, help="Show whole passages instead of snippets.")
@click.option("--trace", is_flag=True, help="Show what each stage did.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def search(
    store: str,
    query: str,
    k: int,
    mode: Mode,
    fusion: Fusion | None,
    where: tuple[str, ...],
    graph: str | None,
    rerank: str | None,
    also: tuple[str, ...],
    tenant: str,
    full: bool,
    trace: bool,
    as_json: bool,
) -> None:
    """Find the passages of STORE that fit QUERY best."""
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
    if trace:
        _show_trace(ranking)


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
        console.print(_scores_line(hit))
        body = clean(hit.passage.text) if full else _snippet(hit.passage.text, ranking.query.text)
        console.print(_highlighted(body, ranking.query.text))
        console.print()
    timings = ranking.trace.timings_ms()
    console.print(
        Text(
            f"confidence {ranking.confidence:.2f}   "
            f"{sum(timings.values()):.1f} ms "
            f"({', '.join(f'{name} {ms:.1f}' for name, ms in timings.items())})",
            style="dim",
        )
    )


def _scores_line(hit: Candidate) -> Text:
    from rich.text import Text

    scores = hit.scores
    parts = [f"score {number(scores.final)}"]
    if scores.vector is not None:
        parts.append(f"vector {number(scores.vector)}")
    if scores.keyword is not None:
        parts.append(f"keyword {number(scores.keyword)}")
    if scores.cross is not None:
        parts.append(f"cross-encoder {number(scores.cross)}")
    if scores.graph:
        parts.append(f"graph +{number(scores.graph)}")
    if scores.rrf is not None:
        parts.append(f"combined {number(scores.combined)}")
    where = clean(hit.passage.url or hit.passage.document)
    return Text(f"   {'   '.join(parts)}   {where}", style="dim")


def _snippet(text: str, query: str) -> str:
    """The stretch of a passage that holds most of the query's words, cut at word borders."""
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
    """The words of a text that the keyword leg would match with the query."""
    from packwise.language.analyzer import terms

    wanted = set(terms(query))
    return [m for m in re.finditer(r"[^\W_]+(?:['’][^\W_]+)*", text) if wanted & set(terms(m[0]))]


def _show_trace(ranking: Ranking) -> None:
    from rich.table import Table

    table = Table(title="what each stage did")
    for column in ("stage", "ms", "notes"):
        table.add_column(column, justify="right" if column == "ms" else "left")
    for stage in ranking.trace.stages:
        notes = ", ".join(f"{key} {value}" for key, value in stage.notes.items())
        table.add_row(stage.name, f"{stage.ms:.2f}", notes)
    for drop in ranking.trace.dropped:
        table.add_row(drop.stage, "", f"left out {clean(drop.id)}: {clean(drop.reason)}")
    out().print(table)
