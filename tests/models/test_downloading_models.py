import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub_server import HubServer, running_hub
from packwise.errors import ModelCorrupt, ModelError, ModelMissing, SettingError
from packwise.models.locate import get, locate, obtain
from packwise.models.table import Carrier, Hub, ModelBuild, ModelFile, ModelSpec
from packwise.settings import Settings

WEIGHTS = bytes(range(256)) * 8192  # 2 MB: more than one read of the client
TOKENIZER = b'{"model": "a tokenizer"}'
SETTINGS = Settings.load(env={})


def _file(path: str, content: bytes) -> ModelFile:
    return ModelFile(path, hashlib.sha256(content).hexdigest())


BUILD = ModelBuild(_file("onnx/model.onnx", WEIGHTS), _file("tokenizer.json", TOKENIZER))
MODEL = ModelSpec(
    name="tiny",
    aliases=(),
    kind="embedder",
    pooling="cls",
    dim=4,
    window=8,
    license="MIT",
    carrier=Carrier("tiny-carrier", "no_such_package_anywhere", "data", BUILD),
    hub=Hub("org/tiny", "abc123", BUILD),
)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    base = "/org/tiny/resolve/abc123/"
    files = {f"{base}onnx/model.onnx": WEIGHTS, f"{base}tokenizer.json": TOKENIZER}
    with running_hub(files) as (state, url):
        monkeypatch.setenv("HF_ENDPOINT", url)
        yield state


def _wrong(hub: HubServer) -> None:
    path = next(p for p in hub.files if p.endswith(".onnx"))
    hub.files[path] = b"X" + WEIGHTS[1:]


def _here(tmp_path: Path) -> set[str]:
    folder = tmp_path / "cache" / "models" / "tiny"
    return {
        str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.name != ".lock"
    }


def test_a_download_brings_all_files_and_is_found_from_then_on(hub, tmp_path):
    assert locate(MODEL, SETTINGS) is None
    found = get(MODEL, SETTINGS)
    assert found.origin == "downloaded"
    assert found.weights.read_bytes() == WEIGHTS
    assert found.tokenizer.read_bytes() == TOKENIZER
    assert _here(tmp_path) == {"onnx/model.onnx", "tokenizer.json"}
    asked = len(hub.requests)
    assert get(MODEL, SETTINGS) == found == locate(MODEL, SETTINGS)
    assert len(hub.requests) == asked


def test_progress_ends_with_every_byte_of_every_file(hub):
    heard: dict[str, list[tuple[int, int | None]]] = {}
    get(
        MODEL,
        SETTINGS,
        received=lambda name, done, total: heard.setdefault(name, []).append((done, total)),
    )
    assert heard["onnx/model.onnx"][0] == (0, len(WEIGHTS))
    assert heard["onnx/model.onnx"][-1] == (len(WEIGHTS), len(WEIGHTS))
    assert heard["tokenizer.json"][-1] == (len(TOKENIZER), len(TOKENIZER))
    done = [d for d, _ in heard["onnx/model.onnx"]]
    assert done == sorted(done)
    assert len(done) > 2


def test_a_connection_cut_in_the_middle_is_resumed_where_it_stopped(hub):
    hub.cut_after = [1_000_000, 300_000]
    assert get(MODEL, SETTINGS).weights.read_bytes() == WEIGHTS
    assert hub.asked_for(".onnx") == [None, "bytes=1000000-", "bytes=1300000-"]


def test_what_an_earlier_run_left_is_built_upon(hub, tmp_path):
    part = tmp_path / "cache" / "models" / "tiny" / "onnx" / "model.onnx.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(WEIGHTS[:500])
    get(MODEL, SETTINGS)
    assert hub.asked_for(".onnx") == ["bytes=500-"]
    assert _here(tmp_path) == {"onnx/model.onnx", "tokenizer.json"}


@pytest.mark.parametrize(
    "left", [b"other bytes" * 50, WEIGHTS + b"too long"], ids=["wrong half", "too long"]
)
def test_a_wrong_piece_from_an_earlier_run_is_thrown_away(hub, tmp_path, left):
    part = tmp_path / "cache" / "models" / "tiny" / "onnx" / "model.onnx.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(left)
    assert get(MODEL, SETTINGS).weights.read_bytes() == WEIGHTS
    assert hub.asked_for(".onnx")[-1] is None


