"""The tokenizer of BERT and the models made from it, read from a ``tokenizer.json``.

The library tokenizers does the same for every kind of tokenizer, but with what it needs it weighs
37 MB in ten packages. Ids and offsets here are equal to its own, which
``tests/models/test_wordpiece.py`` checks, so vectors and scores do not depend on which of the two
read the text.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

_T = TypeVar("_T")
Span = tuple[int, int]

_CACHED_WORDS = 1 << 16
_CACHED_CHARACTERS = 1 << 14
_CACHED_TEXT = 1 << 20
"""Characters of texts whose tokens are remembered."""
# No word reaches across a blank or a mark of ASCII, and each of these marks is one; what other
# characters do is looked at within each of the runs between them.
_RUN = re.compile(r"([^ \t\n\r!-/:-@\[-`{-~]++|[!-/:-@\[-`{-~])")
_IDEOGRAPHS = (
    *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF)),
    *((0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0x2F800, 0x2FA1F)),
)
"""What BERT calls a Chinese character; each is a word. 2B820 to 2B91F are missing there too."""


class WordPieces:
    """The tokens of a text, or of two texts and what a template puts around them."""

    def __init__(
        self,
        ids: list[int],
        type_ids: list[int],
        sequence_ids: list[int | None],
        spans: Callable[[], list[Span]],
    ) -> None:
        self.ids = ids
        self.type_ids = type_ids
        self.sequence_ids = sequence_ids
        self._spans = spans

    @property
    def offsets(self) -> list[Span]:
        """Where each token is in its text; computed when asked for, as embedders never do."""
        return self._spans()


class _Slot(NamedTuple):
    """A part of a template: the first or second text, or one token."""

    sequence: int | None
    token: int
    type_id: int


class WordPiece:
    """Splits at spaces and punctuation, and words into the longest pieces of the vocabulary."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        """``description`` is the content of a ``tokenizer.json`` that ``is_wordpiece`` accepts."""
        model, normalizer = description["model"], description["normalizer"]
        self._vocabulary: dict[str, int] = model["vocab"]
        self._unknown = self._vocabulary[model["unk_token"]]
        self._prefix: str = model["continuing_subword_prefix"]
        self._longest_word: int = model["max_input_chars_per_word"]
        self._characters = _Characters(normalizer)
        self._templates = _templates(description.get("post_processor"))
        self._limit: int | None = None
        self._pieces = lru_cache(_CACHED_WORDS)(self._split)
        self._ids = _Remembered(self._ids_of)
        self._places = _Remembered(self._places_of)

    def token_to_id(self, token: str) -> int | None:
        """The id of a token of the vocabulary."""
        return self._vocabulary.get(token)

    def enable_truncation(self, max_length: int) -> None:
        """Return at most this many tokens from now on; of two texts, the longer one is cut."""
        self._limit = max_length

    def encode(self, text: str, *, add_special_tokens: bool = True) -> WordPieces:
        """The tokens of a text; ``[SEP]`` in it is text."""
        ids = list(chain.from_iterable(map(self._ids.__getitem__, _RUN.findall(text))))
        whole = WordPieces(ids, [0] * len(ids), [0] * len(ids), lambda: self.spans(text))
        if not add_special_tokens:
            return whole if self._limit is None else _first(whole, self._limit)
        return self._fill(self._templates[0], [whole])

    def post_process(self, first: WordPieces, second: WordPieces) -> WordPieces:
        """The tokens of two texts in one sequence."""
        return self._fill(self._templates[1], [first, second])

    def _fill(self, template: Sequence[_Slot], texts: list[WordPieces]) -> WordPieces:
        if self._limit is not None:
            room = self._limit - sum(piece.sequence is None for piece in template)
            lengths = _lengths([len(text.ids) for text in texts], room)
            texts = [_first(text, n) for text, n in zip(texts, lengths, strict=True)]
        ids: list[int] = []
        types: list[int] = []
        sequences: list[int | None] = []
        for piece in template:
            inner = [piece.token] if piece.sequence is None else texts[piece.sequence].ids
            ids += inner
            types += [piece.type_id] * len(inner)
            sequences += [piece.sequence] * len(inner)

        def spans() -> list[Span]:
            found: list[Span] = []
            for piece in template:
                found += [(0, 0)] if piece.sequence is None else texts[piece.sequence].offsets
            return found

        return WordPieces(ids, types, sequences, spans)

    def spans(self, text: str) -> list[Span]:
        """Where each token of a text is in it."""
        parts = _RUN.split(text)
        firsts = islice(accumulate(map(len, parts)), 0, None, 2)
        places = map(self._places.__getitem__, parts[1::2])
        return [
            (first + start, first + end)
            for first, found in zip(firsts, places, strict=False)
            for start, end in found
        ]

    def _ids_of(self, text: str) -> list[int]:
        words = text.translate(self._characters).split()
        return [found for word in words for found in self._of(word)[0]]

    def _places_of(self, text: str) -> list[Span]:
        normal = [self._characters[ord(character)] for character in text]
        origin = [place for place, piece in enumerate(normal) for _ in piece]
        line = "".join(normal)
        spans: list[Span] = []
        at = 0
        for word in line.split():
            at = line.index(word, at)
            for size in self._of(word)[1]:
                spans.append((origin[at], origin[at + size - 1] + 1))
                at += size
        return spans

    def _of(self, word: str) -> tuple[list[int], list[int]]:
        """The ids and the lengths of a word's pieces."""
        if len(word) > self._longest_word:
            return [self._unknown], [len(word)]
        return self._pieces(word)

    def _split(self, word: str) -> tuple[list[int], list[int]]:
        ids: list[int] = []
        sizes: list[int] = []
        start = 0
        while start < len(word):
            mark = self._prefix if start else ""
            for end in range(len(word), start, -1):
                found = self._vocabulary.get(mark + word[start:end])
                if found is not None:
                    ids.append(found)
                    sizes.append(end - start)
                    start = end
                    break
            else:
                return [self._unknown], [len(word)]
        return ids, sizes


