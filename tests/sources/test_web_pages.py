import gzip
import ipaddress
import socket
import threading
from collections import Counter
from contextlib import closing, contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import packwise
from packwise.errors import SourceError
from packwise.packs.build import build_pack
from packwise.settings import Settings
from packwise.sources import Item, Problem
from packwise.sources.readers import left_out
from packwise.sources.web import WebSource


class Site:
    """A web site in this process: pages by path, and a record of what was asked."""

    def __init__(self):
        self.pages = {}
        self.asked = []
        self.sent = Counter()
        self.agents = set()
        self.dates = []

    def add(self, path, body, *, status=200, content_type="text/html; charset=utf-8", **headers):
        body = body if isinstance(body, bytes) else body.encode()
        self.pages[path] = (status, body, {"content-type": content_type, **headers})


@contextmanager
def served():
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            site.asked.append(self.path)
            site.agents.add(self.headers["User-Agent"])
            site.dates.append(self.headers["If-Modified-Since"])
            found = site.pages.get(self.path, (404, b"no such page", {}))
            status, body, headers = found() if callable(found) else found
            tag = headers.get("etag")
            if tag and self.headers["If-None-Match"] == tag:
                status, body = 304, b""
            site.sent[self.path] += len(body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.setenv("PACKWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PACKWISE_WEB_PRIVATE", "on")
    monkeypatch.setenv("PACKWISE_WEB_DELAY", "0")
    with served() as found:
        yield found


def page(title, text, *links):
    anchors = " ".join(f'<a href="{href}">{href}</a>' for href in links)
    return (
        f"<html lang=en><title>{title}</title><body><main><h1>{title}</h1><p>{text}</p>"
        f"<p>{anchors}</p></main></body></html>"
    )


@pytest.fixture
def docs(site):
    site.add("/docs/", page("Home", "Welcome to the harbour.", "keys", "tide/", "/elsewhere"))
    site.add("/docs/keys", page("Keys", "The key lies under the third stone.", "../docs/#top"))
    site.add("/docs/tide/", page("Tide", "High tide comes at noon.", "?page=2", "mailto:a@b.c"))
    site.add("/docs/tide/?page=2", page("Tide 2", "Low tide comes at six."))
    site.add("/elsewhere", page("Elsewhere", "This is not below the prefix."))
    return site


def read(source):
    return {e.id: e.read() for e in source.items() if isinstance(e, Item)}


def problems(source):
    return [e for e in source.items() if isinstance(e, Problem)]


def test_one_page_is_one_document(docs):
    found = read(WebSource(f"{docs.url}/docs/keys#stone"))
    assert list(found) == [f"{docs.url}/docs/keys"]
    document = found[f"{docs.url}/docs/keys"]
    assert document.title == "Keys"
    assert "third stone" in document.text
    assert document.url == f"{docs.url}/docs/keys"
    assert [link.href for link in document.links] == [f"{docs.url}/docs/"]


def test_a_prefix_stands_for_every_page_below_it(docs):
    found = read(WebSource(f"{docs.url}/docs/"))
    paths = {url.removeprefix(docs.url) for url in found}
    assert paths == {"/docs/", "/docs/keys", "/docs/tide/", "/docs/tide/?page=2"}
    assert "/elsewhere" not in docs.asked
    assert docs.agents == {f"packwise/{packwise.__version__}"}


def test_a_site_becomes_a_pack_that_answers(docs, tmp_path):
    build_pack([f"{docs.url}/docs/"], tmp_path / "pack")
    with packwise.open(str(tmp_path / "pack")) as library:
        hit = library.search("where is the key?").hits[0]
        assert hit.passage.url == f"{docs.url}/docs/keys"
        links = library.store.links([f"{docs.url}/docs/keys"])
        assert [link.target for _, link in links] == [f"{docs.url}/docs/"]


def test_a_sitemap_lists_the_pages(docs):
    entries = "".join(f"<url><loc>{docs.url}{p}</loc></url>" for p in ("/docs/keys", "/elsewhere"))
    foreign = "<url><loc>https://example.com/x</loc></url>"
    body = (
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}{foreign}</urlset>'
    )
    docs.add("/map.xml", body, content_type="application/xml")
    index = f"<sitemapindex><sitemap><loc>{docs.url}/map.xml</loc></sitemap></sitemapindex>"
    docs.add("/sitemap.xml", f'<?xml version="1.0"?>{index}', content_type="application/xml")
    found = read(WebSource(f"{docs.url}/sitemap.xml"))
    assert set(found) == {f"{docs.url}/docs/keys", f"{docs.url}/elsewhere"}


