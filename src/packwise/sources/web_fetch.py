"""Fetches web pages politely: robots.txt, a pause between requests, conditional requests.

Every page is kept in the cache folder with what its server said about it. A page that has not
changed since is not sent again, and a crawl that was interrupted goes on where it stopped. Only
addresses of the public internet are contacted unless ``PACKWISE_WEB_PRIVATE`` is on; the address
that was checked is the one that is connected to, also after a redirect.
"""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urldefrag, urljoin, urlsplit, urlunsplit
from urllib.robotparser import RobotFileParser

from packwise import __version__
from packwise.errors import SourceError
from packwise.settings import Settings
from packwise.sources.readers import FORBIDDEN

AGENT = "packwise"
SIZE_LIMIT = 64 << 20
"""The most bytes of one page."""

_TIMEOUT = 20.0
_PAGE_SECONDS = 120.0
_MOST_REDIRECTS = 5
_RETRIES = 2
_LONGEST_WAIT = 30.0
_CHUNK = 1 << 16
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_BUSY = frozenset((429, 500, 502, 503, 504))
_GONE = frozenset((404, 410))
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""Where IPv4 addresses are reached from networks that have only IPv6."""


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page and what its server said about it.

    ``address`` is where redirects led. ``file`` is the name of its body in the cache; it is
    empty if there is none. ``problem`` says why it could not be fetched; ``gone`` is set if the
    server says that there is no such page.
    """

    url: str
    address: str
    content_type: str = ""
    etag: str = ""
    modified: str = ""
    file: str = ""
    fetched: float = 0.0
    problem: str = ""
    gone: bool = False


