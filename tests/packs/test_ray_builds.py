"""Builds on a real Ray of two workers on this machine."""

from contextlib import closing

import numpy as np
import pytest
from store_world import snapshot

from packwise.errors import SourceError, StoreError, UsageError
from packwise.packs.build import build_pack
from packwise.packs.ray_build import _start, build_on_ray
from packwise.packs.staging import Stager
from packwise.stores.locate import open_store
from tests_world import write_notes

pytestmark = [
    pytest.mark.slow,
    # Ray leaves sockets and files of its own behind when it stops.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    import gc
    import logging
    import os

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    yield
    ray.shutdown()
    # Here, where it is expected; else what it left behind is found in another test.
    gc.collect()


@pytest.fixture
def source(tmp_path):
    return write_notes(tmp_path / "notes")


def seen(place: str) -> dict:
    with closing(open_store(place)) as store:
        return {
            name: (summary, document, passages, np.round(vectors, 2).tolist())
            for name, (summary, document, passages, vectors) in snapshot(store).items()
        }


def test_it_makes_what_the_plain_build_makes(cluster, source, tmp_path):
    from more_places import QdrantPlace

    (source / "bad.md").write_bytes(b"\xff\xfe\x00\x01" * 30)
    plain = build_pack([str(source)], str(tmp_path / "plain"))
    target = QdrantPlace(tmp_path).location
    spread = build_on_ray([str(source)], target, workers=2)
    assert seen(target) == seen(str(tmp_path / "plain"))
    assert spread.changes == plain.changes
    assert spread.embedded == plain.embedded
    assert spread.problems == plain.problems
    assert dict(spread.kept_out) == dict(plain.kept_out)
    again = build_pack([str(source)], target)
    assert again.embedded == 0
    assert again.changes.unchanged == plain.changes.added


def test_a_stopped_build_goes_on_where_it_was(cluster, source, tmp_path, monkeypatch):
    target = str(tmp_path / "pack")
    whole = Stager._vectors

    def stop_later(self, window, meanwhile):
        whole(self, window[:2], meanwhile)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Stager, "_vectors", stop_later)
        with pytest.raises(KeyboardInterrupt):
            build_on_ray([str(source)], target, workers=2)
    report = build_on_ray([str(source)], target, workers=2)
    assert report.changes.added == 5
    with closing(open_store(target)) as store:
        assert 0 < report.embedded < store.info().passages


@pytest.mark.parametrize(("address", "says"), [(None, "does not start"), ("h:1", "be reached")])
def test_a_ray_that_does_not_start_is_reported_in_one_line(address, says, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)

    class Busy:
        """Ray on a machine that is too busy: it raises a plain exception."""

        def init(self, **_):
            raise Exception("The current node timed out\nduring startup.")

    with pytest.raises(StoreError, match=f"{says}.*: The current node timed out during startup"):
        _start(Busy(), address, 2)


def test_what_cannot_be_read_is_reported_as_by_the_plain_build(cluster, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "bad.md").write_bytes(b"\x00\x01\x02" * 100)
    with pytest.raises(SourceError, match="nothing could be read") as plain:
        build_pack([str(tmp_path / "notes")], str(tmp_path / "plain"))
    with pytest.raises(SourceError) as spread:
        build_on_ray([str(tmp_path / "notes")], str(tmp_path / "pack"), workers=2)
    assert str(spread.value) == str(plain.value)
    with pytest.raises(UsageError):
        build_on_ray([], str(tmp_path / "pack"))
