"""Time grows with the length of a text, not with its square, whatever it holds."""

from __future__ import annotations

import time

import pytest

from packwise.chunking import chunk
from packwise.documents import BlockKind
from packwise.language.sentences import sentence_spans
from packwise.settings import Settings

# What grows with the square takes far longer than this for such a text; what is linear, a
# twentieth of it.
LENGTH = 30_000
SECONDS = 5

HOSTILE = {
    "dots": ".",
    "quotes": '"',
    "stops and quotes": '."',
    "spaced dots": ". ",
    "one word": "a",
    "blanks": " ",
    "lines": "\n",
    "blank lines": "\n \n",
    "initials": "A. ",
    "crumbs": "a.\n\n",
    "brackets": ".[",
    "citations": ".[1]",
    "items": "\n- ",
    "bars": "\n|",
    "cells": " | a",
    "rulings": "+-",
    "dashes": " —",
    "commas": ",",
    "commas and blanks": ",  ",
    "wide stops": "。",
    "no tokens": "\u200b",
    "controls": "\x00",
    "words": "word ",
    "indented lines": "\n" + " " * 50 + "x",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_sentences_and_passages_take_linear_time(words, document_of, name):
    unit = HOSTILE[name]
    text = "Start " + unit * (LENGTH // len(unit)) + " end"
    started = time.thread_time()
    sentence_spans(text)
    for kind in BlockKind:
        document = document_of([((), [(kind, text)])])
        passages = chunk(document, words, Settings(passage_tokens=256))
        assert passages[0].text.startswith("Start")
        assert passages[-1].text.endswith("end")
        assert max(len(passage.text) for passage in passages) <= 256 * 64
    assert time.thread_time() - started < SECONDS


def test_many_small_sections_take_linear_time(words, document_of):
    document = document_of([((str(n),), [(BlockKind.TEXT, "One. Two.")]) for n in range(1_000)])
    started = time.thread_time()
    assert len(chunk(document, words, Settings())) == 1_000
    assert time.thread_time() - started < SECONDS
