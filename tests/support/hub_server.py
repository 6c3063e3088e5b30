"""A model hub on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class HubServer:
    """A hub on this machine that can be told to misbehave, once an entry, request by request."""

    files: dict[str, bytes]
    cut_after: list[int] = field(default_factory=list)
    ignore_ranges: bool = False
    requests: list[tuple[str, str | None]] = field(default_factory=list)

    def asked_for(self, name: str) -> list[str | None]:
        return [sent for path, sent in self.requests if path.endswith(name)]


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer

    def do_GET(self) -> None:
        hub = self.hub
        asked = self.headers.get("Range")
        hub.requests.append((self.path, asked))
        content = hub.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = 0
        if asked and not hub.ignore_ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        sent = content[start:]
        if hub.cut_after:
            sent = sent[: hub.cut_after.pop(0)]
        self.wfile.write(sent)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def running_hub(files: dict[str, bytes]) -> Iterator[tuple[HubServer, str]]:
    """The hub and its address, which HF_ENDPOINT takes."""
    state = HubServer(files)
    handler = type("Handler", (_Handler,), {"hub": state})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield state, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()
