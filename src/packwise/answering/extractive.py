"""An answer without a language model: the best parts of the passages, each with its source.

A part is a paragraph, a list, rows of a table or a code block (``blocks.py``). A small model
ranks them and gives the probability that the answer is right (``block_ranking.py``). A date, a
name or a number that clearly answers comes first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packwise.answering.answer import LIKELY
from packwise.answering.block_ranking import (
    ASKS_MEANING,
    Named,
    RankedBlocks,
    answer_probability,
    has_words_of_question,
    opens_named_section,
    rank_blocks,
    weighted_question,
)
from packwise.answering.blocks import (
    AnswerBlock,
    PartKind,
    SourcePassage,
    answer_blocks,
    blocks_of,
    hull,
    surroundings,
)
from packwise.answering.named_rows import (
    exact_row,
    named_rows,
    names_row,
    row_described,
    rows_asked_for,
)
from packwise.answering.short_answers import ShortAnswer, is_worth_showing, short_answer
from packwise.context.markdown import one_line, table_markdown
from packwise.documents import Passage
from packwise.language.analyzer import terms
from packwise.language.identifiers import identifiers
from packwise.language.questions import ParsedQuestion
from packwise.language.untrusted import clean, without_markers
from packwise.lazy_pattern import lazy_pattern
from packwise.models.base import CrossEncoder, SpanReader
from packwise.stores.base import TermStatistics

MOST_BLOCKS = 3
FURTHER = 600
"""Characters; longer lists, tables and code are shown only where they are the best answer."""
STRETCH = 900
"""Characters up to which two blocks of a passage are shown with what is between them."""
ROOM = 700
"""Characters up to which the best block is shown with what is around it."""
BRIEF_SECTION = 400
"""Characters; a further block of a section up to this long is shown with all of it: the default of
a setting stands beside what the setting does."""
DESCRIPTION = 1100
"""Characters up to which a description is shown from its beginning."""
NEARLY_AS_LIKELY = 0.1
"""A further block is shown if it is at least this likely, relative to the best one."""
MORE_BLOCKS, STILL_POSSIBLE = 2, 0.05
"""An answer that is not likely right shows this many blocks more, and less likely ones."""
SURE, FIRST_PASSAGES = 0.9, 2
"""An answer that is less likely right than this shows a part of each of the first passages: the
block with most of the question's words may be in the wrong one. Of 861 questions on documentation
that the models are fitted on, 12 more were answered so, by 8% more text."""
ROW_ASKED_FOR = 0.3
"""Least probability of an answer with a row that the question asks for by name: rows of figures
look unlike any question, which is no reason to refuse it."""
_SAME = 0.8
_WORD = lazy_pattern(r"\b[a-z]{2,}\b")
_BEGINS_LINE = lazy_pattern(r"```|~~~|\||[-*+] |\d+[.)] ")
_ARGUMENTS = 3
"""Words that may follow the name of an option on its line; more are a sentence."""
_OF_TABLES = (PartKind.TABLE, PartKind.ROW, PartKind.ITEM)
_PROSE = (PartKind.TEXT, PartKind.ITEM, PartKind.STRETCH)
_POINTS_BACK = frozenset("this these it they its their such".split())
_GENERIC = frozenset(
    "description synopsis usage options arguments parameters example examples notes overview "
    "summary details introduction purpose abstract background remarks".split()
)
"""Names of sections that do not say what they are about."""


@dataclass(frozen=True, slots=True)
class ExtractedAnswer:
    """An answer made of blocks; its text is empty if there are none.

    ``probability`` is that of the best block being right. ``short`` is set only if it is part
    of the text; ``unsure_short`` is the best one, however unsure. ``cited`` are markers, in the
    order of first use; an answer that is not likely right cites the best passages too.
    """

    text: str = ""
    blocks: tuple[AnswerBlock, ...] = ()
    short: ShortAnswer | None = None
    cited: tuple[int, ...] = ()
    probability: float = 0.0
    unsure_short: ShortAnswer | None = None


def extract(
    question: str,
    sources: Sequence[SourcePassage],
    *,
    signs: Mapping[str, float] | None = None,
    statistics: TermStatistics | None = None,
    cross_encoder: CrossEncoder | None = None,
    span_reader: SpanReader | None = None,
    most: int = MOST_BLOCKS,
    lang: str = "",
) -> ExtractedAnswer:
    """One to ``most`` blocks of the passages that answer the question, up to two more if it is not
    likely that they do.

    ``statistics`` are those of the question's terms in the store; without them the rarity of a
    word is that in the passages. ``signs`` are those of the search, ``lang`` is the language of
    the question. A ``span_reader`` finds the short answer; without one it is found by the words
    around it.
    """
    blocks = blocks_of(sources)
    asked = weighted_question(question, blocks, statistics, lang)
    ranked = rank_blocks(asked, blocks, cross_encoder)
    if not ranked.blocks:
        return ExtractedAnswer()
    probability = answer_probability(ranked, signs or {})
    best = (one.block for one in ranked.blocks[:MOST_BLOCKS])
    if any(names_row([block.source], question) for block in best if block.kind in _OF_TABLES):
        probability = max(probability, ROW_ASKED_FOR)
    best_short = short_answer(ranked, span_reader)
    short = best_short if is_worth_showing(best_short, probability) else None
    chosen = choose(ranked, probability, most)
    parts = rendered(chosen, question)
    if short is not None:
        said = without_markers(clean(short.text))
        parts.insert(0, f"{said} [{short.block.source.marker}]")
    cited = [block.source.marker for block in chosen]
    if short is not None:
        cited.insert(0, short.block.source.marker)
    if probability < LIKELY:
        # The reader is to check: the best passages are shown, quoted or not.
        cited += [source.marker for source in sources[:MOST_BLOCKS]]
    return ExtractedAnswer(
        "\n\n".join(parts),
        tuple(chosen),
        short,
        tuple(dict.fromkeys(cited)),
        probability,
        best_short,
    )


def choose(ranked: RankedBlocks, probability: float, most: int = MOST_BLOCKS) -> list[AnswerBlock]:
    """The best block and what is around it, of a long table the rows that the question names, and
    others that say something else and are likely enough, relative to it. ``probability`` is that
    of the best one being right; if that is not sure, the first passages have a part of theirs too.
    Rows that the question asks for by two cells come first, and if that is not likely, by one."""
    least = NEARLY_AS_LIKELY
    if probability < LIKELY:
        most, least = most + MORE_BLOCKS, STILL_POSSIBLE
    best = ranked.blocks[0]
    question = ranked.question.text
    table = best.block.kind is PartKind.TABLE
    chosen = (table and named_rows(best.block, question)) or [_exact(best.block, question)]
    opening = _named_opening(ranked)
    if opening is not None:
        chosen = [opening, *(one for one in chosen if not _is_said(one, opening))]
    sources = {one.block.source.marker: one.block.source for one in ranked.blocks}
    rows = row_described(sources.values(), ranked.question)
    if not rows and not table:
        rows = rows_asked_for(sources.values(), question, 1 if probability < LIKELY else 2)
    if rows:
        chosen = [*rows, *(one for one in chosen if not any(_is_said(one, row) for row in rows))]
    for one in ranked.blocks[1:]:
        if len(chosen) >= most or math.exp(one.score - best.score) < least:
            break
        block = _exact(one.block, question)
        brief = block.end - block.start <= FURTHER
        if brief and not any(_is_said(block, other) for other in chosen):
            chosen.append(block)
    if probability < SURE and most > 1:
        chosen = _with_first_passages(ranked, chosen, most + 1)
    return _together(chosen)


def _with_first_passages(
    ranked: RankedBlocks, chosen: Sequence[AnswerBlock], most: int
) -> list[AnswerBlock]:
    """The blocks, and the best one of each of the first passages that has none among them, if it or
    what is around it has a word of the question: in a small store any passage is the second."""
    found = list(chosen)
    for rank in range(FIRST_PASSAGES):
        own = [
            one.block
            for one in ranked.blocks
            if one.block.source.rank == rank and has_words_of_question(one)
        ]
        if not own or len(found) >= most or any(one.source.rank == rank for one in found):
            continue
        block = _exact(own[0], ranked.question.text)
        brief = block.end - block.start <= FURTHER
        if brief and not any(_is_said(block, other) for other in found):
            found.append(block)
    return found


def _named_opening(ranked: RankedBlocks) -> AnswerBlock | None:
    """How the section begins that the question names best; none if the best block is of it, unless
    the question is what that is, or of a section that a rarer word names: of "the amix filter's
    duration option", amix."""
    best = ranked.blocks[0].block
    named = [(opens_named_section(ranked.question, one.block), one.block) for one in ranked.blocks]
    how, opening = max(named, key=lambda pair: pair[0])
    if not how:
        return None
    passage, other = opening.source.passage, best.source.passage
    if (passage.document, passage.section_path) == (other.document, other.section_path):
        whole = how is Named.IN_WORDS or ASKS_MEANING.match(ranked.question.text)
        return opening if whole else None
    if not identifiers(ranked.question.text) and _rarest_word(
        ranked.question, other
    ) > _rarest_word(ranked.question, passage):
        return None
    return opening


