"""``packwise ask``: an answer with numbered citations, its sources and its confidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packwise.candidates import EXPANSIONS, PACKING_POLICIES
from packwise.cli.console import (
    Part,
    clean,
    json_option,
    note,
    parse_where,
    print_json,
    say,
    text_argument,
    where_option,
)
from packwise.documents import located
from packwise.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packwise.answering.answer import Answer, Citation
    from packwise.settings import Settings

_BAR = 10


@click.command()
@click.argument("store")
@text_argument("question")
@click.option(
    "--max-results", default=5, show_default=True, metavar="N", help="Articles to use, 1 to 20."
)
@click.option("--budget", type=click.IntRange(min=1), metavar="N", help="Most tokens to send.")
@click.option(
    "--enhancements/--no-enhancements", default=True, help="Allow the steps below, or none of them."
)
@click.option("--enable-reranker/--no-reranker", "graph", default=None, help="Graph ranking.")
@click.option("--enable-multidoc/--no-multidoc", "multidoc", default=True, help="Several articles.")
@click.option("--enable-fewshot/--no-fewshot", "few_shot", default=True, help="Show examples.")
@click.option(
    "--enable-cross-encoder/--no-cross-encoder",
    "cross_encoder",
    default=None,
    help="Read question and passage together.",
)
@click.option(
    "--enable-multi-query/--no-multi-query",
    "multi_query",
    default=None,
    help="Also search other phrasings; sends the question to the language model.",
)
@click.option(
    "--expansion",
    type=click.Choice(EXPANSIONS),
    help="Where other phrasings come from; local sends nothing.",
)
@click.option("--few-shot", "few_shot_path", metavar="FILE", help="A file of examples.")
@click.option("--model", metavar="NAME", help="The model that writes the answer.")
@click.option("--policy", type=click.Choice(PACKING_POLICIES), help="How passages are chosen.")
@where_option
@click.option(
    "--extractive", is_flag=True, help="Answer with sentences from the documents; send nothing."
)
@click.option("--stream", is_flag=True, help="Show the answer while it is written.")
@click.option(
    "--trace", is_flag=True, help="Show what each step did; with --json, also the cited texts."
)
@json_option
def ask(
    store: str,
    question: str,
    enhancements: bool,
    model: str | None,
    stream: bool,
    trace: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Answer QUESTION from STORE, with sources.

    With a key in ANTHROPIC_API_KEY, or a server in PACKWISE_LLM_URL, a language model writes
    the answer. Without one, it consists of sentences from the documents.
    """
    from packwise.library import open_library
    from packwise.settings import Settings

    request = _request(enhancements, how)
    settings = Settings.load(llm_model=model)
    if model is not None:
        _check_model(model, settings)
    with open_library(store, settings=settings) as library:
        if stream and not as_json:
            answer = _streamed(library.ask_stream(question, **request))
        else:
            answer = library.ask(question, **request)
    if as_json:
        print_json(answer.as_dict() if trace else answer.as_short_dict())
        return
    show(answer, with_text=not stream)
    if trace and answer.trace:
        from packwise.cli.search import show_trace

        show_trace(answer.trace)


def _check_model(model: str, settings: Settings) -> None:
    """Raise ``UsageError`` if there is no server that could run the model."""
    from packwise.models.llm import load_llm

    if settings.synthesis == "off":
        raise UsageError(f"--model {model}: PACKWISE_SYNTHESIS is off", fix="unset it")
    loaded = load_llm(model=model, url=settings.llm_url or None)
    if loaded is None:
        fix = "set ANTHROPIC_API_KEY, or PACKWISE_LLM_URL to a server"
        raise UsageError(f"--model {model}: no language model is configured", fix=fix)
    loaded.close()


def _request(enhancements: bool, how: dict[str, Any]) -> dict[str, Any]:
    """The options as ``Library.ask`` takes them."""
    from packwise.retrieval.documents import MOST_DOCUMENTS

    if not 1 <= how["max_results"] <= MOST_DOCUMENTS:
        raise UsageError(f"--max-results is 1 to {MOST_DOCUMENTS}, not {how['max_results']}")
    multi_query, expansion = how["multi_query"], how["expansion"]
    if multi_query is not None and expansion is not None:
        raise click.UsageError("use either --enable-multi-query or --expansion, not both")
    if multi_query is not None:
        expansion = "llm" if multi_query else "off"
    cross_encoder = how["cross_encoder"]
    request: dict[str, Any] = {
        "max_results": how["max_results"],
        "budget": how["budget"],
        "policy": how["policy"],
        "where": parse_where(how["where"]),
        "expansion": expansion,
        "graph": how["graph"],
        "rerank": None if cross_encoder is None else "crossencoder" if cross_encoder else "off",
        "documents": how["multidoc"],
        "few_shot": how["few_shot"],
        "few_shot_path": Path(how["few_shot_path"]) if how["few_shot_path"] else None,
        "synthesis": False if how["extractive"] else None,
    }
    if not enhancements:
        request |= {"expansion": "off", "graph": False, "rerank": "off"}
        request |= {"documents": False, "few_shot": False}
    return request


def _streamed(pieces: Iterator[str | Answer]) -> Answer:
    """Print the pieces as they come; returns the answer, which comes last."""
    said: list[str] = []
    for piece in pieces:
        if not isinstance(piece, str):
            click.echo()
            if "".join(said).strip() != piece.text.strip():
                note("the answer broke off; this one replaces it:")
                click.echo(clean(piece.text))
            return piece
        said.append(piece)
        click.echo(clean(piece), nl=False)
    raise AssertionError("a stream ends with its answer")


def show(answer: Answer, *, with_text: bool = True) -> None:
    """Print an answer for people."""
    if with_text:
        say(clean(answer.text))
    if answer.citations:
        say()
    for citation in answer.citations:
        say(*_citation_line(citation))
    say()
    say(*_certainty_line(answer))
    for line in answer.degraded:
        note(f"note: {line}")


def _citation_line(citation: Citation) -> Iterator[Part]:
    yield f"[{citation.marker}] ", "bold"
    parts = dict.fromkeys([citation.title, *citation.section_path])
    yield clean(" > ".join(part for part in parts if part)), "bold cyan"
    where = citation.url or citation.document
    if where != citation.title or citation.place:
        yield f"  {clean(located(where, citation.place))}", "bold dim"


def _certainty_line(answer: Answer) -> Iterator[Part]:
    word = answer.certainty
    style = {"likely": "green", "unsure": "yellow", "not covered": "red"}[word]
    yield word, style
    if word != "not covered":
        filled = round(answer.probability * _BAR)
        yield "  " + "█" * filled, style
        yield "░" * (_BAR - filled), f"dim {style}"
        yield f" {answer.probability:.0%} right", style
    by = {"extractive": "from the documents", "none": "no answer"}
    yield f"   {by.get(answer.answered_by, answer.answered_by)}", f"dim {style}"
    if answer.usage.api_calls:
        usage = answer.usage
        yield (
            f"   {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, "
            f"{usage.api_calls} calls",
            f"dim {style}",
        )
