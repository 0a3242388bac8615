"""Batches of varying size: every evaluator, limit and feature supports them."""

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from varied_batches import Cut, Varied, curved, curved_rows

import lmma
from lmma.evaluation import evaluator
from lmma.evaluation.cluster.driver import VectorDriver
from lmma.evaluation.replicas.replica_driver import ReplicatedDriver
from lmma.run.checkpoint import Checkpoint, read
from lmma.run.options import RunOptions
from lmma.run.run import Run
from local_transport import LocalTransport, OnTransport

N, POPSIZE = 3, 9
SIZES = (1, 7, 2 * N, POPSIZE)
X0 = np.full(N, 0.5)


def run(fun=curved, method=Varied, **options):
    settings = {"rng": 1, "popsize": POPSIZE, "maxiter": 20, "tolx": 0, "tolfun": 0, "noise": None} | options
    return lmma.minimize(fun, X0, 0.4, method=method, **settings)


def end_of(result):
    """What must be the same to the last bit of two runs."""
    mean = np.asarray(result.mean).tobytes()
    return result.x.tobytes(), result.fun, mean, result.sigma, result.nfev, result.nit, result.failures


def used(batches):
    """The evaluations of the first batches."""
    return sum(SIZES[k % 4] for k in range(batches))


def test_every_batch_has_the_rows_that_were_asked_for():
    seen = []
    result = run(lambda X: seen.append(len(X)) or curved_rows(X), vectorized=True)
    assert seen == [*SIZES] * 5
    assert (result.nfev, result.nit) == (used(20), 20)
    assert result.fun == curved(result.x)


def test_a_strategy_that_breaks_its_word_is_named():
    class Liar(Varied):
        @property
        def batch_size(self):
            return (
                4 if self._asked is None and self.generation == 3 and not self.asking else super().batch_size
            )

        asking = False

        def ask(self, out=None):
            self.asking = True
            try:
                return super().ask(None)
            finally:
                self.asking = False

    result = run(method=Liar, maxfevals=used(3) + 5)
    assert (result.reason, result.nit, result.nfev) == ("strategy", 3, used(3))
    assert "ask() returned 9 rows, more than batch_size" in result.message


# Evaluators


@pytest.mark.parametrize(
    "evaluators",
    [
        {"workers": 2},
        {"workers": 2, "vectorized": True},
        {"vectorized": True},
        {"workers": map},
        {"workers": "threads"},
        {"workers": VectorDriver},
        {"workers": ReplicatedDriver},
        {"workers": ReplicatedDriver, "on_error": "resample"},
        {"workers": 2, "dtype": "float32"},
    ],
    ids=str,
)
def test_every_evaluator_gives_the_same_run(evaluators):
    options = dict(evaluators)
    fun = curved_rows if options.get("vectorized") else curved
    same = {name: options[name] for name in ("dtype", "on_error") if name in options}
    with ThreadPoolExecutor(2) as threads:
        if options.get("workers") == "threads":
            options["workers"] = threads
        elif options.get("workers") in (VectorDriver, ReplicatedDriver):
            options["workers"] = OnTransport(LocalTransport("a", "b"), options["workers"])
        assert end_of(run(fun, **options)) == end_of(run(**same))


def test_a_cluster_of_dask_gives_the_same_run(dask_client):
    assert end_of(run(workers=dask_client)) == end_of(run())


def test_a_pool_keeps_its_processes_when_a_batch_is_larger():
    evaluate = evaluator(lambda x: float(os.getpid()), workers=2)
    try:
        pids = set()
        for rows in (1, 7, 6, 200, 3, 1000):
            out = evaluate.buffer(rows, 4, "float64")
            assert out.shape == (rows, 4)
            out[...] = 1.0
            pids |= set(evaluate(out).tolist())
        assert len(pids) <= 2
        assert evaluate.record.deaths == 0
        X = np.random.default_rng(1).normal(size=(3000, 4))
        fresh = evaluator(lambda x: float(x.sum()), workers=2)
        for rows in (1, 3000, 2, 5):
            assert np.array_equal(fresh(X[:rows]), [float(x.sum()) for x in X[:rows]])
        fresh.close()
    finally:
        evaluate.close()


# Budgets


def test_a_batch_that_does_not_fit_is_not_begun():
    for budget in range(1, 60):
        fits = [k for k in range(1, 60) if used(k) <= budget]
        result = run(maxfevals=budget, maxiter=None)
        assert (result.nfev, result.nit, result.reason) == (used(fits[-1]), fits[-1], "maxfevals")


