"""Adaptors that wrap strategies of other packages in two calls, ``propose`` and ``learn``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from lmma.numerics.recombination import Array

Rows = Sequence[Array] | Array  # candidates in the package's format
Values = npt.NDArray[np.float64]
Engine = Any  # a strategy of a package without types


class Adaptor(ABC):
    """A strategy of another package, started at ``mean`` with step size ``sigma``."""

    package: ClassVar[str]
    full_matrix: ClassVar[bool] = False  # True if a generation costs O(n^2) or more

    def __init__(self, mean: Array, sigma: float, popsize: int, seed: int) -> None:
        self.n, self.popsize = len(mean), popsize
        self.engine = self._start(mean, sigma, seed)

    @abstractmethod
    def _start(self, mean: Array, sigma: float, seed: int) -> Engine:
        """Create the package's strategy object."""

    @abstractmethod
    def propose(self) -> Rows:
        """Return the candidates for the next generation."""

    @abstractmethod
    def learn(self, rows: Rows, values: Values) -> None:
        """Pass the values of the last candidates to the package."""

    def sigma(self) -> float | None:
        """Return the step size, or None if the package does not expose it."""
        return None

    def should_stop(self) -> bool:
        """Return True if the package's stopping rules apply."""
        return False

    def compile(self) -> None:  # noqa: B027 (most packages have no just-in-time compilation)
        """Compile the code of a run without advancing the strategy."""

    def skip_first_generations(self) -> None:  # noqa: B027 (only LM-MA-ES has such a start)
        """Skip the first m generations of LM-MA-ES, which apply fewer than m direction vectors."""

    def generation(self, rng: np.random.Generator) -> None:
        """Run one generation on random values."""
        rows = self.propose()
        self.learn(rows, rng.random(self.popsize))

    @staticmethod
    def admissible(popsize: int) -> int:
        """Return the smallest population size >= ``popsize`` that the package accepts."""
        return popsize


def made_even(popsize: int) -> int:
    """Round ``popsize`` up to an even number, for strategies with mirrored candidates."""
    return popsize + popsize % 2


class PyCMA(Adaptor):
    """pycma's default, a full covariance matrix with active weights."""

    package = "cma"
    full_matrix = True
    sampler: ClassVar[str] = ""  # of cma.restricted_gaussian_sampler

    def _start(self, mean: Array, sigma: float, seed: int) -> Engine:
        import cma
        from cma import restricted_gaussian_sampler as samplers

        options = {"verbose": -9, "verb_log": 0, "seed": seed, "popsize": self.popsize}
        if self.sampler:
            options |= getattr(samplers, self.sampler).extend_cma_options({})
        return cma.CMAEvolutionStrategy(mean, sigma, options)

    def propose(self) -> Rows:
        """Return the candidates."""
        rows: Rows = self.engine.ask()
        self._rows = rows
        return rows

    def learn(self, rows: Rows, values: Values) -> None:
        """Tell the values with the original arrays, because pycma treats other arrays as injected."""
        self.engine.tell(self._rows, values.tolist())

    def should_stop(self) -> bool:
        """Return True if a stopping rule of pycma applies."""
        return bool(self.engine.stop())


class PyCMAVD(PyCMA):
    """pycma with the VD sampler."""

    full_matrix = False
    sampler = "GaussVDSampler"


class PyCMAVkD(PyCMA):
    """pycma with the VkD sampler."""

    full_matrix = False
    sampler = "GaussVkDSampler"


class Cmaes(Adaptor):
    """CMA from `cmaes`."""

    package = "cmaes"
    full_matrix = True
    cls: ClassVar[str] = "CMA"

    def _start(self, mean: Array, sigma: float, seed: int) -> Engine:
        import cmaes

        return getattr(cmaes, self.cls)(mean.copy(), sigma, seed=seed, population_size=self.popsize)

    def should_stop(self) -> bool:
        """Return True if a stopping rule of cmaes applies."""
        return bool(self.engine.should_stop())

    def propose(self) -> Rows:
        """Return the candidates, each from one call of ask()."""
        return [self.engine.ask() for _ in range(self.popsize)]

    def learn(self, rows: Rows, values: Values) -> None:
        """Tell pairs of candidate and value."""
        self.engine.tell(list(zip(rows, values.tolist(), strict=True)))


class CmaesSep(Cmaes):
    """SepCMA from `cmaes`."""

    full_matrix = False
    cls = "SepCMA"


