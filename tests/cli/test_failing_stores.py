"""What goes wrong with a store's server is one line that says what to do, in every command."""

import signal
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from packwise.cli import main
from packwise.stores.locate import create_or_open_store
from postgres_servers import Schema, server
from qdrant_server import Qdrant, Unavailable

sys.path.append(str(Path(__file__).parent.parent / "stores"))
from store_world import fill, make

COMMANDS = ["search", "context", "ask", "build", "copy from", "copy to"]
NOTE = make("note", "Backups are kept for a year.")


@pytest.fixture
def told(monkeypatch, capfd, tmp_path):
    """Runs a command on a store that fails; the one line it says."""

    def run(command: str, store: str) -> str:
        (tmp_path / "notes").mkdir(exist_ok=True)
        (tmp_path / "notes" / "a.md").write_text("# A\n\nBackups are kept for a year.\n")
        with closing(create_or_open_store(str(tmp_path / "mine"))) as mine:
            fill(mine, [NOTE])
        arguments = {
            "build": ["build", str(tmp_path / "notes"), "--out", store],
            "copy from": ["copy", store, str(tmp_path / "copy")],
            "copy to": ["copy", str(tmp_path / "mine"), store],
        }.get(command, [command, store, "how long are backups kept"])
        monkeypatch.setattr(sys, "argv", ["packwise", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        output, errors = capfd.readouterr()
        assert ended.value.code == 1
        assert output == ""
        (line,) = errors.splitlines()
        assert line.startswith("packwise: ")
        assert " -> " in line
        assert not (tmp_path / "copy").exists()
        return line

    return run


@pytest.fixture(scope="module")
def qdrant():
    try:
        running = Qdrant(api_key="very-secret")
    except Unavailable as reason:
        pytest.skip(f"no Qdrant server to test on: {reason}")
    yield running
    running.stop()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_that_is_down(told, tmp_path, command):
    assert "no PostgreSQL server answers" in told(command, "postgresql://u@127.0.0.1:1/x")
    assert "127.0.0.1:9 does not answer" in told(command, "qdrant+http://127.0.0.1:9/x")
    (tmp_path / "file").write_text("no folder")
    assert "cannot read" in told(command, f"kuzu:{tmp_path / 'file' / 'pack.db'}")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_that_does_not_let_us_in(told, qdrant, monkeypatch, command):
    line = told(command, server("plain").tcp_url("wrong-secret"))
    assert "refuses the user or the password" in line
    assert "wrong-secret" not in line
    monkeypatch.setenv("PACKWISE_QDRANT_API_KEY", "wrong-secret")
    line = told(command, f"qdrant+{qdrant.url}/locked")
    assert "refuses the key -> set PACKWISE_QDRANT_API_KEY" in line
    assert "wrong-secret" not in line


@pytest.mark.parametrize("command", COMMANDS)
def test_a_postgresql_that_is_slow(told, command):
    schema = Schema()
    try:
        with closing(create_or_open_store(schema.url)) as store:
            fill(store, [NOTE])
        with psycopg.connect(schema.url) as other:
            other.execute("LOCK TABLE packwise_store IN ACCESS EXCLUSIVE MODE")
            hurried = f"{schema.url}%20-cstatement_timeout%3D150"
            assert "took longer than statement_timeout allows" in told(command, hurried)
            other.rollback()
    finally:
        schema.drop()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_qdrant_that_is_slow(told, qdrant, monkeypatch, command):
    monkeypatch.setenv("PACKWISE_QDRANT_API_KEY", "very-secret")
    qdrant.process.send_signal(signal.SIGSTOP)
    try:
        line = told(command, f"qdrant+{qdrant.url}/slow?timeout=1")
    finally:
        qdrant.process.send_signal(signal.SIGCONT)
    assert "took longer than the 1 s it is given -> ask for less" in line