def _rarest_word(question: ParsedQuestion, passage: Passage) -> float:
    """The weight of the rarest word of a question that the heading of a passage has."""
    held = terms(passage.heading, passage.lang)
    return max((question.weights.get(term, 0.0) for term in held), default=0.0)


def _exact(block: AnswerBlock, question: str) -> AnswerBlock:
    return exact_row(block, question) if block.kind is PartKind.ROW else block


def _together(chosen: Sequence[AnswerBlock]) -> list[AnswerBlock]:
    """The blocks, those that stand near the best one with all that is between them; a short one
    with what is around it."""
    best = chosen[0]
    if best.kind is PartKind.ROW:
        return list(chosen)  # Rows are shown under their column names.
    near = [block for block in chosen if block.source is best.source]
    whole = hull(near) if len(near) > 1 else best
    if whole.end - whole.start > STRETCH:
        whole = best
    shown = _with_opening(surroundings(whole, ROOM))
    for block in chosen[1:]:
        if not any(one.includes(block) for one in shown):
            brief = len(block.source.passage.text) <= BRIEF_SECTION
            shown.append(surroundings(block, BRIEF_SECTION) if brief else block)
    return shown


def _with_opening(block: AnswerBlock) -> list[AnswerBlock]:
    """A part of what is said about an option or a function, with how that begins: there it says
    what it is. All of it up to the part, if that is short, else its first part before this one."""
    described = _names_section(block.source.passage.text, block)
    opening = answer_blocks(block.source)[0] if described else block
    if not described or block.start < opening.end or opening.kind is not PartKind.TEXT:
        return [block]
    if block.end <= DESCRIPTION:
        return [hull([opening, block])]
    return [opening, block]


