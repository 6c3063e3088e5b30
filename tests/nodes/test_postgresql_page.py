"""The examples of docs/postgresql.md run, against a real server."""

import os
import re
import subprocess
import sys
from pathlib import Path

from postgres_servers import Schema

PAGE = Path(__file__).parents[2] / "docs" / "postgresql.md"
BLOCK = re.compile(r"```(bash|python)\n(.*?)```", re.DOTALL)


def test_the_examples_of_the_page_run(workshop, tmp_path):
    folder = workshop(tmp_path)
    schema = Schema("textsearch")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": "100", "DATABASE_URL": schema.url}
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 3
    try:
        with schema.connect() as connection:  # the live database of the reader
            connection.execute(f"CREATE SCHEMA {schema.name}")
            connection.execute("CREATE TABLE orders (id int PRIMARY KEY, total numeric)")
        for language, code in blocks:
            code = code.replace("db init", f"db init --role {schema.role}")
            command = ["bash", "-euo", "pipefail", "-c", code]
            if language == "python":
                command = [sys.executable, "-W", "error", "-c", code]
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
            assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    finally:
        schema.drop()
