"""Runs whose candidates are made by replicas in threads of this process."""

import time

import numpy as np
import pytest

import lmma
from lmma.evaluation import EvaluationOptions, pickling
from lmma.evaluation.cluster import worker_host
from lmma.evaluation.cluster.transport import ClusterError
from lmma.run.replicas import replica, replica_driver
from lmma.run.replicas.replica_driver import ReplicatedDriver
from local_transport import LocalTransport, OnTransport


def curved(x):
    return float(np.sum((x - 0.3) ** 2 * np.arange(1, len(x) + 1)))


def often_nan(x):
    return np.nan if x[0] > 0.6 else curved(x)


def run(workers=1, fun=curved, **options):
    settings = {"rng": 1, "maxiter": 15, "bounds": [0.2, 2], **options}
    return lmma.minimize(fun, np.full(5, 0.5), 0.4, **settings, workers=workers)


def replicas(*names, slots=1, **options):
    return OnTransport(LocalTransport(*names, slots=slots), ReplicatedDriver, **options)


def same(one, other):
    assert np.array_equal(one.x, other.x)
    assert np.array_equal(one.mean, other.mean)
    assert (one.fun, one.sigma, one.nfev, one.failed) == (other.fun, other.sigma, other.nfev, other.failed)


def test_a_run_with_replicas_is_the_run_it_is_here():
    workers = replicas("a", "b", check=1)
    same(run(), run(workers))
    assert workers.evaluate.resent == 0
    assert not workers.evaluate.warnings


def test_failed_candidates_are_drawn_again_by_replicas_too():
    here = run(fun=often_nan, on_error="resample")
    assert here.failed["nan"] > 0
    same(here, run(replicas("a", "b", check=1), fun=often_nan, on_error="resample"))


def test_a_replica_that_diverges_is_sent_the_state_and_named_in_a_warning():
    workers = replicas("a", "b", check=2)
    generation = 0

    def spoil(x):
        nonlocal generation
        generation += 1
        if generation == 5:
            replica = worker_host._hosts[workers.evaluate._workers["a"].token]
            replica._strategy.mean += 1e-13

    there = run(workers, callback=spoil)
    same(run(), there)
    assert workers.evaluate.resent == 1
    assert len(there.warnings) == 1
    assert "the replica on a diverged" in there.warnings[0]


def test_a_state_is_sent_once_however_many_replies_show_that_a_replica_diverged(monkeypatch):
    workers = replicas("a", slots=4, check=1)
    catch_up, load = replica.Replica._catch_up, replica.Replica._load

    def slowly(self, task):
        if task.rows is None:
            time.sleep(0.1)  # so that tasks are sent before the driver hears that the replica diverged
        return catch_up(self, task)

    def load_slowly(self, state):
        time.sleep(0.3)  # so that replies to earlier tasks come before that to the state
        load(self, state)

    def fun(x):
        time.sleep(0.05 * (1 + x[0] % 0.1 * 10))  # so that replies come one by one
        return curved(x)

    generation = 0

    def spoil(x):
        nonlocal generation
        generation += 1
        if generation == 3:
            (host,) = worker_host._hosts.values()
            host._strategy.mean += 1e-13

    monkeypatch.setattr(replica.Replica, "_catch_up", slowly)
    monkeypatch.setattr(replica.Replica, "_load", load_slowly)
    monkeypatch.setattr(replica_driver, "USELESS_STATES", 1)
    there = run(workers, fun, callback=spoil, maxiter=6)
    same(run(maxiter=6), there)
    assert workers.evaluate.resent == 1
    assert len(there.warnings) == 1


def test_a_worker_that_lags_too_far_behind_is_sent_the_state_again(monkeypatch):
    monkeypatch.setattr(replica_driver, "KEPT", 1)
    workers = replicas("a", "b", check=1000)  # no checksum finds out that something went wrong
    # A worker that has no part in drawing again has missed more than one event
    here, there = (run(w, often_nan, on_error="resample") for w in (1, workers))
    same(here, there)
    assert workers.evaluate._states_sent > 2  # one for each at the start


def test_a_worker_that_cannot_follow_ends_the_run(monkeypatch):
    monkeypatch.setattr(replica.Replica, "_catch_up", lambda self, task: False)
    with pytest.raises(ClusterError, match="cannot follow the run"):
        run(replicas("a"))


def test_an_evaluator_that_is_not_told_of_a_strategy_says_what_is_missing():
    evaluate = ReplicatedDriver(pickling.dumps((curved, ())), EvaluationOptions(), LocalTransport("a"))
    with pytest.raises(ClusterError, match=r"needs lmma\.minimize"):
        evaluate(np.ones((3, 5)))
