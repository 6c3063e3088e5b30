"""The architecture page names files that exist, and every room."""

import re
from pathlib import Path

import packwise

SRC = Path(packwise.__file__).parent
PAGE = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")


def files_named(text: str) -> set[str]:
    return set(re.findall(r"`((?:\w+/)*\w+\.py)`", text))


def test_every_file_it_names_exists():
    named = files_named(PAGE)
    assert len(named) > 30
    own = {name for name in named if not name.startswith(("tests/", "benchmarks/"))}
    assert sorted(name for name in own if not (SRC / name).is_file()) == []


def test_every_room_has_its_line():
    rooms = {
        f"{path.name}/" if path.is_dir() else path.name
        for path in SRC.iterdir()
        if (path.suffix == ".py" or (path / "__init__.py").is_file())
        and not path.name.startswith("__")
    }
    table = PAGE[PAGE.index("| room |") : PAGE.index("## A document into a pack")]
    assert sorted(room for room in rooms if f"`{room}`" not in table) == []
