"""What `packwise` offers is a promise: this list changes on purpose or not at all."""

import subprocess
import sys

import packwise

PROMISED = [
    "KnowledgeGraphAgent",
    "KnowledgeVerseAdapter",
    "Library",
    "PackwiseError",
    "Settings",
    "__version__",
    "build",
    "open",
]


def test_the_public_names_are_these():
    assert sorted(packwise.__all__) == PROMISED
    assert dir(packwise) == PROMISED


def test_every_public_name_is_there_and_documented():
    for name in PROMISED[:-1]:
        assert getattr(packwise, name) is not None
    for name in (name for name in PROMISED if name != "__version__"):
        assert getattr(packwise, name).__doc__


def test_importing_packwise_loads_none_of_its_dependencies():
    heavy = {"numpy", "onnxruntime", "tokenizers", "tantivy", "usearch", "rich", "click", "sqlite3"}
    code = f"import packwise, sys; print(sorted({heavy!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_loads_neither_models_nor_stores():
    heavy = {"numpy", "onnxruntime", "tokenizers", "tantivy", "usearch", "rich", "sqlite3"}
    code = (
        "import sys\nfrom packwise.cli import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        f"print('loaded', sorted({heavy!r} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("loaded []")
