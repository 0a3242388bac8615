"""Thousands of attacks side by side: one batched query per generation for all images under attack.

Each image has its own strategy and its own seed, derived from the campaign's seed and the number of the
image. So its result depends neither on the images beside it, nor on their order, nor on the number of
threads, as long as the classifier treats rows independently.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmma.attack.lockstep import AttackPlan, Images, Lockstep, Results, Search
from lmma.attack.objective import PredictProba, Projection
from lmma.attack.records import Record, RecordKeeper
from lmma.strategies.parts.recombination import default_popsize
from lmma.strategies.registry import strategy_class

__all__ = ["Campaign", "campaign"]

_MEMORY = 2**30  # bytes that the strategies under way may take together


@dataclass(frozen=True)
class Campaign:
    """The records of a campaign.

    Attributes
    ----------
    records : list of Record
        One for each attacked image, by number of the image.
    skipped : list of int
        Images the classifier got wrong (or right, if targeted) from the start.
    """

    records: list[Record]
    skipped: list[int] = field(default_factory=list)

    def __repr__(self) -> str:
        count, skipped = len(self.records), len(self.skipped)
        return f"<campaign: {count} images, {self.success_rate:.1%} fooled, {skipped} skipped>"

    def column(self, name: str) -> NDArray[Any]:
        """Return one field of all records as an array."""
        return np.array([getattr(record, name) for record in self.records])

    @property
    def success_rate(self) -> float:
        """Share of attacked images that were turned into adversarial ones."""
        return float(self.column("success").mean()) if self.records else math.nan


def campaign(
    predict_proba: PredictProba,
    X: ArrayLike,
    y: ArrayLike,
    *,
    method: str = "lm-ma-es",
    sigma0: float = 1.0,
    budget: int = 1000,
    popsize: int | None = None,
    seed: int = 0,
    images: Iterable[int] | None = None,
    target: ArrayLike | None = None,
    clip: bool = False,
    round: bool = False,
    low: float = 0.0,
    high: float = 255.0,
    stop_at_success: bool = False,
    lockstep: int = 32,
    threads: int = 1,
    store: RecordKeeper | None = None,
    observer: Callable[[Record], None] | None = None,
    **options: Any,
) -> Campaign:
    """Attack every correctly classified image and return the records.

    Parameters
    ----------
    predict_proba : callable
        Maps (rows, n) to (rows, classes). Called once per generation for all images under attack, except that
        of a `CompiledForest` each image asks a pruned copy.
    X : (images, n)
        Images to attack.
    y : (images,) of int
        Column of the true class of each.
    method, sigma0, popsize, **options
        The strategy, as in `lmma.strategy`.
    budget : int
        Queries per image; the last generation is completed, so 1000 queries in generations of 23 are 44
        generations and 1012 queries. One more query asks for the original itself.
    seed : int
        Seed of the campaign.
    images : iterable of int, optional
        Number of each image in its data set; 0, 1, 2, ... by default. It names the image in the
        records and seeds its run.
    target : int or (images,) of int, optional
        Class to be reached. By default any wrong class is a success.
    clip, round, low, high
        Whether candidates are clipped to [`low`, `high`] and rounded before every query.
    stop_at_success : bool
        Whether an image leaves at its first adversarial; otherwise the rest of the budget brings the
        adversarial closer to the original.
    lockstep : int
        Images under attack at a time, per thread. A finished image makes room for the next one. More of them
        make larger batches, which most classifiers like and a compiled forest does not need.
    threads : int
        Threads that share the images; -1 takes all processors. `predict_proba` must bear it.
    store : RecordKeeper, optional
        Keeps records; images it already has are not attacked again.
    observer : callable, optional
        Called with each new record, in the order of completion, by one thread at a time.
    """
    if lockstep < 1:
        raise ValueError(f"lockstep={lockstep}: at least one image must be under attack")
    if threads < 1:
        threads = os.cpu_count() or 1
    targets = Images(X, y, images, target)
    popsize = popsize or default_popsize(targets.n)
    projection = Projection(clip, round, low, high)
    search = Search(method, sigma0, popsize, budget, seed, options, projection, stop_at_success)
    plan = AttackPlan(predict_proba, targets, search)
    todo, skipped = plan.starts(store)
    needed = strategy_class(method).memory(targets.n, popsize)
    lockstep = max(1, min(lockstep, _MEMORY // threads // needed, math.ceil(len(todo) / threads)))
    results = Results(store, observer)
    queue = deque(todo)
    batches = [Lockstep(plan, lockstep, queue, results) for _ in range(min(threads, len(todo)))]
    if len(batches) < 2:
        for batch in batches:
            batch.run()
    else:
        with ThreadPoolExecutor(len(batches)) as pool:
            futures = [pool.submit(batch.run) for batch in batches]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                results.cancelled.set()  # the other threads leave after their generation
                raise
    records = store.records(targets.images) if store is not None else results.records
    return Campaign(sorted(records, key=lambda r: r.image), skipped)
