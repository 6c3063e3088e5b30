"""Three Qdrant nodes as one cluster: built through Ray, searched while nodes die and come back.

    packwise models get potion-base-8M --wheel
    python benchmarks/cluster.py --embedder potion-base-8M [--documents 60]

Starts three servers (those of the tests) with three shards and two replicas, builds synthetic
documents with two Ray workers, one of which is killed on the way, and compares the store with a
pack built without Ray. Then four clients search while the nodes are killed and started again, one
after the other; while the first is down, one document is changed. Prints Markdown, and fails if
anything was lost or a search failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from packwise.errors import PackwiseError
from packwise.evaluation.synthetic import SyntheticDocuments, questions
from packwise.library import open_library
from packwise.packs.build import build_pack
from packwise.packs.progress import Progress
from packwise.packs.ray_build import build_on_ray
from packwise.settings import Settings
from packwise.stores.locate import open_store
from packwise.stores.transfer import checksum, contents, same_vectors

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from qdrant_server import Qdrant, Unavailable
from ray_workers import kill_worker

NODES, SHARDS, REPLICAS, CLIENTS = 3, 3, 2, 4
K = 10
PATIENCE = 180.0


def main() -> None:
    """Run everything and print what happened."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--documents", type=int, default=60)
    parser.add_argument("--embedder", help="by default that of the settings")
    parser.add_argument("--workers", type=int, default=2, help="of Ray; 0 builds without Ray")
    parser.add_argument("--seconds", type=float, default=15.0, help="of searching per phase")
    given = parser.parse_args()
    settings = Settings.load(embedder=given.embedder, query_cache=0)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            nodes = started(stack)
        except Unavailable as reason:
            sys.exit(f"there is no Qdrant: {reason}")
        hosts = ",".join(node.url.removeprefix("http://") for node in nodes)
        place = f"qdrant+http://{hosts}/spread?shards={SHARDS}&replicas={REPLICAS}&timeout=60"
        source = scratch / "articles.jsonl"
        write(source, given.documents)
        rows = [build(source, place, scratch / "pack", settings, given.workers)]
        with searching(place, settings, given.documents) as log:
            rows += outages(nodes, log, given, lambda: change(source, place, given, settings))
        expected = differences(place, scratch / "pack", source, settings)
        failed = [error for _, _, error in log if error]
    for title, value in [row for part in rows for row in part]:
        sys.stdout.write(f"| {title} | {value} |\n")
    sys.stdout.write(f"| documents that differ from a local build at the end | {expected} |\n")
    sys.stdout.write(f"| searches, and how many failed | {len(log)}, {len(failed)} |\n")
    if expected or failed:
        sys.exit(f"{expected} documents differ, {len(failed)} searches failed: {failed[:3]}")


Rows = list[tuple[str, str]]
Log = list[tuple[float, float, str]]
"""When each search began, its seconds, and why it failed."""


def started(stack: ExitStack) -> list[Qdrant]:
    """The nodes of a cluster, once all know of one another."""
    nodes: list[Qdrant] = []
    for _ in range(NODES):
        nodes.append(Qdrant(cluster=True, leader=nodes[0].peer if nodes else ""))
        stack.callback(nodes[-1].stop)
    for node in nodes:
        wait_for(lambda node=node: len(asked(node, "/cluster")["peers"]) == NODES, "the nodes meet")
    return nodes


def write(source: Path, documents: int, edited: frozenset[int] = frozenset()) -> None:
    """The synthetic documents as a file that every worker can read."""
    with source.open("w", encoding="utf-8") as file:
        for document in SyntheticDocuments(documents, edited):
            file.write(json.dumps(document) + "\n")


def build(source: Path, place: str, pack: Path, settings: Settings, workers: int) -> Rows:
    """Build through Ray, kill a worker once passages are embedded, and compare with a pack."""
    killed: list[int] = []

    class KillOnce(Progress):
        def embedded(self, passages: int) -> None:
            if not killed:
                killed.append(kill_worker())

    begin = time.perf_counter()
    given = [str(source)]
    if workers:
        report = build_on_ray(given, place, workers=workers, settings=settings, progress=KillOnce())
    else:
        report = build_pack(given, place, settings=settings)
    seconds = time.perf_counter() - begin
    lost = differences(place, pack, source, settings)
    with open_store(place) as store:
        passages = store.info().passages
    return [
        ("documents, passages", f"{report.changes.added}, {passages}"),
        (f"build, {workers} Ray workers", f"{seconds:.0f} s"),
        ("workers killed", str(len(killed))),
        ("documents that differ from a local build", str(lost)),
    ]


