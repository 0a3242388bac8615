"""Agents on workers of a cluster, met here without a cluster."""

import os
import pickle
import time

import numpy as np
import pytest

from lmma.evaluation import pickling
from lmma.evaluation.cluster import worker_host as agent
from lmma.evaluation.cluster.worker_host import Agent, Letter, Setup, forget, serve

ROWS = np.arange(3.0)[:, None]


def setup(fun, **options):
    settings = {"vectorized": False, "timeout": None, "slots": 1, **options}
    return Setup(Agent, pickling.dumps((fun, ())), **settings)


def write(token, body=None, settings=None):
    return pickle.loads(serve(pickle.dumps(Letter(token, body, settings))))


@pytest.fixture
def token(request):
    yield request.node.name
    forget(request.node.name)


def test_a_process_that_has_not_met_the_run_evaluates_nothing():
    assert write("of another process", ROWS).what == "unknown"
    assert not agent._agents


def test_values_and_failures_come_back_as_data(token):
    def fun(x):
        return 1 / int(x[0]) if x[0] < 2 else None

    assert write(token, None, setup(fun)).what == "hello"
    answer = write(token, ROWS)
    assert answer.what == "done"
    assert answer.values[1] == 1.0
    assert {row: problem[0] for row, problem in answer.problems.items()} == {
        0: "ZeroDivisionError",
        2: "WrongType",
    }


def test_an_agent_that_hears_nothing_of_its_run_ends_with_its_processes(token, monkeypatch):
    monkeypatch.setattr(agent, "LEASE", 1.0)
    answer = write(token, ROWS, setup(lambda x: os.getpid()))
    pid = int(answer.values[0])
    deadline = time.monotonic() + 30
    while os.path.exists(f"/proc/{pid}") or agent._agents:
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.05)
    assert write(token, ROWS).what == "unknown"


def test_a_run_that_ends_does_not_wait_for_an_evaluation(token, tmp_path):
    import threading

    def fun(x):
        (tmp_path / str(os.getpid())).touch()
        time.sleep(1000)

    answers = []
    waiting = threading.Thread(target=lambda: answers.append(write(token, ROWS, setup(fun))))
    waiting.start()
    deadline = time.monotonic() + 30
    while not list(tmp_path.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    forget(token)
    waiting.join(30)
    assert answers[0].what == "unknown"
    pid = int(next(tmp_path.iterdir()).name)
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_an_objective_that_cannot_be_loaded_is_told_with_its_reason(token):
    class Sour:
        def __call__(self, x):
            return 0.0

        def __reduce__(self):
            return os.listdir, ("/no/such/folder",)

    answer = write(token, ROWS, setup(Sour()))
    assert answer.what == "broken"
    assert "FileNotFoundError" in answer.problems[0][1]
