"""Replicas and the states they begin from, without a cluster."""

import numpy as np
import pytest

import lmma
from lmma.run.replicas.replica import (
    BoundedStrategy,
    Position,
    Redrawn,
    Told,
    checksum,
    from_state,
    take_state,
)
from lmma.strategies.parts.bounds import box


def values_of(X):
    return np.sum((X - 0.3) ** 2, axis=1)


@pytest.mark.parametrize("method", lmma.methods())
def test_a_state_taken_after_asking_gives_the_same_candidates_again(method):  # it is then that it is sent
    es, twin = (lmma.strategy(method, np.ones(6), 1.0, rng=1, popsize=5) for _ in range(2))
    for _ in range(30):
        X = es.ask()
        twin.set_state(es.get_state())
        assert np.array_equal(twin.ask(), X)
        values = values_of(X)
        es.tell(values)
        twin.tell(values)
        mine, yours = es.get_state(), twin.get_state()
        assert all(np.array_equal(mine[name], yours[name]) for name in mine)


@pytest.mark.parametrize("boundary", ["smooth", "reflect", "project"])
def test_a_replica_goes_through_events_as_the_run_does(boundary):
    x0 = np.full(6, 0.5)
    es = lmma.strategy("lm-ma-es", x0, 0.4, rng=1, popsize=8)
    bounds, its_bounds = (box([(0.31, 1)] * 6, x0, boundary=boundary) for _ in range(2))
    injected = [np.full(6, 0.4)]
    es.inject(np.array(injected))
    state = take_state(BoundedStrategy(es, bounds), injected, Position(0, 0))
    replica = from_state(state, its_bounds)
    for generation in range(20):
        X = es.ask()
        bounds.repair(X)
        replica.ask()
        assert np.array_equal(replica.candidates, X)
        if generation % 3 == 1:
            redrawn = np.array([1, 4])
            es.resample(redrawn, 1)
            bounds.repair(X, redrawn)
            replica.go_through(Redrawn(redrawn, 1))
            assert np.array_equal(replica.candidates, X)
        values = values_of(X)
        es.tell(bounds.penalised(values))
        replica.go_through(Told(values))
        assert checksum(replica.strategy) == checksum(es)


@pytest.mark.parametrize("size", [3, 5000])  # less than what a checksum adds up at once, and more
def test_a_checksum_sees_every_bit_of_the_state(size):
    es = lmma.strategy("lm-ma-es", np.ones(size), 1.0, rng=1)
    before = checksum(es)
    for k in (0, size - 1):
        es.mean[k] = np.nextafter(es.mean[k], 2.0)
        assert checksum(es) != before
        es.mean[k] = 1.0
    assert checksum(es) == before
