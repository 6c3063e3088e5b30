"""Knowledge nodes made up for tests, and databases to keep them in; no model is needed."""

import hashlib

import numpy as np

from packwise.nodes.adapter import KnowledgeVerseAdapter
from packwise.nodes.records import KnowledgeNode
from packwise.nodes.schema import NodesSchema, init_nodes
from postgres_servers import Schema

DIM = 16


class WordVectors:
    """An embedder without a model: a text's vector is the sum of one vector per word."""

    name = "words"
    version = "words-1"
    dim = DIM
    window = 512

    def __init__(self, dim: int = DIM) -> None:
        self.dim = dim
        self.asked = 0

    def embed_passages(self, texts, progress=None):
        return np.array([self._vector(text) for text in texts], np.float32).reshape(-1, self.dim)

    def embed_query(self, text):
        self.asked += 1
        return self._vector(text)

    def similarity(self, cosine):
        return cosine

    def _vector(self, text):
        total = np.zeros(self.dim)
        for word in text.lower().split() or [""]:
            seed = int.from_bytes(hashlib.blake2b(word.encode()).digest()[:4], "little")
            total += np.random.default_rng(seed).normal(size=self.dim)
        return (total / np.linalg.norm(total)).astype(np.float32)


class Database:
    """A schema with the tables for nodes, and ways into it."""

    def __init__(self, server: str, **options) -> None:
        self.schema = Schema(server)
        self.url, self.role = self.schema.url, self.schema.role
        init_nodes(self.url, NodesSchema(DIM, role=self.role, **options))
        self._open = []

    def adapter(self, url: str | None = None, **options) -> KnowledgeVerseAdapter:
        options.setdefault("embedder", WordVectors())
        adapter = KnowledgeVerseAdapter(url or self.url, **options)
        self._open.append(adapter)
        return adapter

    def connect(self, *, role: bool = False, tenants: list[str] | None = None):
        """A plain connection: the owner's, or the application's."""
        connection = self.schema.connect()
        connection.execute(f"SET search_path = {self.schema.name}, public")
        if role:
            connection.execute(f"SET ROLE {self.role}")
        if tenants is not None:
            connection.execute(
                "SELECT set_config('packwise.tenants', %s::text[]::text, false)", (tenants,)
            )
        return connection

    def close(self) -> None:
        for adapter in self._open:
            adapter.close()
        self.schema.drop()


def field(tenant: str, title: str, **more) -> KnowledgeNode:
    """A field node."""
    more = {"node_type": "field", "dataset_name": "sales", **more}
    return KnowledgeNode(tenant_id=tenant, title=title, **more)
