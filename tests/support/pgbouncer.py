"""A real PgBouncer in front of a test server, in transaction mode: sessions are shared."""

import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from ports import free_port
from postgres_servers import Server
from tests_world import PATIENCE, wait_until


@contextmanager
def pgbouncer(server: Server, size: int = 1):
    """The URL of a PgBouncer that shares ``size`` sessions of the server."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("needs pgbouncer: apt-get install pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="packwise-pgbouncer-", dir="/tmp"))
    port = free_port()
    (folder / "users.txt").write_text('"postgres" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"""[databases]
* = host={server.folder} port={server.port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 100
query_wait_timeout = 20
ignore_startup_parameters = options,extra_float_digits
"""
    )
    if server.user:
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, server.user)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, str(folder / "pgbouncer.ini")], user=server.user, stdout=log, stderr=log
        )
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    try:
        wait_until(lambda: _answers(url, process), "PgBouncer starts")
        yield url
    finally:
        process.kill()
        process.wait(PATIENCE)
        print((folder / "log").read_text(errors="replace"))  # shown if the test fails
        shutil.rmtree(folder, ignore_errors=True)


def _answers(url, process) -> bool:
    assert process.poll() is None, "PgBouncer ended at its start"
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True
