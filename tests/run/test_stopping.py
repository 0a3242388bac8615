"""Each limit and each rule ends a run exactly where documented, including resumed runs."""

import time

import numpy as np
import pytest

import lmma


def spheres(X):
    return np.sum(np.square(X), axis=1)


def run(fun, **options):
    """Minimise a vectorised function of four variables with eight candidates; nothing untested stops it."""
    options = {"popsize": 8, "rng": 1, "tolx": 0, "tolfun": 0, "maxiter": 1000, "noise": None} | options
    return lmma.minimize(fun, np.ones(4), 1.0, method="ma-es", vectorized=True, **options)


class Series:
    """An objective whose values in generation t are what ``values(t)`` says, whatever the candidates are."""

    def __init__(self, values):
        self.values, self.calls = values, 0
        self.rng = np.random.default_rng(1)

    def __call__(self, X):
        self.calls += 1
        return self.rng.permutation(np.asarray(self.values(self.calls), dtype=float))


RANKS = np.arange(8.0)


# Limits


@pytest.mark.parametrize(
    ("options", "reason", "status", "nfev"),
    [
        ({"maxiter": 7}, "maxiter", 4, 56),
        ({"maxfevals": 80}, "maxfevals", 3, 80),
        ({"maxfevals": 87}, "maxfevals", 3, 80),
        ({"maxfevals": 8}, "maxfevals", 3, 8),
        ({"callback": lambda x: True}, "callback", 6, 8),
    ],
)
def test_a_limit_ends_the_run_where_it_says(options, reason, status, nfev):
    result = run(spheres, **options)
    assert (result.reason, result.status, result.nfev, result.nit) == (reason, status, nfev, nfev // 8)
    assert not result.success


def test_a_target_is_reached_by_a_value_equal_to_it():
    result = run(Series(lambda t: 5.0 + RANKS), ftarget=5.0)
    assert (result.reason, result.status, result.nit, result.success) == ("ftarget", 0, 1, True)
    assert run(Series(lambda t: 5.0 + RANKS), ftarget=4.9, maxiter=3).reason == "maxiter"


def test_tolerances_have_statuses_of_their_own():
    assert (run(spheres, tolx=1e-3).status, run(spheres, tolfun=1e-3).status) == (1, 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("limits", [{"tolx": 1e-9}, {"tolfun": 1e-9}, {"tolx": 1e-30}], ids=str)
def test_the_message_names_the_precision_if_digits_are_exhausted(limits, dtype):
    def valley(X):  # at x = 3: steps below 3e-7 are lost in float32
        return 1.0 + np.sum((X.astype(dtype) - 3) ** 2, axis=1)

    result = run(valley, dtype=dtype, maxiter=20_000, **limits)
    assert result.reason in (*limits, "stagnation")
    assert ("float32" in result.message) == ("dtype='float64'" in result.message) == (dtype == "float32")
    assert "float32" not in run(valley, dtype=dtype, tolx=1e-3).message
    spent = run(valley, dtype=dtype, maxiter=250)
    assert ("fun or float32 may have too few digits" in spent.message) == (dtype == "float32")


def test_steps_that_are_lost_in_x_name_the_precision_though_values_have_all_digits():
    def valley(X):
        return np.sum((X.astype("float64") - 3.1) ** 2, axis=1)

    result = run(valley, dtype="float32", tolx=2e-7)
    assert result.reason == "tolx"
    assert "below its last digit" in result.message
    assert "float32" not in run(valley, dtype="float32", tolx=1e-5).message


def test_time_counts_from_the_beginning_of_the_run_not_of_the_process(tmp_path):
    def slow(X):
        time.sleep(0.02)
        return spheres(X)

    run(slow, maxiter=10, checkpoint=tmp_path / "run.npz")  # at least 0.2 s
    result = run(slow, maxiter=20, maxtime=0.2, checkpoint=tmp_path / "run.npz")
    assert (result.reason, result.status, result.nit) == ("maxtime", 5, 10)


@pytest.mark.parametrize("name", ["maxfevals", "maxiter", "maxtime"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_that_allows_nothing_is_rejected(name, value):
    with pytest.raises(ValueError, match=f"{name} must be positive"):
        run(spheres, **{name: value})


# Rules


def test_a_plateau_is_left_after_a_while():
    result = run(Series(lambda t: np.ones(8)))
    assert (result.reason, result.status, result.nit, result.success) == ("flat", 11, 150, False)
    assert "150 generations" in result.message


def test_a_plateau_that_ended_does_not_count():
    result = run(Series(lambda t: RANKS if t == 50 else np.ones(8)))
    assert (result.reason, result.nit) == ("flat", 200)


def test_a_single_value_is_not_a_plateau():
    result = run(Series(lambda t: [1.0] + 7 * [np.nan]), maxiter=60)
    assert result.reason == "maxiter"


def test_a_plateau_is_remembered_by_a_checkpoint(tmp_path):
    fun = Series(lambda t: np.ones(8))
    run(fun, maxiter=30, checkpoint=tmp_path / "run.npz")
    result = run(fun, checkpoint=tmp_path / "run.npz")
    assert (result.reason, result.nit) == ("flat", 150)


# At n = 4 and a population of 8 a run is judged from generation 2 (120 + 30 n / 8) = 270 on
FIRST_JUDGEMENT = 270


@pytest.mark.parametrize(
    "values", [lambda t: RANKS, lambda t: t + RANKS], ids=["nothing changes", "everything gets worse"]
)
def test_half_a_run_without_progress_is_stagnation(values):
    result = run(Series(values))
    assert (result.reason, result.nit) == ("stagnation", FIRST_JUDGEMENT)
    assert (result.status, result.success) == (10, False)
    assert f"{FIRST_JUDGEMENT // 2} generations" in result.message
    assert run(Series(values), stagnation=False, maxiter=400).reason == "maxiter"


@pytest.mark.parametrize(
    "values",
    [lambda t: np.r_[-t, t + RANKS[1:]], lambda t: np.r_[-1e9, 1000.0 - t + RANKS[1:]]],
    ids=["the best", "the median"],
)
def test_progress_of_the_best_or_of_the_median_is_progress(values):
    assert run(Series(values), maxiter=400).reason == "maxiter"


def test_early_progress_does_not_save_a_run_that_stands_still():
    result = run(Series(lambda t: max(0, 200 - t) + RANKS))
    assert result.reason == "stagnation"
    # The first 30% of the second half have their middle at 0.575 of the run, to lie behind generation 200
    assert 340 <= result.nit <= 352


def test_stagnation_does_not_depend_on_the_length_of_the_run():
    # More generations than are remembered: those kept must be spread over all of the run
    result = run(Series(lambda t: max(0, 3000 - t) + RANKS), maxiter=8000, bounds=[-9, 9])
    assert result.reason == "stagnation"
    assert 3000 / 0.575 - 10 <= result.nit <= 3000 / 0.575 * 1.01 + 10


@pytest.mark.parametrize("end", [180, 190, 195])
def test_stagnation_is_the_same_after_an_interruption(end, tmp_path):
    def values(t):
        return max(0, end - t) + RANKS

    whole = run(Series(values))
    fun = Series(values)
    for stop in (
        100,
        269,
        *range(300, 350),
    ):  # judged after each hundredth of the run, however often it stops
        parts = run(fun, maxiter=stop, checkpoint=tmp_path / "run.npz")
    assert (parts.reason, parts.nit) == (whole.reason, whole.nit) == ("stagnation", whole.nit)
    again = run(fun, checkpoint=tmp_path / "run.npz")
    assert (again.reason, again.nit, again.message) == (whole.reason, whole.nit, whole.message)


# Failures


def test_only_generations_in_a_row_that_fail_entirely_end_a_run():
    result = run(Series(lambda t: RANKS if t % 3 == 0 else np.full(8, np.nan)), maxiter=12)
    assert (result.reason, result.nit) == ("maxiter", 12)
    result = run(Series(lambda t: RANKS if t < 5 else np.full(8, np.nan)))
    assert (result.reason, result.status, result.nit, result.success) == ("failures", 12, 7, False)


def test_failing_generations_are_remembered_by_a_checkpoint(tmp_path):
    fun = Series(lambda t: np.full(8, np.nan))
    run(fun, maxiter=2, checkpoint=tmp_path / "run.npz")
    assert run(fun, checkpoint=tmp_path / "run.npz").nit == 3


def test_a_breakdown_can_be_looked_at_again(tmp_path, monkeypatch):
    tell = lmma.MAES.tell

    def breaks(self, values):
        if self.generation >= 4:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        tell(self, values)

    monkeypatch.setattr(lmma.MAES, "tell", breaks)
    first, again = (run(spheres, checkpoint=tmp_path / "run.npz") for _ in range(2))
    assert (first.reason, first.status, first.success) == ("numerical", 8, False)
    assert (first.nfev, again.nfev) == (40, 48)  # the second went on from the first, and broke down at once
    assert again.fun <= first.fun
