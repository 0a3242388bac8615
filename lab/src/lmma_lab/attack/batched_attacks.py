"""Batched attacks: one query per generation for all images of a thread.

Each image has its own strategy and seed, so its result does not depend on the other images.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmma.methods import Strategy, strategy
from lmma_lab.attack.forest import CompiledForest
from lmma_lab.attack.objective import Floats, PredictProba, Projection, distances, margins, objective_values
from lmma_lab.attack.pruned import NearForest
from lmma_lab.attack.records import Record, RecordKeeper

__all__ = ["AttackPlan", "BatchedAttacks", "Images", "Results", "Search"]


@dataclass(frozen=True)
class Start:
    """An image to attack: its pixels, its class, and the objective at the start."""

    image: int
    x0: Floats
    label: int  # class to leave, or to reach if targeted
    truth: int
    value: float


class Images:
    """Validated input of a campaign: images, their true classes and the classes to leave or reach."""

    def __init__(
        self, X: ArrayLike, y: ArrayLike, images: Iterable[int] | None, target: ArrayLike | None
    ) -> None:
        self.X = np.asarray(X)
        self.y = np.asarray(y)
        if self.X.ndim != 2 or self.y.shape != (len(self.X),) or self.y.dtype.kind not in "iu":
            raise ValueError(
                f"X must have shape (images, n) and y one column number for each image; got shapes"
                f" {self.X.shape} and {self.y.shape}, type {self.y.dtype}"
            )
        self.n = self.X.shape[1]
        self.images = list(range(len(self.X))) if images is None else [int(i) for i in images]
        if len(self.images) != len(self.X) or len(set(self.images)) != len(self.images):
            raise ValueError("images must hold one distinct number for each row of X")
        self.targeted = target is not None
        self.goal = np.broadcast_to(self.y if target is None else np.asarray(target), self.y.shape)


@dataclass(frozen=True)
class Search:
    """Settings of the search that are the same for all images of a campaign."""

    method: str
    sigma0: float
    popsize: int
    budget: int
    seed: int
    options: dict[str, Any]
    projection: Projection
    stop_at_success: bool

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise ValueError(f"budget must be at least 1, got budget={self.budget}")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got seed={self.seed}")

    @property
    def generations(self) -> int:
        """Number of generations within the budget, rounded up."""
        return math.ceil(self.budget / self.popsize)

    def strategy(self, start: Start) -> Strategy:
        """Return the strategy for one image, seeded only by the campaign's seed and the image number."""
        rng = np.random.SeedSequence(self.seed, spawn_key=(start.image,))
        return strategy(self.method, start.x0, self.sigma0, popsize=self.popsize, rng=rng, **self.options)


class AttackPlan:
    """A classifier, the images to attack, and the settings of the search."""

    def __init__(self, predict_proba: PredictProba, images: Images, search: Search) -> None:
        if not callable(predict_proba):
            raise TypeError(
                f"predict_proba must be a function of rows, got a {type(predict_proba).__name__};"
                " pass model.predict_proba"
            )
        self.images, self.search = images, search
        self.predict = predict_proba
        # a compiled forest is queried through one pruned copy per image
        owner = getattr(predict_proba, "__self__", None)
        self.forest: CompiledForest | None = None
        if isinstance(owner, CompiledForest) and owner.compiled and predict_proba == owner.predict_proba:
            self.forest = owner

    def starts(self, store: RecordKeeper | None) -> tuple[list[Start], list[int]]:
        """Return the images to attack, and the numbers of images that are already misclassified."""
        given = self.images
        todo: list[Start] = []
        skipped: list[int] = []
        done = set() if store is None else store.done(given.images)
        for first in range(0, len(given.X), 4096):
            part = slice(first, first + 4096)
            x0 = given.X[part].astype(np.float64)
            label = given.goal[part]
            p = np.asarray(self.predict(x0))
            if p.ndim == 2 and (label.min() < 0 or label.max() >= p.shape[1] or given.y.max() >= p.shape[1]):
                raise ValueError(
                    f"y and target must be columns 0 to {p.shape[1] - 1} of predict_proba; use"
                    " np.searchsorted(model.classes_, labels)"
                )
            margin, success = margins(p, label, targeted=given.targeted)
            for k, image in enumerate(given.images[part]):
                if success[k]:
                    skipped.append(image)
                elif image not in done:
                    truth = int(given.y[first + k])
                    todo.append(Start(image, x0[k].copy(), int(label[k]), truth, float(margin[k])))
        return todo, skipped


