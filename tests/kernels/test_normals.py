"""Normal numbers: their counters and their distribution."""

import numpy as np
import pytest
from scipy import special, stats

KEY = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
DTYPES = ["float64", "float32"]


def draw(kernels, rows, n, dtype="float64", generation=5, first=0, key=KEY):
    z = np.empty((rows, n), dtype=dtype)
    kernels.normals(key, generation, first, z)
    return z


def message_of(candidate, n, dtype, generation=5, key=KEY):
    """A candidate's radii and angles, read from NumPy's Philox as the layout in reference.py says."""
    lanes = 4 if dtype == "float64" else 8
    h = lanes * -(-n // (2 * lanes))
    blocks = 2 * h // lanes
    bits = np.random.Philox(
        key=np.array(key, dtype=np.uint64),
        counter=np.array([candidate * blocks, generation, 0, 0], dtype=np.uint64),
    )
    raw = bits.random_raw(4 * blocks).view(np.uint64 if dtype == "float64" else np.uint32)
    return raw[:h], raw[h:]


def box_muller(radii, angles, dtype):
    """The layout's arithmetic in extended precision."""
    if dtype == "float64":
        u = np.longdouble(1) - (radii >> np.uint64(12)).astype(np.longdouble) / 2**52
        x = (angles >> np.uint64(12)).astype(np.longdouble) / 2**52 - 0.5
    else:
        u = ((radii >> np.uint32(1)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-31)
        u = u.astype(np.longdouble)
        x = (angles >> np.uint32(9)).astype(np.longdouble) / 2**23 - 0.5
    r = np.sqrt(-2 * np.log(u)) * np.where(angles & 1, -1, 1)
    pi = np.longdouble("3.14159265358979323846264338327950288")
    return r * np.cos(pi * x), r * np.sin(pi * x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 17, 128, 391, 1000])
def test_numbers_are_numpys_philox_through_box_muller(kernels, n, dtype):
    z = draw(kernels, 3, n, dtype, first=4)
    for row in range(3):
        wanted = np.concatenate(box_muller(*message_of(4 + row, n, dtype), dtype))[:n]
        np.testing.assert_allclose(z[row], wanted, rtol=0, atol=2e-15 if dtype == "float64" else 1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_words_keep_full_accuracy(core, dtype):
    from lmma.kernels import _core

    unsigned = np.uint64 if dtype == "float64" else np.uint32
    largest, bits = np.iinfo(unsigned).max, np.iinfo(unsigned).bits
    near = [0, 1, 2, 3, largest, largest - 1, largest - (1 << 13), largest >> 1, (largest >> 1) + 1]
    near += [1 << k for k in range(bits)] + [largest - (1 << k) for k in range(bits)]
    radii, angles = (a.ravel() for a in np.meshgrid(np.array(near, unsigned), np.array(near, unsigned)))
    pad = -len(radii) % 8
    words = np.stack([np.pad(radii, (0, pad)), np.pad(angles, (0, pad))])
    made = np.empty(words.shape, dtype=dtype)
    _core.pairs(words, made)
    cosine, sine = box_muller(words[0], words[1], dtype)
    eps = np.finfo(dtype).eps
    r = np.hypot(cosine, sine)
    assert np.all(np.isfinite(made))
    assert np.all(abs(made[0] - cosine) <= 4 * eps * r)  # next to 90 degrees only this can hold
    assert np.all(abs(made[1] - sine) <= 4 * eps * abs(sine))  # small u, u near 1, small angles: all digits


def test_tails_reach_beyond_eight_sigma_in_float64_and_six_in_float32(core):
    from lmma.kernels import _core

    for dtype, unsigned, reach in (("float64", np.uint64, 8.4), ("float32", np.uint32, 6.6)):
        small = 0 if dtype == "float32" else np.iinfo(np.uint64).max  # the word of the smallest u
        middle = 1 << (np.iinfo(unsigned).bits - 1)  # angle zero
        made = np.empty((2, 8), dtype=dtype)
        _core.pairs(np.array([[small] * 8, [middle, middle + 1] * 4], dtype=unsigned), made)
        assert made[0, 0] > reach
        assert made[0, 1] < -reach


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_do_not_depend_on_how_many_are_drawn(kernels, dtype):
    z = draw(kernels, 40, 301, dtype)
    np.testing.assert_array_equal(draw(kernels, 3, 301, dtype, first=17), z[17:20])


def test_key_generation_and_candidate_each_give_other_numbers(kernels):
    rows = [
        draw(kernels, 1, 64),
        draw(kernels, 1, 64, first=1),
        draw(kernels, 1, 64, generation=6),
        draw(kernels, 1, 64, generation=2**40),
        draw(kernels, 1, 64, key=(KEY[0] ^ 1, KEY[1])),
        draw(kernels, 1, 64, key=(KEY[0], KEY[1] ^ 1)),
    ]
    assert len(np.unique(np.concatenate(rows))) == 6 * 64


@pytest.mark.parametrize("dtype", DTYPES)
def test_moments_are_those_of_the_normal_distribution(kernels, dtype):
    z = draw(kernels, 100, 10_000, dtype).astype(np.float64).ravel()
    # 1e6 numbers: the mean of z^k has standard error sqrt(E z^2k - (E z^k)^2) / 1000; five of them
    for k, (moment, spread) in enumerate(
        [(0, 1), (1, 2), (0, 15), (3, 96), (0, 945), (15, 10170), (0, 135135), (105, 2016000)], start=1
    ):
        assert abs(np.mean(z**k) - moment) < 5 * np.sqrt(spread) / 1000, f"moment {k}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_kolmogorov_smirnov_sees_no_difference(kernels, dtype):
    assert stats.kstest(draw(kernels, 100, 10_000, dtype).ravel(), "norm").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_kolmogorov_smirnov_sees_no_difference_in_ten_million_numbers(kernels, dtype):
    z = draw(kernels, 100, 100_000, dtype)
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-3
    for side in (z[:, :50_000], z[:, 50_000:]):  # cosines and sines apart
        assert stats.kstest(side.ravel(), "norm").pvalue > 1e-3


@pytest.mark.parametrize("dtype", DTYPES)
def test_tail_frequencies_are_right(kernels, dtype):
    z = abs(draw(kernels, 200, 10_000, dtype, generation=77))
    for bound in (2.0, 3.0, 4.0):
        expected = z.size * 2 * stats.norm.sf(bound)  # Poisson: five standard errors
        assert abs(np.count_nonzero(z > bound) - expected) < 5 * np.sqrt(expected)


def test_candidates_coordinates_and_generations_are_independent(kernels):
    # Products of uniform numbers of variance 1, k of them summed up: standard error sqrt(k). Of 250,000
    # such sums the largest lies near 4.5 errors, and beyond 6 with a probability of 0.0005. The second
    # kind sees sizes without signs: a common radius, say.
    z = np.concatenate([draw(kernels, 100, 1000, generation=t) for t in range(10)])
    uniform = special.erf(z / np.sqrt(2))
    for x in (uniform * np.sqrt(3), (abs(uniform) - 0.5) * np.sqrt(12)):
        over_coordinates = x[:100] @ x[:100].T / np.sqrt(1000)
        assert np.max(abs(over_coordinates[~np.eye(100, dtype=bool)])) < 6
        a_generation_later = np.sum(x[:-100] * x[100:], axis=1) / np.sqrt(1000)
        assert np.max(abs(a_generation_later)) < 6
        over_candidates = x[:, :500].T @ x[:, 500:] / np.sqrt(1000)
        assert np.max(abs(over_candidates)) < 6
        assert np.max(abs(np.diagonal(over_candidates))) < 5  # the two numbers of one Box-Muller pair
        assert abs(np.sum(x[:, :-1] * x[:, 1:])) < 5 * np.sqrt(x[:, 1:].size)  # neighbours


def test_runs_of_signs_look_like_coin_tosses(kernels):
    signs = np.signbit(draw(kernels, 64, 16_384)).astype(np.uint8)
    ones = np.packbits(signs, axis=1)
    counts = np.bincount(ones.ravel(), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-4
