"""The driver of a cluster, with workers in threads of this process."""

import os
import pickle
import signal

import numpy as np
import pytest

from lmma.evaluation import Serial
from lmma.evaluation.cluster import driver as cluster_driver, worker_host
from lmma.evaluation.cluster.driver import VectorDriver
from lmma.evaluation.cluster.messages import ClusterError
from local_transport import LocalTransport, OnTransport

ROWS = np.arange(12.0).reshape(6, 2)


def total(x):
    return float(np.sum(x))


@pytest.fixture
def driver():
    """Makes drivers that are closed at the end of the test."""
    made = []

    def make(fun, transport, **options):
        made.append(OnTransport(transport, VectorDriver).evaluator(fun, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()
    assert not worker_host._hosts


def test_the_values_are_those_of_a_serial_evaluation(driver):
    evaluate = driver(total, LocalTransport("a", "b"))
    for rows in (ROWS, ROWS[:3], ROWS + 1):
        assert np.array_equal(evaluate(rows), Serial(total)(rows))
    assert evaluate.record.deaths == 0


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("times", [2, 3])
def test_deaths_of_processes_are_counted_by_the_run_which_outlives_them(driver, tmp_path, times, vectorized):
    def fun(x):
        deaths = len(list(tmp_path.iterdir()))
        if 4.0 in x and deaths < times:
            (tmp_path / str(deaths)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x.sum(axis=1) if vectorized else total(x)

    evaluate = driver(fun, LocalTransport("a"), vectorized=vectorized)
    evaluate._seconds_per_row = 1e-6  # so that a message has several rows
    rows = np.vstack([ROWS, ROWS + 20])  # 4 is in the third of them
    values = evaluate(rows)
    assert evaluate.record.deaths == times
    if times == 2:
        assert np.array_equal(values, rows.sum(axis=1))
        assert not evaluate.record.failures
    else:
        assert list(evaluate.record.failures) == ["died"]
        assert np.array_equal(np.flatnonzero(np.isnan(values)), [0, 1, 2] if vectorized else [2])


def test_each_worker_is_sent_the_objective_once(driver):
    ballast = np.random.default_rng(1).normal(size=10_000)
    transport = LocalTransport("a", "b")
    evaluate = driver(lambda x: float(x[0] + ballast[0]), transport)
    for _ in range(3):
        evaluate(ROWS)
    long = [worker for worker, message in transport.messages if len(message) > ballast.nbytes]
    assert sorted(long) == ["a", "b"]
    assert evaluate.sent == sum(len(message) for _, message in transport.messages)


def test_a_worker_that_leaves_is_done_without_and_one_that_joins_takes_part(driver, tmp_path):
    transport = LocalTransport("a", "b")
    evaluate = driver(total, transport)
    evaluate(ROWS)
    transport.names[:] = ["b", "c"]
    evaluate._next_poll = 0.0  # now, not in a second
    sent = len(transport.messages)
    assert np.array_equal(evaluate(ROWS), Serial(total)(ROWS))
    tasks = {worker for worker, message in transport.messages[sent:]}
    assert "a" not in tasks
    assert "c" in tasks


def test_a_restarted_worker_is_registered_again_and_loses_nothing(driver):
    transport = LocalTransport("a")
    evaluate = driver(total, transport)
    evaluate(ROWS)
    first = pickle.loads(transport.messages[0][1]).token
    worker_host.end_host(first)
    assert np.array_equal(evaluate(ROWS + 1), Serial(total)(ROWS + 1))
    assert pickle.loads(transport.messages[-1][1]).token != first
    assert evaluate.record.deaths == 1  # as far as the driver knows, in the middle of an evaluation


def test_without_addresses_unregistered_processes_are_registered_as_they_turn_up(driver):
    class AnyWorker(LocalTransport):
        addressed = False

    transport = AnyWorker("all")
    evaluate = driver(total, transport)
    evaluate(ROWS)
    worker_host.end_host(pickle.loads(transport.messages[0][1]).token)  # as if another process took over
    assert np.array_equal(evaluate(ROWS + 1), Serial(total)(ROWS + 1))
    assert (evaluate.record.deaths, evaluate.record.failures) == (0, {})


def test_workers_that_never_reply_end_the_run_with_a_reason(driver, monkeypatch):
    class Silent(LocalTransport):
        def replies(self, seconds):
            return [(request, None) for request, _, _ in drained_now(self)]

    def drained_now(transport):
        found = []
        while not transport.inbox.empty():
            found.append(transport.inbox.get())
        return found

    monkeypatch.setattr(cluster_driver, "FAILED_STARTS", 2)
    with pytest.raises(ClusterError, match="3 Local workers in a row exited before their first reply"):
        driver(total, Silent("a", "b"))(ROWS)


def test_a_cluster_without_workers_is_given_up_after_a_while(driver, monkeypatch):
    monkeypatch.setattr(cluster_driver, "WORKER_TIMEOUT", 0.0)
    monkeypatch.setattr(cluster_driver, "POLL", 0.01)
    with pytest.raises(ClusterError, match="no Local worker has answered"):
        driver(total, LocalTransport())(ROWS)