def normalised(url: str) -> str:
    """A URL without its fragment, its host in lower case and its path escaped."""
    parts = urlsplit(urldefrag(url.strip()).url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    if (port := parts.port) not in (None, {"http": 80, "https": 443}.get(parts.scheme.lower())):
        host = f"{host}:{port}"
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    return urlunsplit((parts.scheme.lower(), host, path, query, ""))


class Fetcher:
    """Fetches the pages of one crawl, one after the other. Close it at the end."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self._settings = settings
        self._connection: http.client.HTTPConnection | None = None
        self._host = ("", "", 0)
        self._robots: dict[tuple[str, str], RobotFileParser | str] = {}
        self._next = 0.0
        self._pause = settings.web_delay
        self._since = self._begun()

    def close(self, *, finished: bool) -> None:
        """End the crawl. Unless it is finished, the next one goes on with its pages."""
        self._disconnect()
        if finished:
            self._marker.unlink(missing_ok=True)

    def page(self, url: str) -> WebPage:
        """A page, from the server or the cache. What goes wrong is its ``problem``."""
        known = self._known(url)
        if known is not None and known.fetched >= self._since:
            return known
        if refused := self._refused(url):
            return WebPage(url, url, problem=refused)
        try:
            page = self._fetched(url, known)
        except SourceError as error:
            return WebPage(url, url, problem=str(error))
        if page.file:
            record = json.dumps(asdict(page), ensure_ascii=False)
            self._record(url).write_text(record, encoding="utf-8")
        return page

    def path(self, page: WebPage) -> Path:
        """Where the body of a page is."""
        return self._folder / page.file

    def sitemaps(self, url: str) -> list[str]:
        """The sitemaps that the robots.txt of a site names."""
        rules = self._rules(url)
        return [] if isinstance(rules, str) else rules.site_maps() or []

    @property
    def _marker(self) -> Path:
        return self._folder / "unfinished"

    def _begun(self) -> float:
        """When this crawl began: now, or with the one that was interrupted."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with suppress(OSError, ValueError):
            return float(self._marker.read_text(encoding="ascii"))
        now = time.time()
        self._marker.write_text(repr(now), encoding="ascii")
        return now

    def _record(self, url: str) -> Path:
        return self._folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"

    def _known(self, url: str) -> WebPage | None:
        try:
            values = cast("dict[str, Any]", json.loads(self._record(url).read_text("utf-8")))
            page = WebPage(**values)
        except (OSError, ValueError, TypeError):
            return None  # No record, or one of another version: the page is fetched again.
        return page if page.url == url and (self._folder / page.file).is_file() else None

    def _refused(self, url: str) -> str:
        rules = self._rules(url)
        if isinstance(rules, str):
            return rules
        delay = rules.crawl_delay(AGENT)
        self._pause = max(self._settings.web_delay, min(float(delay or 0), _LONGEST_WAIT))
        return "" if rules.can_fetch(AGENT, url) else FORBIDDEN

    def _rules(self, url: str) -> RobotFileParser | str:
        """The rules of a site, or why it must not be read."""
        parts = urlsplit(url)
        site = parts.scheme, parts.netloc
        if site not in self._robots:
            rules = RobotFileParser()
            try:
                status, _, body = self._request(urljoin(url, "/robots.txt"), {})
            except SourceError as error:
                self._robots[site] = str(error)
            else:
                # No rules: everything is allowed. A server in trouble: nothing is.
                if status in _BUSY:
                    self._robots[site] = f"its robots.txt cannot be read (status {status})"
                else:
                    text = body.decode("utf-8", "replace") if status == 200 else ""
                    try:
                        rules.parse(text.splitlines())
                        self._robots[site] = rules
                    except ValueError:  # A number that is none, such as ².
                        self._robots[site] = "its robots.txt cannot be read"
        return self._robots[site]

    def _fetched(self, url: str, known: WebPage | None) -> WebPage:
        address = url
        headers = {}
        if known is not None:
            asked = {"If-None-Match": known.etag, "If-Modified-Since": known.modified}
            headers = {name: value for name, value in asked.items() if value}
        for _ in range(_MOST_REDIRECTS + 1):
            status, said, body = self._request(address, headers)
            if status in _REDIRECTS and (target := said.get("location")):
                try:
                    address = normalised(urljoin(address, target))
                except ValueError as error:
                    raise SourceError("is redirected to what is not a URL") from error
                if urlsplit(address).scheme not in ("http", "https"):
                    raise SourceError(f"is redirected to {address}")
                if refused := self._refused(address):
                    raise SourceError(f"is redirected to {address}: {refused}")
                continue
            if status == 304 and known is not None:
                return replace(known, fetched=time.time())
            if status in _GONE:
                return WebPage(url, address, problem=f"status {status}", gone=True)
            if status != 200:
                raise SourceError(f"the server answers with status {status}")
            return self._kept(url, address, said, body)
        raise SourceError("is redirected too often")

    def _kept(self, url: str, address: str, said: http.client.HTTPMessage, body: bytes) -> WebPage:
        name = f"{self._record(url).stem}.body"
        (self._folder / name).write_bytes(body)
        return WebPage(
            url=url,
            address=address,
            content_type=said.get("content-type", ""),
            etag=said.get("etag", ""),
            modified=said.get("last-modified", ""),
            file=name,
            fetched=time.time(),
        )

    def _request(
        self, url: str, headers: dict[str, str]
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Status, headers and body; a busy or silent server is asked again."""
        for attempt in range(_RETRIES + 1):
            time.sleep(max(0.0, self._next - time.monotonic()))
            wait = 1.0 + attempt
            try:
                status, said, body = self._answer_in_time(url, headers)
            except (OSError, http.client.HTTPException, UnicodeError) as error:
                self._disconnect()
                if attempt == _RETRIES:
                    raise SourceError(f"cannot be fetched ({_reason(error)})") from error
            else:
                if status not in _BUSY or attempt == _RETRIES:
                    return status, said, body
                told = said.get("retry-after", "")
                wait = min(float(told), _LONGEST_WAIT) if told.isdecimal() else wait
            finally:
                self._next = time.monotonic() + self._pause
            time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _answer(
        self, url: str, headers: dict[str, str]
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        parts = urlsplit(url)
        connection = self._connected(parts.scheme, parts.hostname or "", parts.port)
        target = urlunsplit(("", "", parts.path or "/", parts.query, ""))
        agent = f"{AGENT}/{__version__}"
        sent = {"User-Agent": agent, "Accept-Encoding": "gzip", **headers}
        try:
            connection.request("GET", target, headers=sent)
            response = connection.getresponse()
        except http.client.RemoteDisconnected:
            # The server closed a connection that was kept: ask once more on a new one.
            self._disconnect()
            connection = self._connected(parts.scheme, parts.hostname or "", parts.port)
            connection.request("GET", target, headers=sent)
            response = connection.getresponse()
        body = _body(response)
        if response.will_close:
            self._disconnect()
        return response.status, response.headers, body

    def _answer_in_time(
        self, url: str, headers: dict[str, str]
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """The answer, unless its server takes too long: one that sends a byte now and then passes
        every time limit of a socket."""
        late = threading.Event()

        def cut() -> None:
            late.set()
            if (connection := self._connection) is not None and connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(_PAGE_SECONDS, cut)
        timer.daemon = True
        timer.start()
        try:
            answer = self._answer(url, headers)
        except (OSError, http.client.HTTPException) as error:
            if not late.is_set():
                raise
            raise _too_slow() from error
        finally:
            timer.cancel()
        if late.is_set():
            raise _too_slow()
        return answer

    def _connected(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        place = scheme, host, port or (443 if scheme == "https" else 80)
        if self._connection is None or self._host != place:
            self._disconnect()
            make = _CheckedHTTPS if scheme == "https" else _CheckedHTTP
            self._connection = make(host, place[2], self._settings.web_private)
            self._host = place
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class _CheckedHTTP(http.client.HTTPConnection):
    def __init__(self, host: str, port: int, private: bool) -> None:
        super().__init__(host, port, timeout=_TIMEOUT)
        self._private = private

    def connect(self) -> None:
        self.sock = _public_socket(self.host, self.port, self._private)


class _CheckedHTTPS(http.client.HTTPSConnection):
    def __init__(self, host: str, port: int, private: bool) -> None:
        self._tls = ssl.create_default_context()
        super().__init__(host, port, timeout=_TIMEOUT, context=self._tls)
        self._private = private

    def connect(self) -> None:
        plain = _public_socket(self.host, self.port, self._private)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)


def _public_socket(host: str, port: int, private: bool) -> socket.socket:
    """A connection to a host. Raises ``SourceError`` if one of its addresses is not public, so
    that a name cannot lead into the network of the machine that builds."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for *_, address in found:
        place = ipaddress.ip_address(str(address[0]).partition("%")[0])
        if not private and not _is_public(place):
            raise SourceError(
                f"{host} is a private address ({place})",
                fix="PACKWISE_WEB_PRIVATE=on allows such addresses",
            )
    failure: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in found:
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(_TIMEOUT)
        try:
            connection.connect(address)
        except OSError as error:
            connection.close()
            failure = error
            continue
        return connection
    raise failure


def _is_public(place: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address is one of the public internet, also when it stands for another."""
    if isinstance(place, ipaddress.IPv6Address):
        inner = place.ipv4_mapped or place.sixtofour or (place.teredo or (None, None))[1]
        if place in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(place) & 0xFFFFFFFF)
        if inner is not None:
            return _is_public(inner)
        if place.is_site_local:
            return False
    return place.is_global and not place.is_multicast


def _body(response: http.client.HTTPResponse) -> bytes:
    """The body within bounds of size and time, unpacked."""
    packed = response.headers.get("content-encoding", "").lower() == "gzip"
    unpack = zlib.decompressobj(wbits=31) if packed else None
    parts: list[bytes] = []
    size = 0
    while chunk := response.read(_CHUNK):
        try:
            part = unpack.decompress(chunk, SIZE_LIMIT - size + 1) if unpack else chunk
        except zlib.error as error:
            raise SourceError("is not what its server says (gzip)") from error
        parts.append(part)
        size += len(part)
        if size > SIZE_LIMIT:
            raise SourceError(f"is larger than {SIZE_LIMIT >> 20} MiB")
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(parts)


def _too_slow() -> SourceError:
    return SourceError(f"takes longer than {_PAGE_SECONDS:.0f} seconds")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


OnPage = Callable[[str], None]
"""Called with the URL of every page of a crawl."""
