"""A pack as an Agent Skill: a folder whose SKILL.md says what the pack covers and how to use it.

The format wants a name of at most 64 lower-case letters, digits and single hyphens, which is
also the folder's name, and a description of at most 1024 characters, both without markup. Titles
and names come from documents, so they are written as plain words.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path
from string import Template

from packwise.errors import UsageError
from packwise.packs.sample_questions import load_samples
from packwise.packs.subject import subject_of
from packwise.retrieval.calibration import load_calibration
from packwise.stores.base import DocumentSummary, Store
from packwise.stores.locate import installed, is_pack_name, open_store, pack_folder
from packwise.stores.pack.copy import copy_pack
from packwise.stores.replacing import replacing

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_TITLE = 80
_RESERVED = ("anthropic", "claude")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MARKUP = re.compile(r"[`*_#\[\]<>|\\{}~]")
_BARE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MOST_LISTED = 2000
_MOST_READ = 200_000
_TITLES = 25
_TITLE_ROOM = 400
"""Characters of the description for titles; the body has more of them."""


@dataclass(frozen=True, slots=True)
class Skill:
    """What was written: the folder, the skill's name and its description."""

    folder: Path
    name: str
    description: str


def write_skill(
    pack: str,
    out: Path,
    *,
    name: str | None = None,
    description: str | None = None,
    with_pack: bool = False,
    replace: bool = False,
) -> Skill:
    """Write the folder ``out/NAME`` for a pack, completely or not at all.

    ``description`` says what the pack is about; without one it is made from the documents.

    ``with_pack`` copies the pack into it, so that the folder is all an agent needs; otherwise
    the skill refers to the pack by its installed name or its path. Raises ``UsageError`` for a
    name the format does not allow and for a folder that already exists.
    """
    place = pack_folder(pack)
    with open_store(pack) as store:
        chosen = _checked(name) if name is not None else _name_from(place.resolve().name)
        target = out / chosen
        if target.exists() and not replace:
            raise UsageError(f"{target} already exists", fix="packwise pack skill --replace")
        listed = sorted(
            islice(store.documents(), _MOST_READ),
            key=lambda entry: (-entry.pagerank, entry.title, entry.id),
        )
        if not listed:
            raise UsageError("the pack is empty", fix="packwise build SOURCE --out PACK")
        questions = [sample.question for sample in load_samples(store.info())]
        about = _description(store, listed, questions) if description is None else description
        about = _checked_description(about)
        where = "pack" if with_pack else _reference(pack, place)
        body = _body(chosen, about, where, listed, questions, store)
    articles = "\n".join(f"- {_plain(entry.title or entry.id)}" for entry in listed[:_MOST_LISTED])
    with replacing(target) as new:
        (new / "references").mkdir(parents=True)
        (new / "SKILL.md").write_text(body, encoding="utf-8")
        (new / "references" / "articles.md").write_text(
            f"# Articles, most linked first\n\n{articles}\n", encoding="utf-8"
        )
        if with_pack:
            copy_pack(place, new / "pack")
    return Skill(target, chosen, about)


def _checked(name: str) -> str:
    problem = ""
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        problem = f"lower-case letters, digits and single hyphens, at most {LONGEST_NAME}"
    elif any(word in name for word in _RESERVED):
        problem = f"{' and '.join(_RESERVED)} are reserved"
    if problem:
        raise UsageError(
            f"{name!r} cannot name a skill: {problem}", fix="packwise pack skill PACK --name NAME"
        )
    return name


def _name_from(folder: str) -> str:
    """A valid name similar to a folder's."""
    words = [word for word in re.split(r"[^a-z0-9]+", folder.lower()) if word]
    words = [word for word in words if not any(taken in word for taken in _RESERVED)]
    return "-".join(words)[:LONGEST_NAME].strip("-") or "knowledge-pack"


