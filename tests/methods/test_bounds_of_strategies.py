"""Bounds in ask and tell: the rules of ``minimize``, for every strategy."""

import numpy as np
import pytest

import lmma
from adapting import BY_RANKS
from lmma.bounds import box as make_box
from lmma.layers.layer import Told

BOUNDARIES = ["smooth", "reflect", "project"]
N = 5
BOUNDS = [(-1.0, 1.0)] * 3 + [(0.25, 0.25), (-1.0, None)]  # one coordinate is fixed, one has one face
X0 = np.array([-0.9, 0.3, 0.99, 0.25, 0.7])


def off_centre(X):
    """Return a function whose minimum presses against three faces."""
    return np.square(X.astype(np.float64) - np.array([2.0, -3.0, 0.5, 0.0, -4.0])) @ 10.0 ** np.arange(N)


def make(method, boundary, dtype="float64", **options):
    return lmma.strategy(method, X0, 0.4, bounds=BOUNDS, boundary=boundary, dtype=dtype, rng=3, **options)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("method", BY_RANKS)
def test_a_box_by_hand_gives_the_same_run_bit_for_bit(method, boundary, dtype):
    box = make_box(BOUNDS, X0, boundary=boundary, dtype=dtype)
    plain = lmma.strategy(method, box.outside(X0), 0.4, dtype=dtype, rng=3)
    plain.method.max_sigma = max(plain.sigma, box.largest_sigma(plain.scale))
    es = make(method, boundary, dtype)
    for _ in range(40):
        X = plain.ask()
        box.on_ask(plain.method, X, 0, len(X))
        np.testing.assert_array_equal(es.ask(), X)
        values = off_centre(X)
        plain.tell(box.on_tell(plain.method, Told(values, values, values)).values)
        es.tell(values)
    np.testing.assert_array_equal(es.mean, plain.mean)
    assert es.sigma == plain.sigma


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("method", BY_RANKS)
def test_minimize_gives_the_same_run_bit_for_bit(method, boundary, dtype):
    es = make(method, boundary, dtype)
    for _ in range(30):
        es.tell(off_centre(es.ask()))
    result = lmma.minimize(
        off_centre, X0, 0.4, method=method, bounds=BOUNDS, boundary=boundary, dtype=dtype, rng=3,
        vectorized=True, maxiter=30, tolx=0, tolfun=0, noise=None,
    )  # fmt: skip
    for name in ("x", "fun", "mean", "sigma", "nfev"):
        np.testing.assert_array_equal(es.result[name], result[name], err_msg=name)


def inside(X):
    low, high = np.array([[-1, -1, -1, 0.25, -1], [1, 1, 1, 0.25, np.inf]])
    return bool(np.all((low <= X) & (high >= X)))


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("method", ["lm-ma-es", "pulse-full", "lm-cma-es"])
def test_candidates_injected_redrawn_and_best_lie_inside(method, boundary):
    es = make(method, boundary)
    es.inject([[1.0, 1.0, -1.0, 0.25, 9.0], X0])
    for _ in range(15):
        X = es.ask()
        assert inside(X)
        es.resample([0, 3])
        assert inside(X)
        assert inside(es.result.mean)
        es.tell([off_centre(x[None])[0] for x in X])  # one by one: BLAS may round blocks differently
        assert inside(es.best_x)
        assert es.best_fun == off_centre(es.best_x[None])[0]


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_injected_points_are_evaluated_where_they_are(boundary):
    es = make("lm-ma-es", boundary)
    point = np.array([0.99, -0.2, 0.1, 0.25, 3.0])
    es.inject(point)
    np.testing.assert_allclose(es.ask()[-1], point, rtol=1e-12)
    with pytest.raises(ValueError, match="within bounds"):
        es.inject(np.full(N, 2.0))


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_the_best_is_selected_by_raw_values(boundary):
    es, values = make("lm-ma-es", boundary), []
    for _ in range(30):
        values.append(off_centre(es.ask()))
        es.tell(values[-1])
    assert es.best_fun == np.min(values)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_blocks_lie_inside_and_give_the_same_run(boundary):
    a, b = make("lm-ma-es", boundary), make("lm-ma-es", boundary)
    for _ in range(20):
        a.tell(off_centre(a.ask()))
        blocks = [rows.copy() for rows in b.ask_blocks(3)]
        assert all(inside(rows) for rows in blocks)
        b.tell(np.concatenate([off_centre(rows) for rows in blocks]))
        assert inside(b.best_x)
    np.testing.assert_allclose(b.mean, a.mean, rtol=1e-9)
    assert b.best_fun == pytest.approx(a.best_fun, rel=1e-12)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("method", ["sep-cma-es", "pulse-full"])
def test_a_run_resumed_within_bounds_equals_the_unbroken_run(method, boundary):
    a, b = make(method, boundary), make(method, boundary)
    for _ in range(12):
        a.tell(off_centre(a.ask()))
    b.set_state(a.get_state())
    for _ in range(12):
        a.tell(off_centre(a.ask()))
        b.tell(off_centre(b.ask()))
    for name, value in a.get_state().items():
        np.testing.assert_array_equal(value, b.get_state()[name], err_msg=name)


def test_looking_at_the_result_between_ask_and_tell_changes_nothing():
    a, b = make("lm-ma-es", "project"), make("lm-ma-es", "project")
    for _ in range(20):
        a.tell(off_centre(a.ask()))
        X = b.ask()
        b.result  # noqa: B018
        b.tell(off_centre(X))
    np.testing.assert_array_equal(a.mean, b.mean)


def test_without_bounds_there_is_no_box_and_invalid_ones_are_rejected():
    assert lmma.LMMAES(X0, 0.4).box is None
    with pytest.raises(ValueError, match="x0 must lie within bounds"):
        lmma.LMMAES(X0, 0.4, bounds=[2, 3])
    with pytest.raises(ValueError, match="boundary must be one of"):
        lmma.LMMAES(X0, 0.4, bounds=[-5, 5], boundary="soft")
    with pytest.raises(TypeError, match="bounds must be"):
        lmma.LMMAES(X0, 0.4, bounds=3)


@pytest.mark.parametrize("method", BY_RANKS)
def test_sigma_grows_no_further_than_a_quarter_of_the_box(method):
    es = lmma.strategy(method, np.zeros(4), 0.4, bounds=[-1, 3], rng=1)
    assert es.max_sigma == 1.0
    es.ask()
    es.sigma = 7.0
    es.tell(np.zeros(es.popsize))
    assert es.sigma <= 1.0
    assert lmma.strategy(method, np.zeros(4), 2.5, bounds=[-1, 3]).max_sigma == 2.5
