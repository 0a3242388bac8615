"""The matrix of pulse-full: one multiplication for many rows, and an updated inverse."""

import numpy as np
import pytest

from lmma.methods.pulse.core import CORRELATION_PERIOD, RENEW, FullCore, IdentityCore


def rows_of(n, rng):
    return 0.1 * rng.standard_normal((9, n))


@pytest.mark.parametrize("n", [5, 40])
def test_the_matrix_is_multiplied_by_all_that_was_collected(n):
    core, rng = FullCore(n, 1.5, "float64"), np.random.default_rng(1)
    before = core.matrix + 0.2 * rng.standard_normal((n, n)) / np.sqrt(n)
    core.matrix[...], core.inverse[...] = before, np.linalg.inv(before)
    G = np.zeros((n, n))
    while not core.age:
        rows = rows_of(n, rng)
        G += rows[:6].T @ rows[:6] - rows[6:].T @ rows[6:] - 0.01 * np.eye(n)
        core.learn(rows, 3, 0.01, 9)
    np.testing.assert_allclose(core.matrix, before @ (np.eye(n) + G / 2), rtol=1e-12, atol=1e-12)
    assert core.waiting == 0
    assert not core.change.any()


def test_the_inverse_is_updated_until_it_is_recomputed():
    core, rng = FullCore(6, 1.5, "float64"), np.random.default_rng(2)
    while core.age < RENEW - 1:
        core.learn(rows_of(6, rng), 4, 0.02, 9)
    # an error of eps for each product, all in one direction at worst
    bound = RENEW * 2.3e-16 * np.linalg.cond(core.matrix)
    np.testing.assert_allclose(core.inverse @ core.matrix, np.eye(6), atol=bound)


def test_the_matrix_waits_for_enough_rows():
    core = FullCore(50, 1.5, "float64")
    core.learn(np.ones((9, 50)), 0, 0.0, 9)
    assert core.waiting == 9
    np.testing.assert_array_equal(core.matrix, np.eye(50))


def test_correlations_damp_the_diagonal_and_scales_do_not():
    core = FullCore(4, 1.5, "float64")
    core.matrix[...] = np.diag([1.0, 2, 3, 4])
    core.inverse[...] = np.linalg.inv(core.matrix)
    core.age = CORRELATION_PERIOD - 1
    core._multiply()
    np.testing.assert_allclose(core.damping, 1.0)
    core.matrix[0, 1] = 1.0
    core.inverse[...] = np.linalg.inv(core.matrix)
    core.age = CORRELATION_PERIOD - 1
    core._multiply()
    assert np.all(core.damping[:2] < 0.95)
    np.testing.assert_allclose(core.damping[2:], 1.0)


def test_products_with_the_identity_are_the_rows():
    core, rows = IdentityCore(3, 1.5, "float64"), np.ones((2, 3))
    assert core.times(rows) is core.solved(rows) is core.transposed_times(rows) is rows
    assert core.through_core(rows, rows, rows, None) is None
