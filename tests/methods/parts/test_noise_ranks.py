"""Noise measured by ranks: agreement of two evaluations of the same candidates, and the treatment."""

import numpy as np
import pytest

from lmma.layers.noise import APART, EVERY, GOOD, LEAST_RATE, Noise, agreement, mean_of_repeats
from lmma.methods.convergence import Convergence


def noise_of(treatment, n, popsize):
    return Noise(treatment, n, popsize, damps=True, convergence=Convergence(0.0, 0.0, 10))


def probed(noise, generations, values_of, rng, popsize=16):
    """Go through generations as a strategy does; return by what sigma was multiplied."""
    factor = 1.0
    for generation in range(generations):
        candidates = rng.standard_normal(popsize)
        rows = noise.rows(generation)
        again = values_of(candidates[rows]) if len(rows) else None
        values, change = noise.process(values_of(candidates), again, generation, factor)
        noise.track(np.zeros(len(noise.centre)), float(np.mean(values)))
        factor *= change
    return factor


def searched(noise, generations, value_of, n=10, popsize=16):
    """Let ``noise`` treat a sigma of 0.01 that nobody else changes, candidates being around 1; return it."""
    rng, sigma = np.random.default_rng(1), 0.01
    noise.found, noise.differs, noise.quality, noise.next_probe = True, True, 0.3, 10**9
    for generation in range(generations):
        squares = np.sum((1 + sigma * rng.standard_normal((popsize, n))) ** 2, axis=1)
        sigma *= noise.process(value_of(squares), None, generation, sigma)[1]
    return sigma * np.exp(-noise.side * APART / 2)


def test_equal_rankings_agree_by_one():
    values = np.random.default_rng(1).standard_normal(17)
    assert agreement(values, 3 * values + 2) == pytest.approx(1)


def test_independent_rankings_have_agreement_zero_on_average():
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
    noise = noise_of("auto", 3, 16)
    asked = 0
    for generation in range(400):
        rows = noise.rows(generation)
        asked += len(rows)
        values = np.arange(16.0)
        noise.process(values, values[rows] if len(rows) else None, generation)
    assert asked == 2 * (400 // EVERY - 1)
    assert not noise.found


def test_rounding_is_not_noise():
    noise = noise_of("auto", 3, 16)
    rng = np.random.default_rng(1)
    probed(noise, 300, lambda x: x + 1e-6 * rng.standard_normal(len(x)), rng)
    assert (noise.differs, noise.found, noise.probes) == (False, False, 0)


def test_small_noise_is_probed_and_left_alone():
    noise = noise_of("auto", 100, 16)
    rng = np.random.default_rng(1)
    factor = probed(noise, 300, lambda x: x + 0.02 * rng.standard_normal(len(x)), rng)
    assert noise.probes >= 5
    assert noise.quality > 0.9
    assert (noise.found, noise.rate, noise.repeats, factor) == (False, 1.0, 1.0, 1.0)


def test_pure_noise_lowers_the_rate_to_its_limit_and_sigma_rises_as_much():
    # eta sigma alone falls, like 1/sqrt(t), until there were as many candidates as variables
    noise = noise_of("mix", 100, 16)
    rng = np.random.default_rng(1)
    factor = probed(noise, 600, lambda x: rng.standard_normal(len(x)), rng)
    assert noise.found
    assert noise.quality < GOOD
    assert noise.rate == LEAST_RATE
    assert 1 < factor < 1.3 / LEAST_RATE


def typical_sigma(value_of):
    """Return the median of the sigmas that five runs come to."""
    sizes = []
    for seed in range(5):
        noise, rng = noise_of("mix", 10, 16), np.random.default_rng(seed)
        sizes.append(searched(noise, 400, lambda squares, rng=rng: value_of(squares, rng)))
        assert noise.rate == pytest.approx(0.01 / sizes[-1], rel=1e-9)
    return np.median(sizes)


def test_under_additive_noise_candidates_are_so_far_apart_that_curvature_is_like_the_noise():
    # curvature, sqrt(2 n) sigma^2, has k = AIM/2 of the variance: sigma^4 = 49/20 k/(1 - k), sigma = 1.07;
    # the signal, 2 sigma sqrt(n), lowers that, and the slope scatters by about a third
    size = typical_sigma(lambda squares, rng: squares + 7 * rng.standard_normal(16))
    assert 0.5 < size < 1.6


def test_noise_in_proportion_to_fun_does_not_drive_candidates_away():
    # n (1 + sigma^2) N: the slope is 2 sigma^2/(1 + sigma^2), AIM at sigma = 0.73
    size = typical_sigma(lambda squares, rng: squares * (1 + rng.standard_normal(16)))
    assert 0.4 < size < 1.1


def test_the_learning_rate_is_kept_if_sigma_cannot_grow():
    noise = noise_of("mix", 10, 16)
    noise.found, noise.quality, noise.next_probe = True, 0.3, 10**9
    rng = np.random.default_rng(1)
    for generation in range(200):
        noise.process(rng.standard_normal(16), None, generation, 1.0)
    assert noise.rate == 1.0


@pytest.mark.parametrize("values", [np.ones(16), np.full(16, np.nan), np.r_[np.ones(8), np.full(8, np.inf)]])
def test_values_without_a_range_say_nothing_of_sigma(values):
    noise = noise_of("mix", 10, 16)
    noise.found, noise.quality, noise.next_probe = True, 0.3, 10**9
    sigma = 1.0
    for generation in range(50):
        sigma *= noise.process(values, None, generation, sigma)[1]
    assert noise.rate == 1.0
    assert sigma == pytest.approx(np.exp(noise.side * APART / 2))


def test_the_rate_recovers_when_noise_goes():
    noise = noise_of("mix", 100, 16)
    rng = np.random.default_rng(1)
    searched(noise, 100, lambda squares: rng.standard_normal(16))
    low = noise.rate
    noise.next_probe, noise.checked_at = 0, -EVERY
    sigma, candidates = 1.0, rng.standard_normal(16)
    for generation in range(3000):
        rows = noise.rows(generation)
        values = sigma * candidates
        sigma *= noise.process(values, values[rows] if len(rows) else None, generation, sigma)[1]
    assert low < 0.5
    assert (noise.rate, noise.found, noise.side) == (1.0, False, 0)


@pytest.mark.parametrize("treatment", ["average", "population"])
def test_repeats_grow_until_they_are_enough(treatment):
    noise = noise_of(treatment, 100, 16)
    rng = np.random.default_rng(1)
    probed(noise, 400, lambda x: x + 3 * rng.standard_normal(len(x)), rng)
    assert noise.rate == 1.0
    assert noise.repeats > 1.5
    assert (noise.wanted_popsize > 16) == (treatment == "population")
    assert (noise.copies > 1) == (treatment == "average")


def test_steps_of_the_mean_shorten_only_until_there_were_as_many_candidates_as_variables():
    # from 1 to sqrt(80/(80 + t)) at t rate 16 = 1600, t = 180
    noise = noise_of("mix", 1600, 16)
    noise.found, noise.quality = True, 0.0
    for _ in range(1000):
        noise.track(np.zeros(1600), 1.0)
    assert noise.rate * noise.found_for * 16 > 1600
    assert noise.rate == pytest.approx(np.sqrt(80 / 260.4), rel=0.01)
