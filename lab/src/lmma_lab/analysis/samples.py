"""Access to records for rules and figures: samples of runs, growth over n, campaigns of attacks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lmma_lab.plotting.attack import BANDS
from lmma_lab.store import Record
from lmma_lab.tasks import SIGMA0, TARGET

Records = Sequence[Record]
ByImage = dict[int, Record]  # attacks of one method, by image number

KINDS_OF_ATTACKS = ("attack", "forest")  # kinds of records about attacks in the store
PROTOCOL = {
    "digest": "7083823f253a67f9",  # MNIST's test images and labels; other data use the same file names
    "trees": 1000, "sigma0": 1.0, "budget": 1000, "clip": False, "round": False, "target": None,
}  # fmt: skip
BAND = 100  # problems in each of the paper's four bands, which start at BANDS by initial objective


@dataclass(frozen=True)
class Sample:
    """The runs of one method on one problem in one dimension."""

    runs: int
    evaluations: tuple[int, ...]  # to the target, of the runs that reached it
    seconds: tuple[float, ...]  # CPU time of the same runs
    spent: int  # most evaluations of a run that missed the target; 0 if all reached it

    @property
    def solved(self) -> bool:
        """True if any run reached the target (one in four ends in Rosenbrock's local optimum)."""
        return bool(self.evaluations)

    @property
    def median(self) -> float:
        """Median evaluations of the runs that reached the target; infinity if none did."""
        return float(np.median(self.evaluations)) if self.evaluations else math.inf

    @property
    def median_seconds(self) -> float:
        """Median seconds of the runs that reached the target; infinity if none did."""
        return float(np.median(self.seconds)) if self.seconds else math.inf


class Evidence:
    """All records that follow the paper's protocol, by subject.

    Parameters
    ----------
    records : iterable of mappings
        Records of a store.
    smallest : int
        Runs in fewer dimensions are ignored; the paper's results are for n >= 128.
    protocol : (target, sigma0)
        Runs with other values are ignored.
    """

    def __init__(
        self,
        records: Iterable[Record],
        smallest: int = 1,
        protocol: tuple[float, float] | None = None,
    ) -> None:
        protocol = (TARGET, SIGMA0) if protocol is None else protocol
        runs: dict[tuple[str, str, int], dict[int, Record]] = defaultdict(dict)
        self._timings: dict[str, dict[int, float]] = defaultdict(dict)
        self._memory: dict[str, dict[int, float]] = defaultdict(dict)
        self._differences: dict[tuple[str, str], list[float]] = defaultdict(list)
        attacks: list[Record] = []
        for record in records:
            spec, kind = record["spec"], record["kind"]
            if kind == "run":
                if (spec["target"], spec["sigma0"]) != protocol or spec["n"] < smallest:
                    continue
                same = runs[spec["problem"], spec["method"], spec["n"]]
                before = same.get(spec["seed"])
                # The same seed with two budgets is one run, shortened in one case.
                if before is None or before["evaluations"] <= record["evaluations"]:
                    same[spec["seed"]] = record
            elif kind == "timing":
                self._timings[spec["method"]][spec["n"]] = record["seconds"]["best"]
            elif kind == "memory":
                self._memory[spec["method"]][spec["n"]] = record["peak_bytes"]
            elif kind == "invariance":
                self._differences[spec["method"], spec["change"]].append(record["difference"])
            elif kind in KINDS_OF_ATTACKS:
                attacks.append(record)
        self.attacks = Attacks(attacks)
        self.runs = {
            key: [by_seed[seed] for seed in sorted(by_seed)] for key, by_seed in sorted(runs.items())
        }

    def sample(self, problem: str, method: str, n: int) -> Sample | None:
        """Return the runs of one method on one problem in one dimension, or None."""
        records = self.runs.get((problem, method, n))
        if not records:
            return None
        reached = [record for record in records if record["success"]]
        return Sample(
            len(records),
            tuple(record["evaluations_to_target"] for record in reached),
            tuple(record["cpu_seconds"] for record in reached),
            max((record["evaluations"] for record in records if not record["success"]), default=0),
        )

    def unreached(self, problem: str, method: str, n: int) -> list[Record]:
        """Return the failed runs that a figure must show.

        These are the runs that spent their budget, or all runs if none succeeded. If other runs succeed, a
        run stuck in a local optimum is not included; it only counts in the number of runs.
        """
        records = self.runs.get((problem, method, n), [])
        missed = [record for record in records if not record["success"]]
        if len(missed) == len(records):
            return missed
        return [record for record in missed if record["reason"] == "maxfevals"]

    def dims(self, problem: str, method: str) -> list[int]:
        """Return the dimensions in which a method ran on a problem."""
        return sorted(n for p, m, n in self.runs if (p, m) == (problem, method))

    def common(self, problem: str, one: str, two: str) -> list[int]:
        """Return the dimensions in which both methods solved the problem."""
        both = set(self.dims(problem, one)) & set(self.dims(problem, two))
        return sorted(n for n in both if all(self._solved(problem, method, n) for method in (one, two)))

    def _solved(self, problem: str, method: str, n: int) -> bool:
        sample = self.sample(problem, method, n)
        return sample is not None and sample.solved

    def medians(self, problem: str, method: str) -> dict[int, float]:
        """Return the median evaluations in each dimension that was solved."""
        samples = {n: self.sample(problem, method, n) for n in self.dims(problem, method)}
        return {n: s.median for n, s in samples.items() if s is not None and s.solved}

    def timings(self, method: str) -> dict[int, float]:
        """Return the best seconds per sample over n."""
        return dict(sorted(self._timings.get(method, {}).items()))

    def memory(self, method: str) -> dict[int, float]:
        """Return the peak bytes over n."""
        return dict(sorted(self._memory.get(method, {}).items()))

    def differences(self, method: str, change: str) -> list[float]:
        """Return the differences between runs that should coincide."""
        return list(self._differences.get((method, change), ()))


def growth(points: Mapping[int, float], dims: Sequence[int] | None = None) -> float | None:
    """Return the exponent p of a fit of value ~ n^p to ``points``, n -> value; None for fewer than two.

    ``dims`` selects the n to use. The fit is linear in log(value) over log(n).
    """
    chosen = sorted(points if dims is None else set(points) & set(dims))
    if len(chosen) < 2:
        return None
    slope = np.polyfit(np.log(chosen), np.log([points[n] for n in chosen]), 1)[0]
    return float(slope)


class Attacks:
    """The campaigns that follow the paper's protocol, for one forest and one seed.

    If there are several forests or seeds, the combination with the most images is used.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        groups: dict[tuple[str, int], dict[str, ByImage]] = defaultdict(lambda: defaultdict(dict))
        forests: dict[str, Record] = {}
        for record in records:
            spec = record["spec"]
            if record["kind"] == "forest":
                forests[spec["model"]] = record
            elif all(spec.get(name, ...) == value for name, value in PROTOCOL.items()):
                groups[spec["model"], spec["seed"]][spec["method"]][spec["image"]] = record
        self.campaigns: dict[str, ByImage] = {}
        self.forest: Record | None = None
        if groups:
            chosen = max(groups, key=lambda group: sum(map(len, groups[group].values())))
            self.campaigns = {method: groups[chosen][method] for method in sorted(groups[chosen])}
            self.forest = forests.get(chosen[0])

    def campaign(self, method: str) -> ByImage:
        """Return the attacks of one method by image; empty if there are none."""
        return self.campaigns.get(method, {})

    def pairs(self, one: str, two: str) -> list[tuple[Record, Record]]:
        """Return the attacks of two methods on the images that both attacked."""
        ours, theirs = self.campaign(one), self.campaign(two)
        return [(ours[image], theirs[image]) for image in sorted(ours.keys() & theirs.keys())]

    def seconds(self, method: str) -> float:
        """Return the mean CPU time per image, or NaN."""
        times = [record["seconds"] for record in self.campaign(method).values()]
        return float(np.mean(times)) if times else math.nan

    def bands(self, one: str, two: str) -> dict[int, tuple[float, float]]:
        """Return final medians of two methods on those of the paper's bands that both attacked completely.

        Problems are all images that `one` attacked, sorted by initial objective; they must cover the last
        band.
        """
        ours, theirs = self.campaign(one), self.campaign(two)
        order = sorted(ours, key=lambda image: (ours[image]["start"], image))
        medians = {}
        for first in BANDS if len(order) >= BANDS[-1] + BAND else ():
            images = order[first : first + BAND]
            if all(image in theirs for image in images):
                values = [[c[image]["value"] for image in images] for c in (ours, theirs)]
                medians[first] = (float(np.median(values[0])), float(np.median(values[1])))
        return medians


def share(records: Iterable[Record]) -> float:
    """Return the share of successes."""
    return float(np.mean([record["success"] for record in records]))
