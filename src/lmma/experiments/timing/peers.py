"""One generation of other packages' strategies, through their public interfaces, as published.

Each function returns a callable that does one generation on values that cost nothing, None where the method
is out of the question at that n, and raises ImportError where the package is not installed. Strategies with
direction vectors apply one more of them in each of their first m generations; all of these start past those,
as ours do: the best of many turns would else be the first, which samples z alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lmma.experiments.timing.contest import Step

CHEAP = np.random.default_rng(0)


def lmmaes(n: int) -> Step:
    """Return one generation of `lmmaes`, with the paper's lambda."""
    from lmmaes import Lmmaes

    lam = 4 + int(3 * np.log(n))
    es = Lmmaes(np.zeros(n), 1.0, lam, verbose=False)
    es.t = es.m

    def generation() -> None:
        es.tell(CHEAP.random(len(es.ask())))

    return generation


def pypop7(n: int) -> Step:
    """Return one generation of PyPop7's LMMAES, by its own iterate and update."""
    from pypop7.optimizers.es.lmmaes import LMMAES

    problem = {
        "fitness_function": lambda x: float(CHEAP.random()),
        "ndim_problem": n,
        "lower_boundary": -5 * np.ones(n),
        "upper_boundary": 5 * np.ones(n),
    }
    es = LMMAES(problem, {"mean": np.zeros(n), "sigma": 1.0, "seed_rng": 1, "verbose": 0})
    es.start_time = time.time()  # what its optimize() sets first
    es._n_generations = es.n_evolution_paths
    z, d, mean, s, tm, y = es.initialize()
    state = [z, d, mean, s, tm, y]

    def generation() -> None:
        z, d, mean, s, tm, y = state
        z, d, y = es.iterate(z, d, mean, tm, y, None)
        mean, s, tm = es._update_distribution(z, d, mean, s, tm, y)
        es._n_generations += 1
        state[:] = [z, d, mean, s, tm, y]

    return generation


def evosax(n: int) -> Step:
    """Return one compiled generation of evosax's LM_MA_ES in float32, compilation not counted."""
    import jax
    import jax.numpy as jnp
    from evosax.algorithms import LM_MA_ES

    lam = 4 + int(3 * np.log(n))
    es = LM_MA_ES(population_size=lam, solution=jnp.zeros(n))
    params = es.default_params
    key = jax.random.key(0)
    state = es.init(key, jnp.zeros(n), params)

    def step(key: Any, state: Any) -> Any:
        asking, telling = jax.random.split(key)
        X, state = es.ask(asking, state, params)
        state, _ = es.tell(telling, X, X[:, 0], state, params)
        return state

    compiled = jax.jit(step)
    box = [compiled(key, state)]

    def generation() -> None:
        box[0] = jax.block_until_ready(compiled(key, box[0]))

    return generation


def _pycma(n: int, options: dict[str, object]) -> Step:
    import cma

    es = cma.CMAEvolutionStrategy(np.zeros(n), 1.0, {"verbose": -9, "seed": 1, "verb_log": 0, **options})

    def generation() -> None:
        X = es.ask()
        es.tell(X, CHEAP.random(len(X)).tolist())

    return generation


def pycma_full(n: int) -> Step | None:
    """Return one generation of pycma's default, a full covariance matrix."""
    return _pycma(n, {}) if n <= 1024 else None


def pycma_vd(n: int) -> Step:
    """Return one generation of pycma with the VD-CMA sampler."""
    from cma.restricted_gaussian_sampler import GaussVDSampler

    return _pycma(n, GaussVDSampler.extend_cma_options({}))


def cmaes_full(n: int) -> Step | None:
    """Return one generation of `cmaes`."""
    from cmaes import CMA

    if n > 1024:
        return None
    es = CMA(mean=np.zeros(n), sigma=1.0, seed=1)

    def generation() -> None:
        solutions = [(es.ask(), float(CHEAP.random())) for _ in range(es.population_size)]
        es.tell(solutions)

    return generation


def fcmaes_crfmnes(n: int) -> Step:
    """Return one generation of fcmaes's CR-FM-NES in Python."""
    from fcmaes.crfmnes import CRFMNES

    lam = 4 + int(3 * np.log(n))
    lam += lam % 2
    es = CRFMNES(n, None, np.zeros(n), 1.0, lam)

    def generation() -> None:
        X = es.ask()
        es.tell(CHEAP.random(len(X)))

    return generation


PEERS: dict[str, Callable[[int], Step | None]] = {
    "lmmaes": lmmaes,
    "pypop7 LMMAES": pypop7,
    "evosax LM_MA_ES": evosax,
    "pycma": pycma_full,
    "pycma VD": pycma_vd,
    "cmaes": cmaes_full,
    "fcmaes CR-FM-NES": fcmaes_crfmnes,
}