def test_pages_that_only_the_sitemap_of_robots_names_are_found(docs):
    docs.add("/docs/hidden", page("Hidden", "Only the sitemap knows this page."))
    docs.add("/m.xml", f"<urlset><url><loc>{docs.url}/docs/hidden</loc></url></urlset>")
    docs.add("/robots.txt", f"Sitemap: {docs.url}/m.xml", content_type="text/plain")
    assert f"{docs.url}/docs/hidden" in read(WebSource(f"{docs.url}/docs/"))


def test_what_robots_forbids_is_not_fetched_and_is_counted(docs):
    docs.add("/robots.txt", "User-agent: packwise\nDisallow: /docs/keys", content_type="text/plain")
    source = WebSource(f"{docs.url}/docs/")
    assert f"{docs.url}/docs/keys" not in read(source)
    assert problems(source) == []
    assert left_out(source.skipped) == ["1 page: robots.txt does not allow it"]
    assert "/docs/keys" not in docs.asked


def test_a_site_whose_robots_txt_fails_is_left_alone(docs, monkeypatch):
    monkeypatch.setattr("packwise.sources.web_fetch.time.sleep", lambda seconds: None)
    docs.add("/robots.txt", "busy", status=503)
    with pytest.raises(SourceError, match=r"robots\.txt cannot be read"):
        list(WebSource(f"{docs.url}/docs/").ids())
    assert set(docs.asked) == {"/robots.txt"}


@pytest.mark.parametrize("address", ["http://127.0.0.1", "http://[::1]", "http://169.254.169.254"])
def test_private_addresses_are_refused_unless_allowed(address, site):
    source = WebSource(f"{address}/latest/", Settings.load(web_private=False))
    with pytest.raises(
        SourceError, match=r"private address .* -> PACKWISE_WEB_PRIVATE=on allows [^>]*$"
    ):
        list(source.ids())
    assert site.asked == []


def test_a_redirect_to_a_private_address_is_refused(site, monkeypatch):
    """The first host is public as far as the check can see; the second is not."""
    import packwise.sources.web_fetch as web_fetch

    checked = web_fetch._public_socket

    def first_is_public(host, port, private):
        return checked(host, port, private=host == "127.0.0.1")

    monkeypatch.setattr(web_fetch, "_public_socket", first_is_public)
    port = site.url.rpartition(":")[2]
    site.add("/", "", status=302, location=f"http://localhost:{port}/secret")
    site.add("/secret", page("Secret", "You should not see this."))
    with pytest.raises(SourceError, match="localhost is a private address"):
        list(WebSource(f"{site.url}/", Settings.load(web_private=False)).ids())
    assert "/secret" not in site.asked


def test_a_page_that_has_not_changed_is_not_sent_again(docs, tmp_path):
    docs.add("/docs/keys", page("Keys", "Under the third stone."), etag='"one"')
    build_pack([f"{docs.url}/docs/"], tmp_path / "pack")
    sent = docs.sent["/docs/keys"]
    again = build_pack([f"{docs.url}/docs/"], tmp_path / "pack")
    assert again.changes.unchanged == 4
    assert docs.asked.count("/docs/keys") == 2
    assert docs.sent["/docs/keys"] == sent
    docs.add("/docs/keys", page("Keys", "Now under the fourth stone."), etag='"two"')
    assert build_pack([f"{docs.url}/docs/"], tmp_path / "pack").changes.changed == 1


