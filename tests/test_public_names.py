"""The names `packwise` exports are a promise: this list changes on purpose or not at all."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import packwise

ROOT = Path(__file__).parent.parent
PROMISED = """
AdapterMetrics Answer AsyncKnowledgeVerseAdapter Block BlockKind BuildReport CacheInfo
Calibration CallFailed Candidate Citation Context CrossEncoder DataError Document Embedder
EmbedderMismatch ExampleSpec Expansion FieldSpec Filter FoundNode Fusion GraphRanking Guard
GuardReport Item JoinPath KnowledgeGraphAgent KnowledgeNode KnowledgeVerseAdapter LanguageModel
Library Link Mode ModelCorrupt ModelError ModelMissing NotAStore PackedPassage PackingPolicy
PackwiseError Passage Problem Query Ranking Reader Reads Reranker SchemaContext Scores Section
SettingError Settings Source SourceError SourceFile Stage Store StoreBusy StoreDamaged StoreError
StoreFull StoreInfo StoreMissing StoreTimeout StoreUnreachable TokenCounter Trace Usage
UsageError __version__ build build_app chunk combine_sources load_embedder open open_source
open_stores token_counter
""".split()


def test_the_public_names_are_these():
    assert sorted(packwise.__all__) == PROMISED
    assert dir(packwise) == PROMISED


def test_every_public_name_exists_and_is_documented():
    for value in (getattr(packwise, name) for name in PROMISED):
        assert value.__doc__ or get_args(value)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'packwise' has no attribute 'Nothing'"):
        _ = packwise.Nothing


def test_the_type_stub_imports_the_same_objects():
    stub = Path(packwise.__file__).with_suffix(".pyi")
    typed = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = __import__(node.module, fromlist=[alias.name])
                typed[alias.asname] = getattr(module, alias.name)
    assert typed == {name: getattr(packwise, name) for name in PROMISED if name != "__version__"}


def test_every_error_is_public():
    from packwise import errors

    found = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert found <= set(PROMISED)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_the_docs_import_from_packwise_alone(page):
    for code in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        assert not re.search(
            r"^\s*(?:from|import) packwise\.(?!integrations\.)", code, re.MULTILINE
        ), code


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


def loaded_by(argv: list[str]) -> set[str]:
    """The modules that a command from the shell imports."""
    code = (
        "import sys\nfrom packwise.cli import main\n"
        f"sys.argv = {['packwise', *argv]!r}\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        "print('loaded', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("loaded ")[2].split())


# What is imported for colours, progress bars, downloads, parsing of tables of other languages, and
# modules of Packwise that only builds need.
NEEDLESS = """
rich tqdm urllib.request http.client ssl email tomllib importlib.resources asyncio tokenizers
usearch usearch.index sklearn scipy pandas httpx anthropic starlette
packwise.stores.entity_extraction packwise.language.entities packwise.stores.pack.writer
packwise.stores.pack.commit packwise.stores.pack.index_writer packwise.packs packwise.sources
packwise.chunking packwise.serving packwise.agent packwise.evaluation
""".split()


@pytest.mark.parametrize("command", ["search", "context"])
def test_a_question_from_the_shell_loads_only_what_it_needs(notes_pack, command, monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    loaded = loaded_by([command, str(notes_pack), "how long do keys last?"])
    assert {"onnxruntime", "tantivy", "packwise.library"} <= loaded
    assert sorted(set(NEEDLESS) & loaded) == []


def test_a_command_from_the_shell_leaves_the_collector_to_rare_visits():
    code = (
        "import gc, sys\nfrom packwise.cli import main\nsys.argv = ['packwise', '--version']\n"
        "main()\nassert gc.get_threshold()[0] == 100_000"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_library_leaves_the_collector_as_it_is(notes_pack):
    code = (
        "import gc, packwise\nbefore = gc.get_threshold()\n"
        f"with packwise.open({str(notes_pack)!r}) as library: library.search('keys')\n"
        "assert gc.get_threshold() == before and gc.get_freeze_count() == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
