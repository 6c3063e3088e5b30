"""A local server that speaks OpenAI's ``/v1/embeddings``, and can be made to misbehave.

with EmbeddingServer(dim=768) as server:
    server.will(status(429), None)      # refuse once, then answer
    load_embedder(server.name)
    server.asked                        # the texts of every request
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from model_folders import table_of

Reply = Callable[["_Handler", list[str]], None]


class EmbeddingServer:
    """Makes vectors from a table of words; ``noise`` changes their last digits on every call."""

    def __init__(self, dim: int = 8, *, most: int = 1000, noise: float = 0.0) -> None:
        self.dim, self.most, self.noise = dim, most, noise
        self.seed = 0
        self.asked: list[list[str]] = []
        self.headers: list[dict[str, str]] = []
        self._replies: list[Reply | None] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.embeddings = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def name(self) -> str:
        """What ``--embedder`` takes."""
        return f"openai:tiny:latest@{self.url}"

    def will(self, *replies: Reply | None) -> None:
        """Answer the next requests so; ``None`` is a proper answer."""
        self._replies = list(replies)

    def __enter__(self) -> EmbeddingServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next_reply(self, texts: list[str], headers: dict[str, str]) -> Reply | None:
        with self._lock:
            self.asked.append(texts)
            self.headers.append(headers)
            return self._replies.pop(0) if self._replies else None

    def vector(self, text: str) -> list[float]:
        """The sum of the vectors of the text's words and letters."""
        words = re.findall(r"\w+", text.lower()) or [" "]
        total = table_of(self.dim, [f"{self.seed}{word}" for word in words]).sum(axis=0)
        if self.noise:
            total = (
                total + np.random.default_rng(len(self.asked)).normal(size=self.dim) * self.noise
            )
        return [float(number) for number in total]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: EmbeddingServer = self.server.embeddings  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = body["input"]
        headers = {key.lower(): value for key, value in self.headers.items()}
        reply = server.next_reply(texts, headers)
        if reply is not None:
            reply(self, texts)
        elif self.path != "/v1/embeddings" or body["model"] != "tiny:latest":
            self.send(404, {"error": {"message": "model not found"}})
        elif len(texts) > server.most:
            self.send(413, {"error": f"batch size {len(texts)} > maximum {server.most}"})
        else:
            data = [{"index": i, "embedding": server.vector(t)} for i, t in enumerate(texts)]
            self.send(200, {"object": "list", "data": data[::-1], "model": body["model"]})

    def send(self, code: int, content: Any, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def status(code: int, message: str = "no", **headers: str) -> Reply:
    """An HTTP error in OpenAI's form."""
    return lambda handler, _: handler.send(code, {"error": {"message": message}}, **headers)


def answer(content: Any) -> Reply:
    """This body with the status 200."""
    return lambda handler, _: handler.send(200, content)


def hang_up(handler: _Handler, _: list[str]) -> None:
    """Close the connection in the middle of the answer."""
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"data": [')
    handler.close_connection = True


def silence(until: threading.Event) -> Reply:
    """Nothing until the event."""
    return lambda handler, _: until.wait(30) and None
