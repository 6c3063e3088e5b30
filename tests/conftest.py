"""A small world for tests: a folder of notes, and a pack built from it with the real models."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests_world import write_notes

# A runner in the background may ignore Ctrl-C, and what it starts inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is slow; that says nothing about the code. Every run tries the same examples:
# who changes nothing sees no other outcome. `--hypothesis-profile=explore` tries new ones.
settings.register_profile(
    "packwise", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "explore",
    settings.get_profile("packwise"),
    derandomize=False,
    database=None,
    print_blob=True,
)
settings.load_profile("packwise")


@pytest.fixture(scope="session", autouse=True)
def _own_folders(tmp_path_factory):
    """No test, and no pack that tests share, reads or writes the user's own cache, packs or
    settings."""
    base = tmp_path_factory.getbasetemp()
    foreign = ("PACKWISE_LLM_", "ANTHROPIC_", "OPENAI_")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PACKWISE_CACHE", str(base / "cache"))
        patch.setenv("PACKWISE_HOME", str(base / "home"))
        for name in [name for name in os.environ if name.startswith(foreign)]:
            patch.delenv(name)
        for name in ("PACKWISE_MODELS", "PACKWISE_EMBEDDER"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def notes(tmp_path_factory) -> Path:
    """A folder of notes; do not change it."""
    return write_notes(tmp_path_factory.mktemp("notes-source") / "notes")


@pytest.fixture(scope="session")
def notes_pack(tmp_path_factory, notes) -> Path:
    """A pack of the notes, built once with the default embedder; do not change it."""
    from packwise.packs.build import build_pack

    target = tmp_path_factory.mktemp("packs") / "my-pack"
    build_pack([str(notes)], str(target))
    return target


@pytest.fixture(scope="session")
def workshop(notes, notes_pack):
    """Call it with a folder to lay out what the docs' examples speak of."""

    def lay_out(folder: Path) -> Path:
        shutil.copytree(notes, folder / "notes")
        shutil.copytree(notes_pack, folder / "my-pack")
        return folder

    return lay_out
