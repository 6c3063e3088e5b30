"""The ASGI application: its routes, behind the gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from packwise.errors import PackwiseError
from packwise.serving import articles, chat, docs, nodes, operations, page, questions
from packwise.serving.keys import KeyRing
from packwise.serving.limits import Limits, RateLimiter
from packwise.serving.logs import Log
from packwise.serving.metrics import Metrics
from packwise.serving.middleware import Gate
from packwise.serving.state import Serving
from packwise.serving.store_registry import Served
from packwise.serving.telemetry import NoTelemetry, Telemetry
from packwise.serving.traces import TraceShelf
from packwise.serving.worker_pool import Workroom

ROUTES = (
    Route("/v1/search", questions.search, methods=["POST"]),
    Route("/v1/context", questions.context, methods=["POST"]),
    Route("/v1/ask", questions.ask, methods=["POST"]),
    Route("/v1/trace/{id}", questions.trace),
    Route("/v1/stores", articles.stores),
    Route("/v1/articles", articles.articles),
    Route("/v1/articles/{title:path}", articles.article),
    Route("/v1/graph", articles.graph),
    Route("/v1/report", articles.report),
    Route("/v1/nodes", nodes.nodes),
    Route("/v1/nodes:search", nodes.search, methods=["POST"]),
    Route("/v1/models", chat.models),
    Route("/v1/chat/completions", chat.completions, methods=["POST"]),
    Route("/healthz", operations.healthz),
    Route("/readyz", operations.readyz),
    Route("/metrics", operations.metrics),
    Route("/openapi.json", docs.openapi),
    Route("/docs", docs.docs),
    Route("/docs.css", docs.style),
    Route("/", page.page),
    Route("/{file}", page.page),
)
_OPEN = {"/healthz", "/readyz", "/openapi.json", "/docs", "/docs.css", "/", "/{file}"}


def build_app(
    stores: Served,
    *,
    limits: Limits | None = None,
    keys: KeyRing | None = None,
    log: Log | None = None,
    telemetry: Telemetry | None = None,
    report: Path | None = None,
) -> Starlette:
    """The application over open stores; it closes them when it ends.

    With ``keys``, every request but for health, the page and the docs needs one of them.
    Without, the caller is the user of this machine and sees everything.
    """
    state = new_state(stores, limits=limits, keys=keys, log=log, telemetry=telemetry, report=report)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        warming = asyncio.create_task(warm(state))
        try:
            yield
        finally:
            state.ready = False
            await warming
            state.work.close()
            state.telemetry.close()
            stores.close()

    app = Starlette(
        routes=list(ROUTES),
        middleware=[
            Middleware(Gate, state=state, route_of=route_of, open_to_all=_OPEN.__contains__)
        ],
        exception_handlers={HTTPException: _pass_on},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.serving = state
    return app


def new_state(
    stores: Served,
    *,
    limits: Limits | None = None,
    keys: KeyRing | None = None,
    log: Log | None = None,
    telemetry: Telemetry | None = None,
    report: Path | None = None,
) -> Serving:
    """What a server over these stores shares among its requests."""
    limits = limits or Limits()
    return Serving(
        stores=stores,
        limits=limits,
        keys=keys,
        # One user of one machine is not held back unless told to.
        rates=RateLimiter(limits.rate if keys is not None else 0.0, limits.burst),
        traces=TraceShelf(limits.traces),
        metrics=Metrics(),
        log=log or Log(),
        telemetry=telemetry or NoTelemetry(),
        work=Workroom(limits),
        report=report,
    )


async def warm(state: Serving) -> None:
    """Load the models, so that the first question does not wait for them; then it is ready."""

    def load() -> None:
        for store in state.stores:
            try:
                store.library.embedder.embed_query("ready")
            except PackwiseError as error:
                # Keyword search needs no model; whatever does says so when it is asked.
                state.log.write("no model", "warning", store=store.name, reason=str(error))

    await asyncio.to_thread(load)
    state.ready = True


def route_of(scope: Scope) -> str:
    """The template of the route a request goes to: never the path itself, which may hold text."""
    for route in ROUTES:
        match, _ = route.matches(scope)
        if match is not Match.NONE:
            return route.path
    return "other"


async def _pass_on(request: Request, error: Exception) -> Response:
    """Let the gate answer it, as it does everything else."""
    raise error