def test_a_server_that_cannot_resume_is_read_from_the_start(hub):
    hub.ignore_ranges = True
    hub.cut_after = [1_000_000]
    assert get(MODEL, SETTINGS).weights.read_bytes() == WEIGHTS


def test_a_server_that_never_finishes_is_given_up_and_the_piece_is_kept(hub, tmp_path):
    hub.cut_after = [100_000, 0]
    with pytest.raises(ModelError, match="stopped sending before the end -> run the command again"):
        get(MODEL, SETTINGS)
    assert _here(tmp_path) == {"onnx/model.onnx.part"}
    assert locate(MODEL, SETTINGS) is None
    assert get(MODEL, SETTINGS).weights.read_bytes() == WEIGHTS


def test_other_bytes_than_expected_are_refused_and_nothing_is_kept(hub, tmp_path):
    _wrong(hub)
    with pytest.raises(ModelCorrupt, match=r"nothing was kept -> pip install 'tiny-carrier'"):
        get(MODEL, SETTINGS)
    assert _here(tmp_path) == set()


def test_a_file_the_hub_does_not_have_is_a_one_line_error(hub, tmp_path):
    hub.files.clear()
    with pytest.raises(ModelError, match=r"answers 404 Not Found for http://127.*onnx/model\.onnx"):
        get(MODEL, SETTINGS)
    assert _here(tmp_path) == set()


def test_a_hub_that_cannot_be_reached_is_a_one_line_error():
    with pytest.raises(ModelError) as caught:
        get(MODEL, SETTINGS)
    assert "cannot reach 127.0.0.1:9: [Errno 111] Connection refused" in str(caught.value)
    assert "HF_ENDPOINT" in str(caught.value)


@pytest.mark.parametrize("endpoint", ["file:///etc", "ftp://host", "hub"])
def test_an_endpoint_that_is_not_on_the_web_is_refused(monkeypatch, endpoint):
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(SettingError, match="HF_ENDPOINT takes an http or https address"):
        get(MODEL, SETTINGS)


def test_a_broken_download_is_reported_and_mended_by_the_command_it_names(hub, tmp_path):
    target = get(MODEL, SETTINGS).weights
    target.write_bytes(b"damaged")
    with pytest.raises(ModelCorrupt, match="packwise models get tiny"):
        locate(MODEL, SETTINGS)
    before = len(hub.asked_for("tokenizer.json"))
    assert get(MODEL, SETTINGS).weights.read_bytes() == WEIGHTS
    assert len(hub.asked_for("tokenizer.json")) == before


def test_the_network_is_used_only_where_it_is_allowed(hub):
    with pytest.raises(ModelMissing):
        obtain(MODEL, SETTINGS)
    assert hub.requests == []
    found = obtain(MODEL, Settings.load(env={}, allow_hub=True))
    assert found.origin == "downloaded"


def test_a_cache_that_cannot_be_written_is_a_one_line_error(hub, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("PACKWISE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match=r"cannot write to .* -> set PACKWISE_CACHE"):
        get(MODEL, SETTINGS)


def test_a_full_disk_is_a_one_line_error_and_the_model_is_not_there(hub, tmp_path, monkeypatch):
    part = tmp_path / "cache" / "models" / "tiny" / "onnx" / "model.onnx.part"
    part.parent.mkdir(parents=True)
    part.symlink_to("/dev/full")
    with pytest.raises(ModelError, match="no room left on the disk"):
        get(MODEL, SETTINGS)
    assert locate(MODEL, SETTINGS) is None


def test_an_interrupted_download_leaves_no_finished_file(hub, tmp_path):
    def stop(name: str, done: int, total: int | None) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(MODEL, SETTINGS, received=stop)
    assert _here(tmp_path) == {"onnx/model.onnx.part"}
    assert get(MODEL, SETTINGS).weights.read_bytes() == WEIGHTS


def test_two_downloads_at_once_fetch_the_files_once(hub):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(get(MODEL, SETTINGS))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(hub.asked_for(".onnx")) == 1