def _is_said(one: AnswerBlock, other: AnswerBlock) -> bool:
    """Whether a block would show text of another one that is shown, or hardly any other words."""
    if one.source.passage.document == other.source.passage.document:
        at, there = one.source.passage.start, other.source.passage.start
        if one.start + at < other.end + there and other.start + there < one.end + at:
            return True
    mine, theirs = (set(terms(b.text, b.source.passage.lang)) for b in (one, other))
    return len(mine & theirs) > _SAME * len(mine)


def rendered(chosen: Sequence[AnswerBlock], question: str = "") -> list[str]:
    """The blocks as Markdown, each with the number of its source. Rows of one table stand in one
    table, and what introduces several blocks is said once."""
    parts: list[str] = []
    rows: dict[tuple[int, str], list[AnswerBlock]] = {}
    for block in chosen:
        if block.kind is PartKind.ROW:
            rows.setdefault((block.source.marker, block.above), []).append(block)
    introduced: set[tuple[int, str]] = set()
    for block in chosen:
        shown, above = block.shown, (block.source.marker, one_line(block.above))
        if block.kind is PartKind.ROW:
            same = rows.pop((block.source.marker, block.above), [])
            if not same:
                continue  # It stands in the table of an earlier one.
            same.sort(key=lambda row: row.start)
            shown = table_markdown(block.above, "\n".join(row.text for row in same))
        elif above in introduced:
            shown = shown.removeprefix(above[1]).lstrip("\n")
        introduced |= {above} if above[1] else set()
        text, marker = clean(shown), f"[{block.source.marker}]"
        # A stretch may hold code; its other parts are without markers already.
        if block.kind not in (PartKind.CODE, PartKind.STRETCH):
            text = without_markers(text)
        subject = _subject(block, question)
        # It is said once for all parts of a section.
        subject = "" if (block.source.marker, subject) in introduced else subject
        introduced.add((block.source.marker, subject))
        if block.kind in _PROSE:
            text = _with_bold_term(block, text)
            introduced.add((block.source.marker, text.partition(": ")[0]))
        text = _without_name(text, subject)
        lead, gap, rest = text.partition("\n")
        if not gap or block.kind is PartKind.TEXT:
            parts.append(f"{f'{subject}: ' if subject else ''}{text} {marker}")
        elif subject:
            parts.append(f"{subject} {marker}\n\n{text}")
        elif block.above and one_line(block.above) == lead and "|" not in lead:
            parts.append(f"{lead} {marker}\n{rest}")
        else:
            parts.append(f"{text}\n\n{marker}")
    return parts


