"""Injected points, which are evaluated with the next candidates and used in the update.

Hansen, *Injecting external solutions into CMA-ES*, INRIA research report 7748, 2011.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np

from lmma.layers.layer import Layer, Told
from lmma.numerics.recombination import Array, Indices

if TYPE_CHECKING:
    from lmma.layers.bounds import Box
    from lmma.layers.choices import Choices
    from lmma.methods.base import Method


@final
class Injection(Layer):
    """A queue of points to be used as candidates.

    Parameters
    ----------
    n : int
        The number of all coordinates.
    box : Box or None
        The bounds, which map a point to coordinates of the search.
    choices : Choices or None
        The coordinates outside the method, if any.
    """

    name = "injection"
    STATE = ("points",)
    VARIABLE = ("points",)

    def __init__(self, n: int, box: Box | None, choices: Choices | None) -> None:
        self.points: Array = np.empty((0, n))
        self.placed = 0  # number of points among the current candidates
        self._box, self._choices = box, choices

    def add(self, points: Array) -> None:
        """Append points, one per row."""
        self.points = np.concatenate((self.points, points)).astype(points.dtype)

    def on_ask(self, method: Method, X: Array, first: int, rows: int) -> None:
        """Replace the last rows by the first points of the queue."""
        points = self.points[:rows]
        self.placed = len(points)
        if not len(points):
            return
        if self._choices is not None:
            self._choices.pin(points)
            points = points[:, self._choices.numbers]
        method.place([x if self._box is None else self._box.outside(x) for x in points], X)

    def on_resample(self, method: Method, X: Array, rows: Indices, attempt: int) -> None:
        """Do nothing: the method redraws these candidates."""

    def on_tell(self, method: Method, told: Told) -> Told:
        """Remove the evaluated points from the queue."""
        self.points, self.placed = self.points[self.placed :], 0
        return told
