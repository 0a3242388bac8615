import copy
import json

import numpy as np
import pytest

import lmma
from adapting import ADAPTING, BY_RANKS
from lmma.methods import strategy_class
from lmma.problems import Problem, rotated
from lmma.run.observers import Progress, Recorder


def sphere(x):
    return float(x @ x)


def spheres(X):
    return np.sum(np.square(X), axis=1)


# Failures


@pytest.mark.parametrize("method", ["cma-es", "ma-es", "lm-ma-es", "csa-es"])
def test_resampling_fills_the_generation_with_candidates_that_work(method):
    seen = []

    def fun(x):
        seen.append(x.copy())
        if x[0] > 1.0:
            raise ArithmeticError("too large")
        return sphere(x)

    options = {"method": method, "on_error": "resample", "noise": None}
    result = lmma.minimize(fun, np.ones(4), 0.5, rng=1, ftarget=1e-6, **options)
    assert result.success
    assert result.nfev == len(seen)
    assert result.failures == sum(x[0] > 1.0 for x in seen) == result.failed["ArithmeticError"]
    assert any(np.array_equal(result.x, x) for x in seen)
    assert len(np.unique(seen, axis=0)) == len(seen)  # what is drawn again is another candidate
    again = lmma.minimize(fun, np.ones(4), 0.5, rng=1, ftarget=1e-6, **options)
    assert np.array_equal(result.x, again.x)


def test_a_resampled_candidate_is_learned_from_as_drawn():
    # Told the same values, a strategy whose candidates were all drawn anew moves by the new ones
    es = lmma.LMMAES(np.zeros(5), 1.0, rng=1)
    for _ in range(4):
        es.tell(spheres(es.ask() - 1))
    X = es.ask()
    old = X.copy()
    es.resample(np.arange(es.popsize), 1)
    assert not np.isclose(X, old).any()
    values = spheres(X - 1)
    mean, sigma = es.mean.copy(), es.sigma
    es.tell(values)
    weights = es.method.parameters.weights
    expected = mean + weights @ (X[np.argsort(values)[: len(weights)]] - mean)
    np.testing.assert_allclose(es.mean, expected, rtol=1e-10)
    assert sigma > 0


@pytest.mark.parametrize("budget", [50, 77, 101])
def test_resampling_uses_the_budget_and_never_exceeds_it(budget):
    calls = []

    def fun(x):
        calls.append(x)
        return np.nan

    result = lmma.minimize(fun, np.ones(4), 0.5, rng=1, popsize=8, on_error="resample", maxfevals=budget)
    assert result.nfev == len(calls) == budget


def test_a_candidate_is_drawn_again_ten_times_at_most_and_never_the_same():
    seen = []

    def fun(X):
        seen.append(X.copy())
        return np.full(len(X), np.nan)

    result = lmma.minimize(fun, np.ones(4), 0.5, rng=1, popsize=8, vectorized=True, on_error="resample")
    assert (result.reason, result.nit) == ("failures", 3)
    assert [len(X) for X in seen] == [8] * 33
    assert len(np.unique(np.concatenate(seen), axis=0)) == result.nfev == 8 * 33


def test_candidates_drawn_again_stay_in_the_box():
    seen = []

    def fun(X):
        seen.append(X.copy())
        return np.where(X[:, 0] > 0.5, np.nan, spheres(X))

    lmma.minimize(
        fun, np.full(4, 0.5), 2.0, bounds=[0, 1], rng=1, vectorized=True, on_error="resample", maxiter=5
    )
    assert len(seen) > 5
    assert np.min(np.concatenate(seen)) >= 0
    assert np.max(np.concatenate(seen)) <= 1


def test_an_interrupt_while_candidates_are_drawn_again_leaves_a_run_to_continue_with(tmp_path):
    options = {
        "sigma0": 0.5,
        "rng": 1,
        "popsize": 8,
        "vectorized": True,
        "on_error": "resample",
        "maxiter": 12,
    }

    def fails(X):
        return np.where(X[:, 0] > 1.0, np.nan, spheres(X))

    def interrupted(X):
        if len(X) < 8:
            raise KeyboardInterrupt  # by the first candidates that are drawn again
        return fails(X)

    interrupted.__qualname__ = fails.__qualname__
    whole = lmma.minimize(fails, np.ones(4), **options)
    broken = lmma.minimize(interrupted, np.ones(4), checkpoint=tmp_path / "run.npz", **options)
    assert broken.reason == "interrupted"
    parts = lmma.minimize(fails, np.ones(4), checkpoint=tmp_path / "run.npz", **options)
    assert (parts.nfev, parts.nit, parts.failures) == (whole.nfev, whole.nit, whole.failures)
    assert np.array_equal(parts.x, whole.x)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_value_that_is_not_finite_counts_as_failed_and_is_never_the_best(bad):
    result = lmma.minimize(
        lambda X: np.where(X[:, 0] > 0.9, bad, spheres(X)),
        np.ones(3),
        0.5,
        rng=1,
        vectorized=True,
        ftarget=1e-8,
    )
    assert result.success
    assert result.failures == sum(result.failed.values()) > 0
    with pytest.raises(lmma.evaluation.EvaluationError, match="on_error='worst'"):
        lmma.minimize(lambda x: bad, np.ones(3), 0.5, on_error="raise")


