"""Active CMA-ES compared with pycma's, run by run; skipped if pycma is not installed."""

import warnings

import numpy as np
import pytest

import lmma
from lmma.problems import get

TARGET = 1e-10
SEEDS = range(7)


def mine(problem, x0, seed, budget):
    es = lmma.ACMAES(x0, problem.sigma0, rng=seed, tolx=1e-13, tolfun=0)
    while es.evaluations < budget and not es.stop():
        values = problem(es.ask())
        if values.min() <= TARGET:
            return es.evaluations + int(np.argmax(values <= TARGET)) + 1
        es.tell(values)
    return None


def theirs(cma, problem, x0, seed, budget):
    never = dict.fromkeys(("tolfun", "tolx", "tolfunhist", "tolfunrel"), 0) | {
        "tolflatfitness": 10**9,
        "tolstagnation": 10**9,
    }
    options = {"seed": seed + 1, "verbose": -9, "verb_log": 0, "CMA_active": True, **never}
    es = cma.CMAEvolutionStrategy(x0, problem.sigma0, options)
    evaluations = 0
    while evaluations < budget:
        X = np.asarray(es.ask())
        values = problem(X)
        if values.min() <= TARGET:
            return evaluations + int(np.argmax(values <= TARGET)) + 1
        es.tell(list(X), list(values))
        evaluations += len(X)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sphere", "ellipsoid", "rosenbrock", "discus", "cigar", "different-powers"])
def test_active_cma_es_needs_as_many_evaluations_as_pycma(name):
    # The budget of the comparison is 15%; single runs scatter by 3 to 6% at n = 20, their medians of 7 by
    # about 2%. At n = 128 both are compared in docs/baselines.md.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cma = pytest.importorskip("cma", reason="pycma is not installed: pip install cma")
        problem = get(name)
        starts = [problem.start(20, np.random.default_rng(seed)) for seed in SEEDS]
        other = [theirs(cma, problem, x0, seed, 40_000) for seed, x0 in zip(SEEDS, starts, strict=True)]
    own = [mine(problem, x0, seed, 40_000) for seed, x0 in zip(SEEDS, starts, strict=True)]
    own, other = ([count for count in counts if count is not None] for counts in (own, other))
    assert len(own) >= 4
    assert len(other) >= 4
    assert abs(np.median(own) / np.median(other) - 1) < 0.15
