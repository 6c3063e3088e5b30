"""Step 9: the answer of a language model, and the sources it truly cites."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from packwise.answering.evidence import Evidence, titles
from packwise.answering.few_shot import Example
from packwise.answering.prompt import Prompt, minimal_prompt, synthesis_prompt
from packwise.models.llm import LanguageModel, ModelReply, Usage

SYNTHESIS_MAX_TOKENS = 1024
RETRIES = 1
"""A busy server is asked once more; then the answer is made without it."""

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_NUMBERS = r"\[\s*\d{1,4}(?:\s*[,;]\s*\d{1,4})*\s*\]"
# items[1] is an index, not a citation.
_APART = re.compile(rf"(?<![\w)\]])(?:{_NUMBERS}\s?)+")
_ANYWHERE = re.compile(_NUMBERS)


@dataclass(frozen=True, slots=True)
class Written:
    """What a model answered.

    ``cited`` holds the markers in the order of their first use, ``sources`` the titles of
    those documents; ``notes`` says what is wrong with the answer, if anything.
    """

    text: str
    cited: tuple[int, ...]
    sources: tuple[str, ...]
    usage: Usage
    notes: tuple[str, ...] = ()


def synthesize(
    model: LanguageModel,
    question: str,
    evidence: Sequence[Evidence],
    examples: Sequence[Example] = (),
    *,
    max_tokens: int = SYNTHESIS_MAX_TOKENS,
) -> Written:
    """The model's answer from the evidence. Raises ``ModelError`` when there is none."""
    prompt = synthesis_prompt(question, evidence, examples)
    return _answer(_complete(model, prompt, max_tokens), evidence)


def stream(
    model: LanguageModel,
    question: str,
    evidence: Sequence[Evidence],
    examples: Sequence[Example] = (),
    *,
    max_tokens: int = SYNTHESIS_MAX_TOKENS,
) -> Generator[str, None, Written]:
    """``synthesize`` piece by piece; the generator returns the whole answer."""
    prompt = synthesis_prompt(question, evidence, examples)
    completion = yield from model.stream(prompt.user, system=prompt.system, max_tokens=max_tokens)
    return _answer(completion, evidence)


def synthesize_minimal(
    model: LanguageModel, question: str, *, max_tokens: int = SYNTHESIS_MAX_TOKENS
) -> Written:
    """The model's answer from its own knowledge, for a question the gate turned away."""
    completion = _complete(model, minimal_prompt(question), max_tokens)
    return Written(completion.text.strip(), (), (), completion.usage, _cut(completion))


def stream_minimal(
    model: LanguageModel, question: str, *, max_tokens: int = SYNTHESIS_MAX_TOKENS
) -> Generator[str, None, Written]:
    """``synthesize_minimal`` piece by piece; the generator returns the whole answer."""
    prompt = minimal_prompt(question)
    completion = yield from model.stream(prompt.user, system=prompt.system, max_tokens=max_tokens)
    return Written(completion.text.strip(), (), (), completion.usage, _cut(completion))


def citations(text: str) -> tuple[int, ...]:
    """The markers an answer cites, in the order of first use; code is left out."""
    prose = _CODE.sub(" ", text)
    groups = _APART.findall(prose) or _ANYWHERE.findall(prose)
    return tuple(dict.fromkeys(int(n) for group in groups for n in re.findall(r"\d+", group)))


def _complete(model: LanguageModel, prompt: Prompt, max_tokens: int) -> ModelReply:
    return model.complete(prompt.user, system=prompt.system, max_tokens=max_tokens, retries=RETRIES)


def _answer(completion: ModelReply, evidence: Sequence[Evidence]) -> Written:
    found = citations(completion.text)
    known = {item.marker for item in evidence}
    cited = tuple(marker for marker in found if marker in known)
    notes = _cut(completion)
    if len(cited) < len(found):
        notes += ("the answer cites sources that were not given",)
    if not cited:
        notes += ("the answer cites no source",)
    return Written(completion.text.strip(), cited, titles(evidence, cited), completion.usage, notes)


def _cut(completion: ModelReply) -> tuple[str, ...]:
    return ("the answer was cut at its longest length",) if completion.cut else ()
