"""What an attack minimises: equation (fitness) of section 4.2 of the paper, in batches.

Let h(x) be the class probabilities of a classifier, y0 the true class and x0 the original input:

    f(x) = h(x)_y0 - max over i != y0 of h(x)_i     while x is classified as y0,     so f >= 0
    f(x) = -1 / ||x - x0||_2                        once it is not,                  so f < 0

Two points the paper leaves open:

- *Ties between classes.* x is classified as the class of the highest probability, the first in
  the order of the columns at ties: `argmax`, which is also scikit-learn's ``predict``. A tie that
  y0 wins has f = 0 and is no success.
- *Ties between candidates.* With T trees many candidates share one margin, but a/T - b/T rounds
  differently for equal a - b, so that rounding errors would rank them. Margins are therefore
  rounded to multiples of 2^-40 (`MARGIN_STEP`): equal differences of votes give equal values,
  whichever way a classifier arrived at its probabilities. This is the one formula, for every
  classifier.

Targeted at class t, the first line becomes max over i != t of h(x)_i - h(x)_t, until x is
classified as t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["MARGIN_STEP", "Objective", "Projection", "distances", "margins", "objective_values"]

MARGIN_STEP = 2.0**-40  # coarse enough to swallow rounding, far finer than one vote in a million

Floats = NDArray[np.float64]
PredictProba = Callable[[Floats], Any]


def margins(
    probabilities: ArrayLike, label: ArrayLike, *, targeted: bool = False
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the margins still to be overcome, and which rows have overcome theirs.

    Parameters
    ----------
    probabilities : (rows, classes)
        The classifier's answer.
    label : int or (rows,) of int
        Column of the true class; of the wanted class if `targeted`.
    targeted : bool
        Whether success means "classified as `label`" rather than "as anything else".

    Returns
    -------
    margin : (rows,) float64
        Probability of the class that must lose less that of the best rival, in steps of
        `MARGIN_STEP`. At least 0 for rows without success.
    success : (rows,) bool
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] < 2:
        raise ValueError(
            f"probabilities have shape {p.shape}; an attack needs (rows, classes) with at least two classes"
        )
    if not np.isfinite(p).all():
        raise ValueError("predict_proba answered with numbers that are not finite: check the classifier")
    rows = np.arange(len(p))
    label = np.broadcast_to(np.asarray(label), len(p))
    own = p[rows, label]
    others = p.copy()
    others[rows, label] = -np.inf
    rival = others.max(axis=1)
    margin = np.rint((own - rival) / MARGIN_STEP) * MARGIN_STEP
    as_label = p.argmax(axis=1) == label
    return (-margin, as_label) if targeted else (margin, ~as_label)


def distances(X: ArrayLike, x0: ArrayLike) -> tuple[Floats, Floats]:
    """Return the L2 and Linf distances of the rows of `X` from `x0` (one row, or one for each)."""
    difference = np.asarray(X, dtype=np.float64) - np.asarray(x0, dtype=np.float64)
    return np.sqrt(np.einsum("...i,...i->...", difference, difference)), np.abs(difference).max(axis=-1)


def objective_values(margin: Floats, success: NDArray[np.bool_], l2: Floats) -> Floats:
    """Return f: the margin where the attack has not succeeded, -1 / L2 distance where it has."""
    # the distance is 0 only if x0 itself was misclassified; such an input needs no attack
    reward = -1.0 / np.maximum(l2, np.finfo(np.float64).tiny)
    return np.where(success, reward, margin)


@dataclass(frozen=True)
class Projection:
    """What is done to a candidate before it is shown to the classifier.

    The search itself stays unconstrained; value, distance and result belong to the projected
    point, so that whatever is found is valid as it stands.

    Parameters
    ----------
    clip : bool
        Clip to [`low`, `high`].
    round : bool
        Round to whole numbers, as 8-bit images demand.
    low, high : float
        Range of a valid input.
    """

    clip: bool = False
    round: bool = False
    low: float = 0.0
    high: float = 255.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low={self.low} is not below high={self.high}: give the range of valid inputs")

    def __call__(self, X: Floats) -> Floats:
        """Return the projected rows; `X` itself is left alone."""
        if self.clip:
            X = np.clip(X, self.low, self.high)
        return np.rint(X) if self.round else X


class Objective:
    """The objective of one attack as a function of rows, for `lmma.minimize(..., vectorized=True)`.

    Parameters
    ----------
    predict_proba : callable
        Rows to class probabilities.
    x0 : (n,)
        The input to be attacked.
    label : int
        Column of its true class; of the wanted class if `targeted`.
    targeted : bool
        Whether `label` is to be reached rather than left.
    projection : Projection
        Clipping and rounding inside the loop.
    """

    def __init__(
        self,
        predict_proba: PredictProba,
        x0: ArrayLike,
        label: int,
        *,
        targeted: bool = False,
        projection: Projection | None = None,
    ) -> None:
        self.predict_proba = predict_proba
        self.x0 = np.array(x0, dtype=np.float64)
        self.label = int(label)
        self.targeted = targeted
        self.projection = projection or Projection()

    def __repr__(self) -> str:
        aim = "to reach" if self.targeted else "to leave"
        return f"<objective of an attack: n={self.x0.size}, {aim} class {self.label}>"

    def __call__(self, X: ArrayLike) -> Any:
        """Return f for each row of `X`, or one number for a single input."""
        X = np.asarray(X, dtype=np.float64)
        rows = self.projection(np.atleast_2d(X))
        margin, success = margins(self.predict_proba(rows), self.label, targeted=self.targeted)
        values = objective_values(margin, success, distances(rows, self.x0)[0])
        return values if X.ndim == 2 else float(values[0])
