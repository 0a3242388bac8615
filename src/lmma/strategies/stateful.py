"""A strategy as named arrays and numbers, from which it, or another like it, goes on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from lmma.strategies.candidates import Candidates
from lmma.strategies.parts.state import State, collect, labels, restore

if TYPE_CHECKING:
    from lmma.strategies.base import Strategy


class Stateful(Candidates):
    """The part of :class:`lmma.Strategy` that is saved, and goes on from what was saved."""

    options: dict[str, Any]
    _placed: int  # so many of them are among the candidates that were asked for last

    def get_state(self) -> State:
        """Return all that a run needs to go on, as named arrays and numbers (copies).

        Between :meth:`ask` and :meth:`tell` it is that of before the candidates were asked for.
        """
        state = collect(self._all_parts())
        state["recent"] = np.array(self._recent, dtype=np.float64)
        state["key"] = np.array(self.key, dtype=np.uint64)
        state["scale"] = np.empty(0) if self.scale is None else self.scale.copy()
        state["injected"] = self.injected
        if self.box is not None:
            state |= {f"box.{name}": value for name, value in self.box.get_state().items()}
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of :meth:`get_state`, taken from a strategy of the same kind and size."""
        if "noise.popsize" in state and int(state["noise.popsize"]) != self.popsize:
            self._resize(int(state["noise.popsize"]))
        constrained = [np.shape(state[name]) for name in state if name == "constraints.at_best"]
        self.constraints = self._new_constraints(int(constrained[0][0])) if constrained else None
        parts = self._all_parts()
        boxed = set() if self.box is None else {f"box.{name}" for name in self.box.get_state()}
        if odd := sorted(set(state) ^ (labels(parts) | boxed | {"recent", "key", "scale", "injected"})):
            raise ValueError(f"state is not of a {self.name} strategy like this one: {', '.join(odd)}")
        restore(parts, state)
        self._recent.clear()
        self._recent.extend(float(value) for value in state["recent"])
        self.key = (int(state["key"][0]), int(state["key"][1]))
        self.scale = np.array(state["scale"], dtype=self.dtype) if len(state["scale"]) else None
        self._injected = list(np.array(state["injected"], dtype=self.dtype).reshape(-1, self.n))
        if self.box is not None:
            self.box.set_state({name.removeprefix("box."): state[name] for name in boxed})
        self._asked, self._placed = None, 0

    def recipe(self) -> tuple[type[Strategy], dict[str, Any]]:
        """Return a class and arguments besides ``x0`` and ``sigma0`` that make a strategy like this one."""
        given: dict[str, Any] = {
            "popsize": self.popsize, "dtype": self.dtype.name, "tolx": self.tolx, "tolfun": self.tolfun,
            **self.options,
        }  # fmt: skip
        lower, upper = np.full(self.n, -math.inf), np.full(self.n, math.inf)
        if self.box is not None:
            lower[:], upper[:], given["boundary"] = self.box.lower, self.box.upper, self.box.name
        if self.integers is not None:
            columns = self.integers.columns
            given["integrality"] = np.isin(np.arange(self.n), columns)
            lower[columns], upper[columns] = self.integers.lower, self.integers.upper
        if self.box is not None or np.isfinite(lower).any() or np.isfinite(upper).any():
            given["bounds"] = SimpleNamespace(lb=lower, ub=upper)
        return cast("type[Strategy]", type(self)), given

    def _resize(self, popsize: int) -> None:
        """Go on with another number of candidates per generation, and with all that was learned."""
        state = self.get_state()
        self.popsize = self.noise.popsize = popsize
        self._recent = self._fresh_record()
        self._initialise()
        fresh = self.get_state()  # what has a place for each candidate starts anew
        kept = {name: old for name, old in state.items() if np.shape(old) == np.shape(fresh.get(name, old))}
        if "collected.held" not in kept:  # rows that waited are gone, so must be what counts them
            kept = {name: old for name, old in kept.items() if not name.startswith("collected.")}
        kept["noise.popsize"] = popsize
        self.set_state(fresh | kept)

    def _all_parts(self) -> dict[str, object]:
        discrete = {"integers": self.integers, "settling": self.settling}
        used = {name: part for name, part in discrete.items() if part is not None}
        constrained = {} if self.constraints is None else self.constraints.parts()
        watched = {} if self.noise.treatment is None else {"noise": self.noise}
        return {"": self, "ties": self.ties, **used, **constrained, **watched, **self._parts()}
