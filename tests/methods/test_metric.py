"""Properties of a learned metric: its deviations and the ratio of its axes."""

import numpy as np
import pytest

import lmma
from lmma.numerics.metric import MetricOperator

METHODS = [name for name in lmma.methods() if name != "auto"]


def learned(method, n, dtype="float64", sigma0=1.0):
    es = lmma.strategy(method, np.ones(n), sigma0, rng=1, dtype=dtype)
    factors = np.logspace(0, 4, n)
    for _ in range(60):
        es.tell(np.square(es.ask()).astype(np.float64) @ factors)
    return es.result.hess_inv


def dense(metric):
    return np.column_stack([metric @ column for column in np.eye(metric.shape[0])])


@pytest.mark.parametrize("method", METHODS)
def test_deviations_and_axes_are_those_of_the_matrix(method):
    metric = learned(method, 12, sigma0=np.logspace(-2, 1, 12))
    C = dense(metric)
    np.testing.assert_allclose(metric.deviations(), np.sqrt(np.diag(C)), rtol=1e-6)
    np.testing.assert_allclose(metric.deviations(np.array([3, 7])), np.sqrt(np.diag(C))[[3, 7]], rtol=1e-6)
    axes = np.linalg.eigvalsh(C)
    assert metric.axis_ratio() == pytest.approx(np.sqrt(axes[-1] / axes[0]), rel=1e-4)


@pytest.mark.parametrize("method", ["pulse", "lm-ma-es", "sep-cma-es", "csa-es"])
def test_the_axis_ratio_of_many_variables_is_a_close_lower_bound(method):
    metric = learned(method, 150)
    axes = np.linalg.eigvalsh(dense(metric))
    exact = np.sqrt(axes[-1] / axes[0])
    assert 0.7 * exact < metric.axis_ratio() <= exact * (1 + 1e-9)


def test_one_long_axis_across_a_thousand_coordinates_is_found():
    class Stretched:
        direction = np.ones(1000) / np.sqrt(1000)

        def apply(self, z, out=None):
            return z + 99 * (z @ self.direction) * self.direction

        apply_transposed = apply

        def variances_at(self, columns, like):
            return np.full(len(columns), 1 + (100**2 - 1) / 1000)

    assert MetricOperator(Stretched(), None, 1000, np.float64).axis_ratio() == pytest.approx(100, rel=1e-6)


def test_one_variable_and_single_precision():
    assert learned("lm-ma-es", 1).axis_ratio() == 1.0
    single = learned("pulse", 150, dtype="float32")
    assert 1 < single.axis_ratio() < 1e3
    assert single.deviations().dtype == np.float64


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_record_of_what_was_learned_is_that_of_the_operator(method, dtype):
    es = lmma.strategy(method, np.ones(12), np.logspace(-2, 1, 12), rng=1, dtype=dtype)
    R = np.linalg.qr(np.random.default_rng(5).normal(size=(12, 12)))[0]
    for _ in range(80):
        es.tell(np.square((es.ask() * np.logspace(2, -1, 12)) @ R) @ np.logspace(0, 4, 12))
    metric, C = es.method.metric(), dense(es.result.hess_inv)
    share = metric.sigma / es.sigma  # what M does to all directions is part of sigma
    exact = 1e-8 if dtype == "float64" else 1e-2
    np.testing.assert_allclose(
        share**2 * metric.covariance() / np.abs(C).max(), C / np.abs(C).max(), atol=exact
    )
    np.testing.assert_array_equal(metric.mean, es.mean)
    np.testing.assert_allclose(metric.axes @ metric.axes.T, np.eye(len(metric.axes)), atol=1e-5)
    assert np.all(metric.gains > -1)


def test_a_strategy_of_ones_own_has_no_metric_unless_it_says():
    class Walk(lmma.Strategy):
        def _sample(self, out):
            out[...] = self.mean + self.steps * self.generator().standard_normal(out.shape)

        def _update(self, order, values):
            self.mean += 0.0

        @classmethod
        def memory(cls, n, popsize, itemsize=8):
            return 0

    assert Walk(np.ones(3), 1.0).method.metric() is None
