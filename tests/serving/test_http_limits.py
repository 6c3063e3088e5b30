"""Nobody can take more than their share: sizes, rates, places, time."""

import asyncio
import socket
import threading
import time
from contextlib import ExitStack

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packwise.errors import UsageError
from packwise.serving import server
from packwise.serving import worker_pool as work
from packwise.serving.api_errors import ApiError
from packwise.serving.limits import Limits, RateLimiter
from packwise.serving.worker_pool import WorkerPool
from serving_world import client_of, key_ring, listening_server
from tests_world import PATIENCE, wait_until


@pytest.fixture(scope="module")
def impatient_server(notes_pack):
    """A server that waits for nobody."""
    limits = Limits(header_seconds=1, body_seconds=1, write_seconds=1, idle_seconds=1)
    with listening_server(notes_pack, limits) as started:
        yield started


@pytest.fixture
def impatient(impatient_server):
    return impatient_server[1]


def test_a_body_that_is_too_large_is_refused_before_it_is_read(notes_pack):
    with client_of(notes_pack, limits=Limits(body_bytes=1000)) as client:
        told = client.post("/v1/search", json={"query": "x" * 2000})
        assert told.status_code == 413
        assert told.json()["error"]["code"] == "body_too_large"

        def endless():
            for _ in range(1000):
                yield b" " * 100

        headers = {"Content-Type": "application/json"}
        assert client.post("/v1/search", content=endless(), headers=headers).status_code == 413


def test_a_question_that_is_too_long_is_refused(notes_pack):
    with client_of(notes_pack, limits=Limits(question=100)) as client:
        for route, field in (("search", "query"), ("context", "question"), ("ask", "question")):
            assert client.post(f"/v1/{route}", json={field: "key " * 24}).status_code == 200
            told = client.post(f"/v1/{route}", json={field: "key " * 30})
            assert told.status_code == 400
            assert told.json()["error"]["code"] == "question_too_long"
        long = {"model": "my-pack", "messages": [{"role": "user", "content": "key " * 30}]}
        assert client.post("/v1/chat/completions", json=long).status_code == 400


def test_a_key_that_asks_too_often_is_told_when_to_come_back(notes_pack, tmp_path):
    ring, headers = key_ring(tmp_path, eager={"unbound": True}, calm={"unbound": True})
    # One a minute: four requests take less than that on any machine.
    with client_of(notes_pack, keys=ring, limits=Limits(rate=1, burst=3)) as client:
        codes = [client.get("/v1/models", headers=headers["eager"]).status_code for _ in range(4)]
        assert codes == [200, 200, 200, 429]
        told = client.get("/v1/models", headers=headers["eager"])
        assert 1 <= int(told.headers["retry-after"]) <= 60
        assert client.get("/v1/models", headers=headers["calm"]).status_code == 200
        assert client.get("/healthz").status_code == 200


@given(
    st.floats(1, 10_000),
    st.integers(1, 50),
    st.lists(st.floats(0, 30), max_size=200),
)
def test_no_key_gets_more_than_its_burst_and_its_rate(rate, burst, gaps):
    now = 0.0
    limiter = RateLimiter(rate, burst, clock=lambda: now)
    let_in = 0
    for gap in gaps:
        now += gap
        wait = limiter.take("k")
        let_in += wait == 0
        if wait:
            before, now = now, now + wait
            assert limiter.take("k") == 0
            let_in += 1
            assert now > before
    assert let_in <= burst + now * rate / 60 + 1e-6


def test_a_key_that_was_idle_for_an_hour_still_gets_no_more_than_its_burst():
    now = 0.0
    limiter = RateLimiter(60, 3, clock=lambda: now)
    assert limiter.take("k") == 0
    now = 3600.0
    assert [limiter.take("k") for _ in range(4)] == [0, 0, 0, 1]


def test_keys_that_are_forgotten_are_the_ones_unused_for_longest():
    limiter = RateLimiter(60, 1, clock=lambda: 0.0, capacity=2)
    assert limiter.take("a") == limiter.take("b") == 0
    assert limiter.take("b") > 0
    assert limiter.take("c") == 0
    assert limiter.take("b") > 0