def test_an_interrupted_crawl_goes_on_where_it_stopped(docs):
    class Stopped(Exception):
        pass

    def stop_at_third(url):
        if len(docs.asked) >= 4:  # robots.txt and three pages
            raise Stopped

    with pytest.raises(Stopped):
        list(WebSource(f"{docs.url}/docs/", on_page=stop_at_third).ids())
    before = Counter(docs.asked)
    assert len(list(WebSource(f"{docs.url}/docs/").ids())) == 4
    again = {path for path, times in Counter(docs.asked).items() if times > before[path] > 0}
    assert again == {"/robots.txt"}
    assert len(list(WebSource(f"{docs.url}/docs/").ids())) == 4
    assert docs.asked.count("/docs/keys") == 2, "a finished crawl is followed by a new one"


def test_a_page_in_trouble_keeps_its_stored_version_and_one_that_is_gone_goes(
    docs, tmp_path, monkeypatch
):
    monkeypatch.setattr("packwise.sources.web_fetch.time.sleep", lambda seconds: None)
    build_pack([f"{docs.url}/docs/"], tmp_path / "pack")
    docs.add("/docs/keys", "trouble", status=500)
    docs.add("/docs/tide/?page=2", "gone", status=410)
    report = build_pack([f"{docs.url}/docs/"], tmp_path / "pack")
    assert [str(p) for p in report.problems] == [
        f"{docs.url}/docs/keys: the server answers with status 500"
    ]
    assert report.changes.removed == 1
    with packwise.open(str(tmp_path / "pack")) as library:
        assert "third stone" in library.search("where is the key?").hits[0].passage.text


def test_a_busy_server_is_asked_again_after_the_time_it_names(docs, monkeypatch):
    waited = []
    monkeypatch.setattr("packwise.sources.web_fetch.time.sleep", waited.append)
    answers = iter([(429, b"", {"retry-after": "7"}), docs.pages["/docs/keys"]])
    docs.pages["/docs/keys"] = lambda: next(answers)
    assert len(read(WebSource(f"{docs.url}/docs/keys"))) == 1
    assert 7.0 in waited


def test_too_many_pages_are_an_error_that_says_what_to_do(docs):
    source = WebSource(f"{docs.url}/docs/", Settings.load(web_pages=2))
    with pytest.raises(SourceError, match=r"more than 2 pages.*PACKWISE_WEB_PAGES"):
        list(source.ids())


def test_a_page_larger_than_the_limit_is_a_problem_of_its_own(docs, monkeypatch):
    monkeypatch.setattr("packwise.sources.web_fetch.SIZE_LIMIT", 1 << 20)
    bomb = gzip.compress(bytes(8 << 20))
    docs.add("/docs/keys", bomb, **{"content-encoding": "gzip"})
    source = WebSource(f"{docs.url}/docs/")
    assert [str(p) for p in problems(source)] == [f"{docs.url}/docs/keys: is larger than 1 MiB"]
    assert len(read(source)) == 3


def test_compressed_pages_markdown_and_text_are_read_and_the_rest_is_counted(site):
    site.add("/", page("Home", "Hello.", "a", "b.md", "c.bin"))
    packed = gzip.compress(page("Packed", "The gannet dives.").encode())
    site.add("/a", packed, **{"content-encoding": "gzip"})
    site.add("/b.md", "# Marked\n\nThe **otter** swims.\n", content_type="text/plain")
    site.add("/c.bin", b"\x00\x01", content_type="application/octet-stream")
    source = WebSource(f"{site.url}/")
    found = read(source)
    assert "gannet" in found[f"{site.url}/a"].text
    assert "The otter swims." in found[f"{site.url}/b.md"].text
    assert dict(source.skipped) == {".bin": 1}


def test_a_first_page_that_cannot_be_fetched_is_one_line(site, tmp_path):
    with pytest.raises(SourceError, match="status 404") as caught:
        build_pack([f"{site.url}/nothing"], tmp_path / "pack")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "pack").exists()


def test_a_pause_lies_between_two_requests(docs, monkeypatch):
    pauses = []
    monkeypatch.setattr("packwise.sources.web_fetch.time.sleep", pauses.append)
    list(WebSource(f"{docs.url}/docs/", Settings.load(web_delay=0.5)).ids())
    assert sum(0.2 < pause <= 0.5 for pause in pauses) >= 4
    docs.add("/robots.txt", "User-agent: *\nCrawl-delay: 3", content_type="text/plain")
    pauses.clear()
    list(WebSource(f"{docs.url}/docs/", Settings.load(web_delay=0.5)).ids())
    assert sum(2 < pause <= 3 for pause in pauses) >= 3


