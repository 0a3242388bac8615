"""Noise as ranks see it: two evaluations of the same candidates, and what is made of them."""

import numpy as np
import pytest

from lmma.strategies.parts.noise import EVERY, GOOD, LEAST_RATE, Noise, agreement, mean_of_repeats, soft_rate


def probed(noise, generations, values_of, rng, popsize=16):
    """Go through generations as a strategy does; return by what sigma was multiplied."""
    factor = 1.0
    for generation in range(generations):
        candidates = rng.standard_normal(popsize)
        rows = noise.rows(generation)
        again = values_of(candidates[rows]) if len(rows) else None
        values, change = noise.take(values_of(candidates), again, generation)
        factor *= change * noise.follow(np.zeros(len(noise.centre)), float(np.mean(values)))
    return factor


def test_equal_rankings_agree_by_one():
    values = np.random.default_rng(1).standard_normal(17)
    assert agreement(values, 3 * values + 2) == pytest.approx(1)


def test_independent_rankings_agree_by_nothing_on_average():
    # one agreement of 16 candidates scatters by about 0.25: 0.05 is ten standard errors of 2000
    rng = np.random.default_rng(1)
    mean = np.mean([agreement(*rng.standard_normal((2, 16))) for _ in range(2000)])
    assert abs(mean) < 0.05


def test_more_noise_means_less_agreement():
    rng = np.random.default_rng(1)

    def typical(size):
        truth = rng.standard_normal((300, 16))
        pairs = truth[:, None] + size * rng.standard_normal((300, 2, 16))
        return np.mean([agreement(*pair) for pair in pairs])

    levels = [typical(size) for size in (0.1, 0.5, 1, 3)]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] > 0.85
    assert levels[-1] < 0.2


def test_failed_evaluations_are_left_out():
    values = np.arange(8.0)
    again = values.copy()
    again[3] = np.nan
    assert agreement(values, again) == pytest.approx(1)
    assert np.isnan(agreement(values, np.where(values < 3, values, np.nan)))


def test_a_mean_leaves_out_what_failed_and_keeps_every_bit_of_equal_values():
    values = np.array([0.1, 0.3, np.nan, np.nan])
    rows = np.array([0, 1, 2, 3, 0, 1, 2, 3])
    again = np.array([0.3, np.nan, 2.0, np.nan, 0.2, 0.3, 4.0, np.nan])
    assert mean_of_repeats(values, rows, again) == pytest.approx([0.2, 0.3, 3.0, np.nan], nan_ok=True)
    assert mean_of_repeats(values, rows[:2], np.array([0.1, 0.3])) is values


def test_without_noise_two_candidates_in_twenty_generations_are_repeated():
    noise = Noise("auto", 3, 16, damps=True)
    asked = 0
    for generation in range(400):
        rows = noise.rows(generation)
        asked += len(rows)
        values = np.arange(16.0)
        noise.take(values, values[rows] if len(rows) else None, generation)
    assert asked == 2 * (400 // EVERY - 1)
    assert not noise.found


def test_rounding_is_no_noise():
    noise = Noise("auto", 3, 16, damps=True)
    rng = np.random.default_rng(1)
    probed(noise, 300, lambda x: x + 1e-6 * rng.standard_normal(len(x)), rng)
    assert (noise.differs, noise.found, noise.probes) == (False, False, 0)


def test_small_noise_is_probed_and_left_alone():
    noise = Noise("auto", 100, 16, damps=True)
    rng = np.random.default_rng(1)
    factor = probed(noise, 300, lambda x: x + 0.02 * rng.standard_normal(len(x)), rng)
    assert noise.probes >= 5
    assert noise.quality > 0.9
    assert (noise.found, noise.rate, noise.repeats, factor) == (False, 1.0, 1.0, 1.0)


def test_under_strong_noise_the_rate_falls_and_sigma_rises_at_least_as_much():
    noise = Noise("mix", 100, 16, damps=True)
    rng = np.random.default_rng(1)
    factor = probed(noise, 600, lambda x: x + 5 * rng.standard_normal(len(x)), rng)
    assert noise.found
    assert noise.quality < GOOD
    assert LEAST_RATE <= noise.rate <= soft_rate(100, 16)
    assert factor >= 0.999 / noise.rate  # the lift comes on top


def test_the_rate_recovers_when_noise_goes():
    noise = Noise("mix", 100, 16, damps=True)
    rng = np.random.default_rng(1)
    probed(noise, 200, lambda x: x + 5 * rng.standard_normal(len(x)), rng)
    low = noise.rate
    noise.next_probe, noise.judged_at = 0, -EVERY
    probed(noise, 3000, lambda x: x.copy(), rng)
    assert low < 0.5
    assert (noise.rate, noise.found) == (1.0, False)


@pytest.mark.parametrize("treatment", ["average", "population"])
def test_repeats_grow_until_they_are_enough(treatment):
    noise = Noise(treatment, 100, 16, damps=True)
    rng = np.random.default_rng(1)
    probed(noise, 400, lambda x: x + 3 * rng.standard_normal(len(x)), rng)
    assert noise.rate == 1.0
    assert noise.repeats > 1.5
    assert (noise.wanted_popsize > 16) == (treatment == "population")
    assert (noise.copies > 1) == (treatment == "average")


def test_a_mean_that_is_on_its_way_keeps_its_rate():
    noise = Noise("mix", 100, 16, damps=True)
    rng = np.random.default_rng(1)
    probed(noise, 400, lambda x: x + 5 * rng.standard_normal(len(x)), rng)
    before, level = noise.rate, 1e3
    for _ in range(2000):
        level *= 0.99
        noise.follow(np.zeros(100), level)
    assert noise.rate >= before * 0.7  # the block under way may have seen the noise before
