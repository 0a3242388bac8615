"""Validation of arguments, and objectives with unusual behaviour."""

import asyncio
import concurrent.futures
import ctypes
import decimal
import re
from pathlib import Path

import numpy as np
import pytest

import lmma
from adapting import ADAPTING, BY_RANKS
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
    ({"tolx": None}, "tolx must be a number (0 disables the rule); got None"),
    ({"tolfun": "small"}, "tolfun must be a number (0 disables the rule); got 'small'"),
    ({"tolx": float("nan")}, "tolx must be a number (0 disables the rule); got NaN"),
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
    ({"inject": [1e200, 0.0]}, "coordinates must be at most"),
    ({"inject": [1e30, 0.0], "dtype": "float32"}, "coordinates must be at most"),
    ({"workers": 2**70}, "workers must be at most 32768"),
])  # fmt: skip
def test_an_invalid_argument_is_rejected_with_a_message(arguments, words):
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        lmma.minimize(sphere, np.ones(2), 1.0, method="lm-ma-es", **arguments)


@pytest.mark.parametrize("method", ADAPTING)
def test_no_method_takes_a_rate_beyond_one(method):
    with pytest.raises(ValueError, match="c_sigma"):
        lmma.minimize(sphere, np.ones(5), 1.0, method=method, c_sigma=3.0)


@pytest.mark.parametrize(("dtype", "largest"), [("float64", "2e+288"), ("float32", "3e+18")])
def test_a_step_without_room_to_grow_is_rejected_outside_a_box(dtype, largest):
    wide = 1e300 if dtype == "float64" else 1e30
    words = f"sigma0 must be at most {largest} in {dtype} unless all variables are bounded, got"
    for sigma0 in (wide, [1.0, wide]):
        with pytest.raises(ValueError, match=re.escape(words)):
            lmma.minimize(sphere, np.ones(2), sigma0, dtype=dtype)
    with np.errstate(over="ignore"):  # squares of such numbers
        within = lmma.minimize(sphere, np.ones(2), wide, dtype=dtype, bounds=[-wide, wide], maxfevals=20)
    assert np.abs(within.x).max() <= wide


@pytest.mark.parametrize("method", BY_RANKS)
def test_a_point_injected_further_away_than_can_be_squared_does_no_harm(method):
    for x0, steps in ((1.7e308, 1.0), (1.0, 1e-300), (1.0, np.array([1e-300, 1e-150, 1.0]))):
        with np.errstate(all="ignore"):  # the objective overflows, and so may a matrix
            result = lmma.minimize(
                lambda x: 1.0, np.full(3, x0), steps, method=method, inject=np.full((5, 3), 2.0),
                maxfevals=60, rng=76,
            )  # fmt: skip
        assert np.isfinite(result.mean).all(), (x0, steps, result.mean)
        assert np.isfinite(result.x).all(), (x0, steps, result.x)


def test_memory_that_runs_out_before_the_first_value_is_reported_with_the_requested_size(monkeypatch):
    def runs_out(*_, **__):
        raise MemoryError("Unable to allocate 3.73 GiB")

    for name in ("_initialise", "ask"):
        with monkeypatch.context() as patch:
            patch.setattr(LMMAES, name, runs_out)
            with pytest.raises(
                MemoryError, match=r"lm-ma-es with n=2, popsize=7 does not fit.*3\.73 GiB.*smaller"
            ):
                lmma.minimize(sphere, np.ones(2), 1.0, method="lm-ma-es", popsize=7)


def test_a_limit_of_memory_is_known_beforehand():
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if not Path("/proc/self/statm").exists():
        pytest.skip("what a process has taken is read in /proc")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, hard))
    try:
        with pytest.raises(MemoryError, match=r"popsize=100000000 needs about .* are free: popsize="):
            lmma.minimize(sphere, np.ones(2), 1.0, method="lm-ma-es", popsize=10**8)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_strategies_reject_invalid_arguments_too():
    with pytest.raises(TypeError, match="tolx must be a number"):
        LMMAES(np.ones(2), 1.0, tolx=None)
    with pytest.raises(ValueError, match="coordinates must be at most"):
        LMMAES(np.ones(2), 1.0).inject([0.0, -1e200])


def test_one_file_for_checkpoint_and_log_is_rejected(tmp_path):
    for saved in (tmp_path / "a", lmma.checkpoint.Checkpoint(tmp_path / "a")):
        with pytest.raises(ValueError, match="different files"):
            lmma.minimize(sphere, np.ones(2), 1.0, checkpoint=saved, log=str(tmp_path / "b" / ".." / "a"))
    assert list(tmp_path.iterdir()) == []


def test_budgets_may_be_floats_and_infinite():
    result = lmma.minimize(
        sphere, np.ones(2), 1.0, values="ranks", rng=1, maxfevals=1e2, maxiter=float("inf")
    )
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


HUGE = 10**400  # an integer beyond the range of floats


@pytest.mark.parametrize(("arguments", "words"), [
    ({"maxfevals": HUGE}, "maxfevals is too large"),
    ({"maxiter": HUGE}, "maxiter is too large"),
    ({"maxtime": HUGE}, "maxtime is too large"),
    ({"ftarget": -HUGE}, "ftarget is too large"),
    ({"tolx": HUGE}, "tolx is too large"),
    ({"history": HUGE}, "history is too large"),
    ({"timeout": HUGE}, "timeout is too large"),
    ({"quorum": HUGE}, "quorum is too large"),
    ({"feasibility_tol": HUGE}, "feasibility_tol is too large"),
    ({"bounds": (0, HUGE)}, "bounds contain an integer beyond the range of floats"),
    ({"c_sigma": HUGE}, "c_sigma must be finite"),
])  # fmt: skip
def test_an_integer_beyond_the_range_of_floats_is_rejected_with_a_message(arguments, words):
    with pytest.raises(ValueError, match=words):
        lmma.minimize(sphere, np.ones(2), 1.0, method="lm-ma-es", **arguments)


