"""What is installed is what was tested: every version has the hashes of its files."""

import re
from pathlib import Path

from packwise.models.table import MODELS

HERE = Path(__file__).parents[1]


def pins(text: str) -> dict[str, str]:
    """Each pinned version with what follows it, up to the next one."""
    parts = re.split(r"(?m)^(?=[A-Za-z0-9])", re.sub(r"(?m)^#.*\n", "", text))
    return {re.match(r"[^=\s]+==[^\s;\\]+", part)[0]: part for part in parts if part.strip()}


def test_every_pinned_version_has_hashes_and_no_address():
    plain = pins((HERE / "constraints.txt").read_text())
    hashed = pins((HERE / "constraints-hashed.txt").read_text())
    assert set(plain) == set(hashed), "run scripts/hash-constraints"
    for version, lines in hashed.items():
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", lines), version
    assert "://" not in "".join(hashed.values())


def test_every_model_file_has_a_sha_256():
    files = [file for model in MODELS for build in model.builds for file in build.files]
    assert len(files) > 10
    assert all(re.fullmatch(r"[0-9a-f]{64}", file.sha256) for file in files)
