"""``/v1/embeddings``: the embedder of a store, in the OpenAI protocol."""

from __future__ import annotations

import base64

import numpy as np
from fastapi.responses import Response

from packwise.models.base import Embedder, Vectors
from packwise.serving.api_errors import bad_request
from packwise.serving.openai_models import EmbeddingRecord, EmbeddingsRequest, EmbeddingsResponse
from packwise.serving.state import CurrentRequest, Json, new_router

router = new_router("openai")


@router.post("/v1/embeddings", response_model=EmbeddingsResponse)
async def create_embeddings(body: EmbeddingsRequest, context: CurrentRequest) -> Response:
    """Embed texts with the embedder of a store."""
    texts = [body.input] if isinstance(body.input, str) else body.input
    store = context.open_store(body.model)

    def embed() -> EmbeddingsResponse:
        embedder = store.library.embedder
        if body.dimensions not in (None, embedder.dim):
            raise bad_request(
                f"dimensions: the vectors of this store have {embedder.dim}", param="dimensions"
            )
        tokens = sum(min(len(embedder.token_spans(text)), embedder.window) for text in texts)
        return EmbeddingsResponse(
            model=store.name,
            data=[
                EmbeddingRecord(
                    index=number,
                    embedding=_base64(row) if body.encoding_format == "base64" else row.tolist(),
                )
                for number, row in enumerate(_vectors(embedder, texts, body.input_type))
            ],
            usage={"prompt_tokens": tokens, "total_tokens": tokens},
        )

    found = await context.state.workers.run(embed, heavy=True)
    return Json(found.model_dump())


def _vectors(embedder: Embedder, texts: list[str], kind: str) -> Vectors:
    if kind == "query":
        return np.stack([embedder.embed_query(text) for text in texts])
    return embedder.embed_passages(texts)


def _base64(row: Vectors) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode("ascii")
