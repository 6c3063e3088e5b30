"""How many modules a question or a build passes through, and how often it changes rooms.

    python benchmarks/walk.py ask|build

Both run on a small pack made from the documentation of this repository. A module counts when
one of its functions runs; a change of rooms is a call from one room into another.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import packwise

SOURCE = Path(packwise.__file__).parent
DOCS = SOURCE.parent.parent / "docs"
QUESTION = "How is a passage kept out of a context?"


def main() -> None:
    """Walk once and print each room's modules."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("ask", "build"))
    what = parser.parse_args().what
    with tempfile.TemporaryDirectory() as scratch:
        pack = str(Path(scratch) / "pack")
        if what == "build":
            walk = walked(lambda: packwise.build([str(DOCS)], pack))
        else:
            packwise.build([str(DOCS)], pack)
            ask(pack)  # What runs on import is over by now.
            walk = walked(lambda: ask(pack))
    modules = sorted(walk.modules)
    for room, count in Counter(room_of(module) for module in modules).most_common():
        names = [module for module in modules if room_of(module) == room]
        shown = ", ".join(name.removeprefix(room + "/") for name in names)
        sys.stdout.write(f"{count:4}  {room:12} {shown}\n")
    sys.stdout.write(f"{what}: {len(modules)} modules, {walk.changes} changes of room\n")


def ask(pack: str) -> None:
    """One question, from opening the pack to closing it."""
    with packwise.open(pack) as library:
        library.ask(QUESTION)


class Walk:
    """The modules whose functions ran, and how often a call left its room."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.changes = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        # Only functions are optimised: bodies of modules and classes define, they do not work.
        if event != "call" or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            return
        here = module_of(frame)
        if here is None:
            return
        self.modules.add(here)
        caller = frame.f_back
        while caller is not None and module_of(caller) is None:
            caller = caller.f_back
        if caller is not None and room_of(module_of(caller) or "") != room_of(here):
            self.changes += 1


def walked(work: Callable[[], Any]) -> Walk:
    """What ran, in this thread and those it starts."""
    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # pyright: ignore[reportArgumentType]
    return walk


def module_of(frame: FrameType) -> str | None:
    """The module of ours that a frame runs in."""
    path = frame.f_code.co_filename
    if not path.startswith(str(SOURCE)):
        return None
    return str(Path(path).relative_to(SOURCE).with_suffix(""))


def room_of(module: str) -> str:
    """The first folder of a module, or the module itself."""
    return module.partition("/")[0]


if __name__ == "__main__":
    main()
