"""The functions compared with a literal transcription of Table 1."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lmma import problems
from lmma.problems import functions
from lmma.problems.base import BLOCK

TABLE_1 = ["sphere", "ellipsoid", "rosenbrock", "discus", "cigar", "different-powers"]
ALL = [*TABLE_1, "rastrigin"]
DTYPES = ["float64", "float32"]


def quotient(i: int, n: int) -> float:
    return 0.0 if n == 1 else (i - 1) / (n - 1)


def literal(name: str, x: np.ndarray) -> float:
    """Table 1 for one x, with the paper's index i = 1 ... n, summed without rounding."""
    n = len(x)
    x = [math.nan, *map(float, x)]  # x[i] is the paper's x_i
    every = range(1, n + 1)
    if name == "sphere":
        terms = [x[i] ** 2 for i in every]
    elif name == "ellipsoid":
        terms = [10 ** (6 * quotient(i, n)) * x[i] ** 2 for i in every]
    elif name == "rosenbrock" and n == 1:
        terms = [(x[1] - 1) ** 2]
    elif name == "rosenbrock":
        terms = [100 * (x[i] ** 2 - x[i + 1]) ** 2 + (x[i] - 1) ** 2 for i in range(1, n)]
    elif name == "discus":
        terms = [10**6 * x[1] ** 2] + [x[i] ** 2 for i in range(2, n + 1)]
    elif name == "cigar":
        terms = [x[1] ** 2] + [10**6 * x[i] ** 2 for i in range(2, n + 1)]
    elif name == "different-powers":
        terms = [abs(x[i]) ** (2 + 4 * quotient(i, n)) for i in every]
    else:
        terms = [x[i] ** 2 + 10 - 10 * math.cos(2 * math.pi * x[i]) for i in every]
    return math.fsum(terms)


@st.composite
def batches(draw: st.DrawFn) -> np.ndarray:
    rows, n = draw(st.integers(1, 7)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.standard_normal((rows, n)) * 10.0 ** draw(st.integers(-3, 1))
    X[rng.random((rows, n)) < draw(st.sampled_from([0.0, 0.3]))] = 0.0
    return X.astype(draw(st.sampled_from(DTYPES)))


@pytest.mark.parametrize("name", ALL)
@given(X=batches())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_values_are_those_of_the_table(name, X):
    before = X.copy()
    values = problems.get(name)(X)
    assert values.shape == (len(X),)
    assert values.dtype == X.dtype
    # float32 rounds 6 log|x| to about 2^-20; Rastrigin's literal form cancels to 1e-14 n
    rtol, atol = (2e-13, 1e-12) if X.dtype == np.float64 else (2e-5, 1e-6)
    np.testing.assert_allclose(
        values,
        [literal(name, x) for x in X],
        rtol=rtol,
        atol=atol if name == "rastrigin" else 0,
    )
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("name", ALL)
@given(X=batches())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_a_row_has_the_same_bits_alone_in_a_batch_and_in_any_layout(name, X):
    problem = problems.get(name)
    values = problem(X)
    assert [problem(x) for x in X] == [float(value) for value in values]
    np.testing.assert_array_equal(problem(np.asfortranarray(X)), values)
    np.testing.assert_array_equal(problem(np.repeat(X, 2, axis=1)[:, ::2]), values)
    np.testing.assert_array_equal(problem(X[::-1]), values[::-1])


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("shape", [(9, BLOCK // 4 + 3), (3, BLOCK + 1), (BLOCK, 2)])
def test_blocks_of_rows_change_nothing(name, shape):
    X = np.random.default_rng(1).standard_normal(shape)
    problem = problems.get(name)
    values = problem(X)
    for k in (0, len(X) // 2, len(X) - 1):
        assert problem(X[k]) == values[k]
        assert values[k] == pytest.approx(literal(name, X[k]), rel=1e-12)


def test_different_powers_keep_their_accuracy_far_down():
    n = 128
    x = 10.0 ** np.linspace(0, -40, n)
    for k in range(n):
        alone = np.zeros(n)
        alone[k] = x[k]
        exact = x[k] ** (2 + 4 * k / (n - 1))
        assert functions.different_powers(alone) == pytest.approx(exact, rel=2e-13)


def test_rastrigin_does_not_cancel_near_its_optimum():
    x = np.array([1e-9, 0.0, -2e-9])
    # 1 + 20 pi^2 times the sum of squares, the leading term there
    assert functions.rastrigin(x) == pytest.approx((1 + 20 * np.pi**2) * 5e-18, rel=1e-12)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("n", [1, 2, 3, 10, 500])
def test_the_optimum_is_zero_at_x_opt_and_more_elsewhere(name, n):
    problem = problems.get(name)
    x = problem.x_opt(n)
    assert x.shape == (n,)
    assert problem(x) == problem.optimum == 0.0
    directions = np.random.default_rng(n).standard_normal((20, n))
    assert np.all(problem(x + 0.01 * directions) > 0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sphere", 4.0),
        ("ellipsoid", 4.0),
        ("rosenbrock", 1.0),
        ("discus", 4e6),
        ("cigar", 4.0),
        ("different-powers", 4.0),
        ("rastrigin", 4.0),
    ],
)
def test_one_dimension_keeps_the_first_term(name, expected):
    assert problems.get(name)([2.0]) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("name", ALL)
def test_functions_take_rows_or_one_x_of_any_real_type(name):
    function = getattr(functions, name.replace("-", "_"))
    x = np.array([3, 1, -2])
    value = function(x)
    assert isinstance(value, float)
    assert value == pytest.approx(literal(name, x), rel=1e-13)
    np.testing.assert_array_equal(function([[3, 1, -2], [3, 1, -2]]), [value, value])
    assert function(x.astype(np.longdouble)) == function(x.astype(np.float16)) == value
    assert function(np.empty((0, 3))).shape == (0,)


@pytest.mark.parametrize("name", ALL)
def test_nan_in_a_row_stays_in_that_row(name):
    X = np.ones((3, 4))
    X[1, 0] = np.nan
    np.testing.assert_array_equal(np.isnan(problems.get(name)(X)), [False, True, False])


@pytest.mark.parametrize("bad", [3.0, np.ones((2, 2, 2)), np.ones((4, 0)), []])
def test_wrong_shapes_are_rejected(bad):
    with pytest.raises(ValueError, match=r"X must have shape \(rows, n\) or \(n,\)"):
        problems.get("sphere")(bad)
    with pytest.raises(ValueError, match=r"X must have shape \(rows, n\) or \(n,\)"):
        functions.sphere(bad)


@pytest.mark.parametrize("bad", [np.ones(3, complex), np.array(["a"]), np.array([None, 1])])
def test_a_value_that_is_not_real_is_rejected(bad):
    with pytest.raises(TypeError, match="X must hold real numbers"):
        functions.sphere(bad)


def test_shared_coefficients_cannot_be_altered():
    weights = functions._ellipsoid_weights(5, np.dtype("float64"))
    with pytest.raises(ValueError, match="read-only"):
        weights[0] = 2.0
