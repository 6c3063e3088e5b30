"""What a text names: names, identifiers, terms, titles, definitions."""

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.documents import Passage
from packwise.language.entities import AliasIndex, facts_in, passage_names
from packwise.language.key_matcher import KeyMatcher, phrases
from packwise.language.names import Kind, name_key, names_in, title_aliases

PIECES = st.sampled_from(
    "Paris New York of the The In U.S. St. Dr. O'Brien’s NASA os.path.join snake_case close() "
    'ﬁ ℌ É José Łódź 東京 2014 11 . ! \n - ( ) " (RPC) called `x` www.A.b a@B.c \u0301 é'.split(" ")
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=40).map(" ".join))


def keys(text: str, kind: Kind = Kind.NAME) -> list[str]:
    return [name.key for name in names_in(text) if name.kind is kind]


def passage(text: str, header: str = "") -> Passage:
    path = (header,) if header else ()
    return Passage("d#0", "d", "Title", path, 0, text, 0, len(text), "hash")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is in New York City now.", ["new york city"]),
        ("The president met Lyndon B. Johnson in St. Louis.", ["lyndon b johnson", "st louis"]),
        ("He left the U.S. The army stayed.", ["u s"]),
        ("Near Apple's office and the University of Oxford", ["apple", "university of oxford"]),
        ("Dr. Martin Luther King spoke.", ["martin luther king"]),
        ("After Barack Obama left, World War I began.", ["barack obama", "world war i"]),
        ("They flew on Apollo 11 in May 1984.", ["apollo 11"]),
        ("a visit to École Normale with Jose\u0301 Marti\u0301", ["ecole normale", "jose marti"]),
        ("OBJECTIVE To measure the Rhine", ["objective", "rhine"]),
        ("see https://Example.com/Foo or Mail@Bar.com", []),
        ("on Monday the 3rd of January", []),
    ],
)
def test_capitalised_phrases_are_names(text, expected):
    assert keys(text) == expected


def test_a_name_may_run_over_a_full_line_but_not_over_items_of_a_list():
    wrapped = "a long line of ordinary words that goes on until it names New\nYork at its end"
    assert keys(wrapped) == ["new york"]
    assert keys("things:\nAlpha Beta\nGamma Delta\n") == ["alpha beta", "gamma delta"]


def test_labels_references_and_captions_are_no_names():
    assert keys("we ask there (See FAQ). In short, Class is one, and so are True and None.") == []
    assert keys("The full Moon Enlarge The Moon over Paris, see also See Backups.") == [
        *("moon", "moon", "paris"),
        "backups",
    ]
    assert keys("used with the Class CliRunner in Python.") == ["clirunner", "python"]


def test_a_lone_word_that_opens_a_sentence_is_not_sure():
    sure = {name.key: name.sure for name in names_in("Seattle rains. He likes Seattle. Rain.")}
    assert sure["rain"] is False
    assert [name.sure for name in names_in("Seattle rains. He likes Seattle.")] == [False, True]
    by_key = {name.key: name for name in passage_names(passage("Seattle rains. I like Seattle."))}
    assert by_key["seattle"].sure


def test_identifiers_are_told_from_prose():
    text = "Call os.path.join, MAX_SIZE, close() or getItem; the end.Next e.g. example.com a.m."
    found = keys(text, Kind.IDENTIFIER)
    assert found == ["os.path.join", "max_size", "close", "getitem"]


def test_defined_terms_are_found():
    text = 'A remote procedure call (RPC) waits; this is called "back pressure". By hand (XYZ).'
    assert keys(text, Kind.TERM) == ["remote procedure call", "back pressure"]


def test_a_heading_counts_as_named():
    found = passage_names(passage("Nothing here.", header="Using json.dumps with Ada Lovelace"))
    assert {"json.dumps", "ada lovelace"} <= {name.key for name in found}


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Boston (band)", ("boston band", "boston")),
        ("Paris, Texas", ("paris texas", "paris")),
        ("Obesity, diet and cancer", ("obesity diet and cancer",)),
        ("The Dandy Warhols", ("dandy warhols",)),
        ("os.path — Pathnames", ("os path pathnames", "os.path")),
        ("How do I delete it?", ()),
        ("1984", ()),
        ("Isaac_Newton", ("isaac_newton", "isaac newton")),
        ("snake_case", ("snake_case",)),
        ("", ()),
        ("A study of many words that nobody would ever write out in full", ()),
    ],
)
def test_aliases_of_a_title(title, expected):
    assert title_aliases(title) == expected


def test_the_longest_alias_wins_and_ordinary_words_are_no_mention():
    index = AliasIndex([("a", "New York"), ("b", "New York City"), ("c", "Long Walk")])
    text = "In New York City we took a long walk; the Long Walk is in New York."
    assert [name.key for name in index.mentions(text)] == ["new york city", "long walk", "new york"]


