"""Campaigns of many attacks in parallel, with one batched query per generation.

Each image has its own strategy and seed, derived from the campaign's seed and the image number. So its result
depends neither on the other images, nor on their order, nor on the number of threads, if the classifier
treats rows independently.
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

from lmma.methods.registry import strategy_class
from lmma.numerics.recombination import default_popsize
from lmma_lab.attack.batched_attacks import AttackPlan, BatchedAttacks, Images, Results, Search
from lmma_lab.attack.objective import PredictProba, Projection
from lmma_lab.attack.records import Record, RecordKeeper

__all__ = ["Campaign", "campaign"]

_MEMORY = 2**30  # total bytes of all active strategies


@dataclass(frozen=True)
class Campaign:
    """The records of a campaign.

    Attributes
    ----------
    records : list of Record
        One per attacked image, sorted by image number.
    skipped : list of int
        Images that needed no attack: misclassified, or if targeted, already in the target class.
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
    batch_size: int = 32,
    threads: int = 1,
    store: RecordKeeper | None = None,
    observer: Callable[[Record], None] | None = None,
    **options: Any,
) -> Campaign:
    """Attack every correctly classified image and return the records.

    Parameters
    ----------
    predict_proba : callable
        Maps (rows, n) to (rows, classes). Called once per generation for all images of a batch. For a
        `CompiledForest`, each image queries a pruned copy instead.
    X : (images, n)
        Images to attack.
    y : (images,) of int
        Column of the true class of each image.
    method, sigma0, popsize, **options
        The strategy, as in `lmma.strategy`.
    budget : int
        Queries per image, rounded up to complete generations: 1000 queries in generations of 23 are 44
        generations and 1012 queries. One more query evaluates the original.
    seed : int
        Seed of the campaign.
    images : iterable of int, optional
        Number of each image in its data set; 0, 1, 2, ... by default. It identifies the image in the
        records and seeds its run.
    target : int or (images,) of int, optional
        Class to reach. By default any wrong class is a success.
    clip, round, low, high
        Whether to clip candidates to [`low`, `high`] and to round them before every query.
    stop_at_success : bool
        If true, an attack ends with its first adversarial. Otherwise the rest of the budget is used to bring
        the adversarial closer to the original.
    batch_size : int
        Images attacked at the same time, per thread. A finished image is replaced by the next one. Large
        batches are faster with most classifiers, but not with a compiled forest.
    threads : int
        Number of threads (-1: one per processor). `predict_proba` must be thread-safe.
    store : RecordKeeper, optional
        Storage for records; images with a record are not attacked again.
    observer : callable, optional
        Called with each new record, in order of completion, by one thread at a time.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got batch_size={batch_size}")
    if threads < 1:
        threads = os.cpu_count() or 1
    targets = Images(X, y, images, target)
    popsize = popsize or default_popsize(targets.n)
    projection = Projection(clip, round, low, high)
    search = Search(method, sigma0, popsize, budget, seed, options, projection, stop_at_success)
    plan = AttackPlan(predict_proba, targets, search)
    todo, skipped = plan.starts(store)
    needed = strategy_class(method).memory(targets.n, popsize)
    batch_size = max(1, min(batch_size, _MEMORY // threads // needed, math.ceil(len(todo) / threads)))
    results = Results(store, observer)
    queue = deque(todo)
    batches = [BatchedAttacks(plan, batch_size, queue, results) for _ in range(min(threads, len(todo)))]
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
                results.cancelled.set()  # the other threads end after their generation
                raise
    records = store.records(targets.images) if store is not None else results.records
    return Campaign(sorted(records, key=lambda r: r.image), skipped)