def _without_name(text: str, subject: str) -> str:
    """A description without the bold name that it begins with, if that ends its subject."""
    name, colon, told = text.partition("**: ")
    return told if colon and subject.endswith(f" > {name.lstrip('*')}**") else text


def _with_bold_term(block: AnswerBlock, text: str) -> str:
    """The text of a description with the line that names what is described in bold type."""
    line, gap, _ = block.text.partition("\n")
    term = without_markers(clean(one_line(line)))
    if not (gap and _names_section(line, block) and text.startswith(term)) or "*" in term:
        return text
    told = text.removeprefix(term).lstrip()
    # Code and lists begin on a line of their own.
    return f"**{term}**\n\n{told}" if _BEGINS_LINE.match(told) else f"**{term}**: {told}"


def _names_section(text: str, block: AnswerBlock) -> bool:
    """Whether a text begins with the option or the function that its section describes, and not
    with a sentence that opens with the words of the heading."""
    path = block.source.passage.section_path
    name = path[-1].removesuffix("()") if path else ""
    if not name or not text.startswith(name):
        return False
    rest = text.partition("\n")[0].removeprefix(name)
    return not (rest[:1].isalnum() or (rest[:1] == " " and len(_WORD.findall(rest)) > _ARGUMENTS))


def _subject(block: AnswerBlock, question: str) -> str:
    """The name of the section, in bold, if the block does not say what it is about: the option
    or function that is described, or what "this command" is. One around it that the question is
    about is named too: "1.8 (released in June)"."""
    passage = block.source.passage
    sections = [name for name in passage.section_path if name.strip()]
    names = [name for name in (passage.doc_title, *sections) if name.strip()]
    told = [name for name in names if name.strip().lower() not in _GENERIC] or names
    if not told:
        return ""
    first = block.text.lstrip().partition(" ")[0].lower()
    points_back = not block.above.strip() and first in _POINTS_BACK
    held = set(terms(f"{block.above} {block.text}", passage.lang))
    says_it = held.issuperset(terms(told[-1], passage.lang))
    asked = set(terms(question, passage.lang))
    around = [name for name in sections[:-1] if len(asked & set(terms(name, passage.lang))) > 1]
    # The title of a page without sections says little about one of its paragraphs.
    if around or points_back or (not says_it and (sections or block.kind not in _PROSE)):
        shown = dict.fromkeys((*around[-1:], told[-1]))
        return f"**{' > '.join(without_markers(clean(one_line(name))) for name in shown)}**"
    return ""
