"""What is refused at the border, in words, and what strange objectives do to a run: nothing."""

import asyncio
import concurrent.futures
import decimal
import re

import numpy as np
import pytest

import lmma
from adapting import ADAPTING
from lmma import LMMAES
from lmma.bounds import box
from lmma.evaluation import evaluator
from lmma.run.options import default_sigma0
from lmma.run.stopping import Stagnation


def sphere(x):
    return float(x @ x)


def spheres(X):
    return np.sum(np.square(X), axis=1)


# Arguments


@pytest.mark.parametrize(("arguments", "words"), [
    ({"callback": 3}, "callback must be a function, or None; got 3"),
    ({"checkpoint": 3}, "checkpoint must be the path of a file, or None; got 3"),
    ({"log": 3}, "log must be the path of a file, or None; got 3"),
    ({"tolx": None}, "tolx must be a number, 0 to switch the rule off; got None"),
    ({"tolfun": "small"}, "tolfun must be a number, 0 to switch the rule off; got 'small'"),
    ({"tolx": float("nan")}, "tolx must be a number, 0 to switch the rule off; got NaN"),
    ({"tolfun": -1.0}, "tolfun must not be negative"),
    ({"popsize": "8"}, "popsize must be an integer, got '8'"),
    ({"popsize": 8.0}, "popsize must be an integer, got 8.0"),
    ({"maxfevals": "100"}, "maxfevals must be a number, or None for no limit; got '100'"),
    ({"maxiter": [3]}, "maxiter must be a number, or None for no limit; got [3]"),
    ({"maxtime": True}, "maxtime must be a number, or None for no limit; got True"),
    ({"ftarget": "0"}, "ftarget must be a number, or None for no target; got '0'"),
    ({"history": "all"}, "history must be a number; got 'all'"),
    ({"timeout": "3"}, "timeout must be a number, got '3'"),
    ({"quorum": None, "workers": 2}, "quorum must be"),
    ({"c_sigma": 1.5}, "c_sigma is a rate and must lie between 0 and 1, got 1.5"),
    ({"c_sigma": 0}, "c_sigma must be positive, got 0"),
    ({"c_sigma": "fast"}, "c_sigma must be a number, got 'fast'"),
    ({"d_sigma": -1.0}, "d_sigma must be positive, got -1.0"),
    ({"m": 2.5}, "m must be an integer, got 2.5"),
    ({"inject": [1e200, 0.0]}, "points must be within reach"),
    ({"inject": [1e30, 0.0], "dtype": "float32"}, "points must be within reach"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused_in_words(arguments, words):
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        lmma.minimize(sphere, np.ones(2), 1.0, method="lm-ma-es", **arguments)


@pytest.mark.parametrize("method", ADAPTING)
def test_no_method_takes_a_rate_beyond_one(method):
    with pytest.raises(ValueError, match="c_sigma"):
        lmma.minimize(sphere, np.ones(5), 1.0, method=method, c_sigma=3.0)


def test_who_asks_and_tells_is_refused_as_well():
    with pytest.raises(TypeError, match="tolx must be a number"):
        LMMAES(np.ones(2), 1.0, tolx=None)
    with pytest.raises(ValueError, match="within reach"):
        LMMAES(np.ones(2), 1.0).inject([0.0, -1e200])


def test_one_file_for_checkpoint_and_log_is_refused(tmp_path):
    for saved in (tmp_path / "a", lmma.checkpoint.Checkpoint(tmp_path / "a")):
        with pytest.raises(ValueError, match="two files"):
            lmma.minimize(sphere, np.ones(2), 1.0, checkpoint=saved, log=str(tmp_path / "b" / ".." / "a"))
    assert list(tmp_path.iterdir()) == []


def test_budgets_may_be_floats_and_infinite():
    result = lmma.minimize(sphere, np.ones(2), 1.0, rng=1, maxfevals=1e2, maxiter=float("inf"))
    assert (result.reason, result.nfev <= 100) == ("maxfevals", True)


# Steps by the width of each coordinate


@pytest.mark.parametrize("method", ["auto", "lm-ma-es"])
def test_a_box_with_mixed_units_is_searched_by_default(method):
    width = 10.0 ** np.linspace(-2, 6, 8)
    best = np.linspace(0.2, 0.8, 8) * width

    def fun(X):
        return np.sum(((X - best) / width) ** 2, axis=1)

    result = lmma.minimize(
        fun, width / 2, bounds=[np.zeros(8), width], method=method, vectorized=True, rng=1, maxfevals=5_000
    )
    assert result.fun < 1e-10


def test_the_default_step_follows_the_width_of_each_coordinate():
    def default(bounds, x0):
        return default_sigma0(np.array(x0), box(bounds, np.array(x0)))

    assert default([(0, 2)] * 3, np.ones(3)) == pytest.approx(0.6)
    np.testing.assert_allclose(default([(0, 1), (0, 100)], [0.5, 50.0]), [0.3, 30.0])
    # no bound on one side: as without a box; a fixed coordinate takes no part
    np.testing.assert_allclose(default([(0, 10), (0, None)], [0.1, 0.1]), [3.0, 0.3])
    assert default([(0, 2), (5, 5), (1, 3)], [1.0, 5.0, 2.0]) == pytest.approx(0.6)
    assert default([(0, None), (None, 5)], [0.1, 0.1]) == pytest.approx(0.3)


# Objectives


def in_place(X):
    X -= 3.0
    return spheres(X)


def sorts(X):
    X.sort(axis=1)
    return spheres(X)


@pytest.mark.parametrize("fun", [in_place, sorts])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_vectorised_objective_that_works_in_place_is_refused_at_once(fun, workers):
    with pytest.raises(ValueError, match=r"must not change.*X = X.copy\(\)"):
        lmma.minimize(fun, np.ones(3), 1.0, vectorized=True, workers=workers, rng=1)


def test_what_writes_later_is_a_failure_and_falsifies_nothing():
    seen = []

    def fun(X):
        seen.append(X.copy())
        if len(seen) == 3:
            X[...] = 0.0
        return spheres(X)

    result = lmma.minimize(fun, np.ones(3), 1.0, vectorized=True, rng=1, maxiter=20)
    assert result.failed["WorksInPlace"] == len(seen[2])
    rows = np.concatenate(seen)
    assert np.any(np.all(rows == result.x, axis=1))
    assert result.fun == spheres(result.x[None])[0]


def in_place_single(x):
    value = sphere(x)
    x[...] = 1e9
    return value


@pytest.mark.parametrize("workers", [1, 2, map, "threads"])
def test_an_objective_of_one_candidate_may_do_with_it_what_it_likes(workers):
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        result = lmma.minimize(
            in_place_single, np.ones(3), 1.0, rng=1, maxiter=30,
            workers=threads if workers == "threads" else workers,
        )  # fmt: skip
    assert result.fun == sphere(result.x)


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Scalar:
    """A tensor of another library."""

    shape = (1,)

    def __init__(self, value):
        self.value = value

    def __float__(self):
        return float(self.value)


@pytest.mark.parametrize("error", [
    Unspeakable(), asyncio.CancelledError("task"), concurrent.futures.CancelledError(), GeneratorExit(),
])  # fmt: skip
@pytest.mark.parametrize("workers", [1, map, "threads", 2])
@pytest.mark.parametrize("vectorized", [False, True])
def test_whatever_an_objective_raises_is_a_failed_evaluation(error, workers, vectorized):
    kind = type(error)

    def fun(x):
        if np.ravel(x)[0] > 1.0:
            raise kind
        return spheres(x) if vectorized else sphere(x)

    if vectorized and workers not in (1, 2):
        pytest.skip("not to be split")
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        evaluate = evaluator(fun, workers=threads if workers == "threads" else workers, vectorized=vectorized)
        try:
            assert np.isnan(evaluate(np.full((1, 2), 2.0))[0])
            assert evaluate(np.zeros((1, 2)))[0] == 0.0
        finally:
            evaluate.close()
    assert evaluate.failures == {kind.__name__: 1}
    assert kind is not Unspeakable or "RuntimeError" in evaluate.errors[0].message


@pytest.mark.parametrize(("value", "number"), [
    (np.array([3.0]), 3), (np.array([[3]]), 3), (np.float32(3), 3), (np.bool_(True), 1), (True, 1),
    (decimal.Decimal(3), 3), (Scalar(3), 3),
])  # fmt: skip
def test_one_number_is_a_number_in_whatever_it_comes(value, number):
    assert evaluator(lambda x: value)(np.zeros((2, 1))).tolist() == [number, number]


@pytest.mark.parametrize("value", ["3", b"3", np.str_("3"), 3j, np.complex128(3), None, np.ones(2), [3.0]])
def test_what_is_no_number_is_refused_in_words(value):
    with pytest.raises(TypeError, match="fun must return one real number"):
        evaluator(lambda x: value)(np.zeros((1, 1)))


# Strategies that fail


class Breaks(LMMAES):
    """Raises in one of its methods at generation 5."""

    where = ""

    def _sample(self, out):
        if self.where == "ask" and self.generation == 5:
            raise KeyError("lost")
        super()._sample(out)

    def _update(self, order, values):
        if self.where == "tell" and self.generation == 5:
            raise OverflowError("too {large}")
        super()._update(order, values)


@pytest.mark.parametrize(
    ("where", "words"), [("ask", "KeyError: 'lost'"), ("tell", "OverflowError: too {large}")]
)
def test_a_strategy_that_fails_ends_the_run_with_the_best(where, words, monkeypatch, tmp_path):
    monkeypatch.setattr(Breaks, "where", where)
    seen = []

    def fun(x):
        seen.append(sphere(x))
        return seen[-1]

    result = lmma.minimize(fun, np.ones(4), 1.0, method=Breaks, rng=1, checkpoint=tmp_path / "run.npz")
    assert (result.reason, result.status, result.success) == ("strategy", 15, False)
    assert words in result.message
    assert result.fun == min(seen) == sphere(result.x)
    restarted = lmma.minimize(fun, np.ones(4), 1.0, method=Breaks, rng=1, restarts=1)
    assert [run.reason for run in restarted.runs] == ["strategy", "strategy"]


def test_a_stop_that_fails_ends_the_run_with_the_best_and_a_checkpoint(monkeypatch, tmp_path):
    def stop(self):
        if self.generation == 5:
            raise KeyError("lost")
        return {}

    monkeypatch.setattr(Breaks, "stop", stop)
    options = {"method": Breaks, "rng": 1, "checkpoint": tmp_path / "run.npz"}
    result = lmma.minimize(sphere, np.ones(4), 1.0, **options)
    assert (result.reason, result.nit) == ("strategy", 5)
    assert "KeyError: 'lost'" in result.message
    assert result.fun == sphere(result.x)
    monkeypatch.undo()  # once it is mended, the run goes on
    assert lmma.minimize(sphere, np.ones(4), 1.0, maxiter=9, **options).nit == 9


@pytest.mark.parametrize("where", ["check", "watch"])
def test_a_stopping_rule_that_fails_ends_the_run_with_the_best(where, monkeypatch):
    plain = getattr(Stagnation, where)

    def fails(self, given):
        if self.seen >= 5:
            raise OverflowError("too large")
        return plain(self, given)

    monkeypatch.setattr(Stagnation, where, fails)
    result = lmma.minimize(sphere, np.ones(4), 1.0, rng=1)
    assert result.reason == "strategy"
    assert "a rule that watches it, failed: OverflowError: too large" in result.message
    assert result.fun == sphere(result.x)
    monkeypatch.setattr(Stagnation, "check", lambda self, now: 1 / 0)  # before anything was evaluated
    with pytest.raises(ZeroDivisionError):
        lmma.minimize(sphere, np.ones(4), 1.0, rng=1)


def test_a_strategy_that_never_gave_a_candidate_is_a_mistake(monkeypatch):
    monkeypatch.setattr(Breaks, "_sample", lambda self, out: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        lmma.minimize(sphere, np.ones(4), 1.0, method=Breaks)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_vd_cma_es_keeps_its_direction_under_noise(n, seed):
    rng = np.random.default_rng(seed)
    result = lmma.minimize(
        lambda X: spheres(X) + rng.normal(size=len(X)), np.ones(n), 1.0, method="vd-cma-es", rng=seed,
        vectorized=True, maxfevals=30_000, stagnation=False, tolx=0, tolfun=0,
    )  # fmt: skip
    assert result.reason == "maxfevals"
