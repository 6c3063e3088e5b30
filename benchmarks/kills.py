"""Kill what writes a pack, and count what was lost.

    python benchmarks/kills.py [--kills 200] [--seed 1]

Each kill ends a build, an install, a copy, an update or an add at a random moment. What is left
must be the old state or the new one, and the next run must succeed. No model is needed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from attacks import DIM, GRAPH_FROM, SECONDS, build, read, report, say, vector, workplace

from packwise.errors import PackwiseError
from packwise.models.base import OnEmbedded, Vectors
from packwise.packs.build import build_pack
from packwise.packs.copying import copy_store
from packwise.packs.installed import install
from packwise.packs.remembered_sources import sources_to_update
from packwise.stores.locate import pack_folder
from packwise.stores.pack import index
from packwise.stores.pack.validation import validate


class MadeUpEmbedder:
    """Makes a vector of each text without a model."""

    name, version, dim, window = "made-up", "1", DIM, 256

    def embed_passages(self, texts: Sequence[str], progress: OnEmbedded | None = None) -> Vectors:
        if progress is not None:
            progress(len(texts))
        vectors = np.stack([vector(text) for text in texts])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def embed_query(self, text: str) -> Vectors:
        return self.embed_passages([text])[0]

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        return [word.span() for word in re.finditer(r"\S+", text)]

    def similarity(self, cosine: float) -> float | None:
        return cosine


def write_sources(folder: Path, numbers: Iterable[int], words: str) -> None:
    """Notes as files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (folder / f"note-{number}.md").write_text(f"# About {number}\n\n{words} on {number}.\n")


def sourced(home: Path, *steps: str) -> Path:
    """A pack of 80 files, after these steps."""
    write_sources(home / "notes", range(80), "Note")
    do("first", home / "pack", home)
    for step in steps:
        prepare(step, home)
        do(step, home / "pack", home)
    return home / "pack"


def prepare(kind: str, home: Path) -> None:
    """What a person changes before they update or add."""
    if kind == "update":
        write_sources(home / "notes", range(5), "Other")
        (home / "notes" / "note-9.md").unlink()
    elif kind == "add":
        write_sources(home / "more", range(100, 105), "More")


KINDS = ("build", "install", "copy", "update", "add")


def kills(sound: Path, scratch: Path, count: int, seed: int) -> Counter[str]:
    """Kill commands; what is left is the old state or the new one."""
    place, outcome = random.Random(f"kills {seed}"), Counter[str]()
    build(scratch / "Other", 80, "Other")
    old, new = read(sound)[6:], read(scratch / "Other")[6:]
    states = dict.fromkeys(("build", "install", "copy"), (old, new))
    first = sourced(scratch / "first")
    for kind in ("update", "add"):
        after = sourced(scratch / kind, kind)
        states[kind] = (read(first)[6:], read(after)[6:])
    taken: dict[str, float] = {}
    number = -1
    while outcome["killed"] < count:
        number += 1
        home, kind = scratch / f"kill-{number}", KINDS[number % len(KINDS)]
        os.environ["PACKWISE_HOME"] = str(home / "home")
        if kind in ("update", "add"):
            shutil.copytree(scratch / "first", home)
            os.environ["PACKWISE_HOME"] = str(scratch / "home")
            do("first", home / "pack", home)  # It remembers where its sources are now.
            prepare(kind, home)
        else:
            shutil.copytree(sound, home / "pack")
        if kind == "install":
            install(home / "pack", "pack")
        target = {"copy": home / "copy", "install": pack_folder("pack")}.get(kind, home / "pack")
        other = home if kind in ("update", "add") else scratch / "Other"
        started = time.monotonic()
        process = started_process(kind, home / "pack", other)
        if kind in taken:  # The first of each kind is timed.
            time.sleep(place.random() * taken[kind])
            os.kill(process, signal.SIGKILL)
        if os.waitpid(process, 0)[1] != signal.SIGKILL:
            taken[kind] = min(time.monotonic() - started, taken.get(kind, SECONDS))
            shutil.rmtree(home)
            continue
        outcome["killed"] += 1
        before, after = states[kind]
        try:
            left = read(target)[6:]
            state = "old" if left == before else "new" if left == after else "NEITHER STATE"
        except PackwiseError:
            state = "nothing yet" if kind == "copy" else "LOST"
        outcome[f"{kind}: {state}"] += 1
        # What was added stays although its source was perhaps not written down yet.
        following = "update" if kind == "add" and state == "new" else kind
        again = os.waitpid(started_process(following, home / "pack", other), 0)[1]
        try:
            whole = read(target)[6:] == after and validate(target) == []
        except PackwiseError as error:
            whole = False
            say(f"kill {number} ({kind}): {error}")
        outcome["whole after the next run" if whole and not again else "NOT WHOLE"] += 1
        shutil.rmtree(home)
    return outcome


def started_process(kind: str, pack: Path, other: Path) -> int:
    """A process that runs one command."""
    child = os.fork()
    if child == 0:
        try:
            do(kind, pack, other)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - what is counted
            traceback.print_exc()
            os._exit(1)
    return child


def do(kind: str, pack: Path, other: Path) -> None:
    """One command to be killed."""
    index.EXACT_LIMIT = GRAPH_FROM
    embedder = MadeUpEmbedder()
    if kind == "first":
        build_pack([str(other / "notes")], pack, embedder=embedder)
        return
    if kind == "build":
        build(pack, 80, "Other")
    elif kind == "install":
        install(other, "pack", replace=True)
    elif kind == "update":
        build_pack(sources_to_update(str(pack)), pack, embedder=embedder)
    elif kind == "add":
        build_pack([str(other / "more")], pack, embedder=embedder, add=True)
    else:
        copy_store(str(other), str(pack.parent / "copy"))


def main() -> None:
    """Kill, and exit with 1 if something did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with workplace() as scratch:
        run = partial(kills, scratch / "sound", scratch, given.kills, given.seed)
        failed = report(f"{given.kills} kills", run)
    say(f"{failed} did not hold")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
