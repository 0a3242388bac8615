"""Records of attacks by what they say about section 4.2 of the paper."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Record = Mapping[str, Any]
Campaign = dict[int, Record]  # by number of the image

KINDS = ("attack", "forest")  # of records in the store that speak of attacks
PROTOCOL = {
    "digest": "7083823f253a67f9",  # MNIST's test images and labels; other data come in files of these names
    "trees": 1000, "sigma0": 1.0, "budget": 1000, "clip": False, "round": False, "target": None,
}  # fmt: skip
BANDS = (0, 1000, 2000, 5000)  # first problems of the paper's four bands, by initial objective
BAND = 100


class Attacks:
    """The campaigns that follow the paper's protocol, all on one forest and with one seed.

    Of several forests and seeds the one with the most images counts.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        groups: dict[tuple[str, int], dict[str, Campaign]] = defaultdict(lambda: defaultdict(dict))
        forests: dict[str, Record] = {}
        for record in records:
            spec = record["spec"]
            if record["kind"] == "forest":
                forests[spec["model"]] = record
            elif all(spec.get(name, ...) == value for name, value in PROTOCOL.items()):
                groups[spec["model"], spec["seed"]][spec["method"]][spec["image"]] = record
        self.campaigns: dict[str, Campaign] = {}
        self.forest: Record | None = None
        if groups:
            chosen = max(groups, key=lambda group: sum(map(len, groups[group].values())))
            self.campaigns = {method: groups[chosen][method] for method in sorted(groups[chosen])}
            self.forest = forests.get(chosen[0])

    def campaign(self, method: str) -> Campaign:
        """Return the attacks of one method by image; empty where there are none."""
        return self.campaigns.get(method, {})

    def pairs(self, one: str, two: str) -> list[tuple[Record, Record]]:
        """Return the attacks of two methods on the images that both attacked."""
        ours, theirs = self.campaign(one), self.campaign(two)
        return [(ours[image], theirs[image]) for image in sorted(ours.keys() & theirs.keys())]

    def seconds(self, method: str) -> float:
        """Return the mean processor time for an image, or NaN."""
        times = [record["seconds"] for record in self.campaign(method).values()]
        return float(np.mean(times)) if times else math.nan

    def bands(self, one: str, two: str) -> dict[int, tuple[float, float]]:
        """Return final medians of two methods on the paper's bands, where both attacked all of a band.

        Problems are sorted by initial objective over all images that `one` attacked, which must reach
        beyond the last band.
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
