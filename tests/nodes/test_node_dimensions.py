"""Knowledge nodes of the usual dimensions, embedded by a model from a folder."""

import pytest
from nodes_world import field

from model_folders import POOLING, write_model
from packwise.errors import EmbedderMismatch
from packwise.models.embedder import load_embedder
from packwise.nodes.adapter import KnowledgeVerseAdapter
from packwise.nodes.schema import NodesSchema, init_nodes
from packwise.settings import Settings
from postgres_servers import WHEELS, Schema


@pytest.mark.parametrize("server", WHEELS)
@pytest.mark.parametrize("dim", [384, 768, 1024])
def test_nodes_are_found_by_a_model_of_any_dimension(tmp_path, server, dim):
    model = write_model(tmp_path / "model", dim, **{"1_Pooling__config": POOLING})
    settings = Settings.load(env={}, embedder=str(model), threads=1)
    schema = Schema(server)
    try:
        init_nodes(schema.url, NodesSchema(dim, role=schema.role))
        with KnowledgeVerseAdapter(schema.url, settings=settings) as adapter:
            adapter.add_nodes(
                [
                    field("acme", "keys.rotated", summary="day the signing key was rotated"),
                    field("acme", "disk.size", summary="size of the disk of a mirror"),
                ]
            )
            found = adapter.hybrid_search("when was the key rotated", tenant_ids=["acme"])
            assert found[0].node.title == "keys.rotated"
            assert found[0].node.embedder_version == load_embedder(model, settings).version
        other = write_model(tmp_path / "other", dim // 2, **{"1_Pooling__config": POOLING})
        with (
            KnowledgeVerseAdapter(
                schema.url, settings=Settings.load(env={}, embedder=str(other))
            ) as adapter,
            pytest.raises(EmbedderMismatch, match=f"{dim // 2} dimensions, the nodes of"),
        ):
            adapter.hybrid_search("when was the key rotated", tenant_ids=["acme"])
    finally:
        schema.drop()
