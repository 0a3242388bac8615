"""Constraints that are evaluated on the workers of a cluster, and replicas that learn from them."""

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, NonlinearConstraint

import lmma
from lmma.constraints import Returned
from lmma.evaluation.cluster.driver import VectorDriver
from lmma.evaluation.replicas.replica_driver import ReplicatedDriver
from local_transport import LocalTransport, OnTransport


def both(x):
    return float(x @ x), np.array([x[0] - x[1] - 2.0, x[2] + 1.0])


def value(x):
    return both(x)[0]


def run(workers=1, fun=both, constraints=None, **options):
    limits = Returned([0, -np.inf], [0, 0]) if constraints is None else constraints
    return lmma.minimize(
        fun, np.full(5, 0.5), 0.4, rng=1, maxiter=12, workers=workers, constraints=limits, **options
    )


def same(one, other):
    assert np.array_equal(one.x, other.x)
    assert np.array_equal(one.multipliers[0], other.multipliers[0], equal_nan=True)
    assert (one.fun, one.sigma, one.maxcv, one.nfev) == (other.fun, other.sigma, other.maxcv, other.nfev)


@pytest.mark.parametrize("driver", [VectorDriver, ReplicatedDriver])
@pytest.mark.parametrize("restarts", [0, 1])
def test_constraints_come_back_from_a_cluster(driver, restarts):
    options = {"check": 1} if driver is ReplicatedDriver else {}
    more = {"restarts": restarts, "tolx": 0.5} if restarts else {}
    workers = OnTransport(LocalTransport("a", "b"), driver, **options)
    same(run(**more), run(workers, **more))
    if driver is ReplicatedDriver:
        assert workers.evaluate.resent == 0
        assert not workers.evaluate.warnings


def test_replicas_keep_linear_equalities_and_call_functions():
    given = [LinearConstraint(np.ones((1, 5)), 2, 2), NonlinearConstraint(lambda x: x[0] * x[1], 0.5, 1)]
    workers = OnTransport(LocalTransport("a", "b"), ReplicatedDriver, check=1)
    same(run(fun=value, constraints=given), run(workers, fun=value, constraints=given))
    assert not workers.evaluate.warnings
