"""Replicas and their initial states, without a cluster."""

import numpy as np
import pytest

import lmma
from lmma.evaluation.base import EvaluationOptions
from lmma.evaluation.objective import dumps
from lmma.evaluation.replicas.replica import (
    Position,
    Replica,
    ReplicaSetup,
    ReplicaTask,
    ResampleEvent,
    TellEvent,
    checksum,
    take_state,
)


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

    run = lmma.strategy("lm-ma-es", x0, 0.4, rng=1, popsize=8, bounds=[(0.31, 1)] * 6, boundary=boundary, m=3)
    run.inject(np.full(6, 0.4))
    state = take_state(run, Position(0, 0))
    replica = Replica(ReplicaSetup(dumps((values_of, ())), EvaluationOptions(vectorized=True), 1))
    replica.handle(state)
    events = []
    for generation in range(20):
        X = run.ask()
        if generation % 3 == 1:
            rows = np.array([1, 4])
            run.resample(rows)
            events.append(ResampleEvent(rows, 1))
        replica.handle(ReplicaTask(0, 0, tuple(events), None))
        assert np.array_equal(replica._candidates, X)
        events.append(TellEvent(values_of(X), check=True))
        run.tell(values_of(X))
        reply = replica.handle(ReplicaTask(0, 0, tuple(events), None))
        assert reply.checksum == (Position(0, len(events)), checksum(run))


@pytest.mark.parametrize("size", [3, 5000])  # less than what a checksum adds up at once, and more
def test_a_checksum_sees_every_bit_of_the_state(size):
    es = lmma.strategy("lm-ma-es", np.ones(size), 1.0, rng=1)
    before = checksum(es)
    for k in (0, size - 1):
        es.mean[k] = np.nextafter(es.mean[k], 2.0)
        assert checksum(es) != before
        es.mean[k] = 1.0
    assert checksum(es) == before
