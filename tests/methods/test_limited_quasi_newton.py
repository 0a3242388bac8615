"""quasi-newton without a matrix: a diagonal and pairs, O(n) memory, and stencils in blocks of rows."""

import math
import tracemalloc

import numpy as np
import pytest

import lmma
from lmma import problems
from lmma.methods import quasi_newton
from lmma.methods.portfolio import Stage
from lmma.methods.quasi_newton import MatrixModel, PairsModel, Phase
from lmma.numerics.metric import Metric

BOX = [(-1, 1)] * 9 + [(0, 0), (0, None), (None, 4)]


@pytest.fixture
def pairs(monkeypatch):
    """Use a diagonal and pairs for any number of variables."""
    monkeypatch.setattr(quasi_newton, "MATRIX_UP_TO", 0)


@pytest.fixture
def blocks(monkeypatch):
    """Ask for a stencil in the smallest batches."""
    monkeypatch.setattr(quasi_newton, "BATCH_BYTES", 0)


def function(name, n, *, fails=False):
    fun = problems.get(name).function

    def evaluate(X):
        values = np.concatenate([fun(x[None]) for x in X])  # a product of matrices would depend on the batch
        if not fails:
            return values
        digits = np.array([int(abs(float(x.sum())) * 1e12) for x in X])
        return np.where(digits % 20 == 7, np.nan, values)

    return evaluate


def search(fun, n, most=4000, **options):
    """Run a search; return all points, their values, the strategy and the number of batches."""
    x0 = np.zeros(n) if "bounds" in options else np.random.default_rng(3).uniform(-5, 5, n)
    es = lmma.strategy("quasi-newton", x0, 3.0, **{"rng": 1} | options)
    X, values = [], []
    while es.evaluations < most and not es.method.stop():
        X.append(es.ask())
        values.append(fun(X[-1]))
        es.tell(values[-1])
    return np.concatenate(X), np.concatenate(values), es


def test_the_model_depends_on_the_number_of_variables():
    for n, model in ((1000, MatrixModel), (1001, PairsModel)):
        es = lmma.strategy("quasi-newton", np.zeros(n), 1.0)
        assert type(es.method.model) is model


# Blocks of rows


def test_a_batch_of_a_stencil_is_limited_by_the_number_of_variables_alone():
    for n, rows in ((2000, 4000), (10_000, 838), (200_000, 41)):
        for popsize in (None, 12):
            es = lmma.strategy("quasi-newton", np.ones(n), 1.0, popsize=popsize)
            es.method.begin_at(float(n))
            es.tell(np.square(es.ask()).sum(axis=1))
            assert es.method.phase == Phase.FIRST
            assert es.batch_size == rows
            assert es.method.rows_left == 2 * n


@pytest.mark.parametrize("model", ["matrix", "pairs"])
@pytest.mark.parametrize(("name", "options"), [
    ("ellipsoid", {}), ("rotated-ellipsoid", {"fails": True}), ("rosenbrock", {"bounds": BOX}),
    ("different-powers", {"dtype": "float32"}),
])  # fmt: skip
def test_a_stencil_in_blocks_of_rows_is_the_same_search(model, name, options, monkeypatch):
    if model == "pairs":
        monkeypatch.setattr(quasi_newton, "MATRIX_UP_TO", 0)
    options = dict(options)
    fun = function(name, 12, fails=options.pop("fails", False))
    X, values, whole = search(fun, 12, **options)
    monkeypatch.setattr(quasi_newton, "BATCH_BYTES", 0)
    parts, again, divided = search(fun, 12, popsize=3, **options)
    both = min(len(X), len(parts))
    assert both > 100
    assert divided.generation > 2 * whole.generation
    np.testing.assert_array_equal(parts[:both], X[:both])
    np.testing.assert_array_equal(again[:both], values[:both])
    assert divided.method.stop() == whole.method.stop()


