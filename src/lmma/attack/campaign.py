"""Thousands of attacks side by side: one batched query a generation for all images in hand.

Each image has its own strategy and its own seed, derived from the campaign's seed and the number of the
image. So its result depends neither on the images beside it, nor on their order, nor on the number of
threads, as long as the classifier treats rows independently.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmma.attack.forest import CompiledForest
from lmma.attack.objective import Floats, PredictProba, Projection, distances, margins, objective_values
from lmma.attack.pruned import NearForest
from lmma.attack.records import Record, Store
from lmma.strategies import Strategy, strategy
from lmma.strategies.parts.recombination import default_popsize
from lmma.strategies.registry import strategy_class

__all__ = ["Campaign", "campaign"]

_MEMORY = 2**30  # bytes that the strategies in hand may take together


@dataclass(frozen=True)
class Campaign:
    """The outcome of a campaign.

    Attributes
    ----------
    records : list of Record
        One for each attacked image, by number of the image.
    skipped : list of int
        Images the classifier got wrong (or right, if targeted) from the start.
    """

    records: list[Record]
    skipped: list[int] = field(default_factory=list)

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
    store: Store | None = None,
    observer: Callable[[Record], None] | None = None,
    **options: Any,
) -> Campaign:
    """Attack every correctly classified image and return what came of it.

    Parameters
    ----------
    predict_proba : callable
        Maps (rows, n) to (rows, classes). Called once a generation for all images in hand, except that
        of a `CompiledForest` each image asks a pruned copy.
    X : (images, n)
        Images to attack.
    y : (images,) of int
        Column of the true class of each.
    method, sigma0, popsize, **options
        The strategy, as in `lmma.strategy`.
    budget : int
        Queries an image; the last generation is completed, so 1000 queries in generations of 23 are 44
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
        Images in hand at a time and thread. A finished image makes room for the next one. More of them
        make larger batches, which most classifiers like and a compiled forest does not need.
    threads : int
        Threads that share the images; -1 takes all processors. `predict_proba` must bear it.
    store : Store, optional
        Keeps records; images it already has are not attacked again.
    observer : callable, optional
        Called with each new record, in the order of completion, by one thread at a time.
    """
    plan = _Plan(
        predict_proba, X, y, images, target, method=method, sigma0=sigma0, budget=budget, popsize=popsize,
        seed=seed, projection=Projection(clip, round, low, high), stop_at_success=stop_at_success,
        options=options,
    )  # fmt: skip
    if lockstep < 1:
        raise ValueError(f"lockstep={lockstep}: at least one image must be in hand")
    if threads < 1:
        threads = os.cpu_count() or 1
    todo, skipped = plan.starts(store)
    needed = strategy_class(method).memory(plan.n, plan.popsize)
    lockstep = max(1, min(lockstep, _MEMORY // threads // needed, math.ceil(len(todo) / threads)))
    results = _Results(store, observer)
    queue = deque(todo)
    lanes = [_Lane(plan, lockstep, queue, results) for _ in range(min(threads, len(todo)))]
    if len(lanes) < 2:
        for lane in lanes:
            lane.run()
    else:
        with ThreadPoolExecutor(len(lanes)) as pool:
            futures = [pool.submit(lane.run) for lane in lanes]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                results.cancelled.set()  # the other lanes leave after their generation
                raise
    records = store.records(plan.images) if store is not None else results.records
    return Campaign(sorted(records, key=lambda r: r.image), skipped)


@dataclass(frozen=True)
class _Start:
    """An image that waits for its attack."""

    image: int
    x0: Floats
    label: int  # the class to leave, or to reach
    truth: int
    value: float


class _Plan:
    """The checked arguments of a campaign."""

    def __init__(
        self, predict_proba: PredictProba, X: ArrayLike, y: ArrayLike, images: Iterable[int] | None,
        target: ArrayLike | None, *, method: str, sigma0: float, budget: int, popsize: int | None, seed: int,
        projection: Projection, stop_at_success: bool, options: dict[str, Any],
    ) -> None:  # fmt: skip
        if not callable(predict_proba):
            raise TypeError(
                f"predict_proba must be a function of rows, got a {type(predict_proba).__name__};"
                " pass model.predict_proba"
            )
        self.X = np.asarray(X)
        self.y = np.asarray(y)
        if self.X.ndim != 2 or self.y.shape != (len(self.X),) or self.y.dtype.kind not in "iu":
            raise ValueError(
                f"X must be (images, n) and y one column number for each image; got shapes {self.X.shape}"
                f" and {self.y.shape}, type {self.y.dtype}"
            )
        self.images = list(range(len(self.X))) if images is None else [int(i) for i in images]
        if len(self.images) != len(self.X) or len(set(self.images)) != len(self.images):
            raise ValueError("images must name each row of X once")
        if budget < 1:
            raise ValueError(f"budget={budget}: at least one query an image is needed")
        if seed < 0:
            raise ValueError(f"seed={seed}: choose a seed that is not negative")
        self.targeted = target is not None
        self.goal = np.broadcast_to(self.y if target is None else np.asarray(target), self.y.shape)
        self.method, self.sigma0, self.seed, self.options = method, sigma0, seed, options
        self.n = self.X.shape[1]
        self.popsize = popsize or default_popsize(self.n)
        self.generations = math.ceil(budget / self.popsize)
        self.projection, self.stop_at_success = projection, stop_at_success
        self.predict = predict_proba
        # a compiled forest is asked through one pruned copy for each image
        owner = getattr(predict_proba, "__self__", None)
        self.forest: CompiledForest | None = None
        if isinstance(owner, CompiledForest) and owner.compiled and predict_proba == owner.predict_proba:
            self.forest = owner

    def starts(self, store: Store | None) -> tuple[list[_Start], list[int]]:
        """Return the images to attack, and the numbers of those that need no attack."""
        todo: list[_Start] = []
        skipped: list[int] = []
        done = set() if store is None else store.done(self.images)
        for first in range(0, len(self.X), 4096):
            part = slice(first, first + 4096)
            x0 = self.X[part].astype(np.float64)
            label = self.goal[part]
            p = np.asarray(self.predict(x0))
            if p.ndim == 2 and (label.min() < 0 or label.max() >= p.shape[1] or self.y.max() >= p.shape[1]):
                raise ValueError(
                    f"y and target must be columns 0 to {p.shape[1] - 1} of predict_proba; use"
                    " np.searchsorted(model.classes_, labels)"
                )
            margin, success = margins(p, label, targeted=self.targeted)
            for k, image in enumerate(self.images[part]):
                if success[k]:
                    skipped.append(image)
                elif image not in done:
                    truth = int(self.y[first + k])
                    todo.append(_Start(image, x0[k].copy(), int(label[k]), truth, float(margin[k])))
        return todo, skipped

    def strategy(self, start: _Start) -> Strategy:
        """Return the strategy of one image, seeded by campaign and image alone."""
        rng = np.random.SeedSequence(self.seed, spawn_key=(start.image,))
        return strategy(self.method, start.x0, self.sigma0, popsize=self.popsize, rng=rng, **self.options)


class _Results:
    """Where all lanes leave their records."""

    def __init__(self, store: Store | None, observer: Callable[[Record], None] | None) -> None:
        self.records: list[Record] = []
        self.store, self.observer = store, observer
        self.lock = threading.Lock()
        self.cancelled = threading.Event()

    def put(self, records: Sequence[Record]) -> None:
        if self.store is not None:
            self.store.put(records)
        with self.lock:
            if self.store is None:
                self.records += records
            if self.observer is not None:
                for record in records:
                    self.observer(record)


class _Run:
    """One attack under way."""

    def __init__(self, start: _Start, plan: _Plan) -> None:
        self.start, self.es = start, plan.strategy(start)
        self.near: NearForest | None = None
        if plan.forest is not None:
            self.near = NearForest(plan.forest, start.x0, plan.sigma0, plan.projection)
        self.best = start.value
        self.best_x = start.x0
        self.found = start.truth
        self.first_success = 0
        self.seconds = 0.0
        self.curve = np.empty(plan.generations + 1)
        self.curve[0] = start.value

    def tell(self, rows: Floats, values: Floats, found: NDArray[np.intp]) -> None:
        """Let the strategy learn and note the best candidate; `rows` are what the classifier saw."""
        self.es.tell(values)
        k = int(values.argmin())
        if values[k] < self.best:
            self.best = float(values[k])
            self.best_x = rows[k].copy()
            self.found = int(found[k])
            if self.best < 0 and not self.first_success:
                self.first_success = self.es.evaluations
        self.curve[self.es.generation] = self.best

    def record(self, whole_bytes: bool) -> Record:
        success = self.best < 0
        l2, linf = distances(self.best_x, self.start.x0)
        return Record(
            image=self.start.image,
            label=self.start.truth,
            found=self.found if success else self.start.truth,
            success=success,
            start=self.start.value,
            value=self.best,
            l2=float(l2) if success else 0.0,
            linf=float(linf) if success else 0.0,
            queries=self.es.evaluations,
            first_success=self.first_success,
            curve=self.curve[: self.es.generation + 1].copy(),
            adversarial=self.best_x.astype(np.uint8 if whole_bytes else np.float32),
            seconds=self.seconds,
        )


class _Lane:
    """A set of attacks in lockstep, refilled from the common queue."""

    def __init__(self, plan: _Plan, slots: int, queue: deque[_Start], results: _Results) -> None:
        self.plan, self.queue, self.results = plan, queue, results
        self.slots = slots
        self.asked = np.empty((slots, plan.popsize, plan.n))
        p = plan.projection
        self.whole_bytes = p.clip and p.round and p.low >= 0 and p.high <= 255
        self.runs: list[_Run] = []

    def run(self) -> None:
        """Work until the queue is empty and all attacks in hand are over."""
        while not self.results.cancelled.is_set():
            start = time.thread_time()
            self._refill()
            if not self.runs:
                return
            self._generation()
            share = (time.thread_time() - start) / len(self.runs)
            for run in self.runs:
                run.seconds += share
            over = [self._over(run) for run in self.runs]
            if any(over):
                finished = [run for run, yes in zip(self.runs, over, strict=True) if yes]
                self.results.put([run.record(self.whole_bytes) for run in finished])
                self.runs = [run for run, yes in zip(self.runs, over, strict=True) if not yes]

    def _over(self, run: _Run) -> bool:
        succeeded = self.plan.stop_at_success and run.best < 0
        return succeeded or run.es.generation >= self.plan.generations or "numerical" in run.es.stop()

    def _refill(self) -> None:
        while len(self.runs) < self.slots:
            try:
                start = self.queue.popleft()
            except IndexError:
                return
            self.runs.append(_Run(start, self.plan))

    def _probabilities(self, seen: Floats, rows: Floats) -> Floats:
        if self.plan.forest is None:
            return np.asarray(self.plan.predict(rows), dtype=np.float64)
        near = zip(self.runs, seen, strict=True)
        return np.concatenate([run.near.predict_proba(mine) for run, mine in near if run.near])

    def _generation(self) -> None:
        plan, runs = self.plan, self.runs
        asked = self.asked[: len(runs)]
        for run, out in zip(runs, asked, strict=True):
            run.es.ask(out=out)
        seen = plan.projection(asked)
        rows = seen.reshape(-1, plan.n)
        labels = np.repeat([run.start.label for run in runs], plan.popsize)
        p = self._probabilities(seen, rows)
        if p.shape[0] != len(rows):
            raise ValueError(f"predict_proba gave {p.shape[0]} rows of probabilities for {len(rows)} inputs")
        margin, success = margins(p, labels, targeted=plan.targeted)
        hits = np.flatnonzero(success)
        l2 = np.ones(len(rows))
        if hits.size:
            originals = np.stack([run.start.x0 for run in runs])
            l2[hits] = distances(rows[hits], originals[hits // plan.popsize])[0]
        values = objective_values(margin, success, l2).reshape(len(runs), -1)
        found = p.argmax(axis=1).reshape(len(runs), -1)
        for k, run in enumerate(runs):
            run.tell(seen[k], values[k], found[k])