def test_the_first_batch_must_fit():
    class Large(Varied):
        batch_size = 12

    with pytest.raises(ValueError, match="maxfevals=11 is less than one generation of popsize=12"):
        run(method=Large, maxfevals=11)


def test_a_budget_that_ends_in_mid_batch_is_used_to_the_last_evaluation():
    seen = []

    def fun(x):
        seen.append(curved(x))
        return seen[-1]

    for budget in range(1, 60):
        seen.clear()
        result = run(fun, method=Cut, maxfevals=budget, maxiter=None)
        whole = max(k for k in range(60) if used(k) <= budget)
        assert (result.nfev, len(seen), result.nit, result.reason) == (budget, budget, whole, "maxfevals")
        assert result.fun == min(seen) == curved(result.x)  # also of the rows that were not told
        assert result.runs[-1].evaluations == budget


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"vectorized": True}, {"on_error": "resample"},
                                     {"history": True}, {"restarts": 2, "tolx": 0.3}], ids=str)  # fmt: skip
def test_after_a_cut_batch_a_resumed_run_equals_the_unbroken_one(options, tmp_path):
    fun = curved_rows if options.get("vectorized") else curved
    whole = run(fun, method=Cut, maxfevals=97, maxiter=None, **options)
    for budget in (1, 5, 8, 9, 20, 30, 60):
        file = tmp_path / f"{budget}.npz"
        first = run(fun, method=Cut, maxfevals=budget, maxiter=None, checkpoint=file, **options)
        assert first.nfev == budget
        longer = run(fun, method=Cut, maxfevals=97, maxiter=None, checkpoint=file, **options)
        assert end_of(longer) == end_of(whole)
        assert longer.get("history", {}).get("evaluations") == whole.get("history", {}).get("evaluations")


def test_a_checkpoint_after_a_cut_batch_is_that_of_before_it(tmp_path):
    file = tmp_path / "run.npz"
    result = run(
        method=Cut, maxfevals=20, maxiter=None, checkpoint=Checkpoint(file, every=0), log=tmp_path / "log"
    )
    counters = read(file)[0]["counters"]
    assert (result.nfev, counters["evaluations"], counters["generation"]) == (20, used(3), 3)
    again = run(method=Cut, maxfevals=20, maxiter=None, checkpoint=file)
    assert end_of(again) == end_of(result)


def test_a_share_kept_for_polishing_is_not_used_by_a_cut_batch():
    result = run(method=Cut, maxfevals=200, maxiter=None, polish=True)
    assert result.nfev <= 200
    assert result.nfev - result.polish["nfev"] == 160  # a fifth is kept


# Interruptions


@pytest.mark.parametrize("options", [{}, {"restarts": 2, "tolx": 0.2}, {"noise": "auto"}], ids=str)
def test_a_run_resumed_after_any_batch_equals_the_unbroken_one(options, tmp_path):
    copies = []

    def keep(x):
        if file.exists():  # it is not written before fun has returned as many values as a generation has
            copies.append(shutil.copy(file, tmp_path / f"{len(copies)}.npz"))

    file = tmp_path / "run.npz"
    whole = run(**options)
    run(checkpoint=Checkpoint(file, every=0), callback=keep, **options)
    assert len(copies) >= 17
    for copy in copies:
        assert end_of(run(checkpoint=copy, **options)) == end_of(whole), copy


KILLED = """
import sys, time
sys.path[:0] = sys.argv[2:]
from varied_batches import Varied, curved
import numpy as np, lmma
from lmma.run.checkpoint import Checkpoint

def slow(x):
    time.sleep(0.002)
    return curved(x)

slow.__qualname__ = "curved"
print("begun", flush=True)
result = lmma.minimize(slow, np.full(3, 0.5), 0.4, method=Varied, rng=1, popsize=9, maxiter=120, noise=None,
                       tolx=0, tolfun=0, checkpoint=Checkpoint(sys.argv[1], every=0))
print(repr((result.x.tolist(), result.fun, result.nfev)))
"""


def test_a_run_that_is_killed_again_and_again_ends_as_if_it_never_was(tmp_path, environment):
    file, here = tmp_path / "run.npz", str(Path(__file__).parent)
    rng = np.random.default_rng(1)
    for kill in range(20):
        words = [sys.executable, "-c", KILLED, str(file), here]
        process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "begun\n"
        if kill < 4:
            time.sleep(rng.uniform(0.1, 0.6))
            process.send_signal(signal.SIGKILL)
        out = process.communicate()[0]
        if process.returncode == 0:
            break
    whole = run(maxiter=120)
    assert out.strip() == repr((whole.x.tolist(), whole.fun, whole.nfev))


