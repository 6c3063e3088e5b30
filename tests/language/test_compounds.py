"""Words that are written together in a question and apart in a text, and plurals."""

import packwise
from packwise.documents import Document
from packwise.language.analyzer import terms
from packwise.language.compounds import parts, splits


def test_a_word_that_no_passage_holds_is_read_as_its_parts():
    held = {"urlaub", "tag", "hotel", "beleg", "arbeit", "zeit"}
    assert parts("urlaubstag", "de", held) == ("urlaub", "tag")
    assert parts("hotelbeleg", "de", held) == ("hotel", "beleg")
    assert parts("arbeitszeit", "de", held) == ("arbeit", "zeit")
    assert parts("hotelbeleg", "de", {*held, "hotelbeleg"}) == ("hotelbeleg",)
    assert parts("apfelkuch", "de", held) == ("apfelkuch",)
    assert parts("jahresurlaub", "de", held) == ("jahresurlaub", "urlaub")
    assert parts("hotelgast", "de", held) == ("hotelgast", "hotel")


def test_only_languages_that_write_words_together_have_parts():
    assert ("semest", "tent") in splits("semestertent", "sv")
    assert list(splits("timetable", "en")) == list(splits("timetable", "fr")) == []
    assert list(splits("b2000wert", "de")) == []


def test_german_plurals_in_s_have_one_term_with_their_singular():
    for one, other in (("Elektroauto", "Elektroautos"), ("Kurs", "Kurse"), ("Taxi", "Taxis")):
        assert terms(one, "de") == terms(other, "de")
    assert terms("Glas", "de") == terms("Gläser", "de") == ["glas"]
    assert terms("автомобили", "ru") == terms("автомобиль", "ru")
    assert terms("купили", "ru") == terms("купить", "ru")


def test_keywords_find_what_the_question_writes_as_one_word(tmp_path):
    texts = [
        "Alle haben 28 Tage Urlaub im Jahr. Sie werden bei der Leitung beantragt.",
        "Belege von Hotels und Taxis werden innerhalb eines Monats eingereicht.",
        "Der Drucker steht im zweiten Stock neben der Küche.",
    ]
    documents = [Document(f"{at}", "", text) for at, text in enumerate(texts)]
    packwise.build(documents, tmp_path / "pack")
    with packwise.open(tmp_path / "pack") as library:
        for question, best in (("Wie viele Urlaubstage habe ich?", "0"), ("Hotelbelege", "1")):
            hits = library.search(question, 1, mode="keyword").hits
            assert [hit.passage.document for hit in hits] == [best]
        assert not library.ask("Wie viele Urlaubstage habe ich?").query_type.endswith("fallback")
        for word in ("Küchendrucker", "Laserdrucker"):
            assert library.search(word, 1, mode="keyword").hits[0].passage.document == "2"
        assert not library.search("Gartenzaun", 1, mode="keyword").hits
        assert library.ask("Wer erfand den Dampfdrucker?").query_type.endswith("fallback")
