"""How long packing takes: 500 candidates, three policies, cold and with tokens cached.

python benchmarks/packing.py [--candidates 500] [--budget 8000] [--rounds 30]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence

import numpy as np

from packwise.candidates import PACKING_POLICIES, Candidate, Scores
from packwise.context.packer import Context, pack
from packwise.documents import Passage, content_hash, passage_id
from packwise.language.analyzer import terms
from packwise.models.tokens import token_counter
from packwise.settings import Settings
from packwise.stores.base import TermStatistics

DIM = 384
PER_DOCUMENT = 4
LIMIT_MS = 10.0


class MadeUpStore:
    """Passages of made-up words with a natural spread of frequencies, in memory."""

    def __init__(self, passages: int, seed: int = 7) -> None:
        chance = random.Random(seed)
        syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
        words = ["".join(chance.choices(syllables, k=chance.randint(1, 4))) for _ in range(4000)]
        weights = [1 / (rank + 3) for rank in range(len(words))]
        self.held: list[Passage] = []
        for number in range(passages):
            sentences = [
                " ".join(chance.choices(words, weights, k=chance.randint(9, 26))).capitalize() + "."
                for _ in range(chance.randint(4, 9))
            ]
            document, order = f"document-{number // PER_DOCUMENT}", number % PER_DOCUMENT
            text = " ".join(sentences)
            self.held.append(
                Passage(
                    id=passage_id(document, order),
                    document=document,
                    doc_title=document.capitalize(),
                    section_path=(f"Part {order // 2}",),
                    order_index=order,
                    text=text,
                    start=order * 10_000,
                    end=order * 10_000 + len(text),
                    content_hash=content_hash(text),
                )
            )
        made = np.random.default_rng(seed).normal(size=(passages, DIM)).astype(np.float32)
        self._vectors = made / np.linalg.norm(made, axis=1, keepdims=True)
        self.question = "how many " + " ".join(chance.choices(words[20:400], k=7)) + "?"

    def vectors(self, keys: Sequence[int]) -> np.ndarray:
        return self._vectors[list(keys)]

    def term_statistics(self, wanted: Sequence[str]) -> TermStatistics:
        return TermStatistics(len(self.held), 100.0, dict.fromkeys(wanted, 20))

    def neighbours(self, key: int, before: int = 1, after: int = 1) -> list[tuple[int, Passage]]:
        around = (*range(key - before, key), *range(key + 1, key + 1 + after))
        mine = self.held[key].document
        return [
            (k, self.held[k])
            for k in around
            if 0 <= k < len(self.held) and self.held[k].document == mine
        ]

    def candidates(self) -> list[Candidate]:
        """The passages that share most terms with the question first."""
        asked = set(terms(self.question))
        shared = [len(asked & set(terms(passage.text))) for passage in self.held]
        order = sorted(range(len(self.held)), key=lambda key: (-shared[key], key))
        return [
            Candidate(key, self.held[key], Scores(combined=score, final=score))
            for key, score in zip(order, np.linspace(0.9, 0.3, len(order)).tolist(), strict=True)
        ]


def main() -> int:
    """Print the times; 1 when the default policy is above its limit."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--candidates", type=int, default=500)
    options.add_argument("--budget", type=int, default=8000)
    options.add_argument("--rounds", type=int, default=30)
    given = options.parse_args()

    store = MadeUpStore(given.candidates)
    candidates = store.candidates()
    settings = Settings.load({})
    counter = token_counter(settings.tokenizer_model)
    write = sys.stdout.write
    write(f"packing {given.candidates} candidates into {given.budget} tokens, milliseconds\n")
    write(f"{'policy':10} {'first':>8} {'p50':>8} {'p95':>8} {'tokens':>8} {'passages':>9}\n")
    medians: dict[str, float] = {}
    for policy in PACKING_POLICIES:

        def timed(policy: str = policy) -> tuple[float, Context]:
            started = time.perf_counter()
            context = pack(
                store.question,
                candidates,
                store=store,  # pyright: ignore[reportArgumentType]
                settings=settings,
                counter=counter,
                budget=given.budget,
                policy=policy,
            )
            return (time.perf_counter() - started) * 1000.0, context

        first, context = timed()
        took = [timed()[0] for _ in range(given.rounds)]
        p50, p95 = np.percentile(took, (50, 95))
        medians[policy] = float(p50)
        write(
            f"{policy:10} {first:8.2f} {p50:8.2f} {p95:8.2f} "
            f"{context.tokens:8} {len(context.passages):9}\n"
        )
    return int(medians[settings.packing_policy] > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
