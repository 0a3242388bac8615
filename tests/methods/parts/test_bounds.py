from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings, strategies as st

import lmma
from lmma.layers.bounds import BOXES, box, read_bounds
from lmma.problems import get, shifted

LOW, HIGH = -1.0, 3.0


def random_box(seed, n):
    """Return bounds of which some are infinite and some equal."""
    rng = np.random.default_rng(seed)
    lower = np.where(rng.random(n) < 0.3, -np.inf, rng.normal(size=n))
    width = np.where(rng.random(n) < 0.1, 0.0, 10.0 ** rng.uniform(-3, 3, n))
    upper = np.where(rng.random(n) < 0.3, np.inf, np.where(np.isfinite(lower), lower, 0.0) + width)
    return lower, upper


@pytest.mark.parametrize("way", BOXES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.floats(-3, 12))
def test_no_candidate_stays_outside(way, dtype, seed, scale):
    n = 12
    lower, upper = random_box(seed, n)
    fixed = lower == upper
    lower[fixed] = upper[fixed] = lower[fixed].astype(dtype)  # others are refused
    inside = BOXES[way](lower, upper, dtype)
    X = (10.0**scale * np.random.default_rng(seed).normal(size=(5, n))).astype(dtype)
    inside.repair(X)
    wide = X.astype(np.float64)
    assert np.all(wide >= lower)
    assert np.all(wide <= upper)


@pytest.mark.parametrize("way", BOXES)
def test_the_start_is_evaluated_where_it_is(way):
    lower, upper = random_box(3, 40)
    x = np.clip(np.random.default_rng(1).normal(size=40), lower, upper)
    inside = BOXES[way](lower, upper)
    np.testing.assert_allclose(inside.inside(inside.outside(x)), x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("way", BOXES)
def test_points_well_inside_are_unchanged(way):
    inside = BOXES[way](np.full(5, LOW), np.full(5, HIGH))
    X = np.random.default_rng(1).uniform(LOW + 0.41, HIGH - 0.41, (4, 5))
    before = X.copy()
    inside.repair(X)
    assert np.array_equal(X, before)


def test_reflection_is_a_mirror_at_each_face():
    X = np.array([[-1.5, 3.5, 7.5, -9.25, 0.5]])
    BOXES["reflect"](np.full(5, LOW), np.full(5, HIGH)).repair(X)
    np.testing.assert_allclose(X, [[-0.5, 2.5, -0.5, -0.75 + 0.0, 0.5]], rtol=0, atol=1e-15)


def test_the_smooth_way_has_slope_zero_at_the_face_and_one_inside():
    smooth = BOXES["smooth"](np.array([LOW]), np.array([HIGH]))
    y = np.linspace(LOW - 0.4, LOW + 0.8, 1201)
    x = np.array([smooth.inside(np.array([v]))[0] for v in y])
    slope = np.diff(x) / np.diff(y)
    assert np.all(np.diff(slope) > -1e-9)  # convex: no kink
    assert (slope[0], slope[-1]) == (pytest.approx(0, abs=2e-3), pytest.approx(1, abs=1e-9))


def test_a_penalty_grows_with_the_distance_and_leaves_values_inside_alone():
    project = BOXES["project"](np.zeros(2), np.ones(2))
    X = np.array([[0.5, 0.5], [2.0, 0.5], [3.0, 0.5], [0.1, 0.9]])
    project.on_ask(SimpleNamespace(mean=np.full(2, 0.5), sigma=1.0, scale=None), X, 0, len(X))
    values = np.array([1.0, 2.0, 3.0, 4.0])
    told = project.penalised(values)
    assert told[0] == 1.0
    assert told[3] == 4.0
    assert 0 < told[1] - 2.0 < told[2] - 3.0


@pytest.mark.parametrize(
    "bounds",
    [
        scipy.optimize.Bounds([-1, -1, -1], [3, 3, 3]),
        scipy.optimize.Bounds(-1, 3),
        [(-1, 3)] * 3,
        [-1, 3],
        (np.full(3, -1.0), np.full(3, 3.0)),
        np.array([[-1.0, 3.0]] * 3),
        [[-1, -1, -1], 3],
    ],
)
def test_every_form_of_bounds_is_understood(bounds):
    lower, upper = read_bounds(bounds, 3)
    assert np.array_equal(lower, [-1.0] * 3)
    assert np.array_equal(upper, [3.0] * 3)


def test_none_means_no_bound():
    lower, upper = read_bounds([(None, 1), (0, None), (None, None)], 3)
    assert np.array_equal(lower, [-np.inf, 0, -np.inf])
    assert np.array_equal(upper, [1, np.inf, np.inf])
    assert np.array_equal(read_bounds([None, 5.0], 2)[1], [5.0, 5.0])


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ([(0, 1)] * 4, "3 pairs"),
        ([(1, 0)] * 3, "exceeds upper bound"),
        ([(2, 3)] * 3, r"x0\[0\] = 1 is outside \[2, 3\]"),
        ([(np.nan, 3)] * 3, "NaN"),
        ([(1, 1)] * 3, "fix every coordinate"),
        ([np.zeros(2), np.ones(2)], "shape"),
        ([np.inf, np.inf], "must not be inf"),
    ],
)
def test_wrong_bounds_are_rejected_with_the_reason(bounds, words):
    with pytest.raises(ValueError, match=words):
        lmma.minimize(lambda x: 0.0, np.ones(3), 1.0, bounds=bounds)
    with pytest.raises(ValueError, match="boundary must be one of"):
        box([0, 1], np.ones(3), boundary="bounce")


