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
