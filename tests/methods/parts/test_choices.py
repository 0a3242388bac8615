"""Sampling from a categorical distribution, for any number of values."""

import numpy as np

from lmma.layers.choices import FEW_VALUES, Categorical


def drawn_one_by_one(distribution, uniform):
    """Return the values by their definition: the number of cumulative probabilities that are reached."""
    drawn = np.zeros(uniform.shape, dtype=np.intp)
    total = np.add.accumulate(distribution.q)
    for j, (first, last) in enumerate(zip(distribution.first, distribution.last, strict=True)):
        before = total[first] - distribution.q[first]
        for k in range(first, last):
            drawn[:, j] += uniform[:, j] >= total[k] - before
    return drawn


def test_few_and_many_values_are_drawn_alike():
    rng = np.random.default_rng(1)
    for most in (3, FEW_VALUES + 1, 10 * FEW_VALUES):
        for _ in range(30):
            sizes = rng.integers(2, most + 1, size=rng.integers(1, 7)).astype(np.intp)
            distribution = Categorical(sizes, len(sizes))
            distribution.q[...] = rng.random(sizes.sum()) ** rng.integers(1, 20)
            distribution._keep_margin()
            uniform = rng.random((20, len(sizes)))
            uniform[0], uniform[1] = 0.0, np.nextafter(1.0, 0.0)
            drawn = distribution.draw(uniform)
            np.testing.assert_array_equal(drawn, drawn_one_by_one(distribution, uniform))
            assert np.all((drawn >= 0) & (drawn < sizes))
