"""The two folders Packwise keeps outside of what it is pointed at."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Where installed packs live: ``PACKWISE_HOME``, else the user's data folder."""
    given = os.environ.get("PACKWISE_HOME")
    if given:
        return Path(given).expanduser()
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "packwise"


def cache() -> Path:
    """What can be made again: ``PACKWISE_CACHE``, else the user's cache folder."""
    given = os.environ.get("PACKWISE_CACHE")
    if given:
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "packwise"
