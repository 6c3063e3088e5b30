"""The command: where it listens, when it refuses to start, how it ends."""

import signal
import socket
import threading
import time

import httpx2
import pytest
from click.testing import CliRunner

from packwise.cli import app
from packwise.errors import StoreMissing, UsageError
from packwise.serving.keys import KeyRing
from serving_world import RunningServer


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
        assert "keys are needed" in refused("--host", host, "--no-keys")
    assert "no API key" in refused("--keys", str(tmp_path / "none.json"))


def test_beyond_this_machine_every_request_needs_one_of_its_keys(notes_pack, tmp_path):
    ring = KeyRing(tmp_path / "keys.json")
    key, text = ring.add(unbound=True)
    with (
        RunningServer(str(notes_pack), "--host", "0.0.0.0", "--keys", str(ring.file)) as server,
        httpx2.Client(base_url=f"http://127.0.0.1:{server.port}") as client,
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
            socket.create_connection(("127.0.0.2", server.port), timeout=2)
        with httpx2.Client(base_url=server.url) as client:
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
    assert CliRunner().invoke(app, ["serve"]).exit_code == 2


def test_told_to_stop_it_finishes_what_runs_and_exits_with_0(notes_pack, tmp_path):
    # The first search waits for the model to be loaded: long enough to be caught in the act.
    with RunningServer(str(notes_pack)) as server:
        answers = []

        def ask():
            with httpx2.Client(base_url=server.url, timeout=60) as client:
                body = {"query": "how do I rotate the signing key", "rerank": "crossencoder"}
                answers.append(client.post("/v1/search", json=body))

        asking = threading.Thread(target=ask)
        asking.start()
        wait_until_running(server)
        server.process.send_signal(signal.SIGTERM)
        asking.join(60)
        assert server.stop() == 0
        assert [answer.status_code for answer in answers] == [200]
        assert answers[0].json()["hits"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=2)
    assert any(line["event"] == "request" and line["status"] == 200 for line in server.lines)


def wait_until_running(server):
    with httpx2.Client(base_url=server.url, timeout=60) as client:
        for _ in range(400):
            for line in client.get("/metrics").text.splitlines():
                if line.startswith("packwise_running ") and float(line.split()[1]) > 0:
                    return
            time.sleep(0.01)
    raise AssertionError("nothing was ever running")