def test_pages_dated_by_their_server_are_asked_for_with_that_date(docs):
    date = formatdate(0, usegmt=True)
    docs.add("/docs/keys", page("Keys", "Stone."), **{"last-modified": date})
    list(WebSource(f"{docs.url}/docs/keys").ids())
    docs.add("/docs/keys", "", status=304)
    assert "Stone." in read(WebSource(f"{docs.url}/docs/keys"))[f"{docs.url}/docs/keys"].text
    assert docs.dates[-1] == date


@pytest.mark.parametrize(
    "address",
    [
        "::ffff:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2001:0:53aa:64c:0:fffe:80ff:fffe",
        "fec0::1",
        "fe80::1",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
    ],
)
def test_an_address_that_stands_for_a_private_one_is_refused(address):
    from packwise.sources.web_fetch import _is_public

    assert not _is_public(ipaddress.ip_address(address))
    for public in ("64:ff9b::808:808", "2002:808:808::", "8.8.8.8", "2606:4700::1"):
        assert _is_public(ipaddress.ip_address(public)), public


@pytest.mark.parametrize(
    ("robots", "location"),
    [
        ("User-agent: *\nCrawl-delay: ²", "/other"),
        (f"User-agent: *\nCrawl-delay: {'9' * 5000}", "/other"),
        ("Sitemap: http://[\nSitemap: file:///etc/passwd", "http://["),
        ("", "http://a:99999/"),
        ("", f"http://{'a' * 70}.example/"),
        ("", "http://\u0130\u200b..\u2024/"),
    ],
)
def test_what_no_server_should_say_is_one_line(robots, location, docs, monkeypatch):
    monkeypatch.setattr("packwise.sources.web_fetch.time.sleep", lambda seconds: None)
    docs.add("/robots.txt", robots)
    moved = location.encode().decode("latin-1")
    docs.add("/docs/away.html", "", status=302, location=moved)
    with pytest.raises(SourceError) as told:
        list(WebSource(f"{docs.url}/docs/away.html").items())
    assert "\n" not in str(told.value)


def test_a_sitemap_with_broken_addresses_is_read_without_them(docs):
    listed = "".join(f"<url><loc>{u}</loc></url>" for u in ("http://[", f"{docs.url}/docs/"))
    docs.add("/map.xml", f"<urlset>{listed}</urlset>", content_type="application/xml")
    assert list(WebSource(f"{docs.url}/map.xml").ids()) == [f"{docs.url}/docs/"]


def test_a_server_that_sends_a_byte_now_and_then_is_given_up(site, monkeypatch):
    monkeypatch.setattr("packwise.sources.web_fetch._PAGE_SECONDS", 1.0)
    ended = threading.Event()

    def slowly():
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            places.append(server.getsockname()[1])
            listening.set()
            for _ in range(2):
                client, _ = server.accept()
                asked = client.recv(4096)
                if b"robots" in asked:
                    client.sendall(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n")
                    client.sendall(b"connection: close\r\n\r\n")
                    client.close()
                    continue
                with closing(client), suppress(OSError):
                    client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 90000\r\n\r\n")
                    while not ended.wait(0.05):
                        client.sendall(b"a")

    places, listening = [], threading.Event()
    thread = threading.Thread(target=slowly, daemon=True)
    thread.start()
    assert listening.wait(10)
    try:
        with pytest.raises(SourceError, match="takes longer than 1 seconds"):
            list(WebSource(f"http://127.0.0.1:{places[0]}/a.html").ids())
    finally:
        ended.set()
        thread.join(10)


def test_half_a_page_is_not_a_page(site, monkeypatch):
    monkeypatch.setattr("packwise.sources.web_fetch.time.sleep", lambda seconds: None)

    class Cut(bytes):
        def __len__(self):
            return 4000

    site.pages["/half.html"] = (200, Cut(page("Half", "A text.").encode()), {"connection": "close"})
    with pytest.raises(SourceError, match="cannot be fetched"):
        list(WebSource(f"{site.url}/half.html").ids())
