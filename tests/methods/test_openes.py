"""OpenAI-ES compared with its listing, and the effects of a fixed step size."""

import math

import numpy as np
import pytest

import lmma
from lmma.methods.openes import centred_ranks


def tilted(X):
    return np.sum(np.square(X - 1.0) * np.linspace(1, 3, X.shape[1]), axis=1)


class Listing:
    """Salimans et al. 2017 and their program, number by number: theta, ranks, gradient, Adam."""

    def __init__(self, theta, sigma, learning_rate, l2):
        self.theta = [float(x) for x in theta]
        self.sigma, self.alpha, self.l2 = sigma, learning_rate * sigma, l2
        self.m = [0.0] * len(self.theta)
        self.v = [0.0] * len(self.theta)
        self.t = 0

    def step(self, epsilons, values):
        lam, n = len(values), len(self.theta)
        rewards = [-value for value in values]
        ranks = [sum(other < reward for other in rewards) for reward in rewards]  # 0 for the worst
        centred = [rank / (lam - 1) - 0.5 for rank in ranks]
        self.t += 1
        for j in range(n):
            g = sum(centred[i] * epsilons[i][j] for i in range(lam)) / lam
            g_total = -g + self.l2 * self.theta[j]
            self.m[j] = 0.9 * self.m[j] + (1 - 0.9) * g_total
            self.v[j] = 0.999 * self.v[j] + (1 - 0.999) * g_total * g_total
            a = self.alpha * math.sqrt(1 - 0.999**self.t) / (1 - 0.9**self.t)
            self.theta[j] += -a * self.m[j] / (math.sqrt(self.v[j]) + 1e-8)


@pytest.mark.parametrize("popsize", [8, 9])
@pytest.mark.parametrize("l2", [0.0, 0.005])
def test_it_follows_the_listing_number_by_number(popsize, l2):
    es = lmma.OpenES(np.zeros(7), 0.1, rng=1, popsize=popsize, weight_decay=l2, learning_rate=0.7)
    listing = Listing(np.zeros(7), 0.1, 0.7, l2)
    for _ in range(30):
        X = es.ask()
        epsilons = (X - es.mean) / es.sigma
        values = tilted(X)
        es.tell(values)
        listing.step(epsilons.tolist(), values.tolist())
        np.testing.assert_allclose(es.mean, listing.theta, rtol=1e-10, atol=1e-12)
    assert es.sigma == 0.1


def test_candidates_are_mirrored_pairs_by_default():
    X = lmma.OpenES(np.zeros(5), 1.0, rng=1, popsize=7).ask()
    np.testing.assert_array_equal(X[1:6:2], -X[0:5:2])
    assert not np.allclose(X[6], -X[5])
    X = lmma.OpenES(np.zeros(5), 1.0, rng=1, popsize=6, mirrored=False).ask()
    assert not np.allclose(X[1], -X[0])


def test_centred_ranks_sum_to_nothing_and_failures_share_the_last():
    np.testing.assert_allclose(centred_ranks(5, 5), [0.5, 0.25, 0, -0.25, -0.5])
    np.testing.assert_allclose(centred_ranks(5, 3), [0.5, 0.25, 0, -0.375, -0.375])


def test_a_decay_lets_it_converge():
    result = lmma.minimize(
        tilted, np.zeros(8), 0.5, method="open-es", rng=1, vectorized=True, popsize=32, decay=0.98, tolx=1e-6
    )
    assert result.success
    np.testing.assert_allclose(result.mean, 1.0, atol=1e-3)


def test_weight_decay_pulls_to_zero():
    for decay, low, high in ((0.0, 0.8, 1.2), (1.0, -0.2, 0.2)):
        es = lmma.OpenES(np.full(10, 1.0), 0.05, rng=1, popsize=40, weight_decay=decay)
        for _ in range(400):
            es.tell(tilted(es.ask()))
        assert low < es.mean.mean() < high


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"beta_2": 1.0}, "beta_2 must lie"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"decay": 1.1}, "decay"),
        ({"mirrored": 1}, "mirrored must be True or False"),
        ({"c_sigma": 0.1}, "unknown option"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else "",
)
def test_constants_that_make_no_sense_are_rejected(option, words):
    with pytest.raises((ValueError, TypeError), match=words):
        lmma.OpenES(np.zeros(3), 1.0, **option)


def test_single_precision_is_kept_and_comes_as_near():
    es = lmma.OpenES(np.zeros(20), 0.1, rng=1, popsize=20, dtype="float32")
    for _ in range(200):
        es.tell(tilted(es.ask()))
    assert es.mean.dtype == es.method.step.first.dtype == es.method.step.second.dtype == np.float32
    np.testing.assert_allclose(es.mean, 1.0, atol=0.2)
