"""No key makes the others wait: keys take turns, and expensive work leaves a place."""

import asyncio
import json
import socket
import threading

import pytest

from packwise.serving.api_errors import ApiError
from packwise.serving.fair_queue import SENDER, FairQueue, QueueFull, Sender, SenderGone
from packwise.serving.limits import Limits
from packwise.serving.worker_pool import WorkerPool
from serving_world import client_of, listening_server
from tests_world import PATIENCE, wait_until


def scene(body):
    """Run a coroutine function on an event loop of its own."""
    return asyncio.run(asyncio.wait_for(body(), PATIENCE))


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


def test_keys_take_turns_however_much_one_of_them_asks():
    async def body():
        queue, order, later = FairQueue(1, 100), [], asyncio.get_running_loop().time() + PATIENCE
        await queue.enter(Sender("greedy"), heavy=False, deadline=later)

        async def request(key):
            sender = Sender(key)
            await queue.enter(sender, heavy=False, deadline=later)
            order.append(key)
            queue.leave(sender, heavy=False)

        jobs = [asyncio.create_task(request("greedy")) for _ in range(5)]
        await settled()
        jobs += [asyncio.create_task(request("patient")) for _ in range(2)]
        await settled()
        queue.leave(Sender("greedy"), heavy=False)
        await asyncio.gather(*jobs)
        return order

    order = scene(body)
    assert order[:4] in (
        ["greedy", "patient", "greedy", "patient"],
        ["patient", "greedy", "patient", "greedy"],
    )
    assert order[4:] == ["greedy"] * 3


def test_heavy_work_of_keys_leaves_a_place_for_the_rest():
    async def body():
        queue, later = FairQueue(3, 100), asyncio.get_running_loop().time() + PATIENCE
        one, other = Sender("one"), Sender("other")
        for _ in range(2):
            await queue.enter(one, heavy=True, deadline=later)
        third = asyncio.create_task(queue.enter(one, heavy=True, deadline=later))
        await settled()
        assert not third.done()
        await queue.enter(other, heavy=False, deadline=later)
        queue.leave(one, heavy=True)
        await third

    scene(body)


def test_without_keys_one_user_has_every_place():
    async def body():
        queue, later = FairQueue(3, 100), asyncio.get_running_loop().time() + PATIENCE
        for _ in range(3):
            await queue.enter(Sender(), heavy=True, deadline=later)

    scene(body)


def test_a_key_may_hold_a_quarter_of_the_queue():
    async def body():
        queue, later = FairQueue(1, 12), asyncio.get_running_loop().time() + PATIENCE
        await queue.enter(Sender("greedy"), heavy=False, deadline=later)
        waiting = [
            asyncio.create_task(queue.enter(Sender("greedy"), heavy=False, deadline=later))
            for _ in range(3)
        ]
        await settled()
        with pytest.raises(QueueFull):
            queue.check("greedy")
        queue.check("patient")
        for job in waiting:
            job.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert queue.waiting == 0
        queue.check("greedy")

    scene(body)


def test_who_leaves_while_waiting_gives_up_the_place():
    async def body():
        queue, later = FairQueue(1, 8), asyncio.get_running_loop().time() + PATIENCE
        first, leaving = Sender("a"), Sender("a")
        await queue.enter(first, heavy=False, deadline=later)
        job = asyncio.create_task(queue.enter(leaving, heavy=False, deadline=later))
        await settled()
        leaving.gone.set()
        with pytest.raises(SenderGone):
            await job
        assert queue.waiting == 0
        queue.leave(first, heavy=False)
        await queue.enter(Sender("b"), heavy=False, deadline=later)

    scene(body)


def test_work_that_waits_too_long_is_late_and_takes_no_place():
    async def body():
        queue, now = FairQueue(1, 8), asyncio.get_running_loop().time()
        await queue.enter(Sender("a"), heavy=False, deadline=now + PATIENCE)
        with pytest.raises(TimeoutError):
            await queue.enter(Sender("b"), heavy=False, deadline=now + 0.01)
        assert queue.waiting == 0

    scene(body)


