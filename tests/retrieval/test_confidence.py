import packwise
from embeddings_api import EmbeddingServer
from packwise.candidates import Scores
from packwise.retrieval.fusion import confidence


def test_it_is_the_best_similarity_wherever_in_the_list_it_stands():
    scores = [Scores(similarity=0.3, final=0.9), Scores(similarity=0.8, final=0.1)]
    assert confidence(scores) == 0.8


def test_nothing_found_is_no_confidence():
    assert confidence([]) == 0.0


def test_without_a_vector_leg_it_is_the_best_keyword_score():
    assert confidence([Scores(keyword=0.2), Scores(keyword=0.6)]) == 0.6


def test_it_stays_within_0_and_1():
    assert confidence([Scores(similarity=1.2)]) == 1.0
    assert confidence([Scores(similarity=-0.2)]) == 0.0


def test_words_decide_where_the_scale_of_the_embedder_is_not_known(tmp_path, monkeypatch):
    texts = {
        "Ferry": "The ferry leaves the north pier at 7:45.",
        "Cars": "If you drive an electric car, it is charged there at no cost.",
    }
    with EmbeddingServer(dim=768) as server:
        monkeypatch.setenv("PACKWISE_EMBEDDER", server.name)
        packwise.build(list(texts.items()), tmp_path / "pack")
        with packwise.open(tmp_path / "pack") as library:
            assert library.search("When does the ferry leave?").confidence >= 0.5
            assert "7:45" in library.ask("When does the ferry leave?").text
            assert library.ask("Where can I charge my electric car?").citations
            # "You" is in a text, but it is no topic.
            for question in ("How do you bake an apple cake?", "Who painted the Mona Lisa?"):
                assert library.ask(question).query_type == "confidence_gated_fallback"
