"""Hosts of cluster workers, called directly without a cluster."""

import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest

from lmma.evaluation import EvaluationOptions
from lmma.evaluation.cluster import worker_host
from lmma.evaluation.cluster.messages import Message
from lmma.evaluation.cluster.worker_host import HostSetup, end_host, serve
from lmma.evaluation.objective import dumps

ROWS = np.arange(3.0)[:, None]


def setup(fun, **options):
    return HostSetup(dumps((fun, ())), EvaluationOptions(**options), slots=1)


def send(token, payload=None, setup=None):
    return pickle.loads(serve(pickle.dumps(Message(token, payload, setup))))


@pytest.fixture
def token(request):
    yield request.node.name
    end_host(request.node.name)


def test_an_unregistered_process_evaluates_nothing():
    assert send("of another process", ROWS).status == "unregistered"
    assert not worker_host._hosts


def test_values_and_failures_come_back_as_data(token):
    def fun(x):
        return 1 / int(x[0]) if x[0] < 2 else None

    assert send(token, None, setup(fun)).status == "ready"
    reply = send(token, ROWS)
    assert reply.status == "done"
    assert reply.values[1] == 1.0
    kinds = {row: failed.failure.kind for row, (failed, _) in reply.failures.items()}
    assert kinds == {0: "ZeroDivisionError", 2: "WrongType"}


def test_a_worker_death_is_reported_at_once_and_later_rows_are_left_to_the_run(token, tmp_path):
    def fun(x):
        (tmp_path / f"{x[0]:g}").open("a").write(".")
        if x[0] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return x[0]

    reply = send(token, ROWS, setup(fun))
    assert (reply.status, reply.deaths, reply.died, reply.unanswered) == ("done", 1, (1,), (1, 2))
    assert reply.values[0] == 0.0
    assert not reply.failures
    reply = send(token, ROWS[[0, 2]])  # nothing of the earlier message is begun any more
    assert (reply.deaths, reply.unanswered) == (0, ())
    assert np.array_equal(reply.values, [0.0, 2.0])
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"0": "..", "1": ".", "2": "."}


def test_a_quorum_of_the_generation_is_none_of_a_message(token):
    def fun(x):
        time.sleep(0.1)  # so that the first value is there before the others
        return x[0]

    reply = send(token, ROWS, setup(fun, quorum=0.3))
    assert np.array_equal(reply.values, ROWS[:, 0])


def test_a_host_that_hears_nothing_of_its_run_ends_with_its_processes(token, monkeypatch):
    monkeypatch.setattr(worker_host, "LEASE", 1.0)
    reply = send(token, ROWS, setup(lambda x: os.getpid()))
    pid = int(reply.values[0])
    deadline = time.monotonic() + 30
    while os.path.exists(f"/proc/{pid}") or worker_host._hosts:
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.05)
    assert send(token, ROWS).status == "unregistered"


def test_a_run_that_ends_does_not_wait_for_an_evaluation(token, tmp_path):
    def fun(x):
        (tmp_path / str(os.getpid())).touch()
        time.sleep(1000)

    replies = []
    waiting = threading.Thread(target=lambda: replies.append(send(token, ROWS, setup(fun))))
    waiting.start()
    deadline = time.monotonic() + 30
    while not list(tmp_path.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    end_host(token)
    waiting.join(30)
    assert replies[0].status == "unregistered"
    pid = int(next(tmp_path.iterdir()).name)
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_an_objective_that_cannot_be_loaded_is_reported_with_the_reason(token):
    class NotLoadable:
        def __call__(self, x):
            return 0.0

        def __reduce__(self):
            return os.listdir, ("/no/such/folder",)

    reply = send(token, ROWS, setup(NotLoadable()))
    assert reply.status == "broken"
    assert "FileNotFoundError" in reply.failures[0][0].failure.message
