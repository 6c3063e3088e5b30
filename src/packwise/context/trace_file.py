"""Keeping the record of a packing on disk, when ``RETRIEVAL_TRACE`` asks for it."""

from __future__ import annotations

from pathlib import Path

from packwise.context.trace import PackingTrace
from packwise.documents import content_hash
from packwise.settings import Settings, cache_folder


def keep_trace(trace: PackingTrace, settings: Settings) -> Path | None:
    """Write the record as JSON and return its path; ``None`` when the setting is off.

    The name follows from the content, so the same packing is kept once.
    """
    if not settings.retrieval_trace:
        return None
    given = settings.trace_folder
    folder = Path(given).expanduser() if given else cache_folder() / "traces"
    folder.mkdir(parents=True, exist_ok=True)
    text = trace.as_json() + "\n"
    path = folder / f"{content_hash(text)}.json"
    path.write_text(text, encoding="ascii")
    return path
