"""Arguments of SciPy, pycma, Optuna and scikit-learn are accepted, or answered with the one to use."""

import re

import numpy as np
import pytest
import scipy.optimize

import lmma


def sphere(x):
    return float(x @ x)


@pytest.mark.parametrize(("name", "words"), [
    ("maximize", "to maximise, return -fun(x)"),
    ("verbose", "progress=True shows progress"),
    ("disp", "progress=True shows progress"),
    ("maxfev", "use maxfevals="),
    ("n_jobs", "use workers="),
    ("random_state", "use rng="),
    ("tol", "use tolx= and tolfun="),
    ("jac", "lmma uses no derivatives"),
    ("options", "pass each option as an argument, such as maxfevals=1000"),
    ("maxfevls", "did you mean 'maxfevals'?"),
    ("unheard_of", "help(lmma.PulseFull)"),
])  # fmt: skip
def test_an_argument_of_another_package_is_answered_by_name(name, words):
    with pytest.raises(TypeError, match=rf"unknown option '{name}'.*{re.escape(words)}") as caught:
        lmma.minimize(sphere, np.ones(3), **{name: 1})
    assert "c_mu_long" not in str(caught.value)


def test_a_strategy_names_only_arguments_that_it_has():
    with pytest.raises(TypeError, match="'random_state' for ma-es: use rng="):
        lmma.strategy("ma-es", np.ones(3), 1.0, random_state=1)
    with pytest.raises(TypeError) as caught:
        lmma.strategy("ma-es", np.ones(3), 1.0, verbose=1)
    assert "progress" not in str(caught.value)


@pytest.mark.parametrize("name", ["CMA-ES", "cmaes", "cma_es", "Cma"])
def test_other_spellings_of_a_method_are_recognised(name):
    with pytest.raises(ValueError, match="did you mean 'cma-es'"):
        lmma.minimize(sphere, np.ones(3), method=name)


def test_tell_takes_values_alone():
    es = lmma.strategy("ma-es", np.ones(3), 1.0, rng=1)
    X = es.ask()
    values = [sphere(x) for x in X]
    with pytest.raises(TypeError, match=r"tell\(\) takes the values alone.*es.tell\(values\)"):
        es.tell(X, values)
    with pytest.raises(ValueError, match="values must be 7 real numbers, one for each candidate"):
        es.tell(list(zip(X, values, strict=True)))
    es.tell(values)
    assert es.generation == 1


@pytest.mark.parametrize("bounds", [
    [(0, 2), (1, 5), (-4, 0)],
    ([0, 1, -4], [2, 5, 0]),
    np.array([[0, 2], [1, 5], [-4, 0]]),
    scipy.optimize.Bounds([0, 1, -4], [2, 5, 0]),
])  # fmt: skip
def test_without_x0_a_run_starts_at_the_centre_of_the_bounds(bounds):
    explicit = lmma.minimize(sphere, [1.0, 3.0, -2.0], bounds=bounds, rng=1, maxiter=20)
    for run in (lmma.minimize(sphere, None, bounds=bounds, rng=1, maxiter=20),
                lmma.minimize(sphere, bounds=bounds, rng=1, maxiter=20)):  # fmt: skip
        np.testing.assert_array_equal(run.x, explicit.x)


def test_two_pairs_are_two_variables():
    assert len(lmma.minimize(sphere, bounds=[(0, 1), (0, 1)], rng=1, maxiter=2).x) == 2


@pytest.mark.parametrize(("bounds", "words"), [
    (None, "x0 is required: pass a vector"),
    ((0, 1), "x0 is required: pass a vector"),
    (scipy.optimize.Bounds(0, 1), "x0 is required: pass a vector"),
    ([], "x0 is required: pass a vector"),
    ({"a": (0, 1)}, "x0 is required: pass a vector"),
    ([(0, 1), (0, None), (0, 1)], "x0 is required: bounds of coordinate 1 are not finite"),
])  # fmt: skip
def test_bounds_that_have_no_centre_need_an_x0(bounds, words):
    with pytest.raises(ValueError, match=words):
        lmma.minimize(sphere, bounds=bounds)


def test_scipy_method_needs_no_brackets():
    runs = [
        scipy.optimize.minimize(sphere, np.ones(3), method=method, options={"rng": 1, "maxiter": 5})
        for method in (lmma.scipy_method, lmma.scipy_method())
    ]
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    with pytest.raises(TypeError, match="pass rng in SciPy's options="):
        lmma.scipy_method(rng=1)


@pytest.mark.parametrize("x0", [3, np.int64(3), np.array(3)])
def test_one_integer_as_x0_is_asked_about(x0):
    with pytest.raises(
        ValueError, match=re.escape("x0=[3.0] for one variable") + ".*" + re.escape("numpy.zeros(3)")
    ):
        lmma.minimize(sphere, x0)


def test_one_float_as_x0_is_one_variable():
    assert lmma.minimize(sphere, 3.0, rng=1, maxiter=2).x.shape == (1,)


def test_a_misspelt_name_of_the_package_is_answered():
    with pytest.raises(AttributeError, match="did you mean 'minimize'"):
        lmma.minimise  # noqa: B018
