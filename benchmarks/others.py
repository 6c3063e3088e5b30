"""How other libraries' hybrid search ranks the same passages with the same vectors.

    pip install haystack-ai llama-index-core llama-index-retrievers-bm25
    python benchmarks/others.py DATA [--sets hotpotqa-100,musique-100] [--half report]

Each library is set up as its own documentation does for hybrid search: BM25 and vectors, joined
by reciprocal ranks (and, in LlamaIndex, by relative scores), 100 passages a leg. All get the
passages and vectors of the pack that Packwise built, so that neither the cutting nor the
embedder tells them apart. Prints Markdown; the interval is that of Packwise's difference to
each, question by question.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rankers import Ranked, Ranker, Ranking, library_ranker, run

from packwise.documents import Passage
from packwise.evaluation.cache import cached_store
from packwise.evaluation.compare import compare
from packwise.evaluation.data import DataSet, load_dataset
from packwise.evaluation.metrics import HEADLINE, Metric
from packwise.library import open_library
from packwise.models.base import Embedder, Vectors
from packwise.models.embedder import load_embedder
from packwise.settings import Settings
from packwise.stores.locate import open_store

SETS = ("hotpotqa-100", "musique-100", "squad2", "scifact", "cisi", "stackfaq")
PACKAGES = {
    "Haystack": "haystack-ai",
    "LlamaIndex": "llama-index-core",
    "its BM25": "llama-index-retrievers-bm25",
    "txtai": "txtai",
}
DEPTH = 10
POOL = 100
METRICS = (Metric("recall", 2), Metric("recall", 5), HEADLINE)


@dataclass(frozen=True, slots=True)
class Corpus:
    """What every library is given."""

    passages: list[Passage]
    vectors: Vectors
    embedder: Embedder

    def texts(self) -> Iterator[tuple[str, str, list[float]]]:
        """A document, the text that Packwise indexes, and its vector, a passage."""
        for passage, vector in zip(self.passages, self.vectors, strict=True):
            yield passage.document, passage.indexed_text, vector.tolist()


def main() -> None:
    """Measure every library on every set and print a table a set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--half", choices=("tune", "report"), help="one half of the questions")
    given = parser.parse_args()
    try:
        versions = [f"{name} {version(package)}" for name, package in PACKAGES.items()]
    except PackageNotFoundError as error:
        sys.exit(f"{error.name} is not installed; run: pip install {' '.join(PACKAGES.values())}")
    sys.stdout.write(f"{', '.join(versions)}.\n")
    for name in given.sets.split(","):
        sys.stdout.write(table(load_dataset(given.data / name, half=given.half)))
        sys.stdout.flush()


def table(dataset: DataSet) -> str:
    """One set's figures as Markdown."""
    settings = Settings.load(query_cache=0)
    place = str(cached_store(dataset, settings))
    with open_library(place, settings=settings) as library:
        ours = measure(dataset, library_ranker(library))
    corpus = read_corpus(place, settings)
    theirs = {name: measure(dataset, make(corpus)) for name, make in LIBRARIES.items()}
    lines = [
        f"\n### {dataset.name}\n\n",
        "| library | recall@2 | recall@5 | nDCG@10 | Packwise ahead by (nDCG@10) |\n",
        "| --- | ---: | ---: | ---: | ---: |\n",
        f"| **Packwise** | {figures(ours)} |  |\n",
    ]
    for name, found in theirs.items():
        ahead = compare(ours.scores[HEADLINE], found.scores[HEADLINE])
        lines.append(f"| {name} | {figures(found)} | {ahead.interval_text()} |\n")
    return "".join(lines)


def measure(dataset: DataSet, ranker: Ranker) -> Ranking:
    """One library over all questions of a set."""
    return run(dataset, ranker, DEPTH, METRICS)


def figures(ranking: Ranking) -> str:
    """The metrics as cells."""
    return " | ".join(f"{ranking.value(metric):.3f}" for metric in METRICS)


def read_corpus(place: str, settings: Settings) -> Corpus:
    """Every passage of a store with its vector."""
    with closing(open_store(place)) as store:
        found = [entry for each in store.documents() for entry in store.document_passages(each.id)]
        vectors = store.vectors([key for key, _ in found])
        embedder = load_embedder(store.info().embedder, settings)
        return Corpus([passage for _, passage in found], vectors, embedder)


