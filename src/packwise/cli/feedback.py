"""``packwise feedback``: what people said about the answers of a store."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

import click

from packwise.cli.console import json_option, print_json, print_table


@click.command()
@click.argument("store")
@json_option
def feedback(store: str, as_json: bool) -> None:
    """List the verdicts on answers of STORE, oldest first.

    The page and POST /v1/feedback write them. `packwise eval PACK` measures with them, and
    `packwise calibrate PACK --feedback` learns from them.
    """
    from packwise.evaluation.feedback import feedback_path, load_feedback
    from packwise.stores.locate import open_store

    with open_store(store) as opened:
        path = feedback_path(opened.info())
    found = load_feedback(path)
    if as_json:
        print_json({"file": str(path), "feedback": [asdict(entry) for entry in found]})
        return
    if not found:
        click.echo("no answer has been judged yet: packwise serve STORE")
        return
    counts = Counter(entry.verdict for entry in found)
    rows = [(e.at[:10], e.verdict, e.question, e.right_answer or e.answer) for e in found]
    title = f"{path}: {counts['right']} right, {counts['wrong']} wrong"
    print_table(title, ("day", "verdict", "question", "answer"), rows)