def sums_of_squares(X):
    return np.sum(np.square(X), axis=1)


def test_fixed_coordinates_stay_fixed_and_the_rest_is_solved():
    bounds = [(-5, 5)] * 6 + [(2.0, 2.0)] * 6
    seen = []

    def fun(X):
        seen.append(X.copy())
        return sums_of_squares(X)

    result = lmma.minimize(
        fun, np.r_[np.ones(6), np.full(6, 2.0)], 1.0, bounds=bounds, vectorized=True, rng=1, ftarget=24 + 1e-8
    )
    assert result.success
    assert np.all(np.vstack(seen)[:, 6:] == 2.0)


def test_the_default_step_size_fits_the_box():
    result = lmma.minimize(
        sums_of_squares, np.full(5, 2e-3), bounds=[1e-3, 3e-3], vectorized=True, rng=1, maxiter=1
    )
    assert 1e-4 < result.sigma < 1e-3


def test_two_vectors_for_two_variables_are_rejected_as_they_have_two_readings():
    low, high = np.array([-5.0, 0.0]), np.array([5.0, 1.0])
    with pytest.raises(ValueError, match=r"ambiguous.*Bounds\(\[-5.0, 0.0\], \[5.0, 1.0\]\)"):
        lmma.minimize(sums_of_squares, [1.0, 0.5], bounds=[low, high], vectorized=True)
    for pairs in ([(-5, 5), (0, 1)], np.array([(-5, 5), (0, 1)])):
        assert [side.tolist() for side in read_bounds(pairs, 2)] == [[-5, 0], [5, 1]]
    assert [side.tolist() for side in read_bounds(scipy.optimize.Bounds(low, high), 2)] == [[-5, 0], [5, 1]]
    # the same box in both readings
    same = [np.array([0.0, 1.0]), np.array([1.0, 2.0])]
    assert [side.tolist() for side in read_bounds(same, 2)] == [[0, 1], [1, 2]]


@pytest.mark.parametrize("boundary", BOXES)
def test_a_box_between_two_numbers_of_single_precision_is_rejected(boundary):
    narrow = [(-1.0, 1.0), (1e6 + 0.01, 1e6 + 0.02)]
    x0 = [0.0, 1e6 + 0.015]
    with pytest.raises(ValueError, match=r"coordinate 1.*no float32 number.*dtype='float64'"):
        lmma.minimize(sums_of_squares, x0, bounds=narrow, boundary=boundary, dtype="float32")
    # one number in between: the coordinate is fixed there, and no evaluation lies outside
    one = [(-1.0, 1.0), (1e6 - 0.01, 1e6 + 0.01)]
    seen = []

    def fun(X):
        seen.append(X.astype(np.float64))
        return np.sum((X - 0.5) ** 2, axis=1)

    lmma.minimize(
        fun, [0.0, 1e6], bounds=one, boundary=boundary, dtype="float32", vectorized=True, maxiter=30, rng=1
    )
    rows = np.concatenate(seen)
    assert np.all(rows[:, 1] == 1e6)
    assert np.all(np.abs(rows[:, 0]) <= 1)
    with pytest.raises(ValueError, match="single float32 number in every coordinate"):
        lmma.minimize(sums_of_squares, [1e6], bounds=one[1:], boundary=boundary, dtype="float32")


