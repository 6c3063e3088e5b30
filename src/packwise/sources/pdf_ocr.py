"""Reads pages that are pictures, with RapidOCR on onnxruntime."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

from packwise.sources.pdf_words import PageWords, PdfWord

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

_DOTS_PER_INCH = 150
_LEAST_SCORE = 0.5


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR  # pyright: ignore[reportMissingImports]

    logging.getLogger("RapidOCR").setLevel(logging.ERROR)
    return RapidOCR(params={"Global.log_level": "error"})


def recognise(page: PdfPage) -> PageWords | None:
    """The lines of a page as words; ``None`` if there are none."""
    scale = _DOTS_PER_INCH / 72
    width, height = page.get_size()
    # A page the size of a poster must not become a picture of gigabytes.
    scale = min(scale, 4000 / max(width, height, 1))
    render: Any = page.render
    bitmap = render(scale=scale)
    found = _engine()(bitmap.to_numpy())
    if found.txts is None:
        return None
    words: list[PdfWord] = []
    for box, text, score in zip(found.boxes, found.txts, found.scores, strict=True):
        if score < _LEAST_SCORE or not text.strip():
            continue
        left, right = float(box[:, 0].min()) / scale, float(box[:, 0].max()) / scale
        top, bottom = float(box[:, 1].min()) / scale, float(box[:, 1].max()) / scale
        size = 0.8 * (bottom - top)
        words.append(
            PdfWord(text.strip(), left, right, height - bottom + size * 0.2, size, False, False)
        )
    return PageWords(width, height, tuple(words)) if words else None
