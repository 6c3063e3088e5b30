"""A room imports only from the rooms before it."""

import ast
from pathlib import Path

import packwise

SRC = Path(packwise.__file__).parent
ROOMS = [
    ("errors", "machine", "lazy_pattern"),
    ("documents",),
    ("candidates", "trace"),
    ("settings",),
    ("file_hashes",),
    ("language",),
    ("sources",),
    ("models",),
    ("chunk_partition",),
    ("chunking", "guard"),
    ("reading",),
    ("stores",),
    ("retrieval",),
    ("context",),
    ("answering",),
    ("library",),
    ("agent", "nodes", "integrations"),
    ("packs",),
    ("evaluation",),
    ("serving",),
    ("cli",),
]
RANK = {room: rank for rank, rooms in enumerate(ROOMS) for room in rooms}


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "packwise" else None


def imports(path: Path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            if node.module in ("packwise", "packwise.stores"):
                for alias in node.names:
                    yield f"{node.module}.{alias.name}", node.lineno
            elif node.module:
                yield node.module, node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno


def backward_imports(source: Path):
    for path in sorted(source.rglob("*.py")):
        relative = path.relative_to(source)
        if relative.name in ("__init__.py", "__main__.py") and len(relative.parts) == 1:
            continue
        here = relative.parts[0].removesuffix(".py")
        for module, line in imports(path):
            there = room_of(module)
            if there is None or there.startswith("_") or there == here:
                continue
            if RANK[there] >= RANK[here]:
                yield f"{relative}:{line} imports {module}"


def test_every_module_has_its_place_among_the_rooms():
    rooms = {p.relative_to(SRC).parts[0].removesuffix(".py") for p in SRC.rglob("*.py")}
    assert rooms - {"__init__", "__main__"} <= RANK.keys()


def test_no_room_imports_from_a_later_one():
    assert list(backward_imports(SRC)) == []


def imports_between_stores(source: Path):
    """A store's modules import what stores share, never another store's."""
    for path in sorted((source / "stores").glob("*/*.py")):
        here = path.parent.name
        for module, line in imports(path):
            parts = module.split(".")
            if parts[:2] != ["packwise", "stores"] or len(parts) < 3 or parts[2] == here:
                continue
            if (source / "stores" / parts[2]).is_dir():
                yield f"{path.relative_to(source)}:{line} imports {module}"


def test_no_store_imports_another():
    assert list(imports_between_stores(SRC)) == []


def test_an_import_of_another_store_is_seen(tmp_path):
    for name in ("pack", "kuzu"):
        (tmp_path / "stores" / name).mkdir(parents=True)
    (tmp_path / "stores" / "kuzu" / "bad.py").write_text(
        "from packwise.stores.pack.store import open_pack\nfrom packwise.stores.base import Store\n"
    )
    assert list(imports_between_stores(tmp_path)) == [
        "stores/kuzu/bad.py:1 imports packwise.stores.pack.store"
    ]


def test_the_rule_sees_an_import_that_breaks_it(tmp_path):
    room = tmp_path / "stores"
    room.mkdir()
    (room / "bad.py").write_text("def f():\n    from packwise.retrieval import pipeline\n")
    assert list(backward_imports(tmp_path)) == ["stores/bad.py:2 imports packwise.retrieval"]
