"""The addresses of the project in what is published, from the place it is built at.

PACKWISE_REPOSITORY names the repository, as the release workflow does; without it a distribution
states none.
"""

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ProjectUrls(MetadataHookInterface):
    """Adds ``project.urls``."""

    def update(self, metadata: dict[str, Any]) -> None:
        place = os.environ.get("PACKWISE_REPOSITORY", "").rstrip("/")
        pages = {
            "Homepage": "",
            "Documentation": "/tree/main/docs",
            "Changelog": "/blob/main/CHANGELOG.md",
            "Issues": "/issues",
        }
        metadata["urls"] = {name: place + page for name, page in pages.items()} if place else {}
