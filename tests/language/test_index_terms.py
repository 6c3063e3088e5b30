import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.language import analyzer
from packwise.language.analyzer import STOP_WORDS, terms


def test_words_are_folded_and_stemmed_in_order_with_repetitions():
    assert terms("Connected connections, CONNECTING!") == ["connect"] * 3
    assert terms("two dogs two") == ["two", "dog", "two"]


def test_stop_words_are_left_out():
    assert terms("The cat is on the mat") == ["cat", "mat"]
    assert terms(" ".join(sorted(STOP_WORDS))) == []


def test_words_that_decide_a_question_are_not_stop_words():
    assert terms("who what when") == ["who", "what", "when"]


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("café", "cafe"),
        ("CAFE\u0301", "cafe"),
        ("Straße", "strasse"),
        ("ﬁle", "file"),
        ("ＷＩＤＥ", "wide"),
        ("𝘈𝘭𝘱𝘩𝘢", "alpha"),
        ("naïve", "NAIVE"),
        ("dog’s", "dog"),
        ("dog's", "dog"),
        ("O'Neill", "oneill"),
    ],
)
def test_spellings_of_one_word_are_one_term(text, same_as):
    assert terms(text) == terms(same_as) != []


@pytest.mark.parametrize("text", ["Привет мир", "漢字", "नमस्ते", "مرحبا", "10 000 ½"])
def test_other_scripts_and_numbers_have_terms(text):
    assert terms(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("call os.path.join here", "os.path.join"),
        ("std::vector<int>", "std::vector"),
        ("p->next", "p->next"),
        ("use snake_case_name", "snake_case_name"),
        ("__init__", "__init__"),
        ("Foo.Bar", "foo.bar"),
    ],
)
def test_an_identifier_is_a_term_of_its_own_beside_its_words(text, name):
    found = terms(text)
    assert name in found
    assert terms(name) == [t for t in found if t in terms(name)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What does -A do?", ["-A"]),
        ("with `-n`, --dry-run or (-x)", ["-n", "--dry-run", "-x"]),
        ("-i/--ignore-case", ["-i", "--ignore-case"]),
        ("[-q] --color=auto -std=c99 -1", ["-q", "--color", "-std", "-1"]),
        ("grüße mit -a", ["-a"]),
        ("%H is not %h, nor 100%d", ["%H", "%h"]),
        (r"~U, \d and $@ $? $1", ["~U", r"\d", "$@", "$?", "$1"]),
        ("-5 of -10 -1.5 re-read well--known - -- --- 5-a a@b $FOO ~/x &amp; %%", ["-5"]),
    ],
)
def test_options_and_signs_before_a_letter_are_terms_as_they_are_written(text, names):
    assert [term for term in terms(text) if not term[0].isalnum()] == names


def test_the_words_of_an_identifier_match_it_too():
    assert {"os", "path", "join"} <= set(terms("os.path.join"))


def test_a_full_stop_between_sentences_makes_no_identifier():
    assert terms("It ends. Then starts") == ["end", "start"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"exact phrase"', ["exact", "phrase"]),
        ("title:secret", ["titl", "secret"]),
        ("+must -never", ["must", "never", "-never"]),
        ("wild* ca?d fuzzy~2", ["wild", "ca", "d", "fuzzi", "2"]),
        ("a AND (b OR NOT c)^2", ["b", "c", "2"]),
        ("x'; DROP TABLE passages; --", ["x", "drop", "tabl", "passag"]),
        ("[1 TO 5] {}\\", ["1", "5"]),
    ],
)
def test_text_that_looks_like_query_syntax_is_words(text, expected):
    assert terms(text) == expected


@pytest.mark.parametrize("text", ["", " \n\t", "...", "!?—", "\x00\x01", "___", "😀"])
def test_a_text_without_words_has_no_terms(text):
    assert terms(text) == []


def test_an_endless_word_is_cut():
    (term,) = terms("x" * 1000)
    assert len(term) <= 64


@pytest.mark.parametrize(
    "run",
    [
        "x" * 60_000,
        "é" * 60_000,
        "_" * 4000,
        "x_" * 30_000,
        "a." * 30_000,
        "a.1" * 20_000,
        "'" * 60_000,
        "-" * 60_000,
        "-a" * 30_000,
        "%a" * 30_000,
    ],
    ids=lambda run: f"{run[:3]}...",
)
def test_a_hostile_run_takes_time_in_proportion_to_its_length(run):
    # Hundredths of a second on an idle core; what grows with the square takes ten and more.
    began = time.thread_time()
    terms(run)
    assert time.thread_time() - began < 5


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=300))
def test_any_text_has_terms_that_are_clean_and_the_same_each_time(text):
    found = terms(text)
    assert found == terms(text)
    for term in found:
        assert term
        assert len(term) <= 64
        assert term == term.casefold() or not term[0].isalnum()
        assert not any(c.isspace() for c in term)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.from_regex(r"[a-z]{1,12}", fullmatch=True), max_size=20))
def test_plain_words_have_the_terms_of_each_alone(words):
    assert terms(" ".join(words)) == [term for word in words for term in terms(word)]


_SIGNS = st.sampled_from(" \n\t._:>-'’aAbzisthe09—é中国ก เ\u0301İﬁ\u00a0\u3000ςΣйßक़")


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.one_of(_SIGNS, st.characters(exclude_categories=["Cs"])), max_size=60),
    st.sampled_from(["", "en", "de", "tr", "zh"]),
)
def test_a_text_has_the_terms_that_reading_it_in_one_piece_gives(text, lang):
    words, identifiers = analyzer._token_terms(text, lang)
    assert terms(text, lang) == [*words, *identifiers]


def test_another_process_finds_the_same_terms():
    text = "Connections of os.path.join’s naïve callers, 漢字!"
    code = f"from packwise.language.analyzer import terms; print(ascii(terms({text!r})))"
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ascii(terms(text))


def test_many_threads_stem_alike():
    from packwise.language import analyzer as words

    vocabulary = [
        f"{stem}{n}{end}"
        for n in range(150)
        for stem in ("connect", "run", "librari")
        for end in ("ing", "ed", "es", "ations")
    ]
    expected = [terms(word) for word in vocabulary]
    words._english.cache_clear()
    results: list[bool] = []

    def work() -> None:
        results.append([terms(word) for word in vocabulary] == expected)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8
