"""Candidates that do not come by ``ask`` alone: injected, drawn again, given in blocks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lmma.strategies.convergence import Convergence
from lmma.strategies.parts.bounds import Box
from lmma.strategies.parts.checks import checked_injected, checked_rows
from lmma.strategies.parts.recombination import Array


class Candidates(Convergence):
    """The part of :class:`lmma.Strategy` that adds, replaces and streams candidates."""

    box: Box | None
    _injected: list[Array]  # points that are to be candidates

    def inject(self, points: npt.ArrayLike) -> None:
        """Have ``points``, one or one per row, evaluated among the next candidates.

        A good one pulls the search towards it. Far ones are learned from as if they were at the edge of
        what the search would have tried itself, so that they cannot throw it off (Hansen 2011, Injecting
        external solutions into CMA-ES).
        """
        if not self.can_inject:
            raise TypeError(f"{self.name} takes no injected points: start at the point, or use lm-ma-es")
        self._injected += list(self._checked_points(points))

    @property
    def injected(self) -> Array:
        """The injected points that have not been told yet, (rows, n)."""
        return np.array(self._injected, dtype=self.dtype).reshape(-1, self.n)

    def resample(self, rows: npt.ArrayLike, attempt: int = 1) -> None:
        """Draw the candidates at ``rows`` of the last :meth:`ask` anew, in place.

        ``attempt`` counts how often that has been done: like all candidates, the new ones are a pure
        function of (seed, generation, number), numbered on from those of the generation.
        """
        if not self.can_resample:
            raise TypeError(
                f"{self.name} cannot draw single candidates anew: tell NaN for failed ones (on_error='worst')"
            )
        if self._asked is None:
            raise ValueError("there are no candidates to draw again: call ask() first")
        if attempt < 1:
            raise ValueError(f"attempt counts from 1, got {attempt}")
        rows = checked_rows(rows, self.popsize)
        self._resample(rows, attempt, self._asked)
        if self.box is not None:
            self.box.repair(self._asked, rows)
        if self.integers is not None:
            self.integers.round_rows(self._asked, rows)
        if self.constraint_options.subspace is not None:
            kept = self._asked[rows]
            self.constraint_options.subspace.keep(kept, self.box)
            self._asked[rows] = kept

    def ask_blocks(self, rows: int | None = None) -> Iterator[Array]:
        """Return an iterator over the candidates of this generation, ``rows`` of them at a time.

        Each block is an array (up to ``rows``, n) that the next one overwrites, so that a generation is
        never held as a whole; after the last one :meth:`tell` takes all values, in order. The candidates
        are those of :meth:`ask`; their random numbers are drawn a second time for it.
        """
        if not self.can_stream:
            raise TypeError(f"{self.name} cannot give its candidates in blocks: use ask(), or lm-ma-es")
        self._refuse_to_ask_twice("ask_blocks")
        if self._injected:
            raise ValueError("injected points cannot be given in blocks: call ask() for this generation")
        if self.constraint_options.subspace is not None:
            raise ValueError("linear equalities are not kept in blocks: call ask() instead")
        return self._blocks(rows)

    def _checked_points(self, points: npt.ArrayLike) -> Array:
        """Return points that are to be candidates, one per row, or say what is wrong with them."""
        rows = checked_injected(points, self.n, self.dtype)
        if self.box is not None and np.any((rows < self.box.lower) | (rows > self.box.upper)):
            raise ValueError("injected points must lie within bounds: numpy.clip(points, low, high)")
        if self.integers is not None and not self.integers.hold(rows):
            raise ValueError("injected points must be integers within bounds where integrality is 1")
        return rows

    def _refuse_to_ask_twice(self, call: str) -> None:
        if self._asked is not None:
            raise ValueError(f"{call}() came before tell(): tell() the values of the last candidates first")
