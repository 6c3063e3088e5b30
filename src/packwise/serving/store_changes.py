"""``/v1/uploads``, ``/v1/jobs`` and the changes of ``/v1/stores``: packs made, changed, renamed
and deleted in the page.

Only an admin may do so: the user of this machine, or an admin key. Files are uploaded one by one
and belong to no pack until a build puts all of them in place.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import Path, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.requests import ClientDisconnect

from packwise.errors import PackwiseError, StoreBusy, UsageError
from packwise.packs.build import BuildReport
from packwise.packs.progress import Progress
from packwise.packs.workspace import UploadedFile, Workspace
from packwise.serving.api_errors import ApiError, bad_request, without_paths
from packwise.serving.build_jobs import BuildJobs
from packwise.serving.models import RequestModel, ResultModel, ShortText
from packwise.serving.state import CurrentRequest, Json, RequestContext, new_router

router = new_router("packs")
_Name = Annotated[str, Path(min_length=1, max_length=64, description="Name of the pack.")]
_Upload = Annotated[str, Field(min_length=32, max_length=32, description="The id of an upload.")]
_NewName = Annotated[
    str, Field(min_length=1, max_length=64, description="Letters, digits, '.', '-' and '_'.")
]
_BINARY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class NewStore(RequestModel):
    """Make a pack of uploaded files."""

    name: _NewName
    upload: _Upload


class StoreChange(RequestModel):
    """Add, replace or remove documents of a pack; with neither, read its sources again."""

    upload: _Upload | None = Field(None, description="The id of an upload with files to add.")
    remove: list[ShortText] = Field(
        default_factory=list[str], max_length=10_000, description="Paths of files to remove."
    )


class StoreRename(RequestModel):
    """Give a pack another name."""

    name: _NewName


class UploadRecord(ResultModel):
    """An upload: send files to `/v1/uploads/{id}/{path}`."""

    id: str


class FileRecord(ResultModel):
    """A file that a pack was made from."""

    path: str
    bytes: int
    modified: float


class FileList(ResultModel):
    """The files of a pack. `elsewhere` counts its sources outside the folder that is served."""

    store: str
    files: list[FileRecord]
    elsewhere: int


class JobRecord(ResultModel):
    """A build: how far it is, and what it did."""

    id: str
    store: str
    state: Literal["waiting", "running", "done", "failed"]
    step: str
    documents: int
    total: int
    passages: int
    added: int
    changed: int
    removed: int
    problems: list[str]
    error: str | None


class StoreChanged(ResultModel):
    """The name that a pack has now; `null` if it is gone."""

    name: str | None


@router.post("/v1/uploads", response_model=UploadRecord)
async def create_upload(context: CurrentRequest) -> Response:
    """Begin to upload files."""
    workspace, _ = _admin(context)
    return Json({"id": await context.state.workers.run(workspace.new_upload)})


@router.put(
    "/v1/uploads/{id}/{path:path}",
    response_model=FileRecord,
    openapi_extra=_BINARY,
)
async def upload_file(
    id: Annotated[str, Path(description="The id of an upload.")],
    path: Annotated[str, Path(description="Where the file is, below the pack's documents.")],
    request: Request,
    context: CurrentRequest,
) -> Response:
    """Upload a file."""
    workspace, _ = _admin(context)
    limits = context.state.limits
    before = await _answered(context, lambda: workspace.uploaded(id))
    room = limits.upload_bytes - sum(file.bytes for file in before if file.path != path)
    most = min(limits.file_bytes, room)
    size = 0
    try:
        with workspace.receiving(id, path) as target, target.open("wb") as out:
            async for piece in request.stream():
                size += len(piece)
                if size > most:
                    raise _too_large(path, limits.file_bytes, limits.upload_bytes, size)
                out.write(piece)
    except ClientDisconnect:
        raise ApiError(400, "gone", "the client closed the connection") from None
    except UsageError as error:
        raise _refused(error) from error
    return Json({"path": path, "bytes": size, "modified": 0.0})


@router.post("/v1/stores", status_code=202, response_model=JobRecord)
async def create_store(body: NewStore, context: CurrentRequest) -> Response:
    """Make a pack of uploaded files."""
    workspace, builds = _admin(context)

    def check() -> None:
        workspace.check_new_name(body.name)
        if not workspace.uploaded(body.upload):
            raise UsageError("the upload has no files")

    await _answered(context, check)

    def build(progress: Progress) -> BuildReport:
        report = workspace.create(body.name, body.upload, progress)
        context.state.stores.refresh()
        return report

    return Json(builds.start(body.name, build), status_code=202)


@router.get("/v1/stores/{name}/files", response_model=FileList)
async def list_files(name: _Name, context: CurrentRequest) -> Response:
    """The files that a pack was made from."""
    workspace, _ = _admin(context)
    _check_editable(context, name)

    def read() -> tuple[list[UploadedFile], list[str]]:
        return workspace.files(name), workspace.other_sources(name)

    found, elsewhere = await _answered(context, read)
    listed = [FileRecord.model_validate(file) for file in found]
    return Json(FileList(store=name, files=listed, elsewhere=len(elsewhere)).model_dump())


@router.post(
    "/v1/stores/{name}/files",
    status_code=202,
    response_model=JobRecord,
)
async def change_store(name: _Name, body: StoreChange, context: CurrentRequest) -> Response:
    """Add, replace or remove documents of a pack."""
    workspace, builds = _admin(context)
    _check_editable(context, name)

    def check() -> None:
        if body.upload is not None:
            workspace.uploaded(body.upload)
        unknown = set(body.remove) - {file.path for file in workspace.files(name)}
        if unknown:
            raise UsageError(f"the pack has no file {min(unknown)}")

    await _answered(context, check)
    return Json(
        builds.start(
            name, lambda progress: workspace.change(name, body.upload, body.remove, progress)
        ),
        status_code=202,
    )


@router.patch("/v1/stores/{name}", response_model=StoreChanged)
async def rename_store(name: _Name, body: StoreRename, context: CurrentRequest) -> Response:
    """Give a pack another name."""
    workspace, _ = _admin(context)
    _check_editable(context, name)
    await _answered(context, lambda: workspace.rename(name, body.name))
    await context.state.workers.run(context.state.stores.refresh)
    return Json({"name": body.name})


@router.delete("/v1/stores/{name}", response_model=StoreChanged)
async def delete_store(name: _Name, context: CurrentRequest) -> Response:
    """Delete a pack and the files that were uploaded for it."""
    workspace, _ = _admin(context)
    _check_editable(context, name)
    await _answered(context, lambda: workspace.delete(name))
    await context.state.workers.run(context.state.stores.refresh)
    return Json({"name": None})


@router.get("/v1/jobs/{id}", response_model=JobRecord)
async def get_job(
    id: Annotated[str, Path(min_length=1, max_length=64, description="The id of a build.")],
    context: CurrentRequest,
) -> Response:
    """How far a build is."""
    _, builds = _admin(context)
    found = builds.get(id)
    if found is None:
        raise ApiError(404, "no_such_job", "there is no such build")
    return Json(found)


def _admin(context: RequestContext) -> tuple[Workspace, BuildJobs]:
    """The folder of packs. Raises a 403 ``ApiError`` unless the caller may change it."""
    if not context.caller.admin:
        raise ApiError(
            403,
            "admin_only",
            "changing packs needs an admin key",
            fix="packwise serve keys add --all --admin",
        )
    workspace, builds = context.state.stores.workspace, context.state.builds
    if workspace is None or builds is None:
        raise ApiError(
            403,
            "fixed_stores",
            "the stores of this server cannot be changed here",
            fix="packwise serve FOLDER, where FOLDER is empty or has packs in it",
        )
    return workspace, builds


def _check_editable(context: RequestContext, name: str) -> None:
    stores = context.state.stores
    if not stores.editable(stores.get(name)):
        raise ApiError(403, "fixed_stores", "this store cannot be changed here")


async def _answered(context: RequestContext, work: Callable[[], Any]) -> Any:
    """The result of the work; what it finds wrong with the request is the caller's to read."""
    try:
        return await context.state.workers.run(work)
    except UsageError as error:
        raise _refused(error) from error
    except StoreBusy as error:
        raise ApiError(409, "busy", without_paths(error.message), fix="try again later") from error


def _refused(error: PackwiseError) -> ApiError:
    return bad_request(without_paths(error.message), fix=error.fix)


def _too_large(path: str, file_bytes: int, upload_bytes: int, size: int) -> ApiError:
    limit = f"a file may have {file_bytes} bytes"
    if size <= file_bytes:
        limit = f"files added at once may have {upload_bytes} bytes"
    with suppress(ValueError):
        path = path[path.rindex("/") + 1 :]
    return ApiError(
        413, "file_too_large", f"{path[:80]} is too large: {limit}", headers={"Connection": "close"}
    )
