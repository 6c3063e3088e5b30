"""Web pages as a source: one page, the pages of a sitemap, or a site below a prefix.

A URL that ends in ``/`` is a prefix: its page is read, and every page below it that a link or the
site's sitemap leads to. A sitemap is recognised by its content. Any other URL is one page. A
page's id is its URL.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree

from packwise.documents import Document
from packwise.errors import SourceError
from packwise.settings import Settings, cache_folder
from packwise.sources.files import file_entry
from packwise.sources.links import LinkResolver
from packwise.sources.readers import (
    FORBIDDEN,
    Reader,
    Reads,
    SourceFile,
    reader_of,
    readers,
    suffix,
)
from packwise.sources.source_items import Entry, Item, Problem
from packwise.sources.web_fetch import Fetcher, OnPage, WebPage, normalised

# A page without a suffix of its own is what its server says it is.
_CONTENT_TYPES = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "text/csv": ".csv",
    "application/pdf": ".pdf",
    "application/epub+zip": ".epub",
}
_SITEMAP = re.compile(rb"<(?:\w+:)?(urlset|sitemapindex)[\s>]")
_BASE = re.compile(r"""(?i)<base\s[^<>]{0,200}?href\s*=\s*["']?([^"'\s>]+)""")
_ANCHOR = re.compile(
    r"""(?i)<a\s[^<>]{0,4000}?href\s*=\s*(?:"([^"<>]*)"|'([^'<>]*)'|([^"'\s>]+))"""
)
_NOFOLLOW = re.compile(r"""(?i)<meta\s[^<>]{0,200}?content\s*=\s*["'][^"'<>]*nofollow""")
_MOST_SITEMAPS = 50


class WebLinks(LinkResolver):
    """Resolves the links of web pages: a URL needs no other pages."""

    def __init__(self) -> None:
        super().__init__(())

    def resolve(self, base: str, href: str) -> str | None:
        href = href.strip()
        if not href or href.startswith("#"):
            return None
        target = _joined(base, href)
        return target or None

    def fingerprint(self, base: str, text: str, format: str) -> str:
        return ""


class WebSource:
    """The pages that a URL leads to. They are fetched when they are first asked for."""

    def __init__(
        self, argument: str, settings: Settings | None = None, on_page: OnPage | None = None
    ) -> None:
        try:
            self._url = normalised(argument)
            host = urlsplit(self._url).hostname
        except ValueError as error:
            raise SourceError(f"{argument}: is not a URL ({error})", fix="check it") from error
        if not host:
            raise SourceError(f"{argument}: is not a URL", fix="check it")
        self.name = host
        self.location = self._url
        self._settings = settings or Settings.load()
        self._on_page = on_page
        self._skipped: Counter[str] = Counter()

    @property
    def skipped(self) -> Mapping[str, int]:
        return self._skipped

    def ids(self) -> Iterator[str]:
        return (page.url for page, _ in self._pages)

    def items(self) -> Iterator[Entry]:
        links = WebLinks()
        for page, file in self._pages:
            if file is None:
                yield Problem(page.url, page.problem)
                continue
            entry = file_entry(file, links)
            if isinstance(entry, Item):
                entry = replace(entry, load=partial(_at, page.address, entry))
            yield entry

    @cached_property
    def _pages(self) -> list[tuple[WebPage, SourceFile | None]]:
        """Every page that was read or should have been. Raises ``SourceError`` if the first one
        cannot be fetched."""
        name = hashlib.sha256(self._url.encode()).hexdigest()[:24]
        fetcher = Fetcher(cache_folder() / "web" / name, self._settings)
        finished = False
        try:
            found = list(self._crawl(fetcher))
            finished = True
            return found
        except OSError as error:
            reason = error.strerror or str(error)
            raise SourceError(f"the cache folder cannot be written ({reason})") from error
        finally:
            fetcher.close(finished=finished)

    def _crawl(self, fetcher: Fetcher) -> Iterator[tuple[WebPage, SourceFile | None]]:
        below = self._url if self._url.endswith("/") else ""
        waiting = deque(self._start(fetcher, below))
        seen, addresses, read = set(waiting), set[str](), 0
        while waiting:
            if read == self._settings.web_pages:
                raise SourceError(
                    f"{self._url}: has more than {read:,} pages",
                    fix="name a longer prefix, or set PACKWISE_WEB_PAGES",
                )
            page = self._fetch(fetcher, waiting.popleft())
            read += 1
            if page.problem == FORBIDDEN:
                self._skipped[FORBIDDEN] += 1
            elif page.problem and not page.gone:
                yield page, None
            if page.problem or page.address in addresses or not page.address.startswith(below):
                continue
            addresses.add(page.address)
            if (file := self._file(page, fetcher.path(page))) is not None:
                yield page, file
                if below and file.reader.format == "html":
                    fresh = dict.fromkeys(_links(file.path, page.address, below)).keys() - seen
                    waiting.extend(sorted(fresh))
                    seen |= fresh

    def _start(self, fetcher: Fetcher, below: str) -> list[str]:
        """The pages to begin with."""
        first = self._fetch(fetcher, self._url)
        if first.problem:
            fix = None if " -> " in first.problem else "open it in a browser"
            raise SourceError(f"{self._url}: {first.problem}", fix=fix)
        if _is_sitemap(fetcher.path(first)):
            return self._listed(fetcher, [self._url])
        listed = self._listed(fetcher, fetcher.sitemaps(self._url), below) if below else []
        return list(dict.fromkeys([self._url, *listed]))

    def _fetch(self, fetcher: Fetcher, url: str) -> WebPage:
        page = fetcher.page(url)
        if self._on_page is not None:
            self._on_page(url)
        return page

    def _listed(self, fetcher: Fetcher, sitemaps: list[str], below: str = "") -> list[str]:
        """The pages of sitemaps, and of those they name, on the same host."""
        host = urlsplit(self._url).netloc
        waiting, pages = deque(filter(None, (_joined("", s) for s in sitemaps))), dict[str, None]()
        for _ in range(_MOST_SITEMAPS):
            if not waiting:
                break
            page = self._fetch(fetcher, waiting.popleft())
            if page.problem or not _is_sitemap(fetcher.path(page)):
                continue
            kind, urls = _sitemap(fetcher.path(page))
            same = [url for u in urls if urlsplit(url := _joined("", u)).netloc == host]
            if kind == "sitemapindex":
                waiting.extend(same)
            else:
                pages.update(dict.fromkeys(url for url in same if url.startswith(below)))
        return list(pages)

    def _file(self, page: WebPage, path: Path) -> SourceFile | None:
        """The body of a page as a file to read; ``None`` if there is no reader for it."""
        declared = page.content_type.partition(";")[0].strip().lower()
        ending = suffix(urlsplit(page.address).path.rpartition("/")[2])
        if declared in _CONTENT_TYPES and declared != "text/plain":
            ending = _CONTENT_TYPES[declared]
        reader: Reader | None = readers().get(ending)
        if reader is None and declared.startswith("text/"):
            reader = reader_of("text")
        if reader is None or reader.missing or reader.reads is Reads.STREAM:
            self._skipped[ending or declared or "no content type"] += 1
            return None
        return SourceFile(path, page.url, page.url, reader)


def _at(address: str, item: Item) -> Document:
    document = item.load()
    return replace(document, url=document.url or address)


def _is_sitemap(path: Path) -> bool:
    with path.open("rb") as file:
        return bool(_SITEMAP.search(file.read(2048)))


def _sitemap(path: Path) -> tuple[str, list[str]]:
    """The kind of a sitemap, and the URLs it lists; none if it is not well-formed."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError:
        return "", []
    kind = root.tag.rpartition("}")[2]
    places = (entry.findtext("{*}loc") for entry in root)
    return kind, [place.strip() for place in places if place]


def _links(path: Path, address: str, below: str) -> Iterator[str]:
    """The pages below a prefix that a page links to."""
    source = path.read_text("utf-8", "replace")
    if _NOFOLLOW.search(source, 0, 1 << 16):
        return
    base = found[1] if (found := _BASE.search(source, 0, 1 << 16)) else ""
    for parts in _ANCHOR.findall(source):
        target = _joined(
            urljoin(address, base), next(filter(None, parts), "").replace("&amp;", "&")
        )
        if target.startswith(below):
            yield target


def _joined(base: str, href: str) -> str:
    """The URL that a link leads to; empty if it is not the address of a page."""
    try:
        target = normalised(urljoin(base, href))
    except ValueError:
        return ""
    return target if urlsplit(target).scheme in ("http", "https") else ""
