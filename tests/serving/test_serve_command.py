"""The command: where it listens, when it refuses to start, how it ends."""

import signal
import socket
import threading

import httpx2
import pytest
from click.testing import CliRunner

from messages_api import ModelServer, text
from packwise.cli import app
from packwise.errors import NotAStore, StoreMissing, UsageError
from packwise.serving.keys import KeyRing
from serving_world import RunningServer
from tests_world import PATIENCE, wait_until


@pytest.mark.parametrize("command", [("serve",), ("mcp", "--http")])
def test_beyond_this_machine_it_does_not_start_without_keys(notes_pack, tmp_path, command):
    name, *flags = command

    def refused(*arguments):
        done = CliRunner().invoke(app, [name, str(notes_pack), *flags, *arguments, "--port", "0"])
        assert isinstance(done.exception, UsageError)
        assert done.output == ""
        return str(done.exception)

    for host in ("0.0.0.0", "::", "10.1.2.3", "example.org"):
        assert "packwise serve keys add" in refused("--host", host)
        assert "API keys are needed" in refused("--host", host, "--no-keys")
    assert "no API key" in refused("--keys", str(tmp_path / "none.json"))


def test_beyond_this_machine_every_request_needs_one_of_its_keys(notes_pack, tmp_path):
    ring = KeyRing(tmp_path / "keys.json")
    key, text = ring.add(unbound=True)
    with (
        RunningServer(str(notes_pack), "--host", "0.0.0.0", "--keys", str(ring.file)) as server,
        httpx2.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE) as client,
    ):
        assert client.get("/v1/stores").status_code == 401
        sent = {"Authorization": f"Bearer {text}"}
        assert client.get("/v1/stores", headers=sent).status_code == 200
        ring.revoke(key.id)
        assert client.get("/v1/stores", headers=sent).status_code == 401


def test_it_listens_on_loopback_alone_by_default_and_keeps_to_its_limits(notes_pack):
    limits = ("--question", "20", "--body-bytes", "200")
    with RunningServer(str(notes_pack), *limits) as server:
        assert server.url.startswith("http://127.0.0.1:")
        # 127.0.0.2 is this machine too, but not the address it is bound to.
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", server.port), timeout=PATIENCE)
        with httpx2.Client(base_url=server.url, timeout=PATIENCE) as client:
            assert client.post("/v1/search", json={"query": "x" * 21}).status_code == 400
            assert client.post("/v1/search", json={"query": "x" * 300}).status_code == 413


def test_a_port_that_is_taken_and_a_store_that_is_not_there_are_one_line(notes_pack, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(app, ["serve", str(notes_pack), "--port", port])
        assert isinstance(done.exception, UsageError)
        assert "--port" in str(done.exception)
    done = CliRunner().invoke(app, ["serve", str(tmp_path / "nothing"), "--port", "0"])
    assert isinstance(done.exception, StoreMissing)


def test_a_folder_without_packs_is_not_served_unless_it_is_empty(tmp_path, monkeypatch):
    (tmp_path / "letter.txt").write_text("Not a pack.")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["serve", "--port", "0"])
    assert isinstance(done.exception, NotAStore)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letter.txt"]


def test_told_to_stop_it_finishes_what_runs_and_exits_with_0(notes_pack):
    # The answer is being written for as long as the server has not heard that it is to stop.
    stopping, answers = threading.Event(), []

    def slowly(handler, body):
        assert stopping.wait(PATIENCE)
        text("About forty minutes [1].")(handler, body)

    with ModelServer() as model:
        model.will(slowly)
        environment = {"PACKWISE_LLM_URL": model.url, "PACKWISE_LLM_MODEL": "storyteller"}
        with RunningServer(str(notes_pack), env=environment) as server:

            def ask():
                with httpx2.Client(base_url=server.url, timeout=PATIENCE) as client:
                    body = {"question": "How long does a restore take?"}
                    answers.append(client.post("/v1/ask", json=body))

            asking = threading.Thread(target=ask)
            asking.start()
            try:
                wait_until(lambda: model.requests, "the model is asked")
                server.process.send_signal(signal.SIGTERM)
                wait_until(lambda: refuses(server.port), "the server stops listening")
                assert server.process.poll() is None
            finally:
                stopping.set()
                asking.join(PATIENCE)
            assert server.stop() == 0
    assert [answer.status_code for answer in answers] == [200]
    assert answers[0].json()["answer"].startswith("About forty minutes")
    assert any(line["event"] == "request" and line["status"] == 200 for line in server.lines)


def refuses(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        return True
    return False
