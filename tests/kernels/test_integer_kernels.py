"""Kernels for integer coordinates: compiled results equal NumPy's, and invalid arrays are rejected."""

import numpy as np
import pytest
from scipy.special import ndtr

from lmma.kernels import reference_integers
from lmma.kernels.reference_integers import Drawn, Grid

try:
    from lmma.kernels import _core, native
except ImportError:
    _core = native = None

ROWS, N = 9, 40


@pytest.fixture(params=["numpy", "compiled"])
def either(request):
    """The kernels in NumPy, and compiled."""
    if request.param == "compiled" and native is None:
        pytest.skip("the compiled core was not built")
    return reference_integers if request.param == "numpy" else native


@pytest.fixture
def compiled():
    if native is None:
        pytest.skip("the compiled core was not built")
    return native


def problem(dtype, seed=0, columns=None):
    """Return a grid, candidates around a mean, and a scale: means inside, at the ends, and beyond them."""
    rng = np.random.default_rng(seed)
    columns = np.arange(3, N, 2) if columns is None else columns
    count = len(columns)
    lower, upper = np.full(count, -4.0), np.full(count, 3.0)
    lower[::5], upper[::7] = -np.inf, np.inf
    mean, steps = rng.uniform(-6, 5, N), 10 ** rng.uniform(-3, 1, N)
    X = (mean + steps * rng.standard_normal((ROWS, N))).astype(dtype)
    return Grid(columns, lower, upper), X, mean.astype(dtype), np.ones(N, dtype), steps[columns]


def run(kernels, dtype, seed=0, columns=None):
    """Return all that a generation changes: candidates, what was drawn, mean, scale, probabilities."""
    grid, X, mean, scale, deviation = problem(dtype, seed, columns)
    drawn = Drawn(*(np.zeros((ROWS, len(grid.columns)), dtype) for _ in range(2)))
    kernels.round_integers(X, grid, drawn)
    old = mean[grid.columns]
    rng = np.random.default_rng(seed + 100)
    mean += (0.3 * rng.standard_normal(N)).astype(dtype)
    order, weights = rng.permutation(ROWS)[:4], np.array([0.4, 0.3, 0.2, 0.1])
    reach = rng.uniform(0.001, 0.5, len(old))
    kernels.recentre_integers(mean, scale, grid, drawn, (weights, order), old, deviation, (0.02, reach))
    return {
        "X": X,
        "values": drawn.values,
        "unrounded": drawn.unrounded,
        "mean": mean,
        "scale": scale,
        "p": reach,
    }


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("dtype", "digits"), [("float64", 1e-9), ("float32", 2e-5)])
def test_native_are_those_of_the_reference(compiled, dtype, digits, seed):
    ours, theirs = run(compiled, dtype, seed), run(reference_integers, dtype, seed)
    for name in ("X", "values", "unrounded"):
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    for name in ("mean", "scale", "p"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=digits, atol=digits, err_msg=name)
    assert np.any(theirs["scale"] != 1)


def test_halves_are_rounded_to_even_and_limits_kept(either):
    X = np.array([[0.5, 1.5, -2.5, 9.0, -9.0, 0.25]])
    grid = Grid(np.arange(5), np.full(5, -4.0), np.full(5, 3.0))
    drawn = Drawn(np.zeros((1, 5)), np.zeros((1, 5)))
    either.round_integers(X, grid, drawn)
    assert X.tolist() == [[0.0, 2.0, -2.0, 3.0, -4.0, 0.25]]
    assert drawn.unrounded.tolist() == [[0.5, 1.5, -2.5, 9.0, -9.0]]


def recentred(kernels, mean, deviation, reach, succeeded):
    """Return mean, deviation and probability of one integer in [-10, 10] after a generation."""
    grid = Grid(np.arange(1), np.full(1, -10.0), np.full(1, 10.0))
    here = np.clip(np.rint(mean), -10, 10)
    other = here - 1 if here > 0 else here + 1
    values = np.full((1, 1), other if succeeded else here)  # unrounded is the same: nothing to centre
    old, middle, scale, p = np.array([here]), np.array([mean]), np.ones(1), np.array([reach])
    ranked = np.ones(1), np.zeros(1, np.intp)
    kernels.recentre_integers(
        middle, scale, grid, Drawn(values, values.copy()), ranked, old, np.array([deviation]), (0.01, p)
    )
    return middle[0], deviation * scale[0], p[0]


