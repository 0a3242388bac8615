"""``workers=`` accepts a cluster, and results do not change."""

import os
import signal
import time

import numpy as np
import pytest

import lmma
from chaos import assert_every_fault_is_counted
from lmma.evaluation import EvaluationError, Serial, evaluator
from lmma.evaluation.cluster.messages import ClusterError

ROWS = np.arange(6.0)[:, None]


@pytest.fixture
def on_cluster(cluster):
    """Makes evaluators on the cluster that are closed at the end of the test."""
    made = []

    def make(fun, *args, **options):
        made.append(evaluator(fun, *args, workers=cluster, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_values_are_in_the_order_of_candidates_whichever_worker_is_first(on_cluster):
    scale = np.arange(7.0)

    def fun(x, power):
        time.sleep(0.02 if x[0] > 0 else 0)
        return float(scale @ np.abs(x) ** power)

    rows = np.random.default_rng(1).normal(size=(9, 7))
    there, here = on_cluster(fun, (3,)), Serial(fun, (3,))
    assert np.array_equal(there(rows), here(rows))
    assert np.array_equal(there(rows[:5]), here(rows[:5]))


def test_vectorised_objectives_get_blocks_of_rows(on_cluster):
    rows = np.random.default_rng(1).normal(size=(50, 3))
    values = on_cluster(lambda X: X.sum(axis=1) + 1000.0 * len(X), vectorized=True)(rows)
    assert np.allclose(values % 1000.0, rows.sum(axis=1) % 1000.0)
    assert set(np.round(values, -3)) == {6000.0, 2000.0}  # two slots: eight blocks of six, one of two


def test_failures_are_data_noted_in_the_order_of_candidates(on_cluster, tmp_path):
    def fun(x):
        if x[0] == 3:
            wait_until((tmp_path / "four").exists)
            time.sleep(0.2)  # so that the later candidate's failure comes first
            raise ValueError("three")
        if x[0] == 4:
            (tmp_path / "four").touch()
        return [0.0, np.nan, np.inf, 0.0, None, 5.0][int(x[0])]

    evaluate = on_cluster(fun)
    values = evaluate(ROWS)
    assert np.array_equal(values, [0.0, np.nan, np.nan, np.nan, np.nan, 5.0], equal_nan=True)
    assert evaluate.record.failures == {"ValueError": 1, "nan": 1, "inf": 1, "WrongType": 1}
    assert [error.kind for error in evaluate.record.errors] == ["ValueError", "WrongType", "nan", "inf"]
    assert 'raise ValueError("three")' in evaluate.record.errors[0].traceback


def test_raise_brings_the_exception_home(on_cluster):
    def fun(x):
        raise KeyError("two")

    with pytest.raises(KeyError, match="two") as caught:
        on_cluster(fun, (), "raise")(ROWS)
    assert "In a worker process" in caught.value.__notes__[0]
    with pytest.raises(EvaluationError, match="NaN"):
        on_cluster(lambda x: np.nan, (), "raise")(ROWS)


def test_an_objective_that_always_kills_or_hangs_takes_no_worker_with_it(on_cluster):
    def fun(x):
        if x[0] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1000 if x[0] == 2 else 0)
        return x[0]

    evaluate = on_cluster(fun, timeout=1.0)
    values = evaluate(ROWS)
    assert np.array_equal(values, [0.0, np.nan, np.nan, 3.0, 4.0, 5.0], equal_nan=True)
    assert (evaluate.record.failures, evaluate.record.deaths) == ({"died": 1, "timeout": 1}, 3)


def test_a_quorum_does_not_wait_for_stragglers_and_drops_what_they_bring(on_cluster, tmp_path):
    def fun(x):
        if x[0] == 4:
            wait_until((tmp_path / "go").exists)
            (tmp_path / "came").touch()
        elif x[0] >= 10:
            wait_until((tmp_path / "came").exists)
            time.sleep(0.2)  # so that the late value comes while this generation is open
        return x[0]

    evaluate = on_cluster(fun, quorum=0.8)
    values = evaluate(ROWS)  # 5 of 6 are enough
    assert np.flatnonzero(np.isnan(values)).tolist() == [4]
    assert (np.count_nonzero(evaluate.late), evaluate.record.failures) == (1, {})
    assert evaluate.late.tolist() == [False] * 4 + [True, False]
    (tmp_path / "go").touch()  # its value comes during the next generation and belongs to none
    later = evaluate(ROWS + 10)
    returned = ~np.isnan(later)
    assert np.count_nonzero(returned) >= 5
    assert np.array_equal(later[returned], (ROWS[:, 0] + 10)[returned])


def test_an_objective_workers_cannot_load_is_an_error_at_once(on_cluster):
    class NotLoadable:
        def __call__(self, x):
            return 0.0

        def __reduce__(self):
            return os.listdir, ("/no/such/folder",)

    with pytest.raises(ClusterError, match="FileNotFoundError"):
        on_cluster(NotLoadable())(ROWS)


def test_the_objective_travels_once_not_with_every_task(on_cluster):
    ballast = np.random.default_rng(1).normal(size=100_000)  # 800 kB
    evaluate = on_cluster(lambda x: float(x[0] + ballast[0]))
    evaluate(ROWS)
    before = evaluate.sent
    for _ in range(3):
        assert np.array_equal(evaluate(ROWS), ROWS[:, 0] + ballast[0])
    assert evaluate.sent - before < 3 * len(ROWS) * 1000


def test_a_run_on_a_cluster_is_the_run_it_is_here(cluster):
    def fun(x):
        return float(np.sum(x**2 * np.arange(1, 7)))

    options = {"rng": 1, "maxiter": 12, "bounds": [-1, 5]}
    here = lmma.minimize(fun, np.ones(6), 1.0, **options)
    there = lmma.minimize(fun, np.ones(6), 1.0, **options, workers=cluster)
    pool = lmma.minimize(fun, np.ones(6), 1.0, **options, workers=2)
    for other in (there, pool):
        assert np.array_equal(here.x, other.x)
        assert np.array_equal(here.mean, other.mean)
        assert (here.fun, here.nfev, here.sigma) == (other.fun, other.nfev, other.sigma)


def test_every_fault_is_survived_and_counted(cluster, tmp_path):
    assert_every_fault_is_counted(4, 1.0, tmp_path, timeout=1.0, budget=4000, workers=cluster)


@pytest.mark.slow
def test_every_fault_is_survived_and_counted_at_n_50(cluster, tmp_path):
    result, faults = assert_every_fault_is_counted(
        50, 1e-6, tmp_path, timeout=0.5, budget=100_000, workers=cluster
    )
    print(result.nfev, dict(faults), result.failed, result.deaths)


def test_a_run_that_ends_leaves_no_process_behind(cluster, tmp_path):
    def fun(x):
        (tmp_path / str(os.getpid())).touch()
        return float(x @ x)

    lmma.minimize(fun, np.ones(4), 1.0, rng=1, maxiter=3, workers=cluster)
    pids = [int(file.name) for file in tmp_path.iterdir()]
    assert 1 <= len(pids) <= 2  # one worker may be done with all before the other has started
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