class Results:
    """Thread-safe collector of records, which are stored and passed to an observer."""

    def __init__(self, store: RecordKeeper | None, observer: Callable[[Record], None] | None) -> None:
        self.records: list[Record] = []
        self.store, self.observer = store, observer
        self.lock = threading.Lock()
        self.cancelled = threading.Event()

    def put(self, records: Sequence[Record]) -> None:
        """Store records and pass each to the observer."""
        if self.store is not None:
            self.store.put(records)
        with self.lock:
            if self.store is None:
                self.records += records
            if self.observer is not None:
                for record in records:
                    self.observer(record)


class Attack:
    """One attack in progress: its strategy, its best candidate and its curve."""

    def __init__(self, start: Start, plan: AttackPlan) -> None:
        self.start, self.es = start, plan.search.strategy(start)
        self.near: NearForest | None = None
        if plan.forest is not None:
            self.near = NearForest(plan.forest, start.x0, plan.search.sigma0, plan.search.projection)
        self.best = start.value
        self.best_x = start.x0
        self.found = start.truth
        self.first_success = 0
        self.seconds = 0.0
        self.curve = np.empty(plan.search.generations + 1)
        self.curve[0] = start.value

    def tell(self, rows: Floats, values: Floats, found: NDArray[np.intp]) -> None:
        """Update the strategy and the best candidate; `rows` are the projected candidates."""
        self.es.tell(values)
        k = int(values.argmin())
        if values[k] < self.best:
            self.best = float(values[k])
            self.best_x = rows[k].copy()
            self.found = int(found[k])
            if self.best < 0 and not self.first_success:
                self.first_success = self.es.evaluations
        self.curve[self.es.generation] = self.best

    def record(self, fits_uint8: bool) -> Record:
        """Return the record of the attack so far."""
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
            adversarial=self.best_x.astype(np.uint8 if fits_uint8 else np.float32),
            seconds=self.seconds,
        )


class BatchedAttacks:
    """A batch of attacks with one query per generation, refilled from a shared queue."""

    def __init__(self, plan: AttackPlan, slots: int, queue: deque[Start], results: Results) -> None:
        self.plan, self.queue, self.results = plan, queue, results
        self.slots = slots
        self.asked = np.empty((slots, plan.search.popsize, plan.images.n))
        p = plan.search.projection
        self.fits_uint8 = p.clip and p.round and p.low >= 0 and p.high <= 255
        self.attacks: list[Attack] = []

    def run(self) -> None:
        """Run until the queue is empty and all attacks are finished."""
        while not self.results.cancelled.is_set():
            start = time.thread_time()
            self._refill()
            if not self.attacks:
                return
            self._generation()
            share = (time.thread_time() - start) / len(self.attacks)
            for attack in self.attacks:
                attack.seconds += share
            over = [self._over(attack) for attack in self.attacks]
            if any(over):
                finished = [attack for attack, yes in zip(self.attacks, over, strict=True) if yes]
                self.results.put([attack.record(self.fits_uint8) for attack in finished])
                self.attacks = [attack for attack, yes in zip(self.attacks, over, strict=True) if not yes]

    def _over(self, attack: Attack) -> bool:
        succeeded = self.plan.search.stop_at_success and attack.best < 0
        return (
            succeeded
            or attack.es.generation >= self.plan.search.generations
            or "numerical" in attack.es.stop()
        )

    def _refill(self) -> None:
        while len(self.attacks) < self.slots:
            try:
                start = self.queue.popleft()
            except IndexError:
                return
            self.attacks.append(Attack(start, self.plan))

    def _probabilities(self, seen: Floats, rows: Floats) -> Floats:
        if self.plan.forest is None:
            return np.asarray(self.plan.predict(rows), dtype=np.float64)
        near = zip(self.attacks, seen, strict=True)
        return np.concatenate([attack.near.predict_proba(mine) for attack, mine in near if attack.near])

    def _generation(self) -> None:
        plan, attacks = self.plan, self.attacks
        popsize = plan.search.popsize
        asked = self.asked[: len(attacks)]
        for attack, out in zip(attacks, asked, strict=True):
            attack.es.ask(out=out)
        seen = plan.search.projection(asked)
        rows = seen.reshape(-1, plan.images.n)
        labels = np.repeat([attack.start.label for attack in attacks], popsize)
        p = self._probabilities(seen, rows)
        if p.shape[0] != len(rows):
            raise ValueError(
                f"predict_proba returned {p.shape[0]} rows of probabilities for {len(rows)} inputs"
            )
        margin, success = margins(p, labels, targeted=plan.images.targeted)
        hits = np.flatnonzero(success)
        l2 = np.ones(len(rows))
        if hits.size:
            originals = np.stack([attack.start.x0 for attack in attacks])
            l2[hits] = distances(rows[hits], originals[hits // popsize])[0]
        values = objective_values(margin, success, l2).reshape(len(attacks), -1)
        found = p.argmax(axis=1).reshape(len(attacks), -1)
        for k, attack in enumerate(attacks):
            attack.tell(seen[k], values[k], found[k])
