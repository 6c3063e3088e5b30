"""What other frameworks get is what a search finds. Their pages in the docs run as examples."""

import asyncio

import pytest

import packwise

QUESTION = "how do I rotate the signing key?"


@pytest.fixture(scope="module")
def library(notes_pack):
    with packwise.open(notes_pack) as library:
        yield library


@pytest.fixture(scope="module")
def hits(library):
    return library.search(QUESTION, k=3).hits


def test_langchain_gets_the_hits(library, hits):
    pytest.importorskip("langchain_core", reason="pip install 'packwise[integrations]'")
    from packwise.integrations.langchain import PackwiseRetriever

    retriever = PackwiseRetriever(library=library, k=3)
    found = retriever.invoke(QUESTION)
    assert [one.page_content for one in found] == [hit.passage.text for hit in hits]
    assert found[0].metadata["document"] == hits[0].passage.document
    assert asyncio.run(retriever.ainvoke(QUESTION)) == found


def test_llama_index_gets_the_hits_and_the_answer(library, hits):
    pytest.importorskip("llama_index.core", reason="pip install 'packwise[integrations]'")
    from packwise.integrations.llama_index import PackwiseQueryEngine, PackwiseRetriever

    nodes = PackwiseRetriever(library, k=3).retrieve(QUESTION)
    assert [node.node.node_id for node in nodes] == [hit.passage.id for hit in hits]
    assert [node.score for node in nodes] == [hit.scores.final for hit in hits]
    answer = library.ask(QUESTION)
    response = PackwiseQueryEngine(library=library).query(QUESTION)
    assert response.response == answer.text
    assert response.metadata["certainty"] == str(answer.certainty)
    assert [one.node.node_id for one in response.source_nodes] == [c.id for c in answer.citations]


def test_haystack_gets_the_hits_and_closes_the_store(notes_pack, hits):
    pytest.importorskip("haystack", reason="pip install 'packwise[integrations]'")
    from packwise.integrations.haystack import PackwiseRetriever

    retriever = PackwiseRetriever(str(notes_pack), top_k=3)
    found = retriever.run(QUESTION)
    assert [one.content for one in found["documents"]] == [hit.passage.text for hit in hits]
    assert 0 <= found["confidence"] <= 1
    again = PackwiseRetriever.from_dict(retriever.to_dict())
    assert (again.store, again.top_k) == (str(notes_pack), 3)
    retriever.close()


def test_dspy_gets_the_hits(library, hits):
    pytest.importorskip("dspy", reason="pip install 'packwise[integrations]'")
    from packwise.integrations.dspy import PackwiseRetriever

    found = PackwiseRetriever(library, k=3)(query=QUESTION)
    assert found.passages == [hit.passage.text for hit in hits]
    assert found.sources[0]["title"] == hits[0].passage.doc_title


def test_polars_gets_one_row_per_hit(library, hits):
    pytest.importorskip("polars", reason="pip install 'packwise[integrations]'")
    frame = library.search(QUESTION, k=3).to_polars()
    assert frame["id"].to_list() == [hit.passage.id for hit in hits]
    assert frame.columns == list(library.search(QUESTION, k=3).to_pandas().columns)
