"""The documents most tests work on, and how to wait for what is bound to happen."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

NOTES = {
    "guides/keys.md": """---
team: security
---
# Signing keys

Every release is signed. The signing key lives in the vault and is valid for one year.

## Rotating the signing key

To rotate the signing key, create a new key with `vaultctl create --kind signing`, publish its
public half, and wait one day before the first release is signed with it. The old key stays
valid for thirty days, so that mirrors can catch up. See [releases](releases.md) for what is
signed when.

## A lost key

If a key is lost or stolen, revoke it at once with `vaultctl revoke` and tell the security team.
A revoked key cannot be restored; every release it signed has to be signed again.
""",
    "guides/releases.md": """# Releases

A release is cut on the first Tuesday of the month from the main branch.

## What is signed

The source archive, each wheel and the checksum file are signed with the
[signing key](keys.md). Container images are signed by the registry instead.

## Rolling back

To roll back a release, mark it as withdrawn and publish the previous one again under a new
number. Never delete a published file: mirrors keep copies for weeks.
""",
    "operations/backups.md": """# Backups

The database is backed up every night at two o'clock and kept for ninety days. A restore takes
about forty minutes for the largest tenant.

## Testing a restore

Restore last night's backup into the staging cluster once a month, then run the consistency
check. A backup that was never restored is a hope, not a backup.
""",
    "operations/on-call.md": """# On call

The person on call answers within fifteen minutes. Alerts about disk space come first: a full
disk stops the nightly [backups](backups.md).
""",
    "glossary.txt": """A mirror is a server that keeps a copy of every published release and is
run by somebody else. Mirrors fetch new files once an hour.

A tenant is a customer whose documents are kept apart from those of all others.
""",
}


def write_notes(folder: Path) -> Path:
    for name, text in NOTES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


PATIENCE = 180.0
"""Seconds to wait for what is bound to happen: a busy machine is slow, and that says nothing
about the code. Only a failure takes so long."""


def wait_until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Return once ``condition`` is true; fail with ``what`` did not happen."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)


def wait_for_staged_work(pack, process):
    """Return once a build in another process has put its first documents down."""
    with closing(sqlite3.connect(f"file:{pack}/pack.sqlite?mode=ro", uri=True)) as connection:

        def staged() -> bool:
            if connection.execute("SELECT count(*) FROM staged").fetchone()[0]:
                return True
            assert process.poll() is None, "the build ended before it could be killed"
            return False

        wait_until(staged, "the build stages its first documents")
