"""A folder that cannot be written, also by root."""

import os
import shutil
import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def read_only(folder):
    """Within the block nothing in the folder can be written."""
    if os.geteuid() != 0:
        paths = [folder, *folder.rglob("*")]
        modes = {path: path.stat().st_mode for path in paths}
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            yield
        finally:
            for path, mode in modes.items():
                path.chmod(mode)
        return
    mounted = False
    try:
        for command in (
            ["mount", "--bind", str(folder), str(folder)],
            ["mount", "-o", "remount,ro,bind", str(folder)],
        ):
            if shutil.which("mount") is None or subprocess.run(command, check=False).returncode:
                pytest.skip("this root may not mount")
            mounted = True
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)