def is_wordpiece(description: Mapping[str, Any]) -> bool:
    """Whether a ``tokenizer.json`` describes a tokenizer that ``WordPiece`` is equal to."""
    model, normalizer = description.get("model") or {}, description.get("normalizer") or {}
    processor = description.get("post_processor") or {"type": None}
    return (
        model.get("type") == "WordPiece"
        and model.get("unk_token") in model.get("vocab", {})
        and normalizer.get("type") == "BertNormalizer"
        and normalizer.get("clean_text") is True
        and (description.get("pre_tokenizer") or {}).get("type") == "BertPreTokenizer"
        and processor["type"] in (None, "TemplateProcessing", "BertProcessing")
        and all(token.get("special") for token in description.get("added_tokens") or ())
    )


def _templates(processor: Mapping[str, Any] | None) -> tuple[list[_Slot], list[_Slot]]:
    """What is put around one text, and around two."""
    first, second = _Slot(0, 0, 0), _Slot(1, 0, 1)
    if processor is None:
        return [first], [first, _Slot(1, 0, 0)]
    if processor["type"] == "BertProcessing":
        start, end = (_Slot(None, processor[name][1], 0) for name in ("cls", "sep"))
        return [start, first, end], [start, first, end, second, _Slot(None, end.token, 1)]
    tokens = processor["special_tokens"]

    def read(template: Sequence[Mapping[str, Any]]) -> list[_Slot]:
        pieces: list[_Slot] = []
        for part in template:
            if given := part.get("Sequence"):
                pieces.append(_Slot("AB".index(given["id"]), 0, given["type_id"]))
            else:
                given = part["SpecialToken"]
                listed: list[int] = tokens[given["id"]]["ids"]
                pieces += [_Slot(None, token, given["type_id"]) for token in listed]
        return pieces

    return read(processor["single"]), read(processor["pair"])


def _first(encoding: WordPieces, tokens: int) -> WordPieces:
    if len(encoding.ids) <= tokens:
        return encoding
    return WordPieces(
        encoding.ids[:tokens],
        encoding.type_ids[:tokens],
        encoding.sequence_ids[:tokens],
        lambda: encoding.offsets[:tokens],
    )


def _lengths(lengths: list[int], room: int) -> list[int]:
    """How much of each text fits: the longer one is cut first, then both to a half."""
    if sum(lengths) <= room:
        return lengths
    if len(lengths) == 1:
        return [room]
    short = min(lengths)
    parts = [short, room - short] if 2 * short <= room else [room // 2, room - room // 2]
    return parts[::-1] if lengths[0] > lengths[1] else parts


class _Remembered(dict[str, _T]):
    """What was found for the runs of characters between blanks, most of which come again."""

    def __init__(self, find: Callable[[str], _T]) -> None:
        super().__init__()
        self._find = find
        self._characters = 0

    def __missing__(self, text: str) -> _T:
        if self._characters > _CACHED_TEXT:
            self.clear()
            self._characters = 0
        self[text] = found = self._find(text)
        self._characters += len(text)
        return found


class _Characters(dict[int, str]):
    """What each character becomes before words are split, for ``str.translate``.

    Nothing, a space, or one or more characters, with spaces around those that are words.
    """

    def __init__(self, normalizer: Mapping[str, Any]) -> None:
        super().__init__()
        self._lowercase = bool(normalizer.get("lowercase"))
        accents = normalizer.get("strip_accents")
        self._strip_accents = self._lowercase if accents is None else bool(accents)
        self._ideographs = _IDEOGRAPHS if normalizer.get("handle_chinese_chars") else ()

    def __missing__(self, code: int) -> str:
        normal = self._normal(code)
        if len(self) < _CACHED_CHARACTERS:
            self[code] = normal
        return normal

    def _normal(self, code: int) -> str:
        character = chr(code)
        if character in "\t\n\r":
            return " "
        if _is(code, "removed"):
            return ""
        if character.isspace():
            return " "
        text = character
        if self._strip_accents:
            text = unicodedata.normalize("NFD", text)
            text = "".join(c for c in text if not _is(ord(c), "marks"))
        if self._lowercase:
            text = "".join(_new_capitals().get(c) or c.lower() for c in text)
        text = "".join(f" {c} " if _is(ord(c), "punctuation") else c for c in text)
        word = any(start <= code <= end for start, end in self._ideographs)
        return f" {text} " if word else text


def _is(code: int, kind: str) -> bool:
    # Even places begin a range of the kind, odd ones are the first after it.
    return bisect_right(_borders()[kind], code) % 2 == 1


@cache
def _borders() -> dict[str, list[int]]:
    """The borders of each kind of characters as the library has them, from an old Unicode."""
    stored = Path(__file__).with_name("wordpiece_characters.json").read_text("utf-8")
    return {kind: [int(border, 16) for border in of] for kind, of in json.loads(stored).items()}


@cache
def _new_capitals() -> dict[str, str]:
    """The lower case of letters that are newer than the oldest Python that Packwise runs on."""
    pairs = [chr(code) for code in _borders()["new_capitals"]]
    return dict(zip(pairs[::2], pairs[1::2], strict=True))