# Failures


def fails_often(x):
    if int(abs(x[0]) * 1e6) % 3 == 0:
        raise ValueError("fails")
    return curved(x)


@pytest.mark.parametrize("on_error", ["worst", "resample"])
@pytest.mark.parametrize("workers", [1, 2])
def test_failing_rows_are_counted_in_batches_of_any_size(on_error, workers):
    result = run(fails_often, on_error=on_error, workers=workers)
    assert result.failures == result.failed["ValueError"] > 5
    assert result.nit == 20
    assert end_of(result) == end_of(run(fails_often, on_error=on_error))


def test_drawing_again_never_exceeds_the_budget():
    calls = []
    for budget in range(7, 60, 3):
        calls.clear()
        result = run(lambda x: calls.append(x) or fails_often(x), on_error="resample", maxfevals=budget)
        assert result.nfev == len(calls) <= budget


def test_single_failing_evaluations_do_not_end_a_run_as_failing_generations_do():
    class Single(Varied):
        batch_size = 1

    def fun(x):
        calls.append(1)
        return np.nan if len(calls) > 5 else curved(x)

    calls = []
    result = run(fun, method=Single, maxiter=500)
    assert result.reason == "failures"
    assert len(calls) == 5 + 3 * POPSIZE  # as many as three generations have


def test_a_timeout_is_one_of_a_row():
    def fun(x):
        if x[0] > 0.75:
            time.sleep(30)
        return curved(x)

    result = run(fun, workers=2, timeout=0.3, maxiter=4)
    assert result.failed.get("timeout", 0) == result.failures
    assert result.nfev == used(4)


def test_a_quorum_is_a_share_of_each_batch():
    def fun(x):
        time.sleep(0.02 if x[0] > 0.5 else 0)
        return curved(x)

    result = run(fun, workers=2, quorum=0.6, maxiter=12)
    assert result.nfev == used(12)
    assert result.late <= sum(int(0.4 * size) for size in SIZES) * 3
    assert result.failures == 0


# Noise, seeds, constraints, limits


def test_repeats_and_seeds_take_batches_of_any_size():
    seen = []

    def noisy(x, seed, generation):
        seen.append((seed, generation))
        return curved(x) + 0.3 * np.random.default_rng([seed, int(abs(x[0]) * 1e9)]).standard_normal()

    for noise in ("auto", "average"):
        seen.clear()
        result = run(noisy, noise=noise, maxiter=150, maxfevals=3000, stagnation=False)
        assert result.nfev == len(seen) <= 3000
        assert result.nfev > used(result.nit)
        assert end_of(
            run(noisy, noise=noise, maxiter=150, maxfevals=3000, stagnation=False, workers=2)
        ) == end_of(result)


def test_constraints_take_batches_of_any_size():
    limits = [lambda x: 0.5 - x[0] - x[1]]
    here = run(constraints=limits, maxiter=60)
    assert here.maxcv <= 1e-8
    assert end_of(run(constraints=limits, maxiter=60, workers=2)) == end_of(here)
    returned = run(lambda x: (curved(x), 0.5 - x[0] - x[1]), maxiter=60)
    assert np.array_equal(returned.x, here.x)


@pytest.mark.parametrize(
    "options", [{"bounds": [0.2, 2]}, {"integrality": [1, 0, 0]}, {"stagnation": True}], ids=str
)
def test_bounds_integers_and_rules_take_batches_of_any_size(options):
    result = run(maxiter=400, **options)
    assert result.fun == curved(result.x)
    assert result.nfev == used(result.nit)


def test_restarts_begin_with_other_batches():
    result = run(restarts=2, tolx=0.2, maxiter=300)
    assert len(result.runs) == 3
    assert [part.popsize for part in result.runs] == [9, 18, 36]
    assert sum(part.evaluations for part in result.runs) == result.nfev


def test_a_log_and_a_history_have_each_batch(tmp_path):
    result = run(history=True, log=tmp_path / "log")
    assert result.history["evaluations"] == [used(k) for k in range(1, 21)]


def test_an_observer_sees_the_evaluations_of_a_cut_batch():
    seen = []
    options = RunOptions(method=Cut, popsize=POPSIZE, rng=1, maxfevals=20)
    Run(curved, X0, 0.4, options, observers=[seen.append]).execute()
    assert [progress.evaluations for progress in seen] == [1, 8, 14, 20]


def test_callables_of_any_kind_are_called_with_rows():
    assert end_of(run(partial(curved_rows), vectorized=True)) == end_of(run())