def test_masked_entries_are_not_taken_for_numbers():
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
    with pytest.raises(ValueError, match=r"x0\[1\] is: x0.filled\(value\)"):
        lmma.minimize(sphere, masked, 1.0)
    with pytest.raises(ValueError, match="x0: w must not have masked entries"):
        lmma.minimize(lambda tree: 0.0, {"w": masked}, 1.0)
    open_mask = np.ma.array([1.0, 2.0, 3.0], mask=False)
    assert len(lmma.minimize(sphere, open_mask, 1.0, rng=1, maxiter=2).x) == 3


def test_a_structure_that_contains_itself_is_rejected_with_a_message():
    a_dict, a_list = {"w": 1.0}, [np.zeros(2)]
    a_dict["me"] = a_dict
    a_list.append(a_list)
    for structure in (a_dict, a_list, [a_dict]):
        with pytest.raises(ValueError, match="x0: a structure must not contain itself"):
            lmma.minimize(lambda tree: 0.0, structure, 1.0)


def test_an_x0_that_numpy_cannot_convert_is_rejected_with_a_message():
    class Odd:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("call detach() first")

    for make in (lambda x: lmma.minimize(sphere, x, 1.0), lambda x: lmma.strategy("ma-es", x, 1.0)):
        with pytest.raises(
            TypeError, match=r"x0 must be a vector of numbers, got a Odd: call detach\(\) first"
        ):
            make(Odd())


# Objectives


def in_place(X):
    X -= 3.0
    return spheres(X)


def sorts(X):
    X.sort(axis=1)
    return spheres(X)


@pytest.mark.parametrize("fun", [in_place, sorts])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_vectorised_objective_that_works_in_place_is_rejected_at_once(fun, workers):
    with pytest.raises(ValueError, match=r"must not modify.*X = X.copy\(\)"):
        lmma.minimize(fun, np.ones(3), 1.0, values="ranks", vectorized=True, workers=workers, rng=1)


def compiled(X):
    """Return the squared lengths of rows, from a writable buffer, as a Cython ``double[::1]`` asks for."""
    buffer = (ctypes.c_double * X.size).from_buffer(X)
    return np.array([sum(value * value for value in buffer[k : k + 3]) for k in range(0, X.size, 3)])


@pytest.mark.parametrize("workers", [1, 2])
def test_a_vectorised_objective_that_wants_a_writable_buffer_gets_one(workers):
    result = lmma.minimize(
        compiled, np.ones(3), 1.0, values="ranks", vectorized=True, workers=workers, rng=1, maxiter=20
    )
    assert (result.failures, result.nit) == (0, 20)
    assert result.fun == compiled(result.x[None].copy())[0]


def test_a_writable_buffer_is_compared_afterwards():
    def fun(X):
        values = compiled(X)
        if len(calls) >= 3:
            X[0] = 0.0
        calls.append(X)
        return values

    calls = []
    result = lmma.minimize(fun, np.ones(3), 1.0, values="ranks", vectorized=True, rng=1, maxiter=5)
    assert result.failed == {"WorksInPlace": 2 * len(calls[0])}
    assert len(calls) == 5  # the first, rejected call did not return


def test_an_objective_that_modifies_its_input_later_fails_and_changes_no_other_value():
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
def test_any_exception_of_an_objective_is_a_failed_evaluation(error, workers, vectorized):
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
    assert evaluate.record.failures == {kind.__name__: 1}
    assert kind is not Unspeakable or "RuntimeError" in evaluate.record.errors[0].message


@pytest.mark.parametrize(("value", "number"), [
    (np.array([3.0]), 3), (np.array([[3]]), 3), (np.float32(3), 3), (np.bool_(True), 1), (True, 1),
    (decimal.Decimal(3), 3), (Scalar(3), 3),
])  # fmt: skip
def test_one_number_is_a_number_in_whatever_it_comes(value, number):
    assert evaluator(lambda x: value)(np.zeros((2, 1))).tolist() == [number, number]


@pytest.mark.parametrize("value", ["3", b"3", np.str_("3"), 3j, np.complex128(3), None, np.ones(2), [3.0]])
def test_a_value_that_is_not_a_number_is_rejected_with_a_message(value):
    with pytest.raises(TypeError, match="fun must return one real number"):
        evaluator(lambda x: value)(np.zeros((1, 1)))


# Strategies that fail


class Breaks(LMMAES):
    """Raises in one of its methods at generation 5."""

    where = ""

    def ask(self, out=None):
        if self.where == "ask" and self.generation == 5:
            raise KeyError("lost")
        return super().ask(out)

    def tell(self, values):
        if self.where == "tell" and self.generation == 5:
            raise OverflowError("too {large}")
        super().tell(values)


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
    result = lmma.minimize(sphere, np.ones(4), 1.0, values="ranks", rng=1)
    assert result.reason == "strategy"
    assert "a stopping rule failed: OverflowError: too large" in result.message
    assert result.fun == sphere(result.x)
    monkeypatch.setattr(Stagnation, "check", lambda self, now: 1 / 0)  # before anything was evaluated
    with pytest.raises(ZeroDivisionError):
        lmma.minimize(sphere, np.ones(4), 1.0, values="ranks", rng=1)


def test_a_strategy_that_never_gave_a_candidate_is_a_mistake(monkeypatch):
    monkeypatch.setattr(Breaks, "ask", lambda self, out: 1 / 0)
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
