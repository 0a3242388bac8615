"""Constraints, as a user of ask and tell meets them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy.typing as npt

from lmma.strategies.noisy import NoisyHooks
from lmma.strategies.parts.bounds import Values
from lmma.strategies.parts.constraints import (
    FEASIBILITY_TOL,
    Constrained,
    ConstraintOptions,
    Handling,
    as_flags,
    checked_constraints,
)
from lmma.strategies.parts.settling import Settling
from lmma.strategies.parts.subspace import checked_subspace


class ConstrainedHooks(NoisyHooks):
    """The part of :class:`lmma.Strategy` that deals with constraints."""

    constraint_options: ConstraintOptions
    told_places: bool
    constraints: Constrained | None
    judged: float  # the share of the candidates, best first, that tell convergence
    settling: Settling | None

    def constrain(
        self,
        *,
        equality: Iterable[bool] | None = None,
        handling: Handling = "lagrange",
        feasibility_tol: float = FEASIBILITY_TOL,
        linear: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    ) -> None:
        """Say what constraints mean, before the first candidates are asked for.

        Parameters
        ----------
        equality : iterable of bool, optional
            Which of the constraints that :meth:`tell` is given are to become 0; others are to be 0 or less.
        handling : {"lagrange", "rank"}
            By an augmented Lagrangian, or by ranks alone: see :mod:`lmma.strategies.parts.constraints`.
        feasibility_tol : float
            The largest violation of a point that counts as feasible.
        linear : (A, b), optional
            Linear equalities A x = b, which every candidate then meets.
        """
        if self.generation or self._asked is not None:
            raise ValueError("constrain() comes before the first ask()")
        if linear is not None and self.settling is not None:
            raise ValueError("linear equalities cannot be kept by integers: tell() them among constraints")
        subspace = None if linear is None else checked_subspace(*linear, self.n)
        self.constraint_options = ConstraintOptions(handling, as_flags(equality), feasibility_tol, subspace)

    @property
    def _by_ranks_alone(self) -> bool:
        """Whether constraints are treated by ranks alone, here or by whoever has this strategy inside."""
        own = self.constraints is not None and self.constraints.by_ranks
        return own or self.told_places

    @property
    def _is_feasible(self) -> bool:
        return self.constraints is None or self.constraints.feasible

    def _new_constraints(self, count: int) -> Constrained:
        patience = None if self.settling is None else self.settling.patience
        return Constrained(
            self.n, self.popsize, count, self.constraint_options, judged=self.judged, patience=patience
        )

    def _in_the_light_of(
        self, constraints: npt.ArrayLike | None, values: Values
    ) -> tuple[Values, int | None]:
        """Return the values that are ranked where there are constraints, and the row of a new best point."""
        if constraints is None:
            raise ValueError("constraints were told before: tell them in every generation")
        known = self.constraints
        given = checked_constraints(constraints, self.popsize, None if known is None else known.count)
        if known is None:
            known = self.constraints = self._new_constraints(given.shape[1])
        before = known.by_ranks
        told = known.told(values, given)
        if self.settling is not None and known.by_ranks and not before:
            self.settling.unimproved = 0  # neighbours are judged otherwise from now on
        return told
