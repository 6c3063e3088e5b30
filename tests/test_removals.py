"""Only a few modules remove files, and in a pack only ``PackFolder`` does."""

import ast
from pathlib import Path

import packwise

SRC = Path(packwise.__file__).parent
REMOVING = {"rmtree", "unlink", "rmdir", "remove_tree", "removedirs", "copytree"}

# What they remove: their own temporary files, downloads, saved graphs, uploads, Kuzu's files,
# folders put aside, temporary folders of links, what the worker processes of a server share.
ALLOWED = {
    "answering/few_shot.py",
    "file_hashes.py",
    "models/download.py",
    "models/saved_graph.py",
    "packs/workspace.py",
    "retrieval/calibration.py",
    "serving/keys.py",
    "serving/processes.py",
    "sources/web_fetch.py",
    "stores/durable.py",
    "stores/keyword_index.py",
    "stores/kuzu/export.py",
    "stores/kuzu/keywords.py",
    "stores/kuzu/writer.py",
    "stores/pack/folder.py",
    "stores/pack/seal.py",
    "stores/replacing.py",
}


def removing(source: Path) -> set[str]:
    found = set()
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node, "attr", None) or getattr(node, "id", None)
            if isinstance(node, ast.Attribute | ast.Name) and name in REMOVING:
                found.add(str(path.relative_to(source)))
    return found


def test_no_other_module_removes_files():
    assert removing(SRC) <= ALLOWED


def test_a_module_that_removes_files_is_found(tmp_path):
    (tmp_path / "new.py").write_text("import shutil\nshutil.rmtree('x')\n")
    assert removing(tmp_path) == {"new.py"}


def names_inside_a_pack(source: Path) -> set[str]:
    """Modules that spell the name of a pack's file, other than the one that owns them."""
    names = {"pack.sqlite", "manifest.json", "index.json", "checksums.json", "calibration.json"}
    return {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    }


def test_paths_in_a_pack_are_spelled_in_one_place():
    # walk.py skips folders that are packs; locate.py tells a pack from a Kuzu folder; durable.py
    # names the file in an error; seal.py owns the list in an index folder; packs of agent-kgpacks
    # have a manifest of their own.
    others = {"sources/walk.py", "stores/locate.py", "stores/durable.py", "stores/pack/seal.py"}
    others |= {"stores/kuzu/kgpacks.py"}
    assert names_inside_a_pack(SRC) - others == {"stores/pack/folder.py"}