def test_queued_work_of_a_client_that_left_is_never_begun():
    release, begun = threading.Event(), []

    async def body():
        pool = WorkerPool(Limits(running=1, deadline=PATIENCE))
        busy = asyncio.create_task(pool.run(release.wait, PATIENCE))
        await settled()
        leaving = Sender("a")
        SENDER.set(leaving)
        job = asyncio.create_task(pool.run(begun.append, 1))
        await settled()
        assert pool.waiting == 1
        leaving.gone.set()
        with pytest.raises(ApiError) as caught:
            await job
        assert caught.value.code == "gone"
        release.set()
        await busy
        pool.close()

    scene(body)
    assert begun == []


def test_one_tenant_is_served_while_another_hangs_up_on_expensive_questions(
    notes_pack, tmp_path, monkeypatch
):
    """The attack: questions that take long, sent by one key and hung up at once."""
    from packwise.library import Library
    from packwise.serving.keys import KeyRing

    ring = KeyRing(tmp_path / "keys.json")
    _, greedy = ring.add(tenant="greedy")
    _, patient = ring.add(tenant="patient")
    release, begun = threading.Event(), []

    def slow(self, question, **options):
        begun.append(question)
        assert release.wait(PATIENCE)
        raise RuntimeError("nobody reads this")

    monkeypatch.setattr(Library, "ask", slow)
    limits = Limits(running=2, deadline=PATIENCE, rate=0)
    with listening_server(notes_pack, limits, keys=ring) as (running, port):
        state = running.config.app.state.serving
        body = json.dumps({"question": "how?"}).encode()
        head = (
            f"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {greedy}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        hanging = []
        try:
            for _ in range(20):
                connection = socket.create_connection(("127.0.0.1", port))
                connection.sendall(head.encode() + body)
                hanging.append(connection)
            wait_until(lambda: state.workers.waiting >= 15, "the questions wait")
            found = search(port, patient)
            assert found.startswith("HTTP/1.1 200"), found
            for connection in hanging:
                connection.close()
            wait_until(lambda: state.workers.waiting == 0, "those who left are forgotten")
            assert len(begun) == 1
        finally:
            release.set()


def search(port, key):
    body = json.dumps({"query": "signing key", "mode": "keyword"}).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(
            f"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n".encode()
            + body
        )
        return connection.recv(65536).decode("latin-1")


def test_metrics_of_stores_are_for_those_who_see_every_document(notes_pack, tmp_path):
    from packwise.serving.keys import KeyRing

    ring = KeyRing(tmp_path / "keys.json")
    _, tenant = ring.add(tenant="t")
    _, operator = ring.add(unbound=True)
    with client_of(notes_pack, keys=ring) as client:
        seen = {
            key: client.get("/metrics", headers={"Authorization": f"Bearer {key}"}).text
            for key in (tenant, operator)
        }
    assert "packwise_store_passages{" in seen[operator]
    assert "packwise_store_passages{" not in seen[tenant]
    assert "packwise_running" in seen[tenant]


def test_the_trace_of_a_tenant_does_not_say_whether_a_word_exists_elsewhere(notes_pack, tmp_path):
    from packwise.serving.keys import KeyRing

    ring = KeyRing(tmp_path / "keys.json")
    _, tenant = ring.add(tenant="t")
    _, operator = ring.add(unbound=True)
    traces = {}
    with client_of(notes_pack, keys=ring) as client:
        for key in (tenant, operator):
            found = client.post(
                "/v1/search",
                json={"query": "signing", "trace": True},
                headers={"Authorization": f"Bearer {key}"},
            )
            traces[key] = json.dumps(found.json()["trace"])
    assert "bm25_bound" in traces[operator]
    assert "bm25_bound" not in traces[tenant]


def test_a_key_without_a_tenant_sees_nothing(notes_pack, tmp_path):
    """``add`` refuses such a key; a file may still contain one."""
    from packwise.serving.keys import KeyRing

    file = tmp_path / "keys.json"
    _, text = KeyRing(file).add(tenant="t")
    file.write_text(file.read_text().replace('"tenant": "t"', '"tenant": ""'))
    with client_of(notes_pack, keys=KeyRing(file)) as client:
        found = client.post(
            "/v1/search", json={"query": "signing"}, headers={"Authorization": f"Bearer {text}"}
        )
    assert found.status_code == 200
    assert found.json()["hits"] == []
