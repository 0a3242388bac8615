"""Importance of variables, estimated from the learned metric of a search.

Near an optimum a function is about f* + sum_i h_i (x_i - x*_i)^2 / 2, and the search learns steps d_i
proportional to 1 / sqrt(h_i). Candidates of the first generation have the mean square distance
delta_i^2 + s_i^2 from the optimum in coordinate i: delta_i is the distance that the mean has moved, s_i the
first step. The contribution of coordinate i to the value of a first candidate is therefore proportional to

    (delta_i^2 + s_i^2) / d_i^2,

in any units of x_i. The shares of all coordinates sum to 1. They are exact for a separable quadratic
function and a search that has learned its scales, and a hint otherwise. Integers and choices are not rated:
their steps are kept long enough to reach other values, however much these matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from lmma._text import one_line
from lmma.space import Space, Tree
from lmma.space.description import Leaves

if TYPE_CHECKING:
    from lmma.run.result import Learned

Values = npt.NDArray[np.float64]
LINES = 20  # of a printed importance
BAR = 30  # characters of the longest bar


@final
class Importance(Mapping[str, float]):
    """Share of each variable in the value of the first candidates, the largest first; they sum to 1.

    Parameters
    ----------
    shares : ndarray, (k,)
        One share per name.
    name : callable
        Returns the name of an index.
    """

    def __init__(self, shares: Values, name: Callable[[int], str]) -> None:
        self.shares = shares
        self._name = name
        self._order = np.argsort(-shares, kind="stable")
        self._index: dict[str, int] | None = None

    def __iter__(self) -> Iterator[str]:
        return (self._name(int(k)) for k in self._order)

    def __len__(self) -> int:
        return len(self.shares)

    def __getitem__(self, name: str) -> float:
        if self._index is None:
            self._index = {self._name(k): k for k in range(len(self.shares))}
        return float(self.shares[self._index[name]])

    def largest(self, most: int) -> list[tuple[str, float]]:
        """Return name and share of the ``most`` most important variables."""
        return [(self._name(int(k)), float(self.shares[k])) for k in self._order[:most]]

    def __repr__(self) -> str:
        first = ", ".join(f"{name} {share:.2g}" for name, share in self.largest(3))
        more = ", ..." if len(self) > 3 else ""
        return f"<importance of {len(self):,} variables: {one_line(first, 100)}{more}>"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, most: int = LINES) -> list[str]:
        """Return a bar chart as text, one line per variable, at most ``most`` and one for the others."""
        rows = [(one_line(name, 40), share) for name, share in self.largest(most)]
        if (others := len(self) - len(rows)) > 0:
            rows.append((f"{others:,} others", 1 - sum(share for _, share in rows)))
        width, top = max(len(name) for name, _ in rows), max(share for _, share in rows)
        return [
            f"{name:<{width}}  {max(0.0, share):6.1%}  {'#' * round(BAR * share / top)}".rstrip()
            for name, share in rows
        ]

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f"<tr><th style='text-align:right'>{escape(one_line(name, 60))}</th><td>{share:.1%}</td>"
            f"<td style='text-align:left'>{'&#9608;' * round(20 * share / self.shares.max())}</td></tr>"
            for name, share in self.largest(LINES)
        )
        return f"<table>{rows}</table>"

    def plot(self, *, most: int = LINES, title: str | None = None) -> Any:
        """Return a ``matplotlib.figure.Figure`` with one bar per variable, the largest on top."""
        from lmma.output.plotting.bars import bars

        rows = self.largest(most)
        others = len(self) - len(rows)
        return bars(
            rows, label="share of the first candidates' values", title=title or "importance", others=others
        )


def shares_of(learned: Learned, mean: npt.NDArray[np.floating], metric: Any) -> Values:
    """Return the share of each coordinate, (n,); NaN for integers and choices.

    Parameters
    ----------
    learned : Learned
        Learned parameters of the search, with its start.
    mean : ndarray, (n,)
        The last mean.
    metric : MetricOperator or None
        The learned metric of the coordinates that are not choices; None if there is none.
    """
    if learned.start is None:
        raise ValueError(
            "the importance of variables is unknown, because the start of the search is not stored"
        )
    first, steps = learned.start
    numbers = np.setdiff1d(np.arange(len(mean)), list(learned.categories or ()))
    way = (np.asarray(mean, np.float64) - first)[numbers]
    scales = metric.deviations() if hasattr(metric, "deviations") else np.ones(len(numbers))
    shares = np.full(len(mean), np.nan)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = (np.square(way) + np.square(steps)) / np.square(scales)
    shares[numbers] = np.where(np.isfinite(found), found, 0.0)  # a fixed coordinate has no step
    shares[learned.integers] = np.nan
    return np.asarray(shares / (np.nansum(shares) or 1.0))


def named(shares: Values, names: Space | Tree | Leaves | None) -> Importance:
    """Return the shares of coordinates by name; for a tree, one per leaf."""
    if isinstance(names, Tree | Leaves):
        ends = np.cumsum([int(np.prod(shape, dtype=np.int64)) for shape in names.shapes.values()])
        parts = np.split(np.nan_to_num(shares), ends[:-1])
        paths = list(names.shapes)
        return Importance(np.array([part.sum() for part in parts]), lambda k: paths[k])
    rated = np.flatnonzero(~np.isnan(shares))
    if not len(rated):
        raise ValueError("only real variables have an importance: integers and choices keep long steps")
    labels = None if names is None else names.labels
    return Importance(shares[rated], lambda k: f"x[{rated[k]}]" if labels is None else labels[rated[k]])
