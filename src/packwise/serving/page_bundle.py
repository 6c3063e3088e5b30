"""The page as three files: its HTML, one script and one stylesheet, compressed and named after
their content, so that a browser asks for each once.

The sources are ES modules that any browser runs as they are. Here each becomes a function that
returns what it exports, in the order of their imports.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_IMPORT = re.compile(
    r'^import (?:\* as (?P<all>\w+)|\{(?P<some>[^}]*)\}) from "\./(?P<module>[\w.]+)";$', re.M
)
_EXPORT = re.compile(
    r"^export (?=(?:async )?function\*? (?P<function>\w+)|(?:const|class) (?P<value>\w+))", re.M
)
_LINKS = re.compile(r'^<link rel="stylesheet" href="/([\w.]+)">\n', re.M)
_ENTRY = re.compile(r'<script type="module" src="/([\w.]+)"></script>')


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page. ``lasting`` files never change under their name."""

    content: bytes
    content_type: str
    lasting: bool

    @property
    def tag(self) -> str:
        return f'"{_hash(self.content)}"'

    def compressed(self) -> bytes:
        return gzip.compress(self.content, 9, mtime=0)


def bundle(folder: Path) -> Mapping[str, PageFile]:
    """The files of a page by name, made of the modules and stylesheets of a folder."""
    html = (folder / "index.html").read_text(encoding="utf-8")
    entry = _ENTRY.search(html)
    script = _script(folder, entry[1]) if entry else b""
    sheets = [(folder / name).read_bytes() for name in _LINKS.findall(html)]
    style = b"\n".join(sheets)
    files: dict[str, PageFile] = {}
    names = {}
    for suffix, content in ((".js", script), (".css", style)):
        names[suffix] = f"page-{_hash(content)}{suffix}"
        if content:
            files[names[suffix]] = PageFile(content, CONTENT_TYPES[suffix], lasting=True)
    link = f'<link rel="stylesheet" href="/{names[".css"]}">\n'
    html = _LINKS.sub(lambda found: link if found[1] == _LINKS.findall(html)[0] else "", html)
    html = _ENTRY.sub(f'<script src="/{names[".js"]}" defer></script>', html)
    files["index.html"] = PageFile(html.encode(), CONTENT_TYPES[".html"], lasting=False)
    for path in folder.glob("*.svg"):
        files[path.name] = PageFile(path.read_bytes(), CONTENT_TYPES[".svg"], lasting=False)
    return files


def _script(folder: Path, entry: str) -> bytes:
    """All modules that the entry needs, as one strict script."""
    parts: dict[str, str] = {}
    _add_module(folder, entry, parts, ())
    return ("'use strict';\n" + "\n".join(parts.values())).encode()


def _add_module(folder: Path, name: str, parts: dict[str, str], above: tuple[str, ...]) -> None:
    if name in parts:
        return
    if name in above:
        raise ValueError(f"{name} imports itself by way of {above[-1]}")
    text = (folder / name).read_text(encoding="utf-8")
    for found in _IMPORT.finditer(text):
        _add_module(folder, found["module"], parts, (*above, name))
    exports = [found["function"] or found["value"] for found in _EXPORT.finditer(text)]
    text = _EXPORT.sub("", _IMPORT.sub(_binding, text))
    parts[name] = (
        f"const {_variable(name)} = (() => {{\n{text}\nreturn {{ {', '.join(exports)} }};\n}})();"
    )


def _binding(found: re.Match[str]) -> str:
    module = _variable(found["module"])
    if found["all"]:
        return f"const {found['all']} = {module};"
    return f"const {{{found['some'].replace(' as ', ': ')}}} = {module};"


def _variable(module: str) -> str:
    return f"$${module.removesuffix('.js')}"


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=12).hexdigest()