def test_a_wrong_type_now_and_then_is_a_failure():
    result = lmma.minimize(
        lambda x: None if x[0] > 1.2 else sphere(x), np.ones(3), 0.5, values="ranks", rng=3, ftarget=1e-6
    )
    assert result.success
    assert result.failed["WrongType"] > 0


def test_an_exception_in_a_vectorised_objective_fails_all_its_rows():
    calls = 0

    def fun(X):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise OSError("once")
        return spheres(X)

    result = lmma.minimize(fun, np.ones(3), 1.0, values="ranks", rng=1, vectorized=True, maxiter=6)
    assert result.failed == {"OSError": 7}
    assert result.failures == 7


def test_every_result_can_be_printed():
    assert "message" in str(lmma.minimize(sphere, np.ones(3), 1.0, rng=1, maxiter=2))


# Watching


def test_a_thinned_history_is_kept_unless_switched_off():
    result = lmma.minimize(
        spheres, np.ones(3), 1.0, values="ranks", rng=1, vectorized=True, maxiter=200, history=50
    )
    assert len(result.history["evaluations"]) <= 51
    assert result.history["evaluations"][-1] == result.nfev
    assert result.history["best_fun"][-1] == result.fun
    short = {"rng": 1, "vectorized": True, "maxiter": 2}
    assert "history" not in lmma.minimize(spheres, np.ones(3), 1.0, values="ranks", **short, history=False)
    assert len(lmma.minimize(spheres, np.ones(3), 1.0, values="ranks", **short).history["evaluations"]) == 2
    long = lmma.minimize(spheres, np.ones(3), 1.0, values="ranks", rng=1, vectorized=True, maxiter=2500,
                         tolx=0, tolfun=0, stagnation=False)  # fmt: skip
    assert 500 <= len(long.history["evaluations"]) <= 1000
    assert long.history["generation"][-1] == long.nit


def record(recorder, k):
    if recorder.is_due():
        recorder.keep(Progress(k, k, 1.0 / (k + 1), 0.5, 0, 0.1 * k, step=0.1, popsize=8))


def test_a_recorder_survives_being_saved():
    recorder = Recorder(20)
    for k in range(333):
        record(recorder, k)
    other = Recorder(20)
    other.set_state(recorder.get_state())
    for each in (recorder, other):
        for k in range(333, 400):
            record(each, k)
    assert recorder.columns() == other.columns()


def test_a_log_holds_the_run_as_json_lines(tmp_path):
    log = tmp_path / "run.jsonl"
    result = lmma.minimize(spheres, np.ones(3), 1.0, rng=1, vectorized=True, maxiter=50, log=log)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert records[0]["generation"] == 1
    assert records[-1]["evaluations"] == result.nfev
    assert records[-1]["best_fun"] == result.fun
    assert {"sigma", "step", "failures", "seconds", "restarts"} <= set(records[0])


def test_a_log_that_cannot_be_written_does_not_end_the_run():
    result = lmma.minimize(spheres, np.ones(3), 1.0, rng=1, vectorized=True, ftarget=1e-6, log="/dev/full")
    assert result.success
    assert "No space left" in result.warnings[0]


def test_progress_names_restarts_and_failures(capsys):
    def fun(x):
        return np.nan if x[0] > 1 else sphere(x)

    lmma.minimize(fun, np.ones(3), 0.5, values="ranks", rng=1, restarts=1, maxfevals=5000, progress=True)
    last = capsys.readouterr().err.splitlines()[-1]
    assert "restart 1" in last
    assert "failed" in last
    assert "/s" in last


# Warm starts and injected points


