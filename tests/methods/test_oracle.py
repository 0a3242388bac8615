"""Every strategy of Algorithm 1 compared with a literal transcription of the listing."""

import numpy as np
import pytest

import lmma
from lmma.methods.lmma import LMMAParameters
from oracle import Algorithm1

CASES = [
    ("csa-es", {}),
    ("cma-es", {}),
    ("ma-es", {}),
    ("ma-es", {"update": "multiplicative"}),
    ("lm-ma-es", {}),
]


def ellipsoid(X):
    return np.square(X) @ 10.0 ** np.linspace(0, 4, X.shape[1])


@pytest.mark.parametrize("n", [2, 5, 10, 64, 200])
@pytest.mark.parametrize(("method", "options"), CASES, ids=lambda case: str(case))
def test_matches_the_oracle_line_by_line(method, options, n):
    x0 = np.random.default_rng(n).uniform(-5, 5, n)
    es = lmma.strategy(method, x0, 3.0, rng=n, **options)
    oracle = Algorithm1(method, x0, 3.0)
    for _ in range(60):
        X = es.ask()
        expected = oracle.ask(es.method.z.copy())
        np.testing.assert_allclose(X, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
        values = ellipsoid(X)
        es.tell(values)
        oracle.tell(values)
    np.testing.assert_allclose(es.mean, oracle.y, rtol=1e-10)
    np.testing.assert_allclose(es.sigma, oracle.sigma, rtol=1e-10)
    np.testing.assert_allclose(es.method.step.path, oracle.p_sigma, rtol=1e-10, atol=1e-10)
    if method == "lm-ma-es":
        np.testing.assert_allclose(es.method.transform.vectors, oracle.m_i, rtol=1e-10, atol=1e-10)
    if method == "ma-es":
        np.testing.assert_allclose(es.method.transform.matrix, oracle.M, rtol=1e-10, atol=1e-11)
    if method == "cma-es":
        np.testing.assert_allclose(es.method.transform.covariance, oracle.C, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("n", [64, 128, 1000, 8192])
def test_constants_of_lm_ma_es_are_as_printed_in_the_papers_range(n):
    lam = 4 + int(3 * np.log(n))
    p = LMMAParameters(n, lam)
    i = np.arange(1, lam + 1)
    assert p.c_sigma == 2 * lam / n
    np.testing.assert_array_equal(p.c_d, 1 / (1.5 ** (i - 1) * n))
    np.testing.assert_array_equal(p.c_c, lam / (4.0 ** (i - 1) * n))


def test_the_gram_matrix_does_not_drift():
    es = lmma.LMMAES(np.full(40, 3.0), 1.0, rng=1)
    for _ in range(1000 + 63):  # 39 generations after the last exact computation
        es.tell(ellipsoid(es.ask()))
    exact = es.method.transform.vectors @ es.method.transform.vectors.T
    np.testing.assert_allclose(es.method.transform.gram, exact, rtol=1e-9, atol=1e-9 * exact.max())
