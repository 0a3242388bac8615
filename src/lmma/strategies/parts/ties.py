"""Generations whose best candidates have equal values: what that means, and how often it happened."""

from __future__ import annotations

import math
from typing import final

import numpy as np

from lmma.strategies.parts.recombination import Array

SHARE = 0.7  # of the candidates, from the best on, as in Hansen's purecmaes
LAST_DIGITS = 8  # units in the last place: how coarse rounding makes a sum


@final
class Ties:
    """Watches for equal values among the best, which tell the step size nothing.

    The steps are then too short for the digits of fun: a plateau, or a simulator that prints six of them.
    Hansen's ``purecmaes`` lengthens them, and so does :class:`~lmma.strategies.es.ES`. Where the next larger
    value is nearer than a difference that counts, or than the last digits of the precision fun computes in,
    equal values are no hindrance: the search has converged.

    Attributes
    ----------
    count : int
        Generations with ties so far.
    gap : float
        How far the next larger value lay from the best, at the last tie that had one; 0 before.
    hinder : bool
        Whether the last generation had ties that mean something.
    """

    STATE = ("count", "gap", "hinder")

    def __init__(self) -> None:
        self.count = 0
        self.gap = 0.0
        self.hinder = False

    def look(self, ranked: Array, least: float) -> None:
        """Take in the values of a generation, increasing, of which differences from ``least`` on count."""
        last = math.ceil(SHARE * len(ranked)) - 1
        if last < 1 or ranked.item(0) != ranked.item(last):
            self.hinder = False
            return
        self.count += 1
        best = float(ranked[0])
        larger = ranked[np.searchsorted(ranked, best, side="right") :]
        if len(larger):
            self.gap = float(larger[0]) - best
        negligible = max(least, LAST_DIGITS * _unit_in_the_last_place(best))
        self.hinder = not 0.0 < self.gap <= negligible


def _unit_in_the_last_place(value: float) -> float:
    """Return how far the next number lies, in single precision if ``value`` may come from there."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    return float(np.spacing(abs(single))) if float(single) == value else math.ulp(value)
