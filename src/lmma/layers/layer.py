"""Interface of a layer, a feature that can be wrapped around any method, and the records layers exchange.

Layers are nested around a method, from the innermost to the outermost:

    injection, bounds, integers, equalities, choices, constraints, noise

:meth:`Layer.on_ask` and :meth:`Layer.after_update` are called from the inside out, :meth:`Layer.on_tell` from
the outside in. :meth:`lmma.Strategy.tell` documents the order of these calls.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from lmma.numerics.recombination import Array, Indices
from lmma.numerics.state import Declared

if TYPE_CHECKING:
    from lmma.methods.base import Method

Values = npt.NDArray[np.float64]

ORDER = (  # innermost first
    "injection",
    "bounds",
    "integers",
    "equalities",
    "choices",
    "constraints",
    "noise",
)


class Report(NamedTuple):
    """Result of the constraint handling for one batch."""

    new_best: int | None  # row of a new best point, or None
    feasible: bool  # the best point so far is feasible
    by_ranks: bool  # constraints are handled by ranks only
    merit: float  # best value of the batch, in the quantity that convergence is tested on
    spread: float  # range of the batch in that quantity
    floor: float  # differences up to this size are rounding errors


class Told(NamedTuple):
    """Batch values, passed inwards through the layers: one per row of the last ``ask``, NaN for failures."""

    raw: Values  # objective values; means for rows evaluated more than once
    plain: Values  # values to minimise: ``raw``, combined with the constraints if any
    values: Values  # values to rank: ``plain`` plus penalties for leaving the box
    constraints: npt.ArrayLike | None = None  # (rows, p)
    repeats: npt.ArrayLike | None = None  # values of the rows that were evaluated repeatedly
    report: Report | None = None
    rate: float = 1.0  # learning rate of the mean, below 1 under noise
    order: Indices = np.arange(0)  # rows that have a value, best first
    ranked: Values = np.zeros(0)  # ``values`` in that order
    tied: bool = False  # the best values are equal, so ranks carry no information about the step size

    @property
    def by_ranks(self) -> bool:
        """True if constraints are handled by ranks only."""
        return self.report is not None and self.report.by_ranks


class Layer:
    """Base class of layers: a feature around a method. All methods do nothing by default."""

    name: ClassVar[str] = ""  # one of ORDER
    STATE: ClassVar[Declared] = ()
    VARIABLE: ClassVar[tuple[str, ...]] = ()  # names in STATE whose length changes

    def on_ask(self, method: Method, X: Array, first: int, rows: int) -> None:
        """Change candidates in place; ``X`` holds those from index ``first`` of a batch of ``rows`` on."""

    def on_resample(self, method: Method, X: Array, rows: Indices, attempt: int) -> None:
        """Change resampled candidates, those at ``rows`` of ``X``, in place."""
        for row in rows.tolist():
            self.on_ask(method, X[row : row + 1], row, len(X))

    def on_tell(self, method: Method, told: Told) -> Told:
        """Return the record to pass to the next layer inwards."""
        return told

    def after_update(self, method: Method, told: Told) -> None:
        """Change the method after its update."""

    def move_inside(self, x: Array) -> None:
        """Replace ``x``, a new point of the search, by the point that is evaluated for it, in place."""

    def parts(self) -> dict[str, object]:
        """Return the stateful objects of the layer, by name."""
        return {self.name: self}


class NoNoise(NamedTuple):
    """Noise quantities of a strategy without noise handling."""

    treatment: None = None
    quality: float = 1.0
    rate: float = 1.0
    repeats: float = 1.0
    spread: float = 0.0
    level: float = math.inf
    found: bool = False
    differs: bool = False
    probes: int = 0
    has_more_to_try: bool = False


NO_NOISE = NoNoise()