@pytest.mark.parametrize("succeeded", [True, False])
@pytest.mark.parametrize("mean", [-25.0, -10.0, -3.4, 0.0, 0.499, 7.5, 10.0, 31.0])
@pytest.mark.parametrize("deviation", [1e-12, 1e-3, 0.3, 5.0, 1e6])
def test_mutation_probabilities_keep_their_bounds_and_integers_their_values(
    either, mean, deviation, succeeded
):
    new, wide, told = recentred(either, mean, deviation, 0.05, succeeded)
    here = np.clip(np.rint(new), -10, 10)
    p = (here > -10) * ndtr((here - 0.5 - new) / wide) + (here < 10) * ndtr((new - here - 0.5) / wide)
    assert here == np.clip(np.rint(mean), -10, 10)
    assert p >= 0.01 * (1 - 1e-9)
    assert succeeded or p <= 0.05 * (1 + 1e-9)
    assert told == pytest.approx(p, rel=1e-6)


def test_probabilities_within_bounds_are_unchanged(either):
    new, wide, p = recentred(either, 0.2, 0.4, 0.9, True)
    assert [new, wide] == pytest.approx([0.2, 0.4], rel=1e-9)
    assert p == pytest.approx(ndtr(-0.7 / 0.4) + ndtr(-0.3 / 0.4))


def test_long_steps_that_succeed_stay_long(either):
    new, wide, p = recentred(either, 0.2, 6e5, 0.9, True)
    assert [new, wide] == pytest.approx([0.2, 6e5], rel=1e-6)
    assert p == pytest.approx(1 - 1 / (6e5 * np.sqrt(2 * np.pi)), abs=1e-9)


def test_centring_counts_other_integers_as_such_and_makes_up_for_the_bias(either):
    grid = Grid(np.arange(1), np.full(1, -10.0), np.full(1, 10.0))
    X, weights = np.array([[0.6], [0.3], [-0.2]]), np.array([0.5, 0.3, 0.2])
    drawn = Drawn(np.zeros((3, 1)), np.zeros((3, 1)))
    either.round_integers(X, grid, drawn)
    means = []
    for best in ([0, 1, 2], [1, 2]):
        mean, reach, ranked = np.array([2.0]), np.array([0.9]), (weights[: len(best)], np.array(best))
        either.recentre_integers(
            mean, np.ones(1), grid, drawn, ranked, np.array([0.1]), np.array([0.4]), (1e-9, reach)
        )
        means.append(mean[0])
    # 0.6 -> 1 is a bias of 0.4; towards 0 only 0.3 can go back, and goes all the way: room 0.3 < 0.4
    assert means == pytest.approx([2 + 0.5 * 0.4 - 0.3 * 0.3, 2.0])


BAD = {
    "candidates": np.zeros((ROWS, N), np.int64), "columns": np.array([N]), "negative": np.array([-1]),
    "lower": np.zeros(3), "upper": np.zeros(1, np.float32), "values": np.zeros((ROWS - 1, 1)),
    "unrounded": np.zeros((ROWS, 1), np.float32),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_arrays_that_do_not_fit_are_rejected_when_rounding(compiled, name):
    given = {
        "candidates": np.full((ROWS, N), 0.4), "columns": np.array([1]), "lower": np.zeros(1),
        "upper": np.ones(1), "values": np.zeros((ROWS, 1)), "unrounded": np.zeros((ROWS, 1)),
    }  # fmt: skip
    key = "columns" if name == "negative" else name
    with pytest.raises((TypeError, ValueError, IndexError), match=key):
        _core.round_integers(*{**given, key: BAD[name]}.values())
    assert np.all(given["candidates"] == 0.4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scale", np.ones(N - 1)), ("columns", np.array([N])), ("values", np.zeros((ROWS, 2))),
        ("unrounded", np.zeros((ROWS - 1, 1))), ("order", np.array([ROWS])), ("order", np.array([0, 1])),
        ("weights", np.ones(1, np.float32)), ("old", np.zeros(2)), ("deviation", np.ones(2)),
        ("alpha", "much"), ("alpha", 10**400), ("reach", np.ones(2)), ("least", None),
    ],
    ids=str,
)  # fmt: skip
def test_arrays_of_the_wrong_size_are_rejected_by_recentre_integers(compiled, name, value):
    given = {
        "mean": np.full(N, 0.4), "scale": np.ones(N), "columns": np.array([1]), "lower": np.zeros(1),
        "upper": np.ones(1), "values": np.zeros((ROWS, 1)), "unrounded": np.zeros((ROWS, 1)),
        "weights": np.ones(1), "order": np.array([0]), "old": np.zeros(1), "deviation": np.ones(1),
        "alpha": 0.1, "reach": np.ones(1), "least": 1e-16,
    }  # fmt: skip
    with pytest.raises((TypeError, ValueError, IndexError, OverflowError)):
        _core.recentre_integers(*{**given, name: value}.values())
    assert np.all(given["mean"] == 0.4)
    _core.recentre_integers(*given.values())  # nothing else was wrong