@pytest.mark.parametrize("boundary", BOXES)
def test_a_coordinate_is_fixed_at_a_number_of_its_precision(boundary):
    with pytest.raises(ValueError, match=r"coordinate 1, \[0.1, 0.1\], contain no float32 number.*"
                                         r"fix it at 0.10000000149011612"):  # fmt: skip
        lmma.minimize(
            sums_of_squares, [0.0, 0.1], bounds=[(-1, 1), (0.1, 0.1)], boundary=boundary, dtype="float32"
        )
    fixed = 0.10000000149011612
    seen = []

    def fun(x):
        seen.append(x.astype(np.float64))
        return float(x @ x)

    lmma.minimize(
        fun,
        [0.0, fixed],
        bounds=[(-1, 1), (fixed, fixed)],
        boundary=boundary,
        dtype="float32",
        maxiter=30,
        rng=1,
    )
    assert np.all(np.array(seen)[:, 1] == fixed)


def test_scipys_interface_takes_bounds():
    result = scipy.optimize.minimize(
        lambda x: float(np.sum((x + 2.0) ** 2)), np.ones(4), method=lmma.scipy_method("ma-es"),
        bounds=[(-1, 3)] * 4, options={"rng": 1, "sigma0": 1.0},
    )  # fmt: skip
    np.testing.assert_allclose(result.x, -1.0, atol=1e-5)


def optimum_at(position, n):
    """Return a point inside the box, on two of its faces, or in a corner."""
    x = np.random.default_rng(7).uniform(LOW + 0.8, HIGH - 0.8, n)
    if position == "face":
        x[:2] = LOW, HIGH
    if position == "corner":
        x[:] = np.where(np.arange(n) % 2, LOW, HIGH)
    return x


def box_run(name, position, method, n, target, budget, *, bounded=True):
    problem = get(name)
    moved = shifted(problem, optimum_at(position, n) - problem.x_opt(n))
    outside = 0

    def fun(X):
        nonlocal outside
        outside += int(np.count_nonzero((X < LOW) | (X > HIGH)))
        return moved.function(X)

    x0 = np.random.default_rng(3).uniform(LOW, HIGH, n)
    # Rosenbrock's function has local optima; elsewhere convergence short of the target is no end
    how = {"restarts": 9} if name == "rosenbrock" else {"tolx": 0, "tolfun": 0, "stagnation": False}
    result = lmma.minimize(
        fun, x0, 1.0, method=method, bounds=[LOW, HIGH] if bounded else None, vectorized=True, rng=2,
        ftarget=target, maxfevals=budget, **how,
    )  # fmt: skip
    return result, outside


SIX = ["sphere", "ellipsoid", "rosenbrock", "discus", "cigar", "different-powers"]
THREE = ["cma-es", "ma-es", "lm-ma-es"]


@pytest.mark.parametrize("method", THREE)
@pytest.mark.parametrize("position", ["inside", "face", "corner"])
@pytest.mark.parametrize("name", SIX)
def test_six_problems_are_solved_inside_the_box(name, position, method):
    result, outside = box_run(name, position, method, 4, 1e-2, 200_000)
    assert outside == 0
    assert result.success, result.message
    assert np.all((result.x >= LOW) & (result.x <= HIGH))
    assert np.all((result.mean >= LOW) & (result.mean <= HIGH))


@pytest.mark.slow
@pytest.mark.parametrize("method", THREE)
@pytest.mark.parametrize("name", SIX)
def test_six_problems_are_solved_inside_the_box_of_ten(name, method):
    free, _ = box_run(name, "inside", method, 10, 1e-6, 3_000_000, bounded=False)
    cells = []
    for position in ("inside", "face", "corner"):
        result, outside = box_run(name, position, method, 10, 1e-6, 3_000_000)
        assert outside == 0
        assert result.success, (position, result.message)
        cells.append(f"{result.nfev:,}")
    print(f"\n| {name} | {method} | {free.nfev:,} | {' | '.join(cells)} |")
