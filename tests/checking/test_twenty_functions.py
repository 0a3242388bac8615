"""Functions of known kind, for which lmma.check must give correct advice."""

import numpy as np
import pytest
import scipy.optimize
from known_functions import KNOWN, UNITS, badly_scaled, rosenbrock, start

import lmma

SLOW = ("slow", "an external program")
CASES = [(name, seed) for name in KNOWN for seed in ((1,) if name in SLOW else (1, 2, 3, 4, 5))]
REPORTS = {}


def report(name, seed):
    if (name, seed) not in REPORTS:
        make, begin, _, _ = KNOWN[name]
        REPORTS[name, seed] = lmma.check(make(seed), begin(seed), rng=seed, name=name)
    return REPORTS[name, seed]


def test_there_are_more_than_twenty():
    assert len(KNOWN) >= 20


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_each_is_recognised_and_gets_the_right_advice(name, seed):
    _, _, kinds, use = KNOWN[name]
    found = report(name, seed)
    assert found.kind in kinds, str(found)
    assert found.use == use, str(found)
    assert 50 <= found.calls <= 120


@pytest.mark.parametrize("name", KNOWN)
def test_the_suggestion_can_be_passed_on(name):
    make, begin, _, _ = KNOWN[name]
    suggest = report(name, 1).suggest | {"workers": 1}
    result = lmma.minimize(make(1), begin(1), **suggest, maxfevals=200, rng=1)
    assert result.nfev <= 200
    assert np.isfinite(result.fun)


SMOOTH = ["sphere", "rosenbrock", "ellipsoid of condition 1e6", "sphere far above 0", "logistic regression"]
ROUGH = ["piecewise constant", "errors counted", "absolute values", "a hash"]


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", [*SMOOTH, "six digits", "float32", *ROUGH])
def test_what_the_default_begins_with_is_said(name, seed):
    found = report(name, seed)
    assert found.begins_with == ("ranks" if name in ROUGH else "slopes")
    assert f"{found.begins_with} first" in found.findings["default"]


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_take_fewer_calls_than_by_scipy(name):
    make, begin, _, _ = KNOWN[name]
    fun, x0 = make(1), begin(1)
    theirs = scipy.optimize.minimize(fun, x0, method="BFGS", jac="3-point")
    ours = lmma.minimize(fun, x0, rng=1, ftarget=theirs.fun * (1 + 1e-12) + 1e-9)
    assert ours.success
    assert ours.nfev < theirs.nfev


@pytest.mark.parametrize(
    "name", ["six digits", "four digits", "float32", "noise of a millionth", "piecewise constant"]
)
def test_disturbed_functions_are_solved_and_not_by_scipy(name):
    make, begin, _, _ = KNOWN[name]
    x0 = begin(1)
    theirs = scipy.optimize.minimize(make(1), x0, method="BFGS", jac="2-point")
    ours = lmma.minimize(make(1), x0, rng=1, maxfevals=4000, **report(name, 1).suggest)
    assert ours.fun < 0.1 * theirs.fun


# Single things that are said


@pytest.mark.parametrize(
    ("name", "low", "high"),
    # noise of a share: that times the value at the start, within the error of a few values
    [("noise of a millionth", 0.3e-6, 3e-6), ("noise of a hundredth", 0.3e-2, 3e-2)],
)
def test_the_level_of_noise_is_right(name, low, high):
    for seed in range(1, 6):
        x0 = KNOWN[name][1](seed)
        assert low < report(name, seed).noise / (x0 @ x0) < high


def test_noise_that_hides_everything_is_called_so():
    for seed in range(1, 6):
        found = report("noise that hides all", seed)
        assert found.noise_share > 1
        assert "ranks carry little information" in found.findings["noise"]
        assert 150 < found.noise < 600


@pytest.mark.parametrize(
    ("name", "digits"), [("six digits", 6), ("four digits", 4), ("float32", 7), ("sphere", 16)]
)
def test_digits_are_counted(name, digits):
    assert report(name, 1).digits == digits


def test_a_scatter_of_neighbours_is_measured_though_each_point_has_one_value():
    x0 = start(1)
    # a sine of amplitude 1e-6 f: its standard deviation is 0.7e-6 f
    assert 0.2e-6 < report("a solver's tolerance", 1).noise / (x0 @ x0) < 2e-6


