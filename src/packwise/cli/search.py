"""``packwise search``: hits with their scores, and the words that matched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args

import click

from packwise.candidates import Candidate, Fusion, Mode
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
    full: bool,
    trace: bool,
    as_json: bool,
) -> None:
    """Find the passages of STORE that fit QUERY best."""
    from packwise.library import open_library

    with open_library(store) as library:
        ranking = library.search(query, k, mode=mode, fusion=fusion, where=parse_where(where))
    if as_json:
        result = as_dict(ranking)
        if trace:
            result["trace"] = ranking.trace.as_dict()
        print_json(result)
        return
    show(ranking, full=full)
    if trace:
        _show_trace(ranking)


def as_dict(ranking: Ranking) -> dict[str, Any]:
    """A ranking in the shape that ``search --json`` promises."""
    return {
        "query": ranking.query.text,
        "hits": [_hit(rank, hit) for rank, hit in enumerate(ranking.hits, start=1)],
        "confidence": round(ranking.confidence, 6),
        "timings_ms": ranking.trace.timings_ms(),
    }


def _hit(rank: int, hit: Candidate) -> dict[str, Any]:
    passage, scores = hit.passage, hit.scores
    names = ("vector", "similarity", "bm25", "keyword", "combined", "rrf", "final")
    values = {name: getattr(scores, name) for name in names}
    return {
        "rank": rank,
        "id": passage.id,
        "document": passage.document,
        "title": passage.doc_title,
        "section_path": list(passage.section_path),
        "url": passage.url,
        "text": passage.text,
        "start": passage.start,
        "end": passage.end,
        "scores": {n: None if v is None else round(v, 6) for n, v in values.items()},
    }


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
    from packwise.models.words import terms

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