def test_a_word_inside_a_longer_name_is_no_mention():
    index = AliasIndex([("a", "York"), ("b", "United")])
    assert index.mentions("the United States and New York and York-Minster") == []
    assert [name.key for name in index.mentions("we saw York, and later York")] == ["york", "york"]


def test_text_without_capitals_is_matched_by_words_alone():
    index = AliasIndex([("a", "The Godfather"), ("b", "Jump for Glory"), ("c", "Paris")])
    found = index.mentions("who directed jump for glory and the godfather in paris")
    assert [name.key for name in found] == ["jump for glory"]


def test_namesakes_are_kept_apart_and_common_titles_left_out():
    index = AliasIndex([("a", "Boston"), ("b", "Boston (band)"), ("b2", "Boston (band)")])
    assert index.documents("boston") == ("a", "b", "b2")
    eight, nine = (AliasIndex([(str(n), f"Index ({n})") for n in range(m)]) for m in (8, 9))
    assert len(eight.documents("index")) == 8
    assert [name.key for name in eight.mentions("we read the Index")] == ["index"]
    assert "index" not in nine
    assert "index 0" in nine
    assert nine.documents("index") == ()


def test_definitions_are_facts_and_pronouns_have_none():
    text = (
        "Python is a language. It is a snake. The Rhine (German: Rhein) is one of the rivers. "
        "A mirror is a server. This is the end. Foo refers to bar. There is a dog."
    )
    facts = facts_in(text)
    assert [fact.key for fact in facts] == ["python", "rhine", "mirror", "foo"]
    assert all(text[fact.start : fact.end] == fact.text for fact in facts)


def test_stubs_and_asides_are_no_facts():
    stubs = [
        "The valid values are the following:",
        "# obj is the repository that was opened",
        "However, there is a second version of it.",
        "For instance, this is the case with files.",
        "The Moon is a satellite Enlarge The Moon is a satellite.",
    ]
    assert [fact.text for stub in stubs for fact in facts_in(stub)] == []
    (fact,) = facts_in("- A tenant is a customer with its own data.")
    assert (fact.subject, fact.text) == ("A tenant", "A tenant is a customer with its own data.")


def test_phrases_of_a_question_are_what_could_be_looked_up():
    found = phrases("Who directed The Godfather?")
    assert "the godfather" in found
    assert "godfather" in found
    assert "who" not in found
    assert len(phrases("word " * 10_000)) < 64 * 8


@given(TEXTS)
@settings(max_examples=150, deadline=None)
def test_names_stand_where_they_say_in_order_and_apart(text):
    names = names_in(text)
    assert names == names_in(text)
    for name in names:
        assert text[name.start : name.end] == name.text
        assert name.key
    assert all(one.end <= other.start for one, other in pairwise(names))


@given(TEXTS)
@settings(max_examples=150, deadline=None)
def test_a_key_is_its_own_key(text):
    key = name_key(text)
    assert name_key(key) == key


@given(TEXTS, st.lists(TEXTS, max_size=5))
@settings(max_examples=100, deadline=None)
def test_mentions_are_of_known_keys_and_apart(text, titles):
    index = AliasIndex((str(n), title) for n, title in enumerate(titles))
    found = index.mentions(text)
    assert all(name.key in index for name in found)
    assert all(text[name.start : name.end] == name.text for name in found)
    starts = [name.start for name in found]
    assert starts == sorted(starts)


@given(st.lists(st.sampled_from(["Alpha", "Beta", "Gamma"]), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_matching_equals_trying_every_length(words):
    known = {"alpha", "alpha beta", "beta gamma", "alpha beta gamma"}
    text = ", ".join(words) if len(words) % 2 else " ".join(words)
    expected, at = [], 0
    lowered = [word.lower() for word in words]
    while at < len(words):
        for length in (3, 2):
            if " ".join(lowered[at : at + length]) in known and at + length <= len(words):
                expected.append(" ".join(lowered[at : at + length]))
                at += length
                break
        else:
            at += 1
    found = [name.key for name in KeyMatcher(known).mentions(text) if " " in name.key]
    assert found == expected


@pytest.mark.parametrize(
    "piece",
    [
        *["A ", "Ab ", "Ab\n", "A.", "A-", "A'", "É\u0301", "Ab of ", "a.b", "ab.", "ab::", "a_b"],
        *["_", "aB", "(AB) ", "((", 'called "', "Of the ", "x@y.z ", "a://b ", "X is a ", "1 "],
    ],
)
def test_time_grows_with_the_text_and_no_faster(piece):
    index = AliasIndex([("a", "Ab Ab Ab Ab Ab Ab Ab Ac"), ("b", "A A A A A A A B")])

    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        started = time.thread_time()
        names_in(text)
        index.mentions(text)
        facts_in(text)
        return time.thread_time() - started

    seconds(1000)
    small = max(seconds(20_000) for _ in range(3))
    # Noise only ever adds: one quick run is proof enough.
    assert any(seconds(160_000) < 24 * max(small, 0.01) for _ in range(3))