def _reference(pack: str, place: Path) -> str:
    """How a command on this machine refers to the pack."""
    if is_pack_name(pack) and place == installed(pack):
        return pack
    return str(place.resolve())


def _description(store: Store, listed: Sequence[DocumentSummary], questions: Sequence[str]) -> str:
    """What the pack is about and when to use it, within the length the format allows."""
    name, definition = (_plain(text, LONGEST_TITLE * 3) for text in subject_of(store, listed))
    count = store.info().documents
    articles = "1 article" if count == 1 else f"{count} articles"
    about = f" about {name}" if name else ""
    start = f"{definition} " if definition else ""
    start += f"Answers questions from {articles}{about}, with sources. Use it for questions on "
    titles = [_plain(entry.title or entry.id) for entry in listed[:_TITLES]]
    room = LONGEST_DESCRIPTION - len(start) - 1
    text = f"{start}{_listed(titles, min(room, _TITLE_ROOM)) or 'its documents'}."
    more = " It can answer: "
    room = LONGEST_DESCRIPTION - len(text) - len(more)
    asked = _listed([_plain(question) for question in questions], room, " ")
    return f"{text}{more}{asked}" if asked else text


def _checked_description(text: str) -> str:
    plain = _plain(text, LONGEST_DESCRIPTION + 1)
    if not plain or len(plain) > LONGEST_DESCRIPTION:
        raise UsageError(
            f"a description has 1 to {LONGEST_DESCRIPTION} characters, not {len(plain)}",
            fix="packwise pack skill PACK --description TEXT",
        )
    return plain


def _listed(items: Iterable[str], room: int, between: str = ", ") -> str:
    """As many items as fit, separated by commas."""
    text = ""
    for item in items:
        longer = f"{text}{between}{item}" if text else item
        if len(longer) > room:
            break
        text = longer
    return text


def _body(
    name: str,
    description: str,
    where: str,
    listed: Sequence[DocumentSummary],
    questions: Sequence[str],
    store: Store,
) -> str:
    import yaml

    info = store.info()
    head = yaml.safe_dump(
        {
            "name": name,
            "description": description,
            "compatibility": "Needs the packwise command (pip install 'packwise[models,mcp]'); "
            "no network.",
            "metadata": {"pack-version": info.version, "embedder": info.embedder},
        },
        sort_keys=False,
        allow_unicode=True,
        width=10_000,
    )
    from_here = ""
    if where == "pack":
        from_here = "The pack is the folder `pack` beside this file; run the commands here.\n\n"
    calibration = load_calibration(info)
    confidence = "Below 0.5 the pack has little on the question: say so, do not guess."
    if calibration.source == "pack":
        confidence = (
            "In this pack it is the probability that the answer was found. Below "
            f"{calibration.threshold:.2f} the pack is unlikely to contain the answer: say so, do "
            "not guess."
        )
    template = files("packwise.packs").joinpath("skill_template.md").read_text(encoding="utf-8")
    return Template(template.removesuffix("\n")).substitute(
        head=head,
        documents=f"{info.documents:,}",
        passages=f"{info.passages:,}",
        from_here=from_here,
        store=shlex.quote(where),
        confidence=confidence,
        listed=f"{min(len(listed), _MOST_LISTED):,}",
        titles="\n".join(f"- {_plain(entry.title or entry.id)}" for entry in listed[:_TITLES]),
        questions=_question_lines(questions),
    )


def _question_lines(questions: Sequence[str]) -> str:
    lines = "\n".join(f"- {_plain(question)}" for question in questions)
    return f"\nQuestions it was seen to answer:\n\n{lines}\n" if lines else ""


def _plain(text: str, longest: int = LONGEST_TITLE) -> str:
    """A title as one line of words that cannot be read as Markdown or YAML."""
    bare = _MARKUP.sub(" ", _BARE.sub(" ", text))
    words = " ".join(bare.split())
    return words if len(words) <= longest else f"{words[: longest - 1].rstrip()}…"