def test_a_late_answer_is_a_504_and_its_work_keeps_its_place(notes_pack, monkeypatch):
    from packwise.library import Library

    real, begun, release = Library.search, [], threading.Event()

    def slow(self, *arguments, **named):
        begun.append(1)
        assert release.wait(PATIENCE)
        return real(self, *arguments, **named)

    monkeypatch.setattr(Library, "search", slow)
    with client_of(notes_pack, limits=Limits(deadline=0.25, running=1)) as client:
        room = client.app.state.serving.workers
        try:
            for _ in range(2):
                told = client.post("/v1/search", json={"query": "mirror"})
                assert told.status_code == 504
                assert told.json()["error"]["code"] == "deadline"
                assert told.headers["retry-after"]
            assert room.running == 1
            wait_until(lambda: begun, "the first search begins")
        finally:
            release.set()
        wait_until(lambda: room.running == 0, "its place comes back")
        assert len(begun) == 1


def test_one_more_than_may_wait_is_turned_away():
    limits = Limits(running=1, waiting=2, deadline=PATIENCE)
    release = threading.Event()

    async def scene():
        room = WorkerPool(limits)
        jobs = [asyncio.create_task(room.run(release.wait, PATIENCE)) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert (room.running, room.waiting) == (1, 2)
        with pytest.raises(ApiError):
            room.check_capacity()
        with pytest.raises(ApiError) as told:
            await room.run(release.wait)
        assert told.value.status_code == 503
        assert told.value.headers["Retry-After"]
        release.set()
        assert await asyncio.gather(*jobs) == [True] * 3
        assert (room.running, room.waiting) == (0, 0)
        room.close()

    asyncio.run(scene())


def test_whether_all_is_well_is_told_while_every_place_is_taken():
    async def scene():
        room = WorkerPool(Limits(running=1, waiting=0, deadline=PATIENCE))
        release = threading.Event()
        job = asyncio.create_task(room.run(release.wait, PATIENCE))
        await asyncio.sleep(0.05)
        assert await room.run_aside(lambda: "well", PATIENCE) == "well"
        with pytest.raises(ApiError) as told:
            await room.run_aside(lambda: release.wait(PATIENCE), 0.1)
        assert told.value.status_code == 504
        release.set()
        assert await job
        room.close()

    asyncio.run(scene())


def test_never_more_at_once_than_allowed_and_every_place_comes_back():
    async def scene():
        room = WorkerPool(Limits(running=3, waiting=100, deadline=PATIENCE))
        at_once, most, lock = 0, 0, threading.Lock()
        together = threading.Barrier(3)

        def work(n):
            nonlocal at_once, most
            with lock:
                at_once += 1
                most = max(most, at_once)
            if n < 3:
                together.wait(PATIENCE)
            time.sleep(0.005)
            with lock:
                at_once -= 1
            if n % 3 == 0:
                raise ValueError(n)
            return n

        done = await asyncio.gather(*(room.run(work, n) for n in range(60)), return_exceptions=True)
        assert most == 3
        assert [d for d in done if isinstance(d, int)] == [n for n in range(60) if n % 3]
        assert room.running == room.waiting == 0
        room.close()

    asyncio.run(scene())


def test_a_reader_who_leaves_stops_the_work_at_its_next_piece():
    async def scene():
        room = WorkerPool(Limits(running=1, deadline=PATIENCE))
        left, ends = threading.Event(), []

        def pieces():
            try:
                yield "read"
                left.wait(PATIENCE)
                yield "nobody reads this any more"
                ends.append("went on")
            finally:
                ends.append("ended")

        stream = room.stream(pieces)
        assert await anext(stream) == "read"
        await stream.aclose()
        left.set()
        async with asyncio.timeout(PATIENCE):
            while room.running:
                await asyncio.sleep(0.01)
        assert ends == ["ended"]
        room.close()

    asyncio.run(scene())


def test_a_stream_that_is_silent_for_long_says_so_and_is_late_at_its_deadline(monkeypatch):
    real, hours = work._now, 0
    monkeypatch.setattr(work, "_now", lambda: real() + 3600 * hours)

    async def scene():
        nonlocal hours
        room = WorkerPool(Limits(running=1, deadline=1800))
        speak, end = threading.Event(), threading.Event()

        def pieces():
            speak.wait(PATIENCE)
            yield "a"
            end.wait(PATIENCE)
            yield "b"

        seen, told = [], None
        try:
            async for piece in room.stream(pieces, heartbeat=0.05):
                seen.append(piece)
                if seen == [None, None]:
                    speak.set()
                if piece == "a":
                    hours = 1
        except ApiError as refusal:
            told = refusal
        end.set()
        assert told.status_code == 504
        assert seen[:2] == [None, None]
        assert seen[-1] == "a"
        room.close()

    asyncio.run(scene())


def reading(connection):
    """All there is until the server ends the connection; fails when it never does."""
    connection.settimeout(PATIENCE)
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def test_a_client_that_is_slow_with_its_head_is_cut_off(impatient):
    started = time.monotonic()
    with socket.create_connection(("127.0.0.1", impatient)) as silent:
        assert reading(silent) == b""
    assert time.monotonic() - started > 0.9
    with socket.create_connection(("127.0.0.1", impatient)) as dripping:
        dripping.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")

        def drip():
            for _ in range(round(PATIENCE / 0.1)):
                dripping.sendall(b"a")
                time.sleep(0.1)

        # The head never ends: only being cut off does.
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            drip()


def test_a_client_that_is_slow_with_its_body_gets_a_408(impatient):
    with socket.create_connection(("127.0.0.1", impatient)) as connection:
        connection.sendall(
            b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b'Content-Length: 100\r\n\r\n{"query": '
        )
        assert b" 408 " in reading(connection).split(b"\r\n")[0]


def test_a_client_that_does_not_take_its_answers_is_cut_off(impatient_server):
    running, port = impatient_server
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.socket() as greedy:
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            greedy.setsockopt(socket.SOL_SOCKET, buffer, 4096)
        greedy.connect(("127.0.0.1", port))
        greedy.settimeout(PATIENCE)
        # It asks on and on and reads nothing: the server's buffers fill, it takes no more
        # questions, and only its cutting the connection ends the wait.
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            greedy.sendall(asked * 1_000_000)
    wait_until(lambda: not running.server_state.connections, "the server forgets it")


def test_a_listening_socket_names_its_protocol():
    # Else asyncio leaves TCP_NODELAY off, and each answer waits for the client's delayed ACK.
    with server.bound_socket("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_many_slow_clients_keep_nobody_else_waiting(notes_pack):
    head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    patient = Limits(header_seconds=PATIENCE, body_seconds=PATIENCE)
    with listening_server(notes_pack, patient) as (running, port), ExitStack() as opened:
        address = ("127.0.0.1", port)
        slow = [opened.enter_context(socket.create_connection(address)) for _ in range(100)]
        for connection in slow:
            connection.sendall(head + b"Content-Length: 50\r\n\r\n{")
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as quick:
            answer = quick.post("/v1/search", json={"query": "mirror"})
            assert answer.status_code == 200
        assert len(running.server_state.connections) >= 100


@pytest.mark.parametrize("wrong", [{"running": 0}, {"deadline": 0}, {"rate": -1}, {"waiting": -1}])
def test_a_limit_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(UsageError):
        Limits(**wrong)


def test_the_limits_are_those_that_the_page_on_the_http_api_states():
    limits = Limits()
    assert (limits.body_bytes, limits.file_bytes, limits.upload_bytes) == (262144, 67108864, 2**30)
    assert (limits.question, limits.waiting, limits.traces) == (8000, 512, 256)
    assert (limits.rate, limits.deadline, limits.drain_seconds) == (600, 60, 30)
    assert (limits.header_seconds, limits.body_seconds, limits.write_seconds) == (10, 15, 20)
    assert limits.upload_seconds == 600


def test_only_a_browser_that_was_pointed_here_gets_in_without_keys(client):
    ask = {"query": "mirror"}
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.x", ""):
        told = client.post("/v1/search", json=ask, headers={"Host": host})
        assert told.status_code == 421, host
    for host in ("localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000"):
        assert client.post("/v1/search", json=ask, headers={"Host": host}).status_code == 200
    crossing = {"Sec-Fetch-Site": "cross-site"}
    assert client.post("/v1/search", json=ask, headers=crossing).status_code == 403
    # A browser without that header.
    for origin in ("https://evil.example", "null", "http://[", "http://localhost.evil.example"):
        told = client.post("/v1/search", json=ask, headers={"Origin": origin})
        assert told.status_code == 403, origin
    for origin in ("http://localhost:8000", "http://127.0.0.1", "http://[::1]:8000"):
        assert client.post("/v1/search", json=ask, headers={"Origin": origin}).status_code == 200
