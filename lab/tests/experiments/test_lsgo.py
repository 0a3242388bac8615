"""CEC'2013 LSGO in batches, compared with the package cec2013lsgo."""

import numpy as np
import pytest

from lmma_lab import lsgo

FUNCTIONS = range(1, 16)


@pytest.fixture(scope="module")
def package():
    return pytest.importorskip("cec2013lsgo.cec2013", exc_type=ImportError).Benchmark()


@pytest.mark.parametrize("number", FUNCTIONS)
@pytest.mark.filterwarnings("ignore")  # the package imports pkg_resources
def test_batches_have_the_values_of_the_package(package, number):
    fun, theirs = lsgo.get(number), package.get_function(number)
    info = package.get_info(number)
    assert (fun.lower, fun.upper) == (info["lower"], info["upper"])
    # One row more than two blocks: the last block is shorter.
    rows = np.random.default_rng(number).uniform(fun.lower, fun.upper, (2 * lsgo.BLOCK + 1, fun.n))
    rows[0] = 0.0
    expected = [theirs(row) for row in rows]
    np.testing.assert_allclose(fun(rows), expected, rtol=1e-10)
    assert fun(rows[1]) == pytest.approx(expected[1], rel=1e-10)


@pytest.mark.parametrize("number", [number for number in FUNCTIONS if number != 14])
def test_the_minimum_is_zero_at_the_shift(package, number):
    fun = lsgo.get(number)
    optimum = lsgo._data(number, "xopt") + (fun.kind == "rosenbrock")  # whose minimum is at 1
    assert 0 <= fun(optimum) < 1e-20


def test_the_polynomial_is_a_sine():
    x = np.linspace(-40, 40, 10_001)
    whole, half = (
        lsgo._sine(x.copy(), coefficients, np.empty_like(x), out=np.empty_like(x))
        for coefficients in (lsgo._SINE, lsgo._HALF_SINE)
    )
    np.testing.assert_allclose(whole, np.sin(2 * np.pi * x), atol=2e-13)
    np.testing.assert_allclose(half**2, np.sin(np.pi * x) ** 2, atol=2e-13)


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(lsgo.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install --no-build-isolation cec2013lsgo"):
        lsgo.LSGO(1)


def test_there_are_fifteen_functions():
    with pytest.raises(ValueError, match="functions 1 to 15, not 16"):
        lsgo.LSGO(16)
