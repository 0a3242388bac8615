"""What every strategy shows its user: ask, tell, stop, result.

Not Algorithm 1 yet (that is ``es.py``): checks of arguments and call order, the best so far, failures,
convergence, state.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from lmma.kernels import Key
from lmma.strategies.parts.checks import (
    checked_dtype,
    checked_popsize,
    checked_sigma0,
    checked_threads,
    checked_values,
    checked_x0,
    key_from,
    nearest,
)
from lmma.strategies.parts.memory import available_memory, readable
from lmma.strategies.parts.recombination import Array, Indices, default_popsize

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

DEFAULT_TOLERANCE = 1e-11
DIVERGED = 1e20  # steps grown by this factor have no optimum to find
LARGE = 2**28  # bytes from which a new strategy first asks whether it fits


class Strategy(ABC):
    """A minimiser that is asked for candidates and told their values.

    Parameters
    ----------
    x0 : array_like, (n,)
        Where the search starts. It is copied.
    sigma0 : float or array_like, (n,)
        Initial step size, one number or one for each coordinate.
    popsize : int, optional
        Candidates a generation, at least 2; ``4 + floor(3 ln n)`` by default.
    rng : None, int, SeedSequence or Generator
        Source of the run's 128-bit key. The run is a pure function of the key and of the values told.
    dtype : {"float64", "float32"}
        Precision of the state and of the candidates.
    tolx, tolfun : float
        Tolerances of :meth:`stop`.
    threads : int, optional
        Threads the compiled kernels may use; by default what the environment variable LMMA_NUM_THREADS says,
        else one for each core. Results do not depend on it, not in a single bit.
    """

    name: ClassVar[str] = ""
    STATE: ClassVar[tuple[str, ...]] = (
        "mean", "sigma", "sigma0", "max_sigma", "generation", "evaluations", "failures", "best_x", "best_fun",
        "_spread_x", "_spread_f",
    )  # fmt: skip

    def __init__(
        self,
        x0: npt.ArrayLike,
        sigma0: float | npt.ArrayLike,
        *,
        popsize: int | None = None,
        rng: Any = None,
        dtype: npt.DTypeLike = "float64",
        tolx: float = DEFAULT_TOLERANCE,
        tolfun: float = DEFAULT_TOLERANCE,
        threads: int | None = None,
    ) -> None:
        self.dtype = checked_dtype(dtype)
        self.threads = checked_threads(threads)
        self.mean = checked_x0(x0, self.dtype)
        self.n = len(self.mean)
        self.popsize = checked_popsize(popsize, default_popsize(self.n))
        self._refuse_what_does_not_fit()
        self.sigma, self.scale = checked_sigma0(sigma0, self.n, self.dtype)
        self.sigma0 = self.sigma
        self.max_sigma = math.inf  # sigma grows no further: a box has an end
        self.key = key_from(rng)
        self.tolx, self.tolfun = float(tolx), float(tolfun)
        self.generation = 0
        self.evaluations = 0
        self.failures = 0  # values that were NaN
        self.best_x: Array = self.mean.copy()
        self.best_fun = math.inf
        self._asked: Array | None = None
        self._spread_x = math.inf
        self._spread_f = math.inf
        self._recent: deque[float] = deque(maxlen=10 + math.ceil(30 * self.n / self.popsize))

    # What a strategy must provide

    @abstractmethod
    def _sample(self, out: Array) -> None:
        """Fill ``out``, (popsize, n), with the candidates of this generation."""

    @abstractmethod
    def _update(self, order: Indices, values: Array) -> None:
        """Learn from the candidates at ``order``, best first, and their ``values``."""

    @classmethod
    @abstractmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return about how many bytes a run needs, candidates included."""

    def _parts(self) -> dict[str, Any]:
        """Return the parts that carry state of their own, by name."""
        return {}

    def _take_key(self, key: Key) -> None:
        """Draw from now on what ``key`` determines."""
        self.key = key

    # What a user calls

    def ask(self, out: Array | None = None) -> Array:
        """Return the candidates of this generation, (popsize, n), one a row.

        The array is the caller's; pass an earlier one as ``out`` to spare the allocation. What its rows
        hold when :meth:`tell` is called is taken as what was evaluated.
        """
        if self._asked is not None:
            raise ValueError("ask() was called twice: tell() the values of the last candidates first")
        if out is None:
            out = np.empty((self.popsize, self.n), dtype=self.dtype)
        elif (
            out.shape != (self.popsize, self.n)
            or out.dtype != self.dtype
            or not out.flags.c_contiguous
            or not out.flags.writeable
        ):
            raise ValueError(
                f"out must be a writeable, C-contiguous {self.dtype} array of shape "
                f"({self.popsize}, {self.n}), got {out.dtype} {out.shape}"
            )
        self._sample(out)
        self._asked = out
        return out

    def tell(self, values: npt.ArrayLike) -> None:
        """Learn from the values of the last candidates, in the order of :meth:`ask`.

        NaN marks a failed evaluation: it ranks last and takes no part in the update. If all failed,
        the state stays as it is and the next candidates are drawn anew.
        """
        if self._asked is None:
            raise ValueError("tell() has no candidates to judge: call ask() first")
        values = checked_values(values, self.popsize)
        order = np.argsort(values, kind="stable")  # NaN goes last
        ranked = values[order]
        if ranked[-1] != ranked[-1]:
            valid = self.popsize - int(np.count_nonzero(np.isnan(ranked)))
            self.failures += self.popsize - valid
            order, ranked = order[:valid], ranked[:valid]
        self.evaluations += self.popsize
        if len(order) == 0:
            self.generation += 1
        else:
            lowest = float(ranked[0])
            if lowest < self.best_fun:
                self.best_fun = lowest
                np.copyto(self.best_x, self._candidate(int(order[0])))
            self._recent.append(lowest)
            self._spread_f = float(ranked[-1]) - lowest
            self._update(order, ranked)
            self.sigma = min(self.sigma, self.max_sigma)
        self._asked = None

    def stop(self) -> dict[str, float]:
        """Return why to stop, as reason -> value; empty while the search is worth going on."""
        if not (math.isfinite(self.sigma) and self.sigma > 0.0):
            return {"numerical": self.sigma}
        reasons = {}
        if self._spread_x < self.tolx:
            reasons["tolx"] = self._spread_x
        if self._spread_f < self.tolfun and len(self._recent) == self._recent.maxlen:
            spread = max(max(self._recent) - min(self._recent), self._spread_f)
            if spread < self.tolfun:
                reasons["tolfun"] = spread
        known = self._spread_x < math.inf  # not before the first generation with values
        largest = max(self.sigma, self._spread_x) if known else self.sigma
        if largest > DIVERGED * self.sigma0:
            reasons["diverged"] = largest
        return reasons

    @property
    def result(self) -> OptimizeResult:
        """What is known so far, as SciPy presents it."""
        from scipy.optimize import OptimizeResult

        return OptimizeResult(
            x=self.best_x.copy(),
            fun=self.best_fun,
            nfev=self.evaluations,
            nit=self.generation,
            failures=self.failures,
            mean=self.mean.copy(),
            sigma=self.sigma,
            hess_inv=self._hess_inv(),
            success=bool(self.stop()) and math.isfinite(self.best_fun),
            method=self.name,
        )

    # State

    def get_state(self) -> dict[str, Any]:
        """Return all that a run needs to go on, as named arrays and numbers (copies)."""
        state = {name: getattr(self, name) for name in self.STATE}
        for label, part in self._parts().items():
            state |= {f"{label}.{name}": getattr(part, name) for name in part.STATE}
        state = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in state.items()}
        state["recent"] = np.array(self._recent, dtype=np.float64)
        state["key"] = np.array(self.key, dtype=np.uint64)
        state["scale"] = np.empty(0) if self.scale is None else self.scale.copy()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`get_state`, taken from a strategy of the same kind and size."""
        parts = {"": self, **self._parts()}
        wanted = {
            (f"{label}." if label else "") + name: (part, name)
            for label, part in parts.items()
            for name in part.STATE
        }
        if odd := sorted(set(state) ^ {*wanted, "recent", "key", "scale"}):
            raise ValueError(f"state is not of a {self.name} strategy: {', '.join(odd)}")
        for label, (part, name) in wanted.items():
            here, new = getattr(part, name), state[label]
            if isinstance(here, np.ndarray) and np.shape(new) != here.shape:
                raise ValueError(f"state[{label!r}] has shape {np.shape(new)}, this run {here.shape}")
        for label, (part, name) in wanted.items():
            here = getattr(part, name)
            if isinstance(here, np.ndarray):
                np.copyto(here, state[label])
            else:
                setattr(part, name, type(here)(state[label]))
        self._recent.clear()
        self._recent.extend(float(value) for value in state["recent"])
        self._take_key((int(state["key"][0]), int(state["key"][1])))
        self.scale = np.array(state["scale"], dtype=self.dtype) if len(state["scale"]) else None
        self._asked = None

    # Helpers for subclasses

    def _candidate(self, row: int) -> Array:
        """Return one of the candidates that were asked for last."""
        if self._asked is None:
            raise ValueError("there are no candidates: call ask() first")
        candidate: Array = self._asked[row]
        return candidate

    def _scaled_sigma(self) -> float | Array:
        """Return the step size, one number or one for each coordinate."""
        return self.sigma if self.scale is None else (self.sigma * self.scale).astype(self.dtype)

    def _hess_inv(self) -> Any:
        return None

    def _refuse_what_does_not_fit(self) -> None:
        needed = self.memory(self.n, self.popsize, self.dtype.itemsize)
        if needed < LARGE:
            return
        there = available_memory()
        if there is None or needed <= there:
            return
        from lmma.strategies.registry import strategy_class

        smaller = strategy_class("lm-ma-es").memory
        if smaller(self.n, default_popsize(self.n), self.dtype.itemsize) <= there:
            remedy = "method='lm-ma-es' would fit"
        elif smaller(self.n, default_popsize(self.n), 4) <= there:
            remedy = "method='lm-ma-es' with dtype='float32' would fit"
        else:
            remedy = "no method fits: use fewer variables or more memory"
        raise MemoryError(
            f"{self.name} with n={self.n}, popsize={self.popsize} needs about {readable(needed)} "
            f"({needed} bytes) of memory, {readable(there)} are free: {remedy}"
        )


def reject_unknown_options(cls: type[Any], options: dict[str, Any]) -> None:
    """Raise TypeError if ``cls.define`` has no parameter of such a name; suggest the nearest."""
    known = list(inspect.signature(cls.define).parameters)[2:]  # after n and lam
    common = ["popsize", "rng", "dtype", "tolx", "tolfun", "threads"]
    for option in options:
        if option not in known:
            raise TypeError(
                f"unknown option {option!r} for {cls.name}{nearest(option, known + common)}: "
                f"one of {', '.join(common + known)}"
            )
