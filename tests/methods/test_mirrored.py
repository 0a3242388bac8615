"""mirrored=True for every method: opposite pairs, and otherwise unchanged behaviour."""

import numpy as np
import pytest

import lmma
from adapting import ADAPTING, BY_RANKS
from lmma.numerics.sampling import mirrored_mu_w, with_opposites
from lmma.testing import CHECKS

METHODS = [name for name in BY_RANKS if name != "lm-cma-es"]  # which has pairs of its own


def ellipsoid(X):
    return np.square(X) @ np.logspace(0, 3, X.shape[1])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", METHODS)
def test_candidates_come_in_opposite_pairs_around_the_mean(method, dtype):
    es = lmma.strategy(method, np.ones(9), 0.5, rng=1, mirrored=True, popsize=9, dtype=dtype)
    tolerance = 1e-13 if dtype == "float64" else 1e-5
    for _ in range(25):
        X = es.ask()
        middle = (X[0:8:2] + X[1:9:2]) / 2
        np.testing.assert_allclose(middle, np.tile(es.mean, (4, 1)), rtol=0, atol=tolerance)
        np.testing.assert_allclose(es.method.z[1:9:2], -es.method.z[0:8:2], rtol=0, atol=0)
        es.tell(ellipsoid(X))


@pytest.mark.parametrize("method", METHODS)
def test_the_first_of_each_pair_is_what_would_have_been_drawn(method):
    plain = lmma.strategy(method, np.ones(6), 0.5, rng=1, popsize=8, **_off(method))
    mirrored = lmma.strategy(method, np.ones(6), 0.5, rng=1, popsize=8, mirrored=True)
    np.testing.assert_allclose(mirrored.ask()[::2], plain.ask()[:4], rtol=1e-12)


def _off(method):
    return {"mirrored": False} if method == "open-es" else {}


@pytest.mark.parametrize("method", ["lm-ma-es", "d-lm-ma-es", "vd-cma-es"])
def test_stored_samples_of_a_transform_are_those_of_the_pairs(method):
    es = lmma.strategy(method, np.ones(12), 0.5, rng=1, mirrored=True)
    for _ in range(30):
        es.tell(ellipsoid(es.ask()))
    es.ask()
    part = es.method.transform.inner if method == "d-lm-ma-es" else es.method.transform
    known = part.projections.copy()
    part.replaced(np.arange(es.popsize), es.method.z)
    np.testing.assert_allclose(known, part.projections, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", ["lm-ma-es", "csa-es", "pulse", "pulse-full", "cma-es", "sep-cma-es"])
def test_random_selection_leaves_the_path_standard_normal(method):
    # 4,000 generations at n = 32 with a memory of about 20: some 200 independent lengths of 32 squares each,
    # so the mean square has a standard error of sqrt(2/(32 * 200)) = 0.018. Without the mass of pairs it
    # would be 0.75; weights of both signs, as pulse has them, need none.
    es = lmma.strategy(method, np.zeros(32), 1.0, rng=1, mirrored=True, popsize=16, tolx=0, tolfun=0)
    rng = np.random.default_rng(0)
    squares = []
    for _ in range(4000):
        es.ask()
        es.tell(rng.random(16))
        squares.append(float(np.mean(es.method.step.path**2)))
    assert np.mean(squares[50:]) == pytest.approx(1.0, abs=0.09)


def test_the_mass_of_pairs_is_that_of_drawn_ranks():
    rng = np.random.default_rng(0)
    for lam in (8, 9):
        weights = np.log(lam // 2 + 0.5) - np.log(np.arange(1, lam // 2 + 1))
        weights /= weights.sum()
        all_weights = np.concatenate((weights, np.zeros(lam - len(weights))))
        lengths = []
        for _ in range(20_000):
            drawn = rng.permutation(all_weights)
            pairs = lam // 2
            alone = drawn[2 * pairs :]
            opposed = drawn[0 : 2 * pairs : 2] - drawn[1 : 2 * pairs : 2]
            lengths.append(np.sum(opposed**2) + np.sum(alone**2))
        # 20,000 lengths that vary by about 0.6 of their mean: a standard error of 0.4%
        assert 1 / mirrored_mu_w(1 / (weights @ weights), lam) == pytest.approx(np.mean(lengths), rel=0.02)


def test_equal_weights_for_all_do_not_divide_by_zero():
    assert np.isfinite(mirrored_mu_w(8.0, 8))


def test_opposites_follow_in_any_shape():
    np.testing.assert_array_equal(with_opposites(np.array([1.0, 2.0]), 3), [1, -1, 2])
    np.testing.assert_array_equal(with_opposites(np.array([[1.0, 2.0], [3.0, 4.0]]), 4)[:, 1], [2, -2, 4, -4])


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("method", ["lm-ma-es", "pulse", "pulse-full", "ma-es", "lm-ma-es-archive"])
def test_the_contract_holds_with_pairs(method, check):
    if check.__name__ == "check_abilities" and lmma.strategy(method, [1.0, 2.0], 1.0).can_stream:
        pytest.skip("blocks are refused, as the next test says")
    if check.__name__ == "check_solves_the_sphere" and method == "lm-ma-es":
        pytest.skip("of one variable, two pairs of a learned length say too little; the next test has more")
    check(lambda x0, sigma0, **options: lmma.strategy(method, x0, sigma0, mirrored=True, **options))


@pytest.mark.parametrize("n", [2, 5, 20])
def test_direction_vectors_solve_the_sphere_with_pairs(n):
    es = lmma.LMMAES(np.full(n, 2.0), 1.0, rng=n, mirrored=True, tolx=0, tolfun=0)
    while es.best_fun > 1e-10 and es.evaluations < 4000 + 2000 * n:
        es.tell(np.sum(np.square(es.ask()), axis=1))
    assert es.best_fun <= 1e-10


def test_blocks_of_mirrored_pairs_are_rejected_with_a_message():
    es = lmma.LMMAES(np.ones(5), 1.0, mirrored=True, rng=1)
    with pytest.raises(ValueError, match="mirrored=False"):
        es.ask_blocks()


@pytest.mark.parametrize("method", ADAPTING)
def test_a_switch_that_is_none_is_rejected(method):
    if method == "lm-cma-es":
        return
    with pytest.raises(TypeError, match="mirrored must be True or False"):
        lmma.strategy(method, [1.0, 2.0], 1.0, mirrored="yes")


def test_a_mirrored_run_is_resumed_and_named(tmp_path):
    def run(**options):
        return lmma.minimize(
            ellipsoid, np.ones(6), 0.5, method="lm-ma-es", rng=1, vectorized=True, tolx=0, **options
        )

    unbroken = run(maxiter=50, mirrored=True)
    run(maxiter=20, mirrored=True, checkpoint=tmp_path / "run.npz")
    resumed = run(maxiter=50, mirrored=True, checkpoint=tmp_path / "run.npz")
    np.testing.assert_array_equal(resumed.x, unbroken.x)
    with pytest.raises(lmma.CheckpointError, match="options"):
        run(maxiter=60, checkpoint=tmp_path / "run.npz")
