"""Questions that the documents of a store should answer: from their headings, sentences, options
and tables.

Each names what a right answer holds, so that it can be checked by asking
(``sample_questions.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from packwise.context.markdown import is_ruling, table_cells
from packwise.documents import Block, BlockKind, Passage
from packwise.language.phrasing import VAGUE, Spelling, question_from_heading
from packwise.language.sentences import sentence_spans
from packwise.language.statements import question_from_statement
from packwise.lazy_pattern import lazy_pattern

_NOT_ASKED = lazy_pattern(
    r"(?i)(?:^|[/_. -])(?:change|changes|changelog|news|history|licen[cs]e|copying|copyright|"
    r"authors|contributors|thanks|todo|code[_-]of[_-]conduct|release[_-]?notes)(?:[/_. -]|$)"
)
"""Names of documents about which newcomers do not ask."""
_OPTION = r"(?P<option>--(?!help\b|version\b)[a-z][a-z0-9-]{1,24}(?<=[a-z0-9]))(?![\w-])"
_OPTION_HEADING = lazy_pattern(rf"(?:-\w,? )?{_OPTION}(?:[ =,\[<].{{0,40}})?")
_OPTION_LINE = lazy_pattern(
    rf"^[ \t]*(?:[-*•] )?(?:-\w(?: \S+)?,? )?{_OPTION}(?:[= ]\S+)?(?:, -\w)?"
    r"(?::[ \t]|[ \t]{2,}|\s*\n\s*)(?P<what>[A-Z][a-z]+ [a-z][^\n:=]{20,})",
    re.MULTILINE,
)
_SENTENCE = range(30, 320)
_YES_OR_NO = frozenset("Can Could Do Does Did Is Are Should Will May".split())
_HOW_TO = "How do I "
_INSTRUCTS = lazy_pattern(
    r"\b(?:you|your|use|using|run|call|set|add|type|press|click|select|create|install|pass)\b", re.I
)
_OPENINGS = 3
"""Sentences and blocks at the start of a section; the answer to its heading shows one of them."""
_ISO_DATE = lazy_pattern(r"[12]\d{3}-\d\d-\d\d(?:[T ].*)?")
_FIGURE = lazy_pattern(r"[$€£~<>≈+-]{0,2}\d")
_NAME = lazy_pattern(r"[A-Z][\w.+-]*(?: [\w.+-]+){0,3}")
_COLUMN = lazy_pattern(r"[A-Za-z][a-z]{3,}(?: [a-z]{3,}){0,2}")
_SAYS_WHAT = frozenset("description meaning function action purpose effect explanation".split())
_DOES = frozenset(
    "option command setting parameter key shortcut flag variable field keyword".split()
)
_MOST_ROWS = 3
_OPENING = 40


@dataclass(frozen=True, slots=True)
class QuestionCandidate:
    """A question and its source: a right answer contains one of ``stated``, and ``value``."""

    question: str
    passage: Passage
    stated: tuple[str, ...]
    value: str = ""

    def is_answered_by(self, answer: str) -> bool:
        """Whether an answer contains what was asked for, comparing only letters and digits."""
        text = _letters(answer)
        return _letters(self.value) in text and any(
            _letters(part)[:_OPENING] in text for part in self.stated
        )


def candidates(
    documents: Mapping[str, Sequence[Passage]], most_per_document: int
) -> Iterator[QuestionCandidate]:
    """One question of each document, then a second one of each; no question twice.

    Documents in turn begin with another kind of question.
    """
    spelling = Spelling(p.text for passages in documents.values() for p in passages)
    made: list[list[QuestionCandidate]] = []
    for at, (name, passages) in enumerate(documents.items()):
        if _NOT_ASKED.search(name):
            continue
        english = [passage for passage in passages if passage.lang in ("", "en")]
        kinds = [
            _statements(english, spelling),
            list(_headings(english, spelling)),
            list(_rows(english)),
            list(_options(english)),
        ]
        turned = kinds[at % 2 :] + kinds[: at % 2]
        made.append(list(_in_turn(turned))[:most_per_document])
    seen: set[str] = set()
    for candidate in _in_turn(made):
        if (key := candidate.question.casefold()) not in seen:
            seen.add(key)
            yield candidate


def _in_turn(lists: Sequence[Sequence[QuestionCandidate]]) -> Iterator[QuestionCandidate]:
    for row in zip_longest(*lists):
        yield from (candidate for candidate in row if candidate is not None)


def _statements(passages: Iterable[Passage], spelling: Spelling) -> list[QuestionCandidate]:
    """Those that people ask more often first."""
    found: list[tuple[int, QuestionCandidate]] = []
    for passage in passages:
        for text in _blocks(passage, BlockKind.TEXT):
            for start, end in sentence_spans(text):
                sentence = text[start:end]
                if len(sentence) in _SENTENCE and (
                    question := question_from_statement(sentence, spelling)
                ):
                    made = QuestionCandidate(question.text, passage, (sentence,), question.holds)
                    found.append((question.rank, made))
    return [candidate for _, candidate in sorted(found, key=lambda pair: pair[0])]


def _headings(passages: Iterable[Passage], spelling: Spelling) -> Iterator[QuestionCandidate]:
    seen: set[tuple[str, ...]] = set()
    for passage in passages:
        if not passage.section_path or passage.section_path in seen:
            continue
        seen.add(passage.section_path)
        question = question_from_heading(passage.header, spelling)
        if question and (not question.startswith(_HOW_TO) or _instructs(passage)):
            yield QuestionCandidate(question, passage, _openings(question, passage.text))


def _instructs(passage: Passage) -> bool:
    """Whether a section tells how to do something: a reference may have the same heading."""
    shown = any(block.kind in (BlockKind.CODE, BlockKind.LIST) for block in passage.blocks)
    return shown or _INSTRUCTS.search(passage.text) is not None


def _openings(question: str, text: str) -> tuple[str, ...]:
    """How the section begins; "Yes." must not be left out."""
    spans = list(sentence_spans(text))[:_OPENINGS]
    if question.partition(" ")[0] in _YES_OR_NO:
        return (text[spans[0][0] : spans[-1][1]],)
    return tuple(text[start:end] for start, end in spans if end - start >= _SENTENCE.start)


def _options(passages: Iterable[Passage]) -> Iterator[QuestionCandidate]:
    for passage in passages:
        if found := _OPTION_HEADING.fullmatch(passage.header):
            yield QuestionCandidate(f"What does {found['option']} do?", passage, (passage.text,))
        for found in _OPTION_LINE.finditer(passage.text):
            yield QuestionCandidate(f"What does {found['option']} do?", passage, (found["what"],))


def _rows(passages: Iterable[Passage]) -> Iterator[QuestionCandidate]:
    """A few rows of each table, the fullest first."""
    for passage in passages:
        for text in _blocks(passage, BlockKind.TABLE):
            lines = [line for line in text.splitlines() if line.strip() and not is_ruling(line)]
            above = [line for line in passage.lead.splitlines() if "|" in line]
            if above and passage.text.lstrip().startswith(text.strip()):
                lines.insert(0, above[-1])
            rows = table_cells(lines)
            yield from _questions_of_rows(rows[0], rows[1:], passage) if len(rows) > 2 else ()


def _questions_of_rows(
    columns: Sequence[str], rows: Sequence[Sequence[str]], passage: Passage
) -> Iterator[QuestionCandidate]:
    key = next((at for at in range(len(columns)) if _is_key(at, rows)), None)
    if key is None:
        return
    fullest = sorted(enumerate(rows), key=lambda row: (-sum(map(bool, row[1])), -row[0]))
    for turn, (_, row) in enumerate(fullest[:_MOST_ROWS]):
        asked = [
            (question, row[at])
            for at in range(min(len(columns), len(row)))
            if at != key and (question := _question_of_cell(columns, key, at, row))
        ]
        if asked:
            question, value = asked[turn % len(asked)]
            yield QuestionCandidate(question, passage, (row[key],), value[:80])


def _is_key(at: int, rows: Sequence[Sequence[str]]) -> bool:
    """Whether a column names its rows."""
    cells = [row[at] if at < len(row) else "" for row in rows]
    return len(set(cells)) == len(cells) and all(map(_NAME.fullmatch, cells))


def _question_of_cell(columns: Sequence[str], key: int, at: int, row: Sequence[str]) -> str | None:
    name, column, value = row[key], columns[at].strip(), row[at].strip()
    if column.lower() in _SAYS_WHAT and columns[key].lower().removesuffix("s") in _DOES:
        return f"What does {name} do?" if len(value) > _OPENING else None
    if not _COLUMN.fullmatch(column) or not _FIGURE.match(value) or len(value) > 40:
        return None
    if column.endswith("s") or VAGUE.intersection(column.lower().split()):
        return None
    column = column.lower()
    if _ISO_DATE.fullmatch(value):
        if column.endswith("ed"):
            return f"When was {name} {column}?"
        column = column if "date" in column else f"{column} date"
    return f"What is the {column} of {name}?"


def _blocks(passage: Passage, *kinds: BlockKind) -> Iterator[str]:
    whole = Block(BlockKind.TEXT, passage.start, passage.end)
    for block in passage.blocks or (whole,):
        if block.kind in kinds:
            yield passage.text[block.start - passage.start : block.end - passage.start]


def _letters(text: str) -> str:
    return re.sub(r"\W+", "", text).casefold()
