import gzip
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.errors import SettingError
from packwise.models.tokens import ModelTokens, token_counter

# The names tiktoken gives to what it would otherwise download.
_CACHED = {
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
}

FIXTURES = {
    "prose": "The Normans gave their name to Normandy, a region in France. They weren't alone.",
    "accents": "Größenwahn naïve café Ångström smörgåsbord İstanbul ǅ ﬁ",
    "scripts": "漢字かな交じり文。 Привет, мир! مرحبا بالعالم नमस्ते दुनिया สวัสดีชาวโลก 안녕하세요",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 😀😀😀",
    "python": "def f(x: int) -> dict[str, int]:\n\treturn {'a': x**2}  # note\n\n\nclass A: ...\n",
    "json": '{"id": 12345678, "values": [1.5e-10, null, true], "s": "\\u00e9\\n"}',
    "spaces": "a  b   c    d" + " " * 79 + "e" + " \t \n \r\n\r\n  \n",
    "newlines": "\n\n\n\r\n\r\n \n x\n\n\n\n",
    "numbers": "3.14159265358979 1,000,000 007 1234567890123456789",
    "long run": "a" * 5000 + "=" * 3000 + "ab" * 2000,
    "apostrophes": "I'LL DON'T we've it's 'quoted' ’curly’ O'Neill'S",
    "special": "<|endoftext|> <|endofprompt|> <|fim_prefix|> <|im_start|>user",
    "controls": "\x00\x01\x7f\u200b\u202e\ufeff\u2028",
    "empty": "",
    "markdown": "# Title\n\n- item *one*\n- item **two**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
}


@pytest.fixture(scope="module", params=["o200k_base", "cl100k_base"])
def encoding(request, tmp_path_factory) -> tiktoken.Encoding:
    """tiktoken's own encoding, served offline from the ranks that bpe-openai carries."""
    spec = find_spec("bpe_openai")
    assert spec is not None
    assert spec.submodule_search_locations
    data = Path(spec.submodule_search_locations[0]) / "data"
    cache = tmp_path_factory.mktemp("tiktoken")
    ranks = gzip.decompress((data / f"{request.param}.tiktoken.gz").read_bytes())
    (cache / _CACHED[request.param]).write_bytes(ranks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(cache))
        return tiktoken.get_encoding(request.param)


@pytest.mark.parametrize("name", FIXTURES)
def test_counts_equal_tiktokens(encoding, name):
    text = FIXTURES[name]
    assert token_counter(encoding.name).count(text) == len(encoding.encode_ordinary(text))


def test_counts_equal_tiktokens_on_any_text(encoding):
    counter = token_counter(encoding.name)

    @settings(max_examples=300, deadline=None)
    @given(st.text(st.characters(exclude_categories=()), max_size=200))
    def equal(text: str) -> None:
        assert counter.count(text) == len(encoding.encode_ordinary(text))

    equal()


def test_counts_equal_tiktokens_on_spaced_and_broken_words(encoding):
    counter = token_counter(encoding.name)
    pieces = st.sampled_from(
        " |  |\n|\r\n|\t|'s|'LL|word|Word|WORD|9|123|é|漢|/|//|...|\u00a0|_|😀|\u0301|<".split("|")
    )

    @settings(max_examples=300, deadline=None)
    @given(st.lists(pieces, max_size=40).map("".join))
    def equal(text: str) -> None:
        assert counter.count(text) == len(encoding.encode_ordinary(text))

    equal()


def test_each_openai_name_gets_the_encoding_tiktoken_gives_it():
    from tiktoken.model import MODEL_PREFIX_TO_ENCODING, MODEL_TO_ENCODING

    ours = {"o200k_base": "o200k_base", "o200k_harmony": "o200k_base", "cl100k_base": "cl100k_base"}
    names = dict(MODEL_TO_ENCODING)
    names |= {
        f"{prefix.rstrip('-')}-2099-01-01": name
        for prefix, name in MODEL_PREFIX_TO_ENCODING.items()
    }
    checked = 0
    for name, encoding in names.items():
        if encoding in ours and "davinci" not in name and "babbage" not in name:
            counter = token_counter(name)
            assert isinstance(counter, ModelTokens)
            assert (counter.encoding, counter.exact) == (ours[encoding], True), name
            checked += 1
    assert checked > 20


@pytest.mark.parametrize(
    "name", ["openai/gpt-4o", "GPT-4o-mini", " gpt-4o ", "ft:gpt-4o:me::1", "gpt-5.1-codex"]
)
def test_a_name_may_carry_a_provider_a_case_or_a_suffix(name):
    counter = token_counter(name)
    assert isinstance(counter, ModelTokens)
    assert counter.encoding == "o200k_base"
    assert counter.exact


@pytest.mark.parametrize(
    "name", ["", "llama-3", "gpt-2", "gpt-4.7-x", "gpt-40", "claude", "o2", "text-embedding-4"]
)
def test_an_unknown_name_is_an_error_that_lists_what_is_known(name):
    with pytest.raises(SettingError, match=r"known: gpt-4o\.\.\..*claude-") as caught:
        token_counter(name)
    assert caught.value.exit_code == 2


def test_the_package_of_the_tokenizers_can_still_be_imported_afterwards():
    code = (
        "from packwise.models.tokens import token_counter; print(token_counter().count('a b'))\n"
        "import bpe_openai; print(len(bpe_openai.get_encoding('o200k_base').encode('a b')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "2"]


def test_the_default_counts_exactly():
    counter = token_counter()
    assert counter.name == "gpt-4o-2024-11-20"
    assert counter.exact
    assert counter.count("hello world") == 2


@pytest.mark.parametrize(
    ("name", "margin"),
    [
        ("claude-3-5-sonnet-20241022", 1.35),
        ("claude-sonnet-4-20250514", 1.35),
        ("claude-opus-4-1@20250805", 1.35),
        ("claude-haiku-4-5", 1.35),
        ("claude-2.1", 1.35),
        ("us.anthropic.claude-3-haiku-20240307-v1:0", 1.35),
        ("claude-opus-4-7", 1.8),
        ("anthropic/claude-sonnet-5", 1.8),
        ("claude-opus-10-1", 1.8),
        ("claude-something-preview", 1.8),
    ],
)
def test_claude_is_estimated_above_o200k_by_its_generation(name, margin):
    counter = token_counter(name)
    exact = token_counter("o200k_base")
    assert not counter.exact
    for text in FIXTURES.values():
        assert exact.count(text) * margin <= counter.count(text) < exact.count(text) * margin + 1


def test_counting_many_equals_counting_each_with_repetitions():
    texts = [*FIXTURES.values(), *list(FIXTURES.values())[::-1]]
    for name in ("gpt-4o", "claude-sonnet-5"):
        counter = token_counter(name)
        assert counter.count_many(texts) == [counter.count(text) for text in texts]
    assert token_counter("gpt-4o").count_many([]) == []


def test_lone_surrogates_count_as_tiktoken_counts_them():
    assert token_counter("gpt-4o").count("a \ud83d b") == token_counter("gpt-4o").count(
        "a \ufffd b"
    )
    assert token_counter("gpt-4o").count("\ud83d\ude00") == token_counter("gpt-4o").count("😀")


@pytest.mark.parametrize("unit", ["a", " ", "\n", "0", "é", "ab "])
def test_a_hostile_megabyte_is_counted_in_a_moment(unit):
    text = unit * (1_200_000 // len(unit))
    began = time.process_time()
    assert token_counter("gpt-4o").count(text) > 0
    assert time.process_time() - began < 20
