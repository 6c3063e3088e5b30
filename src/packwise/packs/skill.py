"""A pack as an Agent Skill: a folder whose SKILL.md says what the pack covers and how to use it.

The format wants a name of at most 64 lower-case letters, digits and single hyphens, which is
also the folder's name, and a description of at most 1024 characters, both without markup. Titles
and names come from documents, so they are written as plain words.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path
from string import Template

from packwise.errors import UsageError
from packwise.packs.installed import copy_pack, new_folder
from packwise.retrieval.calibration import load_calibration
from packwise.stores.base import DocumentSummary, Store
from packwise.stores.locate import installed, is_pack_name, open_store, pack_folder

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
_RESERVED = ("anthropic", "claude")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MARKUP = re.compile(r"[`*_#\[\]<>|\\{}~]")
_BARE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MOST_LISTED = 2000
_MOST_READ = 200_000
_TITLES = 25
_TOPICS = 25
_READ_FOR_TOPICS = 60
_PASSAGES_EACH = 12


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
    with_pack: bool = False,
    replace: bool = False,
) -> Skill:
    """Write the folder ``out/NAME`` for a pack, completely or not at all.

    ``with_pack`` copies the pack into it, so that the folder is all an agent needs; otherwise
    the skill refers to the pack by its installed name or its path. Raises ``UsageError`` for a
    name the format does not allow and for a folder that already exists.
    """
    place = pack_folder(pack)
    with closing(open_store(pack)) as store:
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
        topics = _topics(store, listed[:_READ_FOR_TOPICS])
        description = _description(listed, topics, store.info().documents)
        where = "pack" if with_pack else _reference(pack, place)
        body = _body(chosen, description, where, listed, topics, store)
    articles = "\n".join(f"- {_plain(entry.title or entry.id)}" for entry in listed[:_MOST_LISTED])
    with new_folder(target) as new:
        (new / "references").mkdir(parents=True)
        (new / "SKILL.md").write_text(body, encoding="utf-8")
        (new / "references" / "articles.md").write_text(
            f"# Articles, most linked first\n\n{articles}\n", encoding="utf-8"
        )
        if with_pack:
            copy_pack(place, new / "pack")
    return Skill(target, chosen, description)


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


def _topics(store: Store, documents: Sequence[DocumentSummary]) -> list[str]:
    """Names in the most linked articles, the most frequent first."""
    titles = {entry.title.casefold() for entry in documents}
    keys = store.passages_of([entry.id for entry in documents], _PASSAGES_EACH)
    held = store.entities_of([key for found in keys.values() for key in found])
    seen: dict[str, set[str]] = {}
    labels: Counter[tuple[str, str]] = Counter()
    for entry in held.values():
        for entity in entry.entities:
            label = entity.label or entity.key
            if label.casefold() in titles or not (entity.titled or " " in label):
                continue
            seen.setdefault(entity.key, set()).add(entry.place.document)
            labels[entity.key, label] += 1
    # A name on nearly every page belongs to the site, not to its subject.
    most = max(2, len(documents) // 2)
    shared = sorted(
        ((len(found), key) for key, found in seen.items() if 1 < len(found) <= most),
        key=lambda pair: (-pair[0], pair[1]),
    )
    best = dict(reversed([(key, label) for (key, label), _ in labels.most_common()]))
    return [_plain(best[key]) for _, key in shared[:_TOPICS]]


def _description(listed: Sequence[DocumentSummary], topics: Sequence[str], count: int) -> str:
    """What the pack is about and when to use it, within the length the format allows."""
    titles = [_plain(entry.title or entry.id) for entry in listed[:_TITLES]]
    articles = "1 article" if count == 1 else f"{count} articles"
    start = f"Searches a knowledge pack of {articles} and answers from it with sources. "
    use = "Use it for questions about "
    about = _listed(titles, LONGEST_DESCRIPTION - len(start + use) - 1) or "its documents"
    text = f"{start}{use}{about}."
    more = " Also covers "
    room = LONGEST_DESCRIPTION - len(text) - len(more) - 1
    others = _listed(topics[:10], room) if room > 40 else ""
    return f"{text}{more}{others}." if others else text


def _listed(items: Iterable[str], room: int) -> str:
    """As many items as fit, separated by commas."""
    text = ""
    for item in items:
        longer = f"{text}, {item}" if text else item
        if len(longer) > room:
            break
        text = longer
    return text


def _body(
    name: str,
    description: str,
    where: str,
    listed: Sequence[DocumentSummary],
    topics: Sequence[str],
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
            f"In this pack it is that probability. Below {calibration.threshold:.2f} the pack is "
            "unlikely to contain the answer: say so, do not guess."
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
        topics=f"\nNames in many of them: {', '.join(topics)}.\n" if topics else "",
    )


def _plain(text: str) -> str:
    """A title as one line of words that cannot be read as Markdown or YAML."""
    bare = _MARKUP.sub(" ", _BARE.sub(" ", text))
    words = " ".join(bare.split())
    return words if len(words) <= 80 else f"{words[:79].rstrip()}…"
