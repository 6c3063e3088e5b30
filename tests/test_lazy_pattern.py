"""Patterns that are compiled at their first use behave as those of ``re.compile``."""

import re

import pytest

from packwise import lazy_pattern as module
from packwise.lazy_pattern import lazy_pattern


@pytest.fixture
def compiled(monkeypatch) -> list[str]:
    seen = []
    real = re.compile
    monkeypatch.setattr(module.re, "compile", lambda *given: seen.append(given[0]) or real(*given))
    return seen


def test_a_pattern_is_compiled_when_it_is_first_used(compiled):
    words = lazy_pattern(r"(?P<word>[a-z]+)", re.IGNORECASE)
    assert words.pattern == r"(?P<word>[a-z]+)"
    assert not compiled
    assert [match["word"] for match in words.finditer("Ab, cd")] == ["Ab", "cd"]
    assert compiled == [words.pattern]


def test_what_was_used_once_is_found_without_python_code():
    words = lazy_pattern(r"\w+")
    words.search("x")
    assert vars(words)["search"].__self__ == re.compile(r"\w+")


def test_bytes_flags_and_groups_are_those_of_the_pattern():
    assert lazy_pattern(rb"\d+").findall(b"1 22") == [b"1", b"22"]
    assert lazy_pattern("a", re.IGNORECASE).flags == re.compile("a", re.IGNORECASE).flags
    assert dict(lazy_pattern("(?P<x>a)").groupindex) == {"x": 1}


def test_a_pattern_has_no_other_attributes():
    with pytest.raises(AttributeError):
        _ = lazy_pattern("a").nothing
