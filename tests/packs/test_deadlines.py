"""A document that takes too long is reported, and the rest is built."""

import re
import threading
import time
from dataclasses import replace

import pytest

from packwise.errors import SourceError
from packwise.models.embedder import load_embedder
from packwise.packs.deadline import deadline
from packwise.packs.workers import LocalWorkers
from packwise.settings import Settings
from packwise.sources import Item, open_source

ENDLESS = re.compile(r"(a|aa)+$")


def backtrack():
    ENDLESS.match("a" * 100 + "b")


def loop():
    while True:
        try:
            time.sleep(0.001)
            sum(range(10_000))
        except Exception:  # noqa: BLE001, S112
            continue


def test_a_regular_expression_that_never_ends_is_interrupted():
    with pytest.raises(SourceError, match=r"takes longer than 0\.2 seconds"), deadline(0.2):
        backtrack()


def test_code_that_catches_every_exception_is_interrupted_in_any_thread():
    raised = []

    def work():
        with pytest.raises(SourceError) as caught, deadline(0.2):
            loop()
        raised.append(caught.value.message)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    work()
    assert (
        raised
        == ["takes longer than 0.2 seconds to read (PACKWISE_DOCUMENT_SECONDS allows more)"] * 2
    )


def test_work_that_ends_in_time_is_left_alone():
    for seconds in (0, 3600):
        with deadline(seconds):
            backtracked = ENDLESS.match("aaa")
        assert backtracked


def test_the_other_documents_are_read(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.md").write_text(f"About {name}.\n")
    settings = Settings.load(document_seconds=0.5)
    workers = LocalWorkers(load_embedder(settings.embedder, settings), settings)
    items = [item for item in open_source(str(tmp_path)).items() if isinstance(item, Item)]
    items[1] = replace(items[1], load=backtrack)
    prepared = list(workers.prepare((item, "hash") for item in items))
    assert [one.document and one.document.id for one in prepared] == ["a.md", None, "c.md"]
    assert str(prepared[1].problem).startswith(f"{tmp_path}/b.md: takes longer than 0.5 seconds")
