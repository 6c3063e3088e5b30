"""The FastAPI application: routes, middleware, OpenAPI document."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from packwise import __version__
from packwise.errors import PackwiseError
from packwise.serving import (
    articles,
    chat,
    embeddings,
    feedback,
    nodes,
    operations,
    page,
    questions,
    responses,
    store_changes,
)
from packwise.serving.cross_origin import checked_origins, cors_middleware
from packwise.serving.keys import KeyRing
from packwise.serving.limits import Limits
from packwise.serving.middleware import RequestMiddleware
from packwise.serving.observability import Log, Telemetry
from packwise.serving.shared_state import REPORT_SECONDS, SharedState
from packwise.serving.state import ServerState
from packwise.serving.store_registry import StoreRegistry

_GROUPS = (
    *(questions, feedback, articles, store_changes, nodes, chat, responses, embeddings),
    *(operations, page),
)
ROUTES: tuple[BaseRoute, ...] = tuple(r for group in _GROUPS for r in group.router.routes)
_WITHOUT_KEY = {"/healthz", "/readyz", "/openapi.json", "/docs", "/docs.css", "/", "/{file}"}


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        return openapi_document()


def build_app(
    stores: StoreRegistry,
    *,
    limits: Limits | None = None,
    keys: KeyRing | None = None,
    log: Log | None = None,
    telemetry: Telemetry | None = None,
    report: Path | None = None,
    cors: Sequence[str] = (),
    shared: SharedState | None = None,
) -> FastAPI:
    """The application over open stores; it closes them when it ends.

    With ``keys``, every request except those for health, the page and the docs needs a key.
    Without, the caller is the user of this machine and sees everything. Pages of the origins in
    ``cors`` may call it too. Processes that serve one port have ``shared`` in common.
    """
    state = ServerState(
        stores,
        limits or Limits(),
        keys,
        log or Log(),
        telemetry or Telemetry(),
        report,
        checked_origins(cors, with_keys=keys is not None),
        shared or SharedState(),
    )
    return app_of(state, ROUTES)


def app_of(
    state: ServerState,
    routes: Sequence[BaseRoute],
    running: Callable[[], AbstractAsyncContextManager[Any]] = nullcontext,
) -> FastAPI:
    """An application with these routes, which runs within ``running``."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        warming = asyncio.create_task(asyncio.to_thread(_load_models, state))
        reporting = asyncio.create_task(_report(state))
        async with running():
            try:
                yield
            finally:
                reporting.cancel()
                await warming
                state.ready = False
                state.close()

    def route_of(scope: Scope) -> str:
        """The path template of a request's route: the path itself may contain text."""
        matching = (r for r in routes if r.matches(scope)[0] is not Match.NONE)
        return getattr(next(matching, None), "path", "other")

    app = _Api(
        routes=list(routes),
        openapi_url=None,
        redirect_slashes=False,
        middleware=[
            *cors_middleware(state.origins),
            Middleware(
                RequestMiddleware,
                state=state,
                route_of=route_of,
                needs_key=lambda route: route not in _WITHOUT_KEY,
            ),
        ],
        exception_handlers={HTTPException: _raise, RequestValidationError: _raise},
        lifespan=lifespan,
    )
    app.state.serving = state
    return app


def _load_models(state: ServerState) -> None:
    """Load the models, so that the first question does not have to wait for them."""
    for store in state.stores:
        try:
            store.library.embedder.embed_query("ready")
        except PackwiseError as error:
            # Keyword search needs no model; anything else reports the error when it is used.
            state.log.write("no model", "warning", store=store.name, reason=str(error))
    state.ready = True


async def _report(state: ServerState) -> None:
    """Tell the other processes of this server, if there are any, what this one is doing."""
    while state.shared.folder is not None:
        await asyncio.to_thread(operations.report, state)
        await asyncio.sleep(REPORT_SECONDS)


async def _raise(request: Request, error: Exception) -> Response:
    """Leave the error to the middleware, which answers all of them."""
    raise error


@cache
def openapi_document() -> dict[str, Any]:
    """The OpenAPI document of the API."""
    document = get_openapi(
        title="Packwise",
        version=__version__,
        description="Passages, packed contexts and answers from knowledge packs.",
        routes=ROUTES,
        separate_input_output_schemas=False,
    )
    for path, methods in document["paths"].items():
        for operation in methods.values():
            operation["summary"] = operation.pop("description")
            # An invalid request gets 400 and our own error format.
            operation["responses"].pop("422", None)
            for status, response in operation["responses"].items():
                if status[0] not in "23":
                    # An error is JSON, whatever else the route returns.
                    (schema,) = response["content"].values()
                    response["content"] = {"application/json": schema}
            if path not in _WITHOUT_KEY:
                # A server without keys needs none.
                operation["security"] = [{"key": []}, {}]
    components = document["components"]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return document
