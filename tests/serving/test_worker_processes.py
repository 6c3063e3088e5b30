"""Several processes behind one port act as one server, and none outlives it."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from serving_world import RunningServer, key_ring
from tests_world import PATIENCE, wait_until

BURST = 8
SEARCH = {"query": "signing key", "mode": "keyword"}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")


class Workers(RunningServer):
    """A server of two workers."""

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, workers=2, **options)

    def send(self, method, path, headers=None, **content):
        """One request on a connection of its own, which any worker may get."""
        with httpx2.Client(base_url=self.url, timeout=PATIENCE) as client:
            return client.request(method, path, headers=headers, **content)

    def each(self, method, path, headers=None, **content):
        """The answers of every worker."""
        answers = {}

        def ask() -> bool:
            with ThreadPoolExecutor(4) as pool:
                sent = [pool.submit(self.send, method, path, headers, **content) for _ in range(4)]
            for one in sent:
                answer = one.result()
                answers[self.process_of(answer)] = answer
            return set(answers) >= set(self.processes())

        wait_until(ask, "every worker answers")
        return list(answers.values())

    def process_of(self, answer):
        """The process that logged this answer."""

        def logged():
            wanted = answer.headers["x-request-id"]
            return [line["process"] for line in self.lines if line.get("id") == wanted]

        wait_until(logged, "the answer is in the log")
        return logged()[0]

    def processes(self):
        return [pid for pid in children(self.process.pid) if "spawn_main" in command_of(pid)]


def children(pid):
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def gone(pid):
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture(scope="module")
def world(notes_pack, tmp_path_factory):
    """A server with keys, the ring of its keys, and what sends each."""
    ring, headers = key_ring(
        tmp_path_factory.mktemp("keys"),
        limited={"tenant": "limited"},
        reader={"tenant": "reader"},
        operator={"unbound": True},
    )
    limits = ("--rate", "0.01", "--burst", "200")
    with Workers(str(notes_pack), "--keys", str(ring.file), *limits) as server:
        yield server, ring, headers


def test_a_trace_is_found_by_every_worker_and_by_its_own_key_only(world):
    server, _, headers = world
    found = server.send("POST", "/v1/search", headers["reader"], json=SEARCH)
    path = f"/v1/trace/{found.json()['trace_id']}"
    for answer in server.each("GET", path, headers["reader"]):
        assert answer.json()["question"] == SEARCH["query"]
    assert {a.status_code for a in server.each("GET", path, headers["operator"])} == {404}


def test_metrics_are_those_of_all_workers(world):
    server, _, headers = world

    def counted(answer):
        name = 'packwise_requests_total{method="POST",route="/v1/context",status="200"}'
        lines = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if line[0] != "#")
        return float(lines[name]), float(lines["packwise_workers"])

    body = {"question": "What is signed?", "mode": "keyword"}
    asked = len(server.each("POST", "/v1/context", headers["operator"], json=body))
    assert asked == 2
    wait_until(
        lambda: sum(line.get("route") == "/v1/context" for line in server.lines) >= 2, "the log"
    )
    total = sum(line.get("route") == "/v1/context" for line in server.lines)
    for answer in server.each("GET", "/metrics", headers["operator"]):
        assert counted(answer) == (total, 2)


def test_a_key_counts_and_is_refused_at_once_in_every_worker(world):
    server, ring, _ = world
    key, text = ring.add(tenant="brief")
    sent = {"Authorization": f"Bearer {text}"}
    assert {a.status_code for a in server.each("GET", "/v1/stores", sent)} == {200}
    ring.revoke(key.id)
    assert {a.status_code for a in server.each("GET", "/v1/stores", sent)} == {401}


def test_a_rate_holds_however_many_workers_a_key_reaches(notes_pack, tmp_path):
    ring, headers = key_ring(tmp_path, limited={"tenant": "limited"})
    limits = ("--rate", "0.01", "--burst", str(BURST))
    with Workers(str(notes_pack), "--keys", str(ring.file), *limits) as server:
        server.each("GET", "/healthz")
        with ThreadPoolExecutor(4) as pool:
            sent = [
                pool.submit(server.send, "GET", "/v1/stores", headers["limited"])
                for _ in range(4 * BURST)
            ]
        codes = [one.result().status_code for one in sent]
        served = {server.process_of(one.result()) for one in sent}
        assert (codes.count(200), codes.count(429)) == (BURST, 3 * BURST)
        assert len(served) == 2, "one worker got every connection, so nothing was shown"


def test_a_pack_made_by_one_worker_is_in_all_of_them_until_it_is_deleted(tmp_path):
    folder = tmp_path / "packs"
    folder.mkdir()
    with Workers(str(folder)) as server:
        upload = server.send("POST", "/v1/uploads").json()["id"]
        text = b"# Ferries\n\nThe ferry to the island leaves at nine from the old harbour.\n"
        assert server.send("PUT", f"/v1/uploads/{upload}/a.md", content=text).status_code == 200
        body = {"name": "island", "upload": upload}
        job = server.send("POST", "/v1/stores", json=body).json()

        def record():
            return server.send("GET", f"/v1/jobs/{job['id']}").json()

        wait_until(lambda: record()["state"] in ("done", "failed"), "the build ends")
        assert record()["error"] is None
        search = {"query": "ferry", "store": "island", "mode": "keyword"}
        found = server.each("POST", "/v1/search", json=search)
        assert {answer.status_code for answer in found} == {200}
        assert server.send("DELETE", "/v1/stores/island").status_code == 200
        assert {a.status_code for a in server.each("POST", "/v1/search", json=search)} == {404}
        for answer in server.each("GET", "/v1/stores"):
            assert answer.json()["stores"] == []


def test_a_worker_that_dies_is_replaced_and_none_is_left_at_the_end(notes_pack):
    with Workers(str(notes_pack)) as server:
        server.each("GET", "/healthz")
        before = server.processes()
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        wait_until(lambda: gone(before[0]) and len(server.processes()) == 2, "it is replaced")
        answers = server.each("POST", "/v1/search", json=SEARCH)
        assert {answer.status_code for answer in answers} == {200}
        ended = [line for line in server.lines if line["event"] == "worker ended"]
        assert [line["worker"] for line in ended] == [before[0]]
        after = server.processes()
        assert server.stop() == 0
        assert all(map(gone, {*before, *after}))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_of_them_stops_them_quietly(notes_pack, number):
    """Ctrl-C reaches the supervisor and the workers alike."""
    with Workers(str(notes_pack)) as server:
        server.each("GET", "/healthz")
        workers = server.processes()
        os.killpg(server.process.pid, number)
        assert server.stop() == 0
        assert all(map(gone, workers))
        assert {line["event"] for line in server.lines} == {"request"}


def test_workers_stop_when_their_supervisor_is_killed(notes_pack, tmp_path):
    with Workers(str(notes_pack), env={"TMPDIR": str(tmp_path)}) as server:
        server.each("GET", "/healthz")
        workers = server.processes()
        assert list(tmp_path.glob("packwise-serve-*"))
        server.process.kill()
        wait_until(lambda: all(map(gone, workers)), "the workers stop")
        assert not list(tmp_path.glob("packwise-serve-*"))


def test_what_keeps_workers_from_starting_is_one_line(notes_pack, tmp_path):
    def refused(*arguments):
        command = [sys.executable, "-m", "packwise", "serve", *arguments, "--workers", "2"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode in (1, 2)
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "cannot listen" in refused(str(notes_pack), "--port", port)
    assert "nothing" in refused(str(tmp_path / "nothing"), "--port", "0")
    assert "origin" in refused(str(notes_pack), "--port", "0", "--cors", "no origin")


def test_agents_need_no_session_with_one_worker(notes_pack):
    with Workers(str(notes_pack), "--http", command="mcp") as server:

        async def agent():
            # Each request has a connection of its own, so one agent meets several workers.
            close = httpx2.AsyncClient(headers={"Connection": "close"}, timeout=PATIENCE)
            async with close, Client(streamable_http_client(server.url, http_client=close)) as it:
                found = await it.call_tool("search_knowledge", {"query": "signing key"})
                assert "vaultctl" in str(found)
                assert len((await it.list_tools()).tools) > 3

        async def agents():
            await asyncio.gather(*(agent() for _ in range(4)))

        def both_have_answered():
            asyncio.run(agents())
            answered = [line for line in server.lines if line["event"] == "request"]
            assert {line["status"] for line in answered} <= {200, 202}
            return len({line["process"] for line in answered}) == 2

        wait_until(both_have_answered, "both workers answer")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_key_that_floods_and_hangs_up_starves_no_other(notes_pack, tmp_path, workers):
    """The order of answers shows it, not the time they take: that depends on the machine."""
    ring, headers = key_ring(tmp_path, greedy={"tenant": "a"}, patient={"tenant": "b"})
    flood = 40

    def question(number):
        """Not one that was asked before: its answer would be remembered."""
        asked = {"question": f"How is key {number} rotated?", "rerank": "crossencoder"}
        body = json.dumps(asked).encode()
        head = (
            f"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Authorization: {headers['greedy']['Authorization']}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode()
        return head + body

    limits = ("--rate", "0", "--deadline", str(PATIENCE))
    with (
        RunningServer(
            str(notes_pack), "--keys", str(ring.file), *limits, workers=workers
        ) as server,
        httpx2.Client(base_url=server.url, timeout=PATIENCE) as client,
    ):
        wait_until(lambda: client.get("/readyz").status_code == 200, "the models are loaded")
        with ExitStack() as opened:
            waiting = [
                opened.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                for _ in range(flood)
            ]
            for number, connection in enumerate(waiting):
                connection.sendall(question(number))
            found = client.post("/v1/search", json={"query": "key"}, headers=headers["patient"])
            assert found.status_code == 200
            # The other worker goes on with its own share meanwhile, which starves no one.
            answered, _, _ = select.select(waiting, [], [], 0)
            assert len(answered) < flood / 2, "the search waited for the other key's questions"

        def idle():
            lines = client.get("/metrics", headers=headers["patient"]).text.splitlines()
            return {"packwise_running 0.0", "packwise_waiting 0.0"} <= set(lines)

        wait_until(idle, "what was left behind is dropped")

        def asked():
            return [line for line in server.lines if line.get("route") == "/v1/ask"]

        wait_until(lambda: len(asked()) == flood, "every question is in the log")
        dropped = [line for line in asked() if line["status"] == 499 or line.get("code") == "gone"]
        assert len(dropped) >= flood / 3, "questions of a client that has left were worked on"