def test_failures_are_counted_and_the_first_is_reported():
    found = report("failing often", 1)
    assert 0.2 < found.failures / found.calls < 0.45
    assert "the mesh is degenerate" in found.findings["failures"]
    assert any("of the calls failed" in sentence for sentence in found.advice)


def test_slow_functions_get_workers():
    assert report("slow", 1).suggest["workers"] == -1
    assert report("an external program", 1).suggest["workers"] == -1
    assert "workers" not in report("sphere", 1).suggest


def test_badly_scaled_variables_get_a_step_each_which_serves():
    x0 = UNITS * (1 + start(1))
    suggest = report("badly scaled", 1).suggest
    steps = np.array(suggest["sigma0"])
    assert np.all(np.abs(np.log10(steps / UNITS)) < 2)  # of 12 orders of magnitude
    plain = lmma.minimize(badly_scaled, x0, rng=1, ftarget=1e-6, values="ranks")
    told = lmma.minimize(badly_scaled, x0, rng=1, ftarget=1e-6, values="ranks", sigma0=steps)
    assert told.nfev < plain.nfev / 2


def test_a_function_that_could_take_a_seed_is_given_one():
    assert report("a network with a seed", 1).suggest["common_random_numbers"] is True
    assert "common_random_numbers" not in report("a network with mini-batches", 1).suggest
    assert any("seed=" in sentence for sentence in report("a network with mini-batches", 1).advice)


def test_many_valleys_mean_restarts():
    assert report("rastrigin", 1).suggest["restarts"] == "bipop"


def test_many_valleys_mean_restarts_whatever_else_is_seen():
    def rounded(x):
        return float(f"{np.sum(x * x + 10 * np.cos(6 * x)):.5g}")

    found = lmma.check(rounded, np.ones(3), 1.0, rng=1)
    assert found.kind == "rounded"
    assert "many local minima" in found.findings["along lines"]
    assert found.suggest["restarts"] == "bipop"
    assert any("restarts=" in sentence for sentence in found.advice)


def test_no_tolerance_is_taken_from_a_plateau():
    found = lmma.check(lambda x: -float(np.exp(-np.sum((x - 10) ** 2))), np.zeros(3), rng=1)
    assert "tolfun" not in found.suggest
    assert any("on a plateau" in sentence for sentence in found.advice)


@pytest.mark.parametrize("scatter", [0.0, 1e-4])
def test_a_tolerance_for_small_values_can_still_end_the_search(scatter):
    def small(x):  # on a constant with rounding errors of 2e-16
        return 1 + 1e-9 * (float(x @ x) + scatter * np.sin(1e9 * x[0]))

    found = lmma.check(small, np.ones(3), rng=1)
    assert max(2e-16, 1e-9 * scatter / 10) < found.suggest["tolfun"] < 1e-11
    assert lmma.minimize(small, np.ones(3), rng=1, values="ranks", **found.suggest).reason == "tolfun"


def test_tiny_values_lower_the_tolerance_that_would_end_the_search():
    found = report("tiny", 1)
    assert 0 < found.suggest["tolfun"] < 1e-306
    result = lmma.minimize(KNOWN["tiny"][0](1), start(1), rng=1, maxfevals=2000, **found.suggest)
    assert result.fun < 1e-306


def test_a_function_of_many_variables_costs_no_more_calls():
    found = lmma.check(rosenbrock, np.zeros(5000), rng=1)
    assert found.calls <= 120
    assert (found.kind, found.use) == ("smooth", "lmma")


def test_one_variable_can_be_looked_at():
    assert lmma.check(lambda x: float(np.cosh(x[0] - 1)), [0.0], rng=1).kind == "smooth"
    assert lmma.check(lambda x: float(abs(x[0] - 0.2)), [0.0], rng=1).kind == "kinked"


@pytest.mark.parametrize("sign", [1, -1])
def test_a_line_without_end_gets_a_longer_step(sign):
    found = lmma.check(lambda x: sign * float(x.sum()), np.zeros(5), rng=1)
    assert (found.kind, found.use) == ("linear", "lmma")
    assert found.suggest["sigma0"] > 1