@pytest.mark.parametrize("method", ["ma-es", "lm-ma-es", "cma-es"])
def test_a_warm_start_keeps_the_learned_parameters(method):
    n = 8
    axes = np.r_[1.0, np.full(n - 1, 900.0)]
    fun = rotated(Problem("mild cigar", lambda X: np.square(X) @ axes), n, np.random.default_rng(1)).function
    options = {"method": method, "vectorized": True, "tolx": 0, "tolfun": 0}
    whole = lmma.minimize(fun, np.ones(n), 1.0, rng=1, ftarget=1e-8, **options)
    first = lmma.minimize(fun, np.ones(n), 1.0, rng=1, maxfevals=whole.nfev // 2, **options)
    warm = lmma.minimize(fun, first, rng=2, ftarget=1e-8, **options)
    cold = lmma.minimize(fun, first.mean, first.sigma, rng=2, ftarget=1e-8, **options)
    assert warm.method == method
    assert first.nfev + warm.nfev < 1.3 * whole.nfev
    if method != "lm-ma-es":  # whose vectors are relearnt within a few generations at this n
        assert warm.nfev < 0.8 * cold.nfev


def test_a_warm_start_leaves_the_earlier_result_alone():
    first = lmma.minimize(spheres, np.ones(4), 1.0, method="lm-ma-es", rng=1, vectorized=True, maxiter=20)
    before = copy.deepcopy(first.learned).parts()
    lmma.minimize(spheres, first, vectorized=True, rng=2, maxiter=20)
    after = first.learned.parts()
    assert before
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("method", ADAPTING)
def test_a_warm_start_takes_over_the_whole_metric(method):
    v = np.linspace(-1, 1, 6)
    scales = 10.0 ** np.arange(6)
    first = lmma.minimize(
        lambda X: spheres(X * scales), np.ones(6), 1.0, method=method, rng=1, vectorized=True, maxiter=100
    )
    new = strategy_class(method)(np.zeros(6), 1.0, rng=3)
    assert method == "csa-es" or not np.allclose(new.result.hess_inv @ v, first.hess_inv @ v)
    assert first.learned.transfer_to(new)
    assert np.array_equal(new.result.hess_inv @ v, first.hess_inv @ v)


@pytest.mark.parametrize("method", BY_RANKS)
def test_injected_points_are_evaluated_and_a_good_one_helps(method):
    target = np.full(6, 40.0)
    seen = []

    def fun(X):
        seen.append(X.copy())
        return spheres(X - target)

    near = target + 0.01
    result = lmma.minimize(
        fun, np.zeros(6), 1.0, method=method, rng=1, vectorized=True, inject=near, maxiter=2
    )
    assert np.array_equal(seen[0][-1], near)
    assert np.array_equal(result.x, near)


@pytest.mark.parametrize("method", ["cma-es", "ma-es", "lm-ma-es", "csa-es"])
def test_a_point_from_the_search_itself_is_learned_from_as_if_drawn(method):
    cls = strategy_class(method)
    drawn, given = cls(np.zeros(5), 1.0, rng=1), cls(np.zeros(5), 1.0, rng=1)
    for _ in range(6):
        for es in (drawn, given):
            es.tell(spheres(es.ask() - 1))
    X = drawn.ask().copy()
    given.inject(X[-1])
    Y = given.ask()
    np.testing.assert_array_equal(X, Y)
    for es in (drawn, given):
        es.tell(spheres(X - 1))
    for name, value in drawn.get_state().items():
        np.testing.assert_allclose(given.get_state()[name], value, rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("method", ["cma-es", "ma-es", "lm-ma-es"])
def test_a_far_point_does_not_throw_the_search_off(method):
    es = lmma.strategy(method, np.zeros(5), 1.0, rng=1)
    for _ in range(10):
        es.tell(spheres(es.ask() - 1))
    sigma, mean = es.sigma, es.mean.copy()
    es.inject(np.full(5, 1e6))
    X = es.ask()
    es.tell(-X.sum(axis=1))  # and it is the best there is
    assert es.sigma < 5 * sigma
    assert np.linalg.norm(es.mean - mean) < 100 * sigma
    with pytest.raises(ValueError, match="inject must be finite"):
        es.inject(np.full(5, np.nan))


def test_injected_points_stay_in_the_box():
    seen = []

    def fun(X):
        seen.append(X.copy())
        return spheres(X)

    lmma.minimize(
        fun, np.full(3, 2.0), bounds=[1, 3], rng=1, vectorized=True, inject=np.full(3, 1.001), maxiter=1
    )
    np.testing.assert_allclose(seen[0][-1], 1.001, rtol=1e-12)
    with pytest.raises(ValueError, match="injected points must lie within bounds"):
        lmma.minimize(fun, np.full(3, 2.0), bounds=[1, 3], vectorized=True, inject=np.zeros(3))