class CmaesDXNESIC(Cmaes):
    """DX-NES-IC from `cmaes`."""

    cls = "DXNESIC"

    admissible = staticmethod(made_even)

    def _start(self, mean: Array, sigma: float, seed: int) -> Engine:
        import cmaes

        trial = cmaes.DXNESIC(np.zeros(2), 1.0, seed=1, population_size=4)
        try:
            trial.tell([(trial.ask(), float(value)) for value in range(4)])
        except TypeError as error:  # version 0.13.1 converts an array of size 1 to float
            raise RuntimeError(
                f"DXNESIC of the installed cmaes fails with NumPy {np.__version__}; install NumPy below 2.4"
            ) from error
        return super()._start(mean, sigma, seed)


class AskTell(Adaptor):
    """A strategy with ``ask()``, ``tell(values)`` and ``sigma``."""

    def propose(self) -> Rows:
        """Return the candidates."""
        rows: Rows = self.engine.ask()
        return rows

    def learn(self, rows: Rows, values: Values) -> None:
        """Tell the values."""
        self.engine.tell(values)

    def sigma(self) -> float | None:
        """Return the step size."""
        return float(self.engine.sigma)


class FcmaesCRFMNES(AskTell):
    """CR-FM-NES from `fcmaes` in Python; it continues if ``tell`` returns -1, like the package's own loop."""

    package = "fcmaes"

    admissible = staticmethod(made_even)

    def _start(self, mean: Array, sigma: float, seed: int) -> Engine:
        from fcmaes.crfmnes import CRFMNES

        # Without constraints, skip the loop over all coordinates that checks them.
        options = {"use_constraint_violation": False}
        rng = np.random.default_rng(seed)
        return CRFMNES(self.n, None, mean.copy(), sigma, self.popsize, options=options, rg=rng)


class FcmaesNative(AskTell):
    """A strategy from `fcmaes` in C++, with candidates as one array and without bounds or scaling."""

    package = "fcmaes"

    def sigma(self) -> float | None:
        """Return None, because the package does not expose the step size."""
        return None


class FcmaesCMA(FcmaesNative):
    """CMA-ES from `fcmaes` in C++: full matrix, active."""

    full_matrix = True

    def _start(self, mean: Array, sigma: float, seed: int) -> Engine:
        from fcmaes.cmaescpp import ACMA_C

        return ACMA_C(
            self.n, None, mean.copy(), sigma, self.popsize, max_evaluations=2**31 - 1, normalize=False,
            rg=np.random.default_rng(seed),
        )  # fmt: skip


class FcmaesCRFMNESNative(FcmaesNative):
    """CR-FM-NES from `fcmaes` in C++."""

    admissible = staticmethod(FcmaesCRFMNES.admissible)

    def _start(self, mean: Array, sigma: float, seed: int) -> Engine:
        from fcmaes.crfmnescpp import CRFMNES_C

        return CRFMNES_C(
            self.n, None, mean.copy(), sigma, self.popsize, rg=np.random.default_rng(seed),
            use_constraint_violation=False,
        )  # fmt: skip


class PyPop7(Adaptor):
    """A strategy from `pypop7`, driven by its iterate and update methods."""

    package = "pypop7"

    def _create(self, cls: Any, mean: Array, sigma: float, seed: int) -> Engine:
        problem = {
            "fitness_function": lambda x: 0.0,  # learn() passes the real values
            "ndim_problem": self.n,
            "lower_boundary": np.full(self.n, -5.0),
            "upper_boundary": np.full(self.n, 5.0),
        }
        options = {
            "mean": mean.copy(), "sigma": sigma, "seed_rng": seed, "verbose": 0,
            "n_individuals": self.popsize, "is_restart": False,
        }  # fmt: skip
        engine = cls(problem, options)
        engine.start_time = 0.0  # normally set by optimize()
        return engine

    def sigma(self) -> float | None:
        """Return the step size."""
        return float(self.engine.sigma)


class PyPop7LMCMA(PyPop7):
    """LM-CMA-ES from `pypop7`."""

    def _start(self, mean: Array, sigma: float, seed: int) -> Engine:
        from pypop7.optimizers.es.lmcma import LMCMA

        engine = self._create(LMCMA, mean, sigma, seed)
        self._centre, self._x, *self._state, self._y = engine.initialize()  # p_c, s, vm, pm, b, d in between
        return engine

    def propose(self) -> Rows:
        """Return the candidates."""
        _, _, vm, pm, b, _ = self._state
        x, _ = self.engine.iterate(self._centre, self._x, pm, vm, self._y.copy(), b)
        rows: Rows = x
        return rows

    def learn(self, rows: Rows, values: Values) -> None:
        """Update the distribution."""
        self._centre, *self._state = self.engine.update_distribution(
            self._centre, self._x, *self._state, values, self._y
        )
        self._y = values
        self.engine._n_generations += 1


