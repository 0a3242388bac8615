"""Shifted and rotated problems: the position of their optimum, and mixed coordinates."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from lmma.problems import Problem, get, names, rotated, shifted, wrappers as maps
from lmma.problems.base import BLOCK

MIXING = ["haar", "reflections"]
KINDS = [*MIXING, "axis"]


def matrix(rotation: maps.Rotation) -> np.ndarray:
    return rotation.apply(np.eye(rotation.n)).T


def share_off_the_diagonal(hessian: np.ndarray) -> float:
    return 1 - np.sum(np.diagonal(hessian) ** 2) / np.sum(hessian**2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9, 64, 101])
def test_rotations_are_orthogonal_and_inverted_by_inverse(kind, n):
    rotation = maps.draw(n, np.random.default_rng(3), kind)
    R = matrix(rotation)
    np.testing.assert_allclose(R @ R.T, np.eye(n), atol=1e-13)
    x = np.random.default_rng(4).standard_normal(n)
    np.testing.assert_allclose(rotation.apply(x[np.newaxis])[0], R @ x, atol=1e-13)
    np.testing.assert_allclose(rotation.inverse(x), R.T @ x, atol=1e-13)


def test_haar_matrices_are_uniform_and_not_biased_by_lapack():
    # Entries of a Haar matrix have mean 0 and variance 1/n. Unfixed signs make the first entry
    # negative always. 2000 draws: the standard error of the mean is 0.577 / sqrt(2000) = 0.013.
    first = [maps.Haar(3, np.random.default_rng(s)).apply(np.eye(3))[0, 0] for s in range(2000)]
    assert abs(np.mean(first)) < 5 * 0.013
    assert np.var(first) == pytest.approx(1 / 3, abs=0.04)  # its standard error is 0.0067


@pytest.mark.parametrize("name", ["ellipsoid", "discus"])
@pytest.mark.parametrize("n", [64, 500])
def test_reflections_mix_coordinates_as_a_haar_matrix_does(name, n):
    weights = get(name)(np.eye(n))  # the value at a unit vector is the weight of that axis
    shares = []
    for kind in MIXING:
        R = matrix(maps.draw(n, np.random.default_rng(5), kind))
        shares.append(share_off_the_diagonal(R.T @ (weights[:, np.newaxis] * R)))
        # 4^6 paths fall on n places at random: exp(-4096/500) = 3e-4 of the entries stay zero.
        assert np.mean(R != 0) > 0.999
        # No coordinate stays (nearly) where it was: a Haar matrix has at most about 4.5/sqrt(n).
        assert np.abs(R).max() < 0.8
    assert shares[1] > 0.95 * shares[0] > 0.75


def test_axis_takes_the_first_axis_in_any_direction():
    # A uniform unit vector u of R^3 has E u u^T = I/3; entries deviate by 0.3 at most: six standard errors.
    images = np.array([maps.Axis(3, np.random.default_rng(s)).inverse(np.eye(3)[0]) for s in range(2000)])
    np.testing.assert_allclose(images.T @ images / 2000, np.eye(3) / 3, atol=6 * 0.3 / np.sqrt(2000))


def test_axis_serves_functions_of_one_distinguished_coordinate():
    # f(R x) = |x|^2 + (1e6 - 1) <u, x>^2 with u the image of the first axis: all that any rotation can do
    rotation = maps.Axis(30, np.random.default_rng(7))
    X = np.random.default_rng(8).standard_normal((6, 30))
    along = X @ rotation.inverse(np.eye(30)[0])
    expected = np.sum(X**2, axis=1) + (1e6 - 1) * along**2
    np.testing.assert_allclose(rotated(get("discus"), 30, 7, "axis")(X), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_rotated_problems_are_f_of_rx_with_the_optimum_carried_along(kind, name, n):
    problem = get(name)
    turned = rotated(problem, n, 7, kind)
    R = matrix(maps.draw(n, np.random.default_rng(7), kind))
    X = np.random.default_rng(8).standard_normal((6, n))
    before = X.copy()
    np.testing.assert_allclose(turned(X), problem(X @ R.T), rtol=1e-11)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_allclose(turned(X[2]), turned(X)[2], rtol=1e-12)
    # x_opt is right to 1e-16 a coordinate, squared and weighted by up to 1e6
    assert 0 <= turned(turned.x_opt(n)) < 1e-22 * n
    assert turned.name == f"rotated-{name}"
    assert (turned.lower, turned.upper, turned.sigma0) == (-5, 5, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_rotated_sphere_equals_sphere(kind):
    X = np.random.default_rng(1).standard_normal((5, 33))
    np.testing.assert_allclose(rotated(get("sphere"), 33, 2, kind)(X), get("sphere")(X), rtol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_fixes_the_rotation(kind):
    X = np.random.default_rng(1).standard_normal((5, 12))
    first = rotated(get("cigar"), 12, 9, kind)(X)
    np.testing.assert_array_equal(rotated(get("cigar"), 12, 9, kind)(X), first)
    again = rotated(get("cigar"), 12, np.random.default_rng(9), kind)(X)
    np.testing.assert_array_equal(again, first)
    assert not np.allclose(rotated(get("cigar"), 12, 10, kind)(X), first)


def test_auto_leaves_the_matrix_when_it_would_exceed_200_mb(monkeypatch):
    monkeypatch.setattr(maps, "Haar", lambda n, rng: "haar")
    monkeypatch.setattr(maps, "Reflections", lambda n, rng: "reflections")
    rng = np.random.default_rng(0)
    assert maps.draw(5000, rng) == "haar"
    assert maps.draw(5001, rng) == "reflections"


def test_reflections_serve_a_hundred_thousand_coordinates():
    n = 100_000
    problem = get("rotated-rosenbrock")
    assert problem(problem.x_opt(n)) < 1e-22 * n
    X = np.random.default_rng(2).standard_normal((3, n))
    values = problem(X)
    assert n > BLOCK  # so that each row was a block by itself
    assert [problem(x) for x in X] == list(values)


@pytest.mark.parametrize("prefix", ["rotated", "shifted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_wrapped_problems_keep_the_dtype(prefix, dtype):
    X = np.random.default_rng(1).standard_normal((5, 20))
    values = get(f"{prefix}-ellipsoid")(X.astype(dtype))
    assert values.dtype == dtype
    np.testing.assert_allclose(values, get(f"{prefix}-ellipsoid")(X), rtol=1e-4)
    for kind in ("reflections", "axis"):
        assert rotated(get("ellipsoid"), 20, 1, kind)(X.astype(dtype)).dtype == dtype


@pytest.mark.parametrize("offset", [1.5, [1.0, -2.0, 0.5]])
@pytest.mark.parametrize("name", names())
def test_shifted_problems_are_f_of_x_minus_offset(name, offset):
    problem = get(name)
    moved = shifted(problem, offset)
    X = np.random.default_rng(1).standard_normal((4, 3))
    before = X.copy()
    np.testing.assert_array_equal(moved(X), problem(X - offset))
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(moved.x_opt(3), problem.x_opt(3) + offset)
    assert moved(moved.x_opt(3)) == 0.0
    assert moved.name == f"shifted-{name}"


def test_the_callers_offset_may_change_afterwards():
    offset = np.ones(3)
    moved = shifted(get("sphere"), offset)
    offset[:] = 7.0
    assert moved(np.ones(3)) == 0.0


@pytest.mark.parametrize("name", names(wrapped=True))
@pytest.mark.parametrize("n", [1, 2, 17])
def test_every_name_gives_a_problem_for_every_n(name, n):
    problem = get(name)
    assert problem.name == name
    assert isinstance(problem, Problem)
    x = problem.x_opt(n)
    assert x.shape == (n,)
    assert 0 <= problem(x) < 1e-22 * n
    assert np.all(np.abs(x) < 5)
    assert problem.doc


def test_prefixes_may_be_combined_outermost_first():
    problem = get("shifted-rotated-rosenbrock")
    assert problem.name == "shifted-rotated-rosenbrock"
    expected = get("rotated-rosenbrock").x_opt(6) + get("shifted-sphere").x_opt(6)
    np.testing.assert_array_equal(problem.x_opt(6), expected)
    assert problem(problem.x_opt(6)) < 1e-20


def test_named_maps_are_the_documented_ones():
    rng = np.random.default_rng([1, 10])
    X = np.random.default_rng(1).standard_normal((4, 10))
    np.testing.assert_array_equal(get("rotated-cigar")(X), rotated(get("cigar"), 10, rng, kind="haar")(X))
    offset = np.random.default_rng([2, 10]).uniform(-2.5, 2.5, 10)
    np.testing.assert_array_equal(get("shifted-sphere").x_opt(10), offset)


@pytest.mark.parametrize(
    "problem",
    [
        get("cigar"),
        get("shifted-rotated-rosenbrock"),
        rotated(get("cigar"), 8, 1),
        rotated(get("rosenbrock"), 8, 1, "reflections"),
        rotated(get("discus"), 8, 1, "axis"),
        shifted(get("ellipsoid"), 0.5),
    ],
    ids=lambda problem: problem.name,
)
def test_problems_survive_pickling(problem):
    copy = pickle.loads(pickle.dumps(problem))
    X = np.random.default_rng(1).standard_normal((4, 8))
    np.testing.assert_array_equal(copy(X), problem(X))
    np.testing.assert_array_equal(copy.x_opt(8), problem.x_opt(8))


def test_a_named_rotation_is_sent_as_its_name_not_as_a_matrix():
    problem = get("rotated-cigar")
    problem(np.ones(400))  # 1.3 MB
    assert len(pickle.dumps(problem)) < 2000


def test_wrappers_reject_the_wrong_dimension():
    with pytest.raises(ValueError, match="rotated for n = 4 but is used with n = 5"):
        rotated(get("sphere"), 4, 1)(np.ones(5))
    with pytest.raises(ValueError, match="offset of length 4 but is used with n = 5"):
        shifted(get("sphere"), np.ones(4)).x_opt(5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: rotated(get("sphere"), 0), ValueError, "n must be at least 1, got 0"),
        (lambda: rotated(get("sphere"), 2.5), TypeError, "n must be an integer, got 2.5"),
        (lambda: rotated("sphere", 2), TypeError, "problem must be a lmma.problems.Problem"),
        (lambda: rotated(get("sphere"), 2, 1, "givens"), ValueError, "kind must be 'auto'"),
        (lambda: shifted("sphere", 2), TypeError, "problem must be a lmma.problems.Problem"),
        (lambda: shifted(get("sphere"), np.nan), ValueError, "offset must be finite"),
        (lambda: shifted(get("sphere"), np.ones((2, 2))), ValueError, r"got shape \(2, 2\)"),
        (lambda: Problem("p", len, lower=1, upper=1), ValueError, "lower must be less than upper"),
        (lambda: Problem("p", len, sigma0=0), ValueError, "sigma0 must be greater than 0"),
    ],
)
def test_mistakes_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
