"""Generations collected for an update of pulse."""

import numpy as np
import pytest

from lmma.methods.pulse.batching import Collected, ranks_of
from lmma.numerics.recombination import Selection, active_weights

WEIGHTS = np.array([0.6, 0.4])


def selection(order, z, selected=2):
    nothing, weights = np.zeros(z.shape[1]), WEIGHTS[:selected]
    return Selection(np.array(order), np.zeros(len(order)), weights, 1.5, nothing, nothing, z)


def test_rows_come_ranked_once_the_period_is_over():
    collected = Collected(3, 4, 2, "float64", WEIGHTS)
    z = [np.arange(8.0).reshape(4, 2) + 10 * g for g in range(3)]
    assert collected.add(selection([3, 0, 1, 2], z[0])) is None
    assert collected.add(selection([1, 2, 0, 3], z[1], selected=1)) is None  # all but one failed
    ranked = collected.add(selection([0, 1, 2, 3], z[2]))
    np.testing.assert_array_equal(ranked.z, np.vstack((z[0][[3, 0, 1, 2]], z[1][[1, 2, 0, 3]], z[2])))
    assert ranked.ranks.generations == 3
    np.testing.assert_array_equal(ranked.ranks.ranks, np.tile(active_weights(4), 3))
    np.testing.assert_allclose(ranked.ranks.weights, [0.6, 0.4, 0, 0, 1, 0, 0, 0, 0.6, 0.4, 0, 0])
    assert collected.add(selection([0, 1, 2, 3], z[2])) is None  # begins anew


def test_long_rows_come_in_the_same_order():
    z = np.random.default_rng(0).standard_normal((3, 10_000))
    collected = Collected(1, 3, 10_000, "float64", WEIGHTS)
    np.testing.assert_array_equal(collected.add(selection([2, 0, 1], z)).z, z[[2, 0, 1]])


def test_collected_rows_are_copies_of_the_sample():
    collected = Collected(2, 4, 2, "float64", WEIGHTS)
    z = np.arange(8.0).reshape(4, 2)
    collected.add(selection([3, 0, 1, 2], z))
    assert collected.held.shape == (4, 2)
    z[...] = -1.0
    assert collected.add(selection([0, 1, 2, 3], z)).z[0, 1] == 7.0


@pytest.mark.parametrize("selected", [(1,), (2, 1), (2, 2, 2)], ids=str)
def test_ranks_sum_to_zero_and_weights_to_one_in_each_generation(selected):
    ranks, weights, better, worse, generations = ranks_of(selected, 5, WEIGHTS.tobytes())
    assert abs(ranks.sum()) < 1e-12
    assert weights.sum() == pytest.approx(len(selected))
    assert better == np.sum(weights > 0) == sum(selected)
    assert worse == np.sum(ranks < 0)
    assert generations == len(selected)
