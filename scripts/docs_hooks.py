"""What MkDocs adds to the pages of docs/: those made from the README, the changelog and the code.

They exist only in the built site, so that none of them can be out of date.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from packwise.cli.reference import python_page, settings_page

ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"(\]\()docs/")
_REPOSITORY = re.compile(r"\[([^\]]+)\]\((?:\.\./)?((?:CONTRIBUTING|SECURITY|LICENSE)[^)]*)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that have no file in docs/."""
    readme = _LINK.sub(r"\1", (ROOT / "README.md").read_text(encoding="utf-8"))
    pages = {
        "index.md": _REPOSITORY.sub(r"`\2`", readme),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        # A table needs the width of the page more than a list of no headings.
        "settings.md": f"---\nhide: [toc]\n---\n{settings_page()}",
        "python-names.md": python_page(),
    }
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files