def haystack(corpus: Corpus) -> Ranker:
    """Haystack's in-memory store with both retrievers and a joiner."""
    from haystack import Document
    from haystack.components.joiners import DocumentJoiner
    from haystack.components.retrievers.in_memory import (
        InMemoryBM25Retriever,
        InMemoryEmbeddingRetriever,
    )
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore(embedding_similarity_function="cosine", return_embedding=False)
    store.write_documents(
        [
            Document(id=str(nth), content=text, embedding=vector, meta={"document": document})
            for nth, (document, text, vector) in enumerate(corpus.texts())
        ]
    )
    words = InMemoryBM25Retriever(store, top_k=POOL)
    meaning = InMemoryEmbeddingRetriever(store, top_k=POOL)
    joiner = DocumentJoiner(join_mode="reciprocal_rank_fusion")

    def rank(question: str, k: int) -> Ranked:
        asked = corpus.embedder.embed_query(question).tolist()
        legs = [
            words.run(query=question)["documents"],
            meaning.run(query_embedding=asked)["documents"],
        ]
        found = joiner.run(documents=legs)["documents"]
        return Ranked(tuple(str(each.meta["document"]) for each in found[:k]))

    return rank


def llama_index(mode: str) -> Callable[[Corpus], Ranker]:
    """LlamaIndex's vector index and BM25 retriever under its fusion retriever."""

    def make(corpus: Corpus) -> Ranker:
        from llama_index.core import VectorStoreIndex
        from llama_index.core.llms import MockLLM
        from llama_index.core.retrievers import QueryFusionRetriever
        from llama_index.core.schema import QueryBundle, TextNode
        from llama_index.retrievers.bm25 import BM25Retriever

        nodes = [
            TextNode(id_=str(nth), text=text, embedding=vector, metadata={"document": document})
            for nth, (document, text, vector) in enumerate(corpus.texts())
        ]
        for node in nodes:
            # The document's id is ours, for scoring; it must not become a word of the text.
            node.excluded_embed_metadata_keys = node.excluded_llm_metadata_keys = ["document"]
        index = VectorStoreIndex(nodes, embed_model=questions_only(corpus.embedder))
        fused = QueryFusionRetriever(
            [
                index.as_retriever(similarity_top_k=POOL),
                BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=min(POOL, len(nodes))),
            ],
            llm=MockLLM(),  # one query, so it is never asked
            mode=mode,
            num_queries=1,
            similarity_top_k=POOL,
            use_async=False,
        )

        def rank(question: str, k: int) -> Ranked:
            found = fused.retrieve(QueryBundle(question))
            return Ranked(tuple(str(each.node.metadata["document"]) for each in found[:k]))

        return rank

    return make


def txtai(corpus: Corpus) -> Ranker:
    """txtai's hybrid index: normalised BM25 and vectors, half each."""
    import numpy as np
    from txtai import Embeddings

    rows = list(corpus.texts())
    known = {text: vector for _, text, vector in rows}

    def vectors(texts: list[str]) -> np.ndarray:
        found = [known.get(text) or corpus.embedder.embed_query(text).tolist() for text in texts]
        return np.asarray(found, dtype=np.float32)

    index = Embeddings(method="external", transform=vectors, hybrid=True)
    index.index([(nth, text, None) for nth, (_, text, _) in enumerate(rows)])

    def rank(question: str, k: int) -> Ranked:
        found = index.search(question, k)
        return Ranked(tuple(rows[int(nth)][0] for nth, _ in found))

    return rank


def questions_only(embedder: Embedder):
    """Packwise's embedder as LlamaIndex wants it; passages have their vectors."""
    from llama_index.core.base.embeddings.base import BaseEmbedding

    class Questions(BaseEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return embedder.embed_query(query).tolist()

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

        def _get_text_embedding(self, text: str) -> list[float]:
            raise AssertionError("every passage has its vector")

    return Questions(model_name="the same")


LIBRARIES: dict[str, Callable[[Corpus], Ranker]] = {
    "Haystack, reciprocal ranks": haystack,
    "LlamaIndex, reciprocal ranks": llama_index("reciprocal_rerank"),
    "LlamaIndex, relative scores": llama_index("relative_score"),
    "txtai, hybrid": txtai,
}


if __name__ == "__main__":
    main()