class PyPop7LMMAES(PyPop7):
    """LM-MA-ES from `pypop7`."""

    def _start(self, mean: Array, sigma: float, seed: int) -> Engine:
        from pypop7.optimizers.es.lmmaes import LMMAES

        engine = self._create(LMMAES, mean, sigma, seed)
        self._z, self._d, *self._state, self._y = engine.initialize()  # mean, s, tm in between
        return engine

    def propose(self) -> Rows:
        """Return the candidates."""
        mean, _, tm = self._state
        self._z, self._d, self._y = self.engine.iterate(self._z, self._d, mean, tm, self._y, None)
        rows: Rows = mean + self.engine.sigma * self._d
        return rows

    def learn(self, rows: Rows, values: Values) -> None:
        """Update the distribution."""
        self._state = list(self.engine._update_distribution(self._z, self._d, *self._state, values))
        self.engine._n_generations += 1

    def skip_first_generations(self) -> None:
        """Apply all direction vectors."""
        self.engine._n_generations = self.engine.n_evolution_paths


class Lmmaes(AskTell):
    """LM-MA-ES from `lmmaes`, which uses NumPy's global random state."""

    package = "lmmaes"

    def _start(self, mean: Array, sigma: float, seed: int) -> Engine:
        from lmmaes import Lmmaes as Original

        return Original(mean, sigma, self.popsize, rseed=seed, verbose=False)

    def skip_first_generations(self) -> None:
        """Apply all direction vectors."""
        self.engine.t = self.engine.m


class EvosaxLMMAES(Adaptor):
    """LM-MA-ES from `evosax` in float32, compiled by JAX."""

    package = "evosax"
    algorithm: ClassVar[str] = "LM_MA_ES"

    def _start(self, mean: Array, sigma: float, seed: int) -> Engine:
        import jax
        import jax.numpy as jnp
        from evosax import algorithms

        engine = getattr(algorithms, self.algorithm)(population_size=self.popsize, solution=jnp.zeros(self.n))
        params = engine.default_params.replace(std_init=sigma)
        self._keys = jax.random.key(seed)
        self._state = engine.init(self._keys, jnp.asarray(mean, dtype="float32"), params)
        self._jax: Any = jax
        self._ask = jax.jit(lambda key, state: engine.ask(key, state, params))
        self._tell = jax.jit(
            lambda key, rows, values, state: engine.tell(key, rows, values, state, params)[0]
        )
        self._compiled_generation = jax.jit(self._one_generation)
        return engine

    def _next_key(self) -> Any:
        self._keys, key = self._jax.random.split(self._keys)
        return key

    def propose(self) -> Rows:
        """Return the candidates."""
        self._rows, self._state = self._ask(self._next_key(), self._state)
        rows: Rows = np.asarray(self._rows, dtype=np.float64)
        return rows

    def learn(self, rows: Rows, values: Values) -> None:
        """Tell the values."""
        self._state = self._tell(self._next_key(), self._rows, values.astype(np.float32), self._state)

    def sigma(self) -> float | None:
        """Return the step size."""
        return float(self._state.std)

    def compile(self) -> None:
        """Run a few generations and restore the state; types are final only in the second generation."""
        before = self._keys, self._state
        for _ in range(3):
            self.learn(self.propose(), np.arange(self.popsize, dtype=np.float64))
        self._jax.block_until_ready(self._state)
        self._keys, self._state = before

    def _one_generation(self, key: Any, state: Any) -> Any:
        asking, telling = self._jax.random.split(key)
        rows, state = self._ask(asking, state)
        return self._tell(telling, rows, rows[:, 0], state)

    def generation(self, rng: np.random.Generator) -> None:
        """Run one generation as one compiled function, the package's intended use."""
        self._state = self._jax.block_until_ready(self._compiled_generation(self._keys, self._state))


class EvosaxCMAES(EvosaxLMMAES):
    """CMA-ES from `evosax` in float32, compiled by JAX: full matrix."""

    full_matrix = True
    algorithm = "CMA_ES"


ADAPTORS: dict[str, type[Adaptor]] = {
    "pycma": PyCMA,
    "pycma-vd": PyCMAVD,
    "pycma-vkd": PyCMAVkD,
    "cmaes": Cmaes,
    "cmaes-sep": CmaesSep,
    "cmaes-dxnesic": CmaesDXNESIC,
    "fcmaes-crfmnes": FcmaesCRFMNES,
    "fcmaes-crfmnes-c": FcmaesCRFMNESNative,
    "fcmaes-cma": FcmaesCMA,
    "pypop7-lmcma": PyPop7LMCMA,
    "pypop7-lmmaes": PyPop7LMMAES,
    "lmmaes": Lmmaes,
    "evosax-lmmaes": EvosaxLMMAES,
    "evosax-cmaes": EvosaxCMAES,
}
