"""``/v1/feedback``: whether an answer was right, written to the store's judged questions."""

from __future__ import annotations

from fastapi.responses import Response

from packwise.errors import StoreBusy, StoreError, StoreFull
from packwise.evaluation.feedback import Feedback, save_feedback
from packwise.serving.api_errors import ApiError, bad_request
from packwise.serving.callers import Caller, visible
from packwise.serving.models import FeedbackRequest, FeedbackResponse
from packwise.serving.state import CurrentRequest, Json, new_router
from packwise.serving.store_registry import ServedStore

router = new_router("questions")


@router.post("/v1/feedback", response_model=FeedbackResponse)
async def give_feedback(body: FeedbackRequest, context: CurrentRequest) -> Response:
    """Save whether an answer was right, for `packwise eval` and `packwise calibrate`."""
    state, caller = context.state, context.caller
    question = state.check_question(body.question)
    if not body.answer.strip():
        raise bad_request("answer is empty", param="answer")
    if body.right_answer and body.verdict == "right":
        raise bad_request("right_answer is for a wrong answer only", param="right_answer")
    store = context.open_store(body.store, question)

    def save() -> Feedback:
        given = Feedback(
            question=question.strip(),
            answer=body.answer.strip(),
            verdict=body.verdict,
            right_answer=(body.right_answer or "").strip(),
            passages=_known_passages(store, caller, body.passages),
            tenant=caller.tenant,
        )
        try:
            return save_feedback(store.library.info(), given)
        except (StoreBusy, StoreFull):
            raise
        except StoreError as error:
            state.log.write("feedback not saved", "warning", store=store.name, reason=str(error))
            raise ApiError(
                403,
                "read_only",
                "feedback cannot be saved: the server may not write to this store",
                fix="see the server's log for the reason",
            ) from None

    saved = await state.workers.run(save)
    return Json(
        {
            "store": store.name,
            "at": saved.at,
            "verdict": saved.verdict,
            "passages": list(saved.passages),
        }
    )


def _known_passages(store: ServedStore, caller: Caller, ids: list[str]) -> tuple[str, ...]:
    """The ids of passages of documents that the store has and the caller may see."""
    documents = {name: name.rpartition("#")[0] for name in dict.fromkeys(ids)}
    held = store.library.store
    stored = held.passages_of([d for d in dict.fromkeys(documents.values()) if d], 1)
    seen = visible(held, caller, (name for name, keys in stored.items() if keys))
    return tuple(name for name, document in documents.items() if document in seen)
