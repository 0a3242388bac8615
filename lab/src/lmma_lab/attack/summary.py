"""Statistics of campaigns: success, distances, and comparison of two methods on the same images."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmma_lab.attack.records import Record

__all__ = ["Pairing", "Summary", "confirmed", "pair", "success_within", "summarise", "wilson"]


@dataclass(frozen=True)
class Summary:
    """Statistics of a campaign.

    Attributes
    ----------
    images, successes : int
    rate, rate_low, rate_high : float
        Share of successes, and its 95% interval (Wilson).
    l2, linf, queries : float
        Medians over the successes: distances, and queries until the first adversarial.
    l2_95, linf_95 : float
        95% quantiles of the distances over the successes.
    """

    images: int
    successes: int
    rate: float
    rate_low: float
    rate_high: float
    l2: float
    linf: float
    l2_95: float
    linf_95: float
    queries: float


def summarise(records: Sequence[Record]) -> Summary:
    """Return the statistics of a campaign; medians without successes are NaN."""
    hits = [record for record in records if record.success]
    low, high = wilson(len(hits), len(records))

    def quantile(name: str, q: float) -> float:
        return float(np.quantile([getattr(record, name) for record in hits], q)) if hits else math.nan

    return Summary(
        len(records), len(hits), len(hits) / len(records) if records else math.nan, low, high,
        quantile("l2", 0.5), quantile("linf", 0.5), quantile("l2", 0.95), quantile("linf", 0.95),
        quantile("first_success", 0.5),
    )  # fmt: skip


def wilson(successes: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's score interval for a proportion, by default at 95%."""
    if trials == 0:
        return math.nan, math.nan
    share = successes / trials
    centre = share + z * z / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    return (centre - half) / (1 + z * z / trials), (centre + half) / (1 + z * z / trials)


@dataclass(frozen=True)
class Pairing:
    """Comparison of two methods on the same images: wins, ties and successes."""

    images: int
    first_lower: int
    second_lower: int
    ties: int
    first_successes: int
    second_successes: int


def pair(first: Sequence[Record], second: Sequence[Record]) -> Pairing:
    """Compare the final objective values of two campaigns on the images that both attacked."""
    others = {record.image: record for record in second}
    pairs = [(record, others[record.image]) for record in first if record.image in others]
    values = np.array([(a.value, b.value) for a, b in pairs]).reshape(-1, 2)
    return Pairing(
        len(pairs),
        int((values[:, 0] < values[:, 1]).sum()),
        int((values[:, 0] > values[:, 1]).sum()),
        int((values[:, 0] == values[:, 1]).sum()),
        sum(a.success for a, _ in pairs),
        sum(b.success for _, b in pairs),
    )


def success_within(
    records: Sequence[Record], limits: Sequence[float], norm: str = "l2"
) -> NDArray[np.float64]:
    """Return, for each limit, the share of attacked images with an adversarial image within that distance."""
    if norm not in ("l2", "linf"):
        raise ValueError(f"norm={norm!r}: choose 'l2' or 'linf'")
    reached = np.sort([getattr(record, norm) for record in records if record.success])
    return np.searchsorted(reached, np.asarray(limits), side="right") / max(1, len(records))


def confirmed(
    records: Sequence[Record], predict_proba: Callable[[NDArray[Any]], Any], batch: int = 2000
) -> int:
    """Return the number of adversarials that `predict_proba` assigns to the recorded wrong class.

    Pass the original classifier if the campaign used a compiled copy.
    """
    hits = [record for record in records if record.success]
    count = 0
    for first in range(0, len(hits), batch):
        part = hits[first : first + batch]
        answer = np.asarray(predict_proba(np.stack([record.adversarial for record in part]))).argmax(axis=1)
        found = np.array([record.found for record in part])
        truth = np.array([record.label for record in part])
        count += int(((answer == found) & (answer != truth)).sum())
    return count