@pytest.mark.usefixtures("pairs", "blocks")
def test_coordinates_without_effect_do_not_make_the_function_flat():
    n = 5000
    es = lmma.strategy("quasi-newton", np.full(n, 2.0), 1.0, rng=1)
    while es.evaluations < 2 * n + 20:
        X = es.ask()
        es.tell(np.square(X[:, :3]).sum(axis=1))
        assert not es.stop()
    assert es.best_fun < 1e-20


# Memory


def test_a_search_with_many_variables_needs_no_square_array(monkeypatch):
    n, batch = 3000, 2**20
    monkeypatch.setattr(quasi_newton, "BATCH_BYTES", batch)
    fun = problems.rotated(problems.get("cigar"), n, 1, kind="axis")
    x0 = np.random.default_rng(1).uniform(-5, 5, n)
    bounds = np.full((n, 2), (-5.0, 4.0))
    for options in ({}, {"bounds": bounds}):
        es = lmma.strategy("quasi-newton", np.clip(x0, -5, 4), 3.0, rng=1, **options)
        out, seen = np.empty((batch // (8 * n), n)), set()
        tracemalloc.start()
        while es.evaluations < 8 * n:
            seen.add(es.method.phase)
            X = es.ask(out[: es.batch_size])
            es.tell(fun(X))
        es.get_state(), es.method.metric(), es.result.hess_inv @ np.ones(n)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert {Phase.FIRST, Phase.TRIAL, Phase.SLOPES} <= seen
        assert len(es.method.model.steps) > 2
        assert peak < 4 * batch + 300 * 8 * n < 8 * n * n / 6


def test_the_memory_of_a_run_grows_with_n():
    needed = [quasi_newton.QuasiNewton.memory(n, 20) for n in (1000, 10_000, 100_000)]
    assert needed[2] < 300e6
    assert needed[1] < 150e6


# The metric


def l_bfgs_matrix(steps, changes, scales):
    """Return the inverse Hessian of L-BFGS as a matrix."""
    s, y = steps[-1] / scales, changes[-1] * scales
    H = np.eye(len(s)) * (s @ y) / (y @ y)
    for s, y in zip(steps / scales, changes * scales, strict=True):
        V = np.eye(len(s)) - np.outer(y, s) / (s @ y)
        H = V.T @ H @ V + np.outer(s, s) / (s @ y)
    return scales[:, None] * H * scales


@pytest.mark.usefixtures("pairs")
def test_the_metric_is_that_of_l_bfgs():
    n = 30
    _, _, es = search(function("rotated-ellipsoid", n), n, 900)
    model = es.method.model
    assert len(model.steps) == 12
    C = l_bfgs_matrix(model.steps, model.changes, model.scales)
    wanted = np.random.default_rng(1).normal(size=n)
    found = es.result.hess_inv
    tolerance = 1e-6 * np.abs(C).max()
    np.testing.assert_allclose(found @ wanted, C @ wanted, atol=tolerance)
    np.testing.assert_allclose(found.deviations(), np.sqrt(np.diag(C)), rtol=1e-5)
    metric = es.method.metric()
    np.testing.assert_allclose(metric.sigma**2 / es.sigma**2 * metric.covariance(), C, atol=tolerance)
    np.testing.assert_allclose(metric.deviations(), es.sigma * np.sqrt(np.diag(C)), rtol=1e-5)
    np.testing.assert_allclose(metric.root() @ metric.root().T, es.sigma**2 * C, atol=es.sigma**2 * tolerance)


@pytest.mark.usefixtures("pairs")
def test_the_metric_without_pairs_is_the_diagonal():
    n = 20
    _, _, es = search(function("ellipsoid", n), n, 100)
    H = 2 * 10.0 ** (6 * np.arange(n) / (n - 1))
    assert es.method.model.separable
    np.testing.assert_allclose(es.sigma0**2 * es.result.hess_inv.deviations() ** 2, 1 / H, rtol=0.01)


def test_a_root_of_many_variables_is_refused():
    n = 6000
    metric = Metric(np.zeros(n), 1.0, np.ones(n), np.empty((0, n)), np.empty(0))
    with pytest.raises(ValueError, match=r"root\(\) would need a matrix of 6000 x 6000 numbers"):
        metric.root()
    np.testing.assert_array_equal(metric.deviations(), np.ones(n))


# Bounds


@pytest.mark.usefixtures("pairs", "blocks")
def test_pairs_are_used_without_held_coordinates():
    """A quadratic whose minimum lies outside the box in half of the coordinates: L-BFGS on the others."""
    n = 24
    R = np.linalg.qr(np.random.default_rng(n).normal(size=(n, n)))[0]
    H = R @ np.diag(np.logspace(0, 2, n)) @ R.T
    centre = np.where(np.arange(n) % 2, 0.3, 2.0)

    def fun(X):
        return np.einsum("ij,jk,ik->i", X - centre, H, X - centre)

    es = lmma.strategy("quasi-newton", np.zeros(n), 0.5, bounds=[(-1, 1)] * n, rng=1)
    held = 0
    while not es.method.stop() and es.evaluations < 6000:
        es.tell(fun(es.ask()))
        holds = es.method.model.holds >= 0
        held = max(held, int(holds.sum()))
        if es.method.phase == Phase.TRIAL:
            assert not es.method.trial.p[:, holds].any()
    assert held > 4
    g = 2 * H @ (es.best_x - centre)
    stationary = np.where(es.best_x == 1, g <= 0, np.where(es.best_x == -1, g >= 0, np.abs(g) < 1e-5))
    assert stationary.all()
    assert es.evaluations < 1300  # without pairs, 2960


# In the portfolio


@pytest.mark.usefixtures("pairs")
def test_slopes_begin_from_the_deviations_of_an_evolution_strategy():
    n = 12
    es = lmma.strategy("portfolio", np.full(n, 1.5), 1.0, rng=1, begin="ranks")
    weights = 10.0 ** (4 * np.arange(n) / (n - 1))
    while es.course.stage != Stage.ATTEMPT and es.evaluations < 20_000:
        es.tell(np.square(es.ask()) @ weights)
    assert es.slopes is not None
    model = es.slopes.method.model
    assert type(model) is PairsModel
    np.testing.assert_allclose(model.scales, es.ranks.method.metric().deviations())
    while es.slopes is not None and es.best_fun > 1e-12:
        es.tell(np.square(es.ask()) @ weights)
    assert es.shares["quasi-newton"] < 5 * n


@pytest.mark.usefixtures("pairs")
def test_an_evolution_strategy_takes_the_diagonal_of_slopes():
    n = 400  # without a matrix
    es = lmma.strategy("portfolio", np.full(n, 1.5), 1.0, rng=1)
    weights = 10.0 ** (4 * np.arange(n) / (n - 1))
    es.limit(2 * n + 300)
    while es.course.stage != Stage.RANKS:
        es.tell(np.square(es.ask()) @ weights)
    assert 2 * n < es.evaluations < 2 * n + 60
    scales = es.method.transform.scales.astype(float)
    np.testing.assert_allclose(scales / scales[0], np.sqrt(weights[0] / weights), rtol=0.05)


@pytest.mark.usefixtures("pairs", "blocks")
@pytest.mark.parametrize("budget", [30, 60, 100, 150, 250])
def test_a_stencil_that_does_not_fit_into_the_budget_is_not_begun(budget):
    n, phases = 40, []
    es = lmma.strategy("portfolio", np.full(n, 1.5), 1.0, rng=1)
    es.limit(budget)
    while es.evaluations + es.batch_size <= budget and not es.stop():
        if es.course.stage == Stage.SLOPES:
            phases.append(es.active.method.phase)
        es.tell(problems.get("rosenbrock").function(es.ask()))
    assert es.slopes is None or not len(es.slopes.method.stencil.told)
    assert (Phase.FIRST in phases) == (budget >= 150)
    assert math.isfinite(es.best_fun)