def differences(place: str, pack: Path, source: Path, settings: Settings) -> int:
    """Documents of the cluster that a local build of the same source has otherwise."""
    build_pack([str(source)], pack, settings=settings)
    with open_store(str(pack)) as local, open_store(place) as remote:
        names = [summary.id for summary in local.documents()]
        there = {summary.id for summary in remote.documents()}
        found = {content.document.id: content for content in contents(remote, names)}
        differ = sum(
            content.document.id not in found
            or checksum(content) != checksum(found[content.document.id])
            or not same_vectors(content.vectors, found[content.document.id].vectors)
            for content in contents(local, names)
        )
        return differ + len(there - set(names))


@contextmanager
def searching(place: str, settings: Settings, documents: int) -> Iterator[Log]:
    """Clients that search all the time; what each search took is in the log."""
    log: Log = []
    stop = threading.Event()
    asked = questions(40, documents)

    def client(number: int) -> None:
        with open_library(place, settings=settings) as library:
            at = number
            while not stop.is_set():
                begin, error = time.perf_counter(), ""
                try:
                    found = len(library.search(asked[at % len(asked)], K).hits)
                    error = "" if found == K else f"{found} hits"
                except PackwiseError as raised:
                    error = str(raised)
                log.append((begin, time.perf_counter() - begin, error))
                at += 1

    threads = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield log
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def outages(
    nodes: list[Qdrant], log: Log, given: argparse.Namespace, change_one: Callable[[], float]
) -> Iterator[Rows]:
    """Kill each node in turn and start it again; a document changes while the first is down."""
    wait_for(lambda: len(log) >= 2 * CLIENTS, "the clients search")
    begin = time.perf_counter()
    time.sleep(given.seconds)
    yield [("searches with all nodes", between(log, begin, time.perf_counter()))]
    for number, node in enumerate(nodes, 1):
        begin = time.perf_counter()
        node.kill()
        if number == 1:
            yield [("one changed document, a node down", f"{change_one():.1f} s")]
        time.sleep(given.seconds)
        yield [(f"searches with node {number} down", between(log, begin, time.perf_counter()))]
        begin = time.perf_counter()
        node.start()
        wait_for(lambda: all(whole(one) for one in nodes), f"node {number} has caught up")
        back = time.perf_counter()
        time.sleep(given.seconds / 2)
        yield [
            (f"node {number} started until it has caught up", f"{back - begin:.1f} s"),
            (f"searches with node {number} back", between(log, begin, time.perf_counter())),
        ]


def change(source: Path, place: str, given: argparse.Namespace, settings: Settings) -> float:
    """Seconds of a build of one changed document."""
    write(source, given.documents, frozenset({given.documents // 2}))
    begin = time.perf_counter()
    report = build_pack([str(source)], place, settings=settings)
    if report.changes.changed != 1:
        raise RuntimeError(f"one document was changed, but the build says {report.changes}")
    return time.perf_counter() - begin


def between(log: Log, begin: float, end: float) -> str:
    """How many searches there were, how long they took, and how many failed."""
    rows = [row for row in list(log) if row[0] + row[1] >= begin and row[0] <= end]
    took = [1000.0 * seconds for _, seconds, _ in rows]
    p50, p95 = np.percentile(took, (50, 95))
    failed = sum(bool(error) for *_, error in rows)
    return (
        f"{len(rows)}, {failed} failed; p50 {p50:.0f} ms, p95 {p95:.0f} ms,"
        f" slowest {max(took):.0f} ms"
    )


def whole(node: Qdrant) -> bool:
    """Whether a node sees every replica of every collection at work."""
    try:
        for collection in asked(node, "/collections")["collections"]:
            about = asked(node, f"/collections/{collection['name']}/cluster")
            shards = about["local_shards"] + about["remote_shards"]
            if any(shard["state"] != "Active" for shard in shards) or about["shard_transfers"]:
                return False
    except OSError:
        return False
    return True


def asked(node: Qdrant, path: str) -> Any:
    """What a node answers."""
    from urllib.request import urlopen

    with urlopen(node.url + path, timeout=30) as response:
        return json.load(response)["result"]


def wait_for(ready: Callable[[], bool], what: str) -> None:
    """Wait until something holds that is bound to."""
    until = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > until:
            raise RuntimeError(f"{what}: still not after {PATIENCE:.0f} s")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
