"""Other packages' strategies behind the interface of ours, as published, for side-by-side runs.

=====================  =============================================================================
name                   what
=====================  =============================================================================
``pycma``              Hansen's `cma`, its default: full matrix, active
``pycma-vkd``          the same with ``GaussVkDSampler``: a diagonal and k directions, k adapted
``cmaes-sep``          ``SepCMA`` of `cmaes`: a diagonal
``fcmaes-crfmnes``     ``CRFMNES`` of `fcmaes` in Python: a diagonal and one direction; lambda is the
                       article's 4 + floor(3 ln n) made even, since the package's 32 is slower here
``pypop7-lmcma``       ``LMCMA`` of `pypop7`: LM-CMA-ES
=====================  =============================================================================

Every constant is the package's own. A package is imported when its strategy is made. Where a run is told to
search on (tolx = 0), a peer's own rules to stop are not asked; where it may restart, they are.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from importlib import util
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from lmma.strategies import Strategy
from lmma.strategies.parts.recombination import Array, Indices


class Peer(Strategy):
    """A strategy of another package: ``engine`` proposes rows and learns from their values."""

    package: ClassVar[str]

    def __init__(self, x0: npt.ArrayLike, sigma0: float, **options: Any) -> None:
        super().__init__(x0, sigma0, **options)
        self.engine = self._start(int(self.key[0] % (2**31 - 1)) + 1)  # pycma takes 0 for the time

    @abstractmethod
    def _start(self, seed: int) -> Any:
        """Return the engine at ``mean`` with step size ``sigma``, ``popsize`` candidates a generation."""

    @abstractmethod
    def _propose(self) -> Any:
        """Return the candidates."""

    @abstractmethod
    def _learn(self, candidates: Array, values: Array) -> None:
        """Take the values of what was proposed."""

    def _has_enough(self) -> bool:
        """Return whether the package's own rules say to stop."""
        return False

    def _sample(self, out: Array) -> None:
        out[...] = self._propose()

    def _update(self, order: Indices, values: Array) -> None:
        told = np.full(self.popsize, math.inf)
        told[order] = values
        candidates = self.candidates
        assert candidates is not None
        try:
            self._learn(candidates, told)
        except Exception:  # whatever a package raises when its numbers break down
            self.sigma = math.nan

    def _measure_spread(self) -> float:
        assert self.candidates is not None
        return float(self.candidates.std(axis=0).max())

    def stop(self) -> dict[str, float]:
        """Return why to stop: the rules of all strategies, and the package's own unless told to go on."""
        reasons = super().stop()
        if not reasons and self.tolx > 0 and self._has_enough():
            reasons["stagnation"] = float(self.generation)
        return reasons

    def get_state(self) -> dict[str, Any]:
        """Refuse: the state is inside another package."""
        raise TypeError(f"{self.name} keeps its state inside {self.package}: it cannot be saved")

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return about how many bytes the candidates need; what the package needs is not known."""
        return 4 * popsize * n * itemsize


class PyCMA(Peer):
    """pycma's default, a full covariance matrix with active weights."""

    name = "pycma"
    package = "cma"

    def _options(self) -> dict[str, Any]:
        return {}

    def _start(self, seed: int) -> Any:
        import cma

        quiet = {"verbose": -9, "verb_log": 0, "seed": seed, "popsize": self.popsize}
        return cma.CMAEvolutionStrategy(self.mean, self.sigma, {**quiet, **self._options()})

    def _propose(self) -> Any:
        self._rows = self.engine.ask()
        return self._rows

    def _learn(self, candidates: Array, values: Array) -> None:
        self.engine.tell(self._rows, values.tolist())

    def _has_enough(self) -> bool:
        return bool(self.engine.stop())


class PyCMAVkD(PyCMA):
    """pycma with the VkD sampler."""

    name = "pycma-vkd"

    def _options(self) -> dict[str, Any]:
        from cma.restricted_gaussian_sampler import GaussVkDSampler

        options: dict[str, Any] = GaussVkDSampler.extend_cma_options({})
        return options


