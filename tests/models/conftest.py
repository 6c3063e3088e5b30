from __future__ import annotations

from pathlib import Path

import pytest

from packwise.models.base import CrossEncoder, Embedder
from packwise.models.cross_encoder import load_cross_encoder
from packwise.models.embedder import load_embedder
from packwise.settings import Settings

_ENVIRONMENT = (
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "XDG_CACHE_HOME",
    "HF_ENDPOINT",
    "PACKWISE_MODELS",
    "PACKWISE_ALLOW_HUB",
    "PACKWISE_EMBEDDER",
    "PACKWISE_THREADS",
)


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees or changes the user's own caches, nor reaches a real hub."""
    for variable in _ENVIRONMENT:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PACKWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for proxy in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.delenv(proxy, raising=False)


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def bge(session_cache: Path) -> Embedder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PACKWISE_CACHE", str(session_cache))
        return load_embedder("bge-small-en-v1.5", Settings.load(env={}, threads=2))


@pytest.fixture(scope="session")
def minilm(session_cache: Path) -> Embedder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PACKWISE_CACHE", str(session_cache))
        return load_embedder("all-MiniLM-L6-v2", Settings.load(env={}, threads=2))


@pytest.fixture(scope="session")
def cross_encoder(session_cache: Path) -> CrossEncoder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PACKWISE_CACHE", str(session_cache))
        return load_cross_encoder(Settings.load(env={}, threads=2))
