"""The strategies beyond Algorithm 1: oracles, invariances, statistics, hard cases."""

import numpy as np
import pytest

import lmma
import oracle_family as oracles

FAMILY = ["lm-ma-es-archive", "acma-es", "lm-cma-es", "vd-cma-es", "sep-cma-es"]
ORACLES = {
    "lm-ma-es-archive": oracles.Archive,
    "acma-es": oracles.ActiveCMA,
    "lm-cma-es": oracles.LMCMA,
    "vd-cma-es": oracles.VD,
    "sep-cma-es": oracles.Separable,
}


def ellipsoid(X, condition=1e4):
    n = X.shape[1]
    return np.square(X) @ condition ** (np.arange(n) / max(1, n - 1))


@pytest.mark.parametrize("n", [1, 2, 3, 6, 11, 24])
@pytest.mark.parametrize("method", FAMILY)
def test_matches_the_oracle_line_by_line(method, n):
    x0 = np.random.default_rng(n).uniform(-5, 5, n)
    es = lmma.strategy(method, x0, 3.0, rng=n)
    oracle = ORACLES[method](x0, 3.0)
    if method == "vd-cma-es":
        oracle.v = list(es.transform.direction)
    for _ in range(80):
        X = es.ask()
        if method == "lm-cma-es":
            oracle.first = es.transform.first
        expected = oracle.ask(es.z)
        np.testing.assert_allclose(X, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
        values = ellipsoid(X)
        es.tell(values)
        oracle.tell(values)
        if min(values) < 1e-7:  # converged: what is left is the rounding of the way here
            break
    np.testing.assert_allclose(es.mean, oracle.y, rtol=1e-10, atol=1e-10 * oracle.sigma)
    np.testing.assert_allclose(es.sigma, oracle.sigma, rtol=1e-10)
    np.testing.assert_allclose(es.transform.path, oracle.p_c, rtol=1e-9, atol=1e-10)
    state = {
        "lm-ma-es-archive": lambda: (es.transform.vectors, oracle.M),
        "acma-es": lambda: (es.transform.covariance, oracle.C),
        "lm-cma-es": lambda: (
            es.transform.inverses[: es.transform.stored],
            [oracle.V[r] for r in oracle.j],
        ),
        "vd-cma-es": lambda: (
            np.stack((es.transform.scales, es.transform.direction)),
            [oracle.D, oracle.v],
        ),
        "sep-cma-es": lambda: (es.transform.variances, oracle.C),
    }[method]
    mine, theirs = state()
    np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())