class CmaesSep(Peer):
    """SepCMA of `cmaes`."""

    name = "cmaes-sep"
    package = "cmaes"

    def _start(self, seed: int) -> Any:
        from cmaes import SepCMA

        return SepCMA(self.mean.copy(), self.sigma, seed=seed, population_size=self.popsize)

    def _propose(self) -> Any:
        return [self.engine.ask() for _ in range(self.popsize)]

    def _learn(self, candidates: Array, values: Array) -> None:
        self.engine.tell(list(zip(candidates, values.tolist(), strict=True)))

    def _has_enough(self) -> bool:
        return bool(self.engine.should_stop())


class CRFMNES(Peer):
    """CR-FM-NES of `fcmaes`, in Python."""

    name = "fcmaes-crfmnes"
    package = "fcmaes"

    def __init__(
        self, x0: npt.ArrayLike, sigma0: float, *, popsize: int | None = None, **options: Any
    ) -> None:
        popsize = popsize or 4 + int(3 * math.log(np.size(x0)))
        super().__init__(x0, sigma0, popsize=popsize + popsize % 2, **options)

    def _start(self, seed: int) -> Any:
        from fcmaes.crfmnes import CRFMNES as Engine

        # There are no constraints; the loop over all coordinates that would look for them is left out.
        options = {"use_constraint_violation": False}
        rng = np.random.default_rng(seed)
        return Engine(self.n, None, self.mean.copy(), self.sigma, self.popsize, options=options, rg=rng)

    def _propose(self) -> Any:
        return self.engine.ask()

    def _learn(self, candidates: Array, values: Array) -> None:
        self.engine.tell(values)  # its own loop goes on when this returns -1, a scale below 0; so do we
        self.sigma = float(self.engine.sigma)


class PyPop7LMCMA(Peer):
    """LM-CMA-ES of `pypop7`, by its own iterate and update."""

    name = "pypop7-lmcma"
    package = "pypop7"

    def _start(self, seed: int) -> Any:
        from pypop7.optimizers.es.lmcma import LMCMA

        problem = {
            "fitness_function": lambda x: 0.0,  # values are told later
            "ndim_problem": self.n,
            "lower_boundary": np.full(self.n, -5.0),
            "upper_boundary": np.full(self.n, 5.0),
        }
        options = {
            "mean": self.mean.copy(), "sigma": self.sigma, "seed_rng": seed, "verbose": 0,
            "n_individuals": self.popsize, "is_restart": False,
        }  # fmt: skip
        engine = LMCMA(problem, options)
        engine.start_time = 0.0
        self._centre, self._x, self._p_c, self._s, self._vm, self._pm, self._b, self._d, self._y = (
            engine.initialize()
        )
        return engine

    def _propose(self) -> Any:
        x, _ = self.engine.iterate(self._centre, self._x, self._pm, self._vm, self._y.copy(), self._b)
        return x

    def _learn(self, candidates: Array, values: Array) -> None:
        self._centre, self._p_c, self._s, self._vm, self._pm, self._b, self._d = (
            self.engine.update_distribution(
                self._centre, self._x, self._p_c, self._s, self._vm, self._pm, self._b, self._d,
                values, self._y,
            )
        )  # fmt: skip
        self._y = values
        self.engine._n_generations += 1
        self.sigma = float(self.engine.sigma)


PEERS: dict[str, type[Peer]] = {cls.name: cls for cls in (PyCMA, PyCMAVkD, CmaesSep, CRFMNES, PyPop7LMCMA)}


def peer_class(name: str) -> type[Peer]:
    """Return the peer called ``name``, or raise ValueError that says what to install."""
    cls = PEERS[name]
    if util.find_spec(cls.package) is None:
        raise ValueError(f"method {name!r} needs the package {cls.package}: pip install {cls.package}")
    return cls
