"""Measures ``schema_context`` on the schemas of real programs: whether the text holds every column
that the SQL of a question needs.

    python benchmarks/schemas.py postgresql://... [HALF]

The server has a database for each program, made by the files of its Debian package (usr/share):

    bacula     dbconfig-common/data/bacula-director-pgsql/install/pgsql
    mediawiki  mediawiki/maintenance/postgres/tables-generated.sql
    ledgersmb  ledgersmb/sql/Pg-database.sql
    zabbix     zabbix-server-pgsql/schema.sql.gz
    rt         request-tracker5/etc/schema.Pg
    openqa     openqa/dbicdh/PostgreSQL/deploy/98/001-auto.sql
    ttrss      tt-rss/schema/ttrss_schema_pgsql.sql
    director   icingaweb2/modules/director/schema/pgsql.sql
    kea        kea/scripts/pgsql/dhcpdb_create.pgsql

Nodes are created in a schema of their own in the database of the URL and dropped at the end.
"""

from __future__ import annotations

import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import click

from nodes import opened
from packwise.models.embedder import load_embedder
from packwise.nodes.introspection import follow_catalogue
from packwise.settings import Settings

QUESTIONS = Path(__file__).with_name("schema_questions.toml")
BUDGETS = (500, 1000, 2000)
TENANT = "schemas"


def main() -> None:
    """Measure and print a table."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    url, half = sys.argv[1], (sys.argv[2] if len(sys.argv) == 3 else "report")
    asked = [q for q in tomllib.loads(QUESTIONS.read_text())["question"] if q["half"] == half]
    settings = Settings.load()
    embedder = load_embedder(settings.embedder, settings)
    right: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BUDGETS) + 1))
    with opened(url) as (adapter, _):
        for name in dict.fromkeys(q["schema"] for q in asked):
            database = urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
            follow_catalogue(adapter.store, database, lambda: embedder, tenant=TENANT, dataset=name)
        for question in asked:
            row = right[question["schema"]]
            row[-1] += 1
            for i, budget in enumerate(BUDGETS):
                context = adapter.schema_context(
                    question["question"], TENANT, question["schema"], budget
                )
                named = {f"{field.table}.{field.field_name}" for field in context.fields}
                row[i] += named.issuperset(question["fields"])
                if not named.issuperset(question["fields"]) and budget == BUDGETS[-1]:
                    missing = ", ".join(sorted(set(question["fields"]) - named))
                    click.echo(f"{question['schema']}: {question['question']} {missing}", err=True)
    click.echo("| schema | " + " | ".join(f"{b:,} tokens" for b in BUDGETS) + " | questions |")
    click.echo("| --- |" + " ---: |" * (len(BUDGETS) + 1))
    right["all"] = [sum(column) for column in zip(*right.values(), strict=True)]
    for name, row in right.items():
        click.echo(f"| {name} | " + " | ".join(map(str, row)) + " |")


if __name__ == "__main__":
    main()
