"""Whether a store can answer a data set's questions at all."""

from __future__ import annotations

from dataclasses import replace

from packwise.errors import DataError
from packwise.evaluation.data import DataSet
from packwise.stores.base import Store


def within_reach(dataset: DataSet, store: Store) -> DataSet:
    """The data set with ``absent`` counted in this store: relevant documents of its
    questions that have no passage there.

    Raises ``DataError`` when the store has none of them: it holds another corpus, and
    every figure would be a meaningless zero.
    """
    relevant = {
        document
        for grades in dataset.relevant.values()
        for document, grade in grades.items()
        if grade > 0
    }
    there = {summary.id for summary in store.documents() if summary.passages}
    if relevant and relevant.isdisjoint(there):
        raise DataError(
            f"{store.info().location} holds none of the {len(relevant)} relevant documents "
            f"of {dataset.name}",
            fix=f"leave --store out, or name a store built from {dataset.folder}",
        )
    return replace(dataset, absent=len(relevant - there))
