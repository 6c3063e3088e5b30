"""Where links lead: to the document of that id, else the one at that URL, else the same for
the link without its fragment. A document's link to itself leads nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def index_urls(documents: Iterable[tuple[str, str]]) -> dict[str, str]:
    """URL to document id, from (id, url); of several at one URL the first id counts."""
    urls: dict[str, str] = {}
    for name, url in documents:
        if url:
            urls[url] = min(name, urls.get(url, name))
    return urls


def target_of(
    href: str, source: str, ids: Mapping[str, object] | set[str], urls: Mapping[str, str]
) -> str | None:
    """The document a link of ``source`` leads to, if any."""
    page = href.partition("#")[0]
    for name in (href, page):
        found = name if name in ids else urls.get(name) if name else None
        if found is not None:
            return None if found == source else found
    return None
