import os
import signal
import threading
import time

import pytest

from packwise.models.onnx import cores, spread
from packwise.settings import Settings


def _running() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("packwise-worker-")]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_item_is_worked_on_once_and_counted_once(threads):
    done: list[int] = []
    counted: list[int] = []
    spread(range(200), done.append, threads, counted.append)
    assert sorted(done) == list(range(200))
    assert sum(counted) == 200
    assert _running() == []


def test_nothing_to_do_is_done_at_once():
    spread([], lambda _: pytest.fail("no item was given"), 0)


def test_one_thread_keeps_the_order():
    done: list[int] = []
    spread([3, 1, 2], done.append, 1)
    assert done == [3, 1, 2]


def test_progress_is_told_in_the_calling_thread():
    heard: set[int] = set()
    spread(range(20), lambda _: None, 2, lambda _: heard.add(threading.get_ident()))
    assert heard == {threading.get_ident()}


def test_an_error_in_the_work_stops_the_rest_and_is_raised():
    done: list[int] = []

    def work(item: int) -> None:
        if item == 3:
            raise ValueError("item 3")
        time.sleep(0.001)
        done.append(item)

    with pytest.raises(ValueError, match="item 3"):
        spread(range(100_000), work, 2)
    assert len(done) < 50_000
    assert _running() == []


def test_an_error_in_the_progress_stops_the_rest_and_is_raised():
    def fail(_: int) -> None:
        raise RuntimeError("the bar broke")

    with pytest.raises(RuntimeError, match="the bar broke"):
        spread(range(100_000), lambda _: time.sleep(0.001), 2, fail)
    assert _running() == []


def test_ctrl_c_ends_it_soon_and_leaves_no_thread():
    done: list[int] = []

    def work(item: int) -> None:
        if item == 5:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        done.append(item)

    with pytest.raises(KeyboardInterrupt):
        spread(range(100_000), work, 2)
    assert len(done) < 10_000
    assert _running() == []


def test_the_setting_says_how_many_threads_else_the_cores_of_this_process():
    assert cores(Settings.load(env={}, threads=3)) == 3
    assert cores(Settings.load(env={})) == len(os.sched_getaffinity(0))
