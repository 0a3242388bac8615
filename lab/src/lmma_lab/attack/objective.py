"""Objective of an attack: equation (fitness) of section 4.2 of the paper, in batches.

Let h(x) be the class probabilities of a classifier, y0 the true class and x0 the original input:

    f(x) = h(x)_y0 - max over i != y0 of h(x)_i     while x is classified as y0,     so f >= 0
    f(x) = -1 / ||x - x0||_2                        once it is not,                  so f < 0

The paper does not specify two points:

- *Ties between classes.* x is classified as the class with the highest probability, the first column in case
  of ties, as by `argmax` and scikit-learn's ``predict``. A tie that y0 wins has f = 0 and is not a success.
- *Ties between candidates.* With T trees many candidates share one margin, but a/T - b/T rounds differently
  for equal a - b, so that rounding errors would rank them. Margins are therefore rounded to multiples of
  2^-40 (`MARGIN_STEP`), for every classifier. Equal differences of votes then give equal values.

For a targeted attack on class t, the first line is max over i != t of h(x)_i - h(x)_t, until x is classified
as t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["MARGIN_STEP", "Objective", "Projection", "distances", "margins", "objective_values"]

MARGIN_STEP = 2.0**-40  # much larger than rounding errors, much smaller than one vote in a million

Floats = NDArray[np.float64]
PredictProba = Callable[[Floats], Any]


def margins(
    probabilities: ArrayLike, label: ArrayLike, *, targeted: bool = False
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the margins to overcome, and a mask of the successful rows.

    Parameters
    ----------
    probabilities : (rows, classes)
        Class probabilities from the classifier.
    label : int or (rows,) of int
        Column of the true class; of the target class if `targeted`.
    targeted : bool
        If true, success means "classified as `label`", otherwise "classified as any other class".

    Returns
    -------
    margin : (rows,) float64
        Probability of the class that must lose minus that of its best competitor, a multiple of
        `MARGIN_STEP`. At least 0 for rows without success.
    success : (rows,) bool
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] < 2:
        raise ValueError(
            f"probabilities must have shape (rows, classes) with at least two classes, got {p.shape}"
        )
    if not np.isfinite(p).all():
        raise ValueError("predict_proba returned numbers that are not finite; check the classifier")
    rows = np.arange(len(p))
    label = np.broadcast_to(np.asarray(label), len(p))
    of_label = p[rows, label]
    others = p.copy()
    others[rows, label] = -np.inf
    rival = others.max(axis=1)
    margin = np.rint((of_label - rival) / MARGIN_STEP) * MARGIN_STEP
    as_label = p.argmax(axis=1) == label
    return (-margin, as_label) if targeted else (margin, ~as_label)


def distances(X: ArrayLike, x0: ArrayLike) -> tuple[Floats, Floats]:
    """Return the L2 and Linf distances of the rows of `X` from `x0` (a single row, or one per row)."""
    difference = np.asarray(X, dtype=np.float64) - np.asarray(x0, dtype=np.float64)
    return np.sqrt(np.einsum("...i,...i->...", difference, difference)), np.abs(difference).max(axis=-1)


def objective_values(margin: Floats, success: NDArray[np.bool_], l2: Floats) -> Floats:
    """Return f: -1 / L2 distance for successful rows, the margin for the others."""
    # the distance is 0 only if x0 itself is misclassified; such an input needs no attack
    reward = -1.0 / np.maximum(l2, np.finfo(np.float64).tiny)
    return np.where(success, reward, margin)


@dataclass(frozen=True)
class Projection:
    """Clipping and rounding of candidates before each query.

    The search itself is unconstrained. Value, distance and result belong to the projected point, so every
    adversarial found is a valid input.

    Parameters
    ----------
    clip : bool
        Clip to [`low`, `high`].
    round : bool
        Round to integers, as 8-bit images require.
    low, high : float
        Range of valid inputs.
    """

    clip: bool = False
    round: bool = False
    low: float = 0.0
    high: float = 255.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low={self.low} is not below high={self.high}; pass the range of valid inputs")

    def __call__(self, X: Floats) -> Floats:
        """Return the projected rows; `X` itself is not modified."""
        if self.clip:
            X = np.clip(X, self.low, self.high)
        return np.rint(X) if self.round else X


class Objective:
    """The vectorized objective of one attack, for `lmma.minimize(..., vectorized=True)`.

    Parameters
    ----------
    predict_proba : callable
        Maps rows to class probabilities.
    x0 : (n,)
        The input to attack.
    label : int
        Column of its true class; of the target class if `targeted`.
    targeted : bool
        Reach `label` instead of leaving it.
    projection : Projection
        Clipping and rounding before each query.
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
        """Return f for each row of `X`, or a single number for one input."""
        X = np.asarray(X, dtype=np.float64)
        rows = self.projection(np.atleast_2d(X))
        margin, success = margins(self.predict_proba(rows), self.label, targeted=self.targeted)
        values = objective_values(margin, success, distances(rows, self.x0)[0])
        return values if X.ndim == 2 else float(values[0])
