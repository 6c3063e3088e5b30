"""A release of a pack: its name, version, licence and content, as one record that can be signed.

``release.json`` travels with the pack. It belongs to one state of it: a pack that was built again
since is no longer that release.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

from packwise.documents import joined_places
from packwise.errors import MALFORMED, NotAStore, UsageError
from packwise.stores.base import Store, StoreInfo
from packwise.stores.locate import is_pack_name
from packwise.stores.pack.folder import RELEASE, SIGNATURE, PackFolder
from packwise.stores.transfer import Content, checksum, contents

FORMAT = 1
_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_VERSION = re.compile(rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-([0-9A-Za-z.-]{{1,64}}))?")
_LONGEST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The contents of ``release.json``.

    ``content`` is the hash of what the pack holds, the same for every build of the same
    sources. ``state`` names the build that was released. ``files`` has the size and SHA-256 of
    each file of the pack's archive.
    """

    format: int = FORMAT
    name: str
    version: str
    license: str
    description: str
    content: str
    state: str
    embedder: str
    documents: int
    passages: int
    packwise: str
    files: Mapping[str, tuple[int, str]]

    @property
    def text(self) -> str:
        """The record as it is written and signed."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def parse_version(version: str) -> tuple[Any, ...]:
    """A semantic version as something that sorts as versions do. Raises ``UsageError``."""
    found = _VERSION.fullmatch(version)
    if found is None:
        raise UsageError(
            f"{version!r} is not a version: use MAJOR.MINOR.PATCH, such as 1.0.0",
            fix="--version 1.0.0",
        )
    numbers = tuple(int(found[group]) for group in (1, 2, 3))
    # A pre-release comes before its release; its numbers come before its words.
    parts = tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in (found[4].split(".") if found[4] else ())
    )
    return (*numbers, not parts, parts)


def content_hash(store: Store) -> str:
    """SHA-256 of what a store holds: every document with its sections, links, passages and
    extractions, and the embedder. The order and time of builds do not count, nor does the store."""
    info = store.info()
    digest = hashlib.sha256(f"packwise content 1\n{info.embedder}\n".encode())
    names = sorted(document.id for document in store.documents())
    for content in contents(store, names):
        digest.update(f"{checksum(content)}\n".encode())
    return digest.hexdigest()


def parse_release(text: str, source: str) -> Release:
    """The record in a text. Raises ``NotAStore`` where it is not one."""
    try:
        values = cast("dict[str, Any]", json.loads(text))
        if values["format"] != FORMAT:
            raise ValueError(f"its format {values['format']!r} is not {FORMAT}")
        files = {str(n): (int(s), str(h)) for n, (s, h) in values.pop("files").items()}
        release = Release(**values, files=files)
        parse_version(release.version)
        kinds = {"int": int, "str": str}
        wrong = [
            field.name
            for field in fields(Release)
            if (kind := kinds.get(str(field.type)))
            and type(getattr(release, field.name)) is not kind
        ]
        too_long = max(len(release.description), len(release.license)) > _LONGEST
        if wrong or too_long or not is_pack_name(release.name) or text != release.text:
            raise ValueError("it does not have the fields of a release")
    except (*MALFORMED, UsageError) as error:
        reason = error.message if isinstance(error, UsageError) else error
        raise NotAStore(f"{source}: {RELEASE} cannot be used: {reason}") from error
    return release


def release_of(folder: Path, info: StoreInfo) -> Release | None:
    """The release that a pack is; ``None`` if it is none, or was built again since."""
    try:
        text = PackFolder(folder).text(RELEASE)
    except (OSError, ValueError):
        return None
    release = parse_release(text, str(folder))
    return release if release.state == info.version else None


def signature_of(folder: Path) -> str | None:
    """The text of the signature of a pack's release, if it has one."""
    try:
        return PackFolder(folder).text(SIGNATURE)
    except (OSError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class PackDifference:
    """What a second store holds beside, without and unlike a first, by document id.

    ``places`` says where a changed document has passages that it did not have before: ``lines
    12-19``. It is empty where only structure, links or metadata changed, or text was removed."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    places: Mapping[str, str]
    unchanged: int


def difference(one: Store, other: Store) -> PackDifference:
    """Compare the content of two stores, document by document."""
    before, after = ({d.id for d in store.documents()} for store in (one, other))
    shared = sorted(before & after)
    places = {
        old.document.id: _new_places(old, new)
        for old, new in zip(contents(one, shared), contents(other, shared), strict=True)
        if checksum(old) != checksum(new)
    }
    return PackDifference(
        added=tuple(sorted(after - before)),
        removed=tuple(sorted(before - after)),
        changed=tuple(places),
        places=places,
        unchanged=len(shared) - len(places),
    )


def _new_places(old: Content, new: Content) -> str:
    known = {passage.content_hash for passage in old.passages}
    return joined_places(p.place for p in new.passages if p.content_hash not in known)
