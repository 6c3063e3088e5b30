"""How likely a node is relevant, given its two scores: constants fitted on judged searches.

``relevance.json`` says which data they come from. They hold for one embedder each, because the
cosines of two embedders are on different scales.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from packwise.stores.postgres.connections import Connection


@cache
def fitted_maps() -> tuple[dict[str, Any], ...]:
    """The maps: node_type, embedder_version, bias, keyword, vector, bend, bend_at and origin."""
    text = files(__package__ or "packwise.nodes").joinpath("relevance.json").read_text("utf-8")
    return tuple(json.loads(text))


def load_relevance(connection: Connection) -> None:
    """Write the maps into the table of the current schema."""
    for fitted in fitted_maps():  # executemany would send them as a pipeline: see can_pipeline
        connection.execute(
            "INSERT INTO knowledge_relevance"
            " (node_type, embedder_version, bias, keyword, vector, bend, bend_at, origin) VALUES"
            " (%(node_type)s, %(embedder_version)s, %(bias)s, %(keyword)s, %(vector)s, %(bend)s,"
            " %(bend_at)s, %(origin)s) ON CONFLICT DO NOTHING",
            fitted,
        )
