"""Kernels of pulse: compiled results equal NumPy's and those of dense linear algebra."""

import numpy as np
import pytest

from lmma.kernels import reference_pulse
from lmma.kernels.reference_pulse import Limits, Metric, Ranks, Rates, ThroughCore

try:
    from lmma.kernels import _core, native
except ImportError:
    _core = native = None

DTYPES = ["float64", "float32"]
RATES = Rates(0.05, 0.3, 0.01, 6.0, 0.02, 0.05, 0.04, 0.03, 0.02, 0.5, 0.04)
SHAPES = [(20, 12, 7, 7), (2, 6, 1, 1), (300, 70, 14, 10), (1003, 24, 17, 17), (40, 200, 9, 0), (7, 1, 0, 3)]


@pytest.fixture(params=["portable", "avx2"])
def pulse(request):
    """The compiled kernels of pulse, for each instruction set."""
    if _core is None:
        pytest.skip("the compiled core was not built")
    before = _core.instructions()
    try:
        _core.instructions(request.param)
    except ValueError:
        pytest.skip("this machine lacks the instructions")
    yield native
    _core.instructions(before)


@pytest.fixture(params=["numpy", "compiled"])
def either(request):
    """The kernels of pulse in NumPy, and compiled."""
    if request.param == "compiled" and native is None:
        pytest.skip("the compiled core was not built")
    return reference_pulse if request.param == "numpy" else native


def problem(n, rows, longs, shorts, dtype="float64", matrix=False, seed=0):
    """Return the arguments of ``pulse_learn``: some axes active, some not."""
    rng = np.random.default_rng(seed)
    axes = np.zeros((longs + shorts, n))
    axes[:longs] = np.linalg.qr(rng.standard_normal((n, longs)))[0].T
    axes[longs:] = np.linalg.qr(rng.standard_normal((n, shorts)))[0].T
    gains = rng.uniform(0.1, 20, longs + shorts) * (rng.random(longs + shorts) < 0.6)
    sizes = gains + rng.uniform(0, 3, longs + shorts)
    ranks = np.sort(rng.standard_normal(rows))[::-1].copy()
    z = rng.standard_normal((rows, n)).astype(dtype)
    paths = rng.standard_normal((2, n)).astype(dtype)
    axes, scales = axes.astype(dtype), np.exp(4 * rng.standard_normal(n)).astype(dtype)
    through_core = None
    if matrix:
        A, X = np.eye(n) + 0.3 * rng.standard_normal((n, n)) / np.sqrt(n), np.vstack((paths, axes))
        shown = rng.standard_normal((rows, n)).astype(dtype)  # that it is A B L z makes no difference here
        damping = rng.uniform(0.5, 1, n).astype(dtype)
        duals, few = (z @ np.linalg.inv(A)).astype(dtype), (X @ A.T).astype(dtype)
        through_core = ThroughCore(
            shown, duals, few, (X @ np.linalg.inv(A)).astype(dtype), shown[0] / 2, damping
        )
    weights = np.maximum(ranks, 0) / 3
    ranked = Ranks(ranks, weights, np.sum(ranks > 0), np.sum(ranks < 0), 3)
    return (
        z,
        paths,
        ranked,
        Metric(scales, axes, longs, sizes, gains, rng.uniform(1, 9, shorts)),
        RATES,
        through_core,
    )


def difference(a, b):
    """Return the largest difference, relative to the largest number."""
    assert a.shape == b.shape
    return np.abs(a - b).max() / (np.abs(b).max() + 1e-30) if a.size else 0.0


@pytest.mark.parametrize("matrix", [False, True], ids=["identity", "matrix"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_learning_agrees_with_numpy(pulse, shape, dtype, matrix):
    if matrix and shape[0] > 500:
        pytest.skip("long rows are the same with a matrix")
    ours, theirs = problem(*shape, dtype, matrix), problem(*shape, dtype, matrix)
    learned, expected = pulse.pulse_learn(*ours), reference_pulse.pulse_learn(*theirs)
    tolerance = 1e-13 if dtype == "float64" else 1e-5
    learned = learned._replace(
        core_rows=learned.core_rows[: len(expected.core_rows)]
    )  # the others are not used
    for a, b in zip(learned, expected, strict=True):
        assert difference(a, b) < tolerance
    assert difference(ours[3].scales, theirs[3].scales) < tolerance
    assert difference(ours[3].scales, problem(*shape, dtype, matrix)[3].scales) > 0.001  # D has moved


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_candidates_agree_with_numpy(pulse, shape, dtype):
    metric, (n, rows, longs, _) = problem(*shape, dtype)[3], shape
    cross = metric.axes[longs:].astype(float) @ metric.axes[:longs].T
    mean = np.linspace(-1, 1, n).astype(dtype)
    made = []
    for kernels in (pulse, reference_pulse):
        z, out = np.empty((rows, n), dtype), np.empty((rows, n), dtype)
        kernels.pulse_sample((1, 2), (3, 4), metric, cross, mean, np.abs(mean), z, out)
        made.append((z, out))
    for a, b in zip(*made, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 * 60 if dtype == "float64" else 3e-5)


def test_candidates_are_those_of_the_two_factors(either):
    metric = problem(30, 5, 4, 6)[3]
    U, V, s, h = metric.axes[:4], metric.axes[4:], metric.gains[:4], metric.gains[4:]
    L = np.eye(30) + U.T @ np.diag(np.sqrt(1 + s) - 1) @ U
    B = np.eye(30) + V.T @ np.diag(1 / np.sqrt(1 + h) - 1) @ V
    z, out = np.empty((5, 30)), np.empty((5, 30))
    mean, steps = np.arange(30.0), np.linspace(1, 2, 30)
    either.pulse_sample((1, 2), (3, 0), metric, V @ U.T, mean, steps, z, out)
    np.testing.assert_allclose(out, mean + steps * (z @ L @ B.T), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 5), (13, 20), (29, 1003), (60, 7), (128, 130), (3000, 20), (200, 300)])
def test_leading_axes_are_those_of_lapack(either, shape, dtype):
    rng = np.random.default_rng(2)
    rows = (rng.standard_normal(shape) * np.logspace(0, -3, shape[0])[:, None]).astype(dtype)
    k = min(6, *shape)
    axes = np.full((k, shape[1]), 7.0, dtype)
    sizes, fourths = either.leading_axes(rows, axes)
    wide = rows.astype(float)
    expected = np.linalg.svd(wide, compute_uv=False)[:k] ** 2
    kept = sizes > 0
    tolerance = 1e-12 if dtype == "float64" else 2e-4
    np.testing.assert_allclose(sizes[kept], expected[kept], rtol=tolerance * 10)
    assert np.all(expected[~kept] < 200 * np.finfo(dtype).eps * expected[0])
    assert np.all(axes[~kept] == 0)
    np.testing.assert_allclose(axes[kept] @ axes[kept].T, np.eye(kept.sum()), atol=100 * tolerance)
    residual = np.linalg.norm((axes @ wide.T) @ wide - sizes[:, None] * axes, axis=1)
    assert np.all(residual[kept] < 10 * tolerance * sizes[0])
    np.testing.assert_allclose(fourths, np.sum(axes.astype(float) ** 4, axis=1), rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((4, 6)),
        np.eye(6),
        np.vstack([np.ones((3, 6))]),
        np.diag([1e-8, 1.0, 1e8, 1e8]) @ np.ones((4, 6)),
        1e150 * np.eye(4, 6),
    ],
    ids=["nothing", "all-equal", "one-direction", "badly-scaled", "huge"],
)
def test_leading_axes_of_difficult_rows(either, rows):
    axes = np.full((3, 6), 7.0)
    sizes, _ = either.leading_axes(rows, axes)
    expected = np.sort(np.linalg.svd(rows, compute_uv=False) ** 2)[::-1][:3]
    expected[expected <= max(1e-12, 1e-13 * expected[0])] = 0.0
    np.testing.assert_allclose(sizes, expected, rtol=1e-12)
    kept = sizes > 0
    np.testing.assert_allclose(axes @ axes.T, np.diag(kept.astype(float)), atol=1e-12)


def test_rows_that_are_not_finite_end_the_search_for_axes(pulse):
    axes = np.zeros((3, 9))
    sizes, _ = pulse.leading_axes(np.full((12, 9), np.nan), axes)
    assert np.all(sizes == 0)
    assert np.all(axes == 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("power", [-0.5, 0.5, 2.0])
def test_stretched_is_a_power_of_the_matrix(either, power, dtype):
    metric = problem(50, 3, 0, 6, dtype)[3]
    rows = np.random.default_rng(1).standard_normal((60, 50)).astype(dtype)
    matrix = np.eye(50) + (metric.axes.T.astype(float) * ((1 + metric.gains) ** power - 1)) @ metric.axes
    tolerance = 1e-11 if dtype == "float64" else 1e-2 if power == 2 else 1e-4
    np.testing.assert_allclose(
        either.stretched(rows, metric.axes, metric.gains, power), rows @ matrix, atol=tolerance
    )
    np.testing.assert_allclose(
        either.stretched(rows.copy()[0], metric.axes, metric.gains, power), rows[0] @ matrix, atol=tolerance
    )


def test_rows_may_be_stretched_in_place(either):
    metric = problem(50, 3, 0, 6)[3]
    rows = np.random.default_rng(1).standard_normal((60, 50))
    expected = either.stretched(rows, metric.axes, metric.gains, 0.5)
    assert either.stretched(rows, metric.axes, metric.gains, 0.5, rows) is rows
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("n", "longs", "shorts"), [(20, 9, 9), (300, 6, 8), (5, 2, 0), (200, 150, 7)], ids=str
)
def test_axes_are_renewed_as_in_numpy(pulse, n, longs, shorts, dtype):
    rng = np.random.default_rng(7)
    F = rng.standard_normal((longs + 6, n)) * np.logspace(1, -1, longs + 6)[:, None]
    H = rng.standard_normal((shorts + 5, n)) * np.logspace(0.8, -1, shorts + 5)[:, None] / np.sqrt(n)
    made = []
    for kernels in (pulse, reference_pulse):
        metric = problem(n, 4, longs, shorts, dtype)[3]
        path = np.zeros(n, dtype)
        kernels.pulse_renew(
            F.astype(dtype), H.astype(dtype), metric, path, Limits(5.0, 1.6, min(n / 4, 16), 0.3)
        )
        made.append((metric, path))
    (ours, path), (theirs, expected) = made
    tolerance = 1e-10 if dtype == "float64" else 2e-3
    assert difference(path, expected) < tolerance
    assert difference(ours.sizes, theirs.sizes) < tolerance
    assert difference(ours.gains, theirs.gains) < tolerance
    assert difference(ours.concentration, theirs.concentration) < 10 * tolerance
    kept = theirs.sizes > 1e-3 * theirs.sizes.max()  # of others rounding decides
    along = np.abs(np.sum(ours.axes[kept] * theirs.axes[kept], axis=1, dtype=float))
    np.testing.assert_allclose(along, 1, atol=10 * tolerance)
    assert np.any(theirs.gains > 0)
    assert np.any(theirs.gains[longs:] == 0) == (shorts > 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_change_no_bit(pulse, dtype):
    def everything(threads):
        rng = np.random.default_rng(5)
        n, longs, k = 50_001, 4, 9
        axes = (rng.standard_normal((k, n)) / np.sqrt(n)).astype(dtype)
        gains = np.array([3.0, 0, 1, 0, 2, 0, 7, 1, 0])
        metric = Metric(
            np.exp(rng.standard_normal(n)).astype(dtype), axes, longs, gains + 1, gains, np.ones(5)
        )
        cross = axes[longs:].astype(float) @ axes[:longs].T
        z, out = np.empty((12, n), dtype), np.empty((12, n), dtype)
        mean, steps = np.zeros(n, dtype), np.ones(n, dtype)
        pulse.pulse_sample((1, 2), (3, 4), metric, cross, mean, steps, z, out, threads=threads)
        v = np.linspace(1, -1, 12)
        paths = rng.standard_normal((2, n)).astype(dtype)
        ranked = Ranks(v, np.maximum(v, 0), 6, 6, 1)
        learned = pulse.pulse_learn(z, paths, ranked, metric, RATES, threads=threads)
        new = np.empty((5, n), dtype)
        sizes, fourths = pulse.leading_axes(learned.short_rows, new, threads=threads)
        longer = pulse.stretched(learned.long_rows, new, sizes, 0.5, threads=threads)
        path = np.zeros(n, dtype)
        pulse.pulse_renew(*learned[:2], metric, path, Limits(0.5, 0.1, 4.0, 0.3), threads=threads)
        return z, out, *learned, *metric[:2], *metric[3:], new, sizes, fourths, longer, path

    one = everything(1)
    for threads in (2, 5):
        for a, b in zip(one, everything(threads), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("count", "against", "n"), [(7, 3, 20), (1, 1, 1), (30, 0, 25), (5, 5, 48), (0, 0, 9)]
)
def test_squares_of_rows_are_added_below_the_diagonal(pulse, count, against, n, dtype):
    rng = np.random.default_rng(4)
    rows, total = rng.standard_normal((count, n)).astype(dtype), rng.standard_normal((n, n)).astype(dtype)
    signs = np.where(np.arange(count) < count - against, 1.0, -1.0)
    expected = total + np.tril((rows.T * signs) @ rows - 0.3 * np.eye(n))
    for kernels in (pulse, reference_pulse):
        result = total.copy()
        kernels.add_squares(rows, against, 0.3, result)
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13 if dtype == "float64" else 1e-5)
        np.testing.assert_array_equal(np.triu(result, 1), np.triu(total, 1))


def test_squares_of_rows_are_the_same_with_any_number_of_threads(pulse):
    rows, totals = np.random.default_rng(5).standard_normal((60, 500)), []
    for threads in (1, 2, 5):
        totals.append(np.zeros((500, 500)))
        pulse.add_squares(rows[:, ::-1].copy(), 20, 0.1, totals[-1], threads=threads)
    np.testing.assert_array_equal(totals[0], totals[1])
    np.testing.assert_array_equal(totals[0], totals[2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7, 20, 64, 65])
def test_a_matrix_and_its_inverse_grow_together(pulse, n, dtype):
    rng = np.random.default_rng(6)
    matrix = np.eye(n) + 0.3 * rng.standard_normal((n, n)) / np.sqrt(n)
    half = rng.standard_normal((n, n)) / (8 * n)
    change = np.tril(half + half.T)  # G; what lies above its diagonal is not looked at
    grown = matrix @ (np.eye(n) + (half + half.T) / 2)
    rounding = 1e-12 if dtype == "float64" else 1e-4
    for kernels in (pulse, reference_pulse):
        columns, inverse = matrix.T.astype(dtype, order="C"), np.linalg.inv(matrix).astype(dtype)
        waiting = change.astype(dtype)
        kernels.grow(waiting, columns, inverse)
        np.testing.assert_allclose(columns.T, grown, rtol=0, atol=rounding)
        np.testing.assert_allclose(inverse, np.linalg.inv(grown), rtol=0, atol=rounding)
        assert not waiting.any()


def test_a_change_that_is_not_positive_definite_grows_all_the_same(pulse):
    change, matrix = np.diag([-5.0, 0.1, 0.2]), np.diag([1.0, 2.0, 4.0])
    columns, inverse = matrix.copy(), np.linalg.inv(matrix)
    pulse.grow(change, columns, inverse)
    np.testing.assert_allclose(np.diag(columns), [-1.5, 2.1, 4.4])
    np.testing.assert_allclose(np.diag(inverse), 1 / np.diag(columns))


def test_bad_input_raises_instead_of_crashing(pulse):
    z, paths, ranked, metric, rates, through_core = problem(20, 12, 3, 4, matrix=True)

    def refused(**changed):
        good = {
            "z": z,
            "paths": paths,
            "ranked": ranked,
            "metric": metric,
            "rates": rates,
            "through_core": through_core,
        }
        with pytest.raises((ValueError, TypeError)):
            pulse.pulse_learn(**{**good, **changed})

    refused(z=z[:, :19].copy())
    refused(z=z.astype("float32"))
    refused(paths=paths[:1])
    refused(rates=rates[:10])
    refused(metric=metric._replace(concentration=metric.concentration[1:]))
    refused(through_core=through_core._replace(paths_and_axes_duals=through_core.paths_and_axes_duals[1:]))
    refused(through_core=through_core._replace(path=through_core.path[1:]))
    refused(ranked=ranked._replace(ranks=ranked.ranks[1:]))
    refused(ranked=ranked._replace(better=ranked.better + 1))
    refused(ranked=ranked._replace(weights=ranked.weights.astype("float32")))
    refused(metric=metric._replace(axes=metric.axes[:-1]))
    refused(metric=metric._replace(scales=metric.scales[1:]))
    refused(metric=metric._replace(longs=8))
    refused(metric=metric._replace(sizes=metric.sizes[1:]))
    refused(through_core=through_core._replace(images=through_core.images[1:]))
    refused(through_core=through_core._replace(damping=through_core.damping[1:]))

    def not_renewed(**changed):
        rows = {"F": np.ones((5, 20)), "H": np.ones((9, 20)), "path": np.ones(20)}
        good = {**rows, "metric": metric, "limits": Limits(5.0, 1.6, 4.0, 0.1)}
        with pytest.raises((ValueError, TypeError)):
            pulse.pulse_renew(**{**good, **changed})

    not_renewed(F=np.ones((3, 20)))  # no path among them
    not_renewed(H=np.ones((9, 19)))
    not_renewed(path=np.ones(19))
    not_renewed(limits=(5.0, 1.6, 4.0))
    not_renewed(metric=metric._replace(concentration=np.ones(3)))
    fixed = metric.gains.copy()
    fixed.flags.writeable = False
    not_renewed(metric=metric._replace(gains=fixed))
    with pytest.raises(ValueError):
        _core.leading_axes(np.ones((200, 300)), np.ones((3, 300)), np.ones(3), np.ones(3), native.KEPT, 1)
    with pytest.raises(ValueError):
        pulse.leading_axes(np.ones((4, 6)), np.ones((3, 5)))
    with pytest.raises(ValueError):
        pulse.stretched(np.ones((4, 6)), np.ones((3, 6)), np.ones(2), 0.5)
    for rows, against, total in (
        (np.ones((4, 6)), 5, np.ones((6, 6))), (np.ones((4, 6)), -1, np.ones((6, 6))),
        (np.ones((4, 6)), 1, np.ones((6, 5))), (np.ones((4, 6)), 1, np.ones((6, 6), "float32")),
        (np.ones((6, 4)).T, 1, np.ones((6, 6))),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError, OverflowError)):
            pulse.add_squares(rows, against, 0.1, total)
    square = np.eye(6)
    for wrong in ((np.eye(5), square, square), (square, np.eye(5), square), (square, square, np.eye(6, 5))):
        with pytest.raises(ValueError):
            pulse.grow(*(array.copy() for array in wrong))
    with pytest.raises(TypeError):
        pulse.grow(square, square.astype("float32"), square)
    with pytest.raises(ValueError):
        _core.grow(np.eye(65), np.eye(65), np.eye(65))
    cross, out = np.zeros((4, 3)), np.empty((2, 20))
    for wrong in ({"cross": np.zeros((3, 4))}, {"mean": np.zeros(19)}, {"z": np.empty((3, 20))}):
        good = {
            "cross": cross,
            "mean": np.zeros(20),
            "steps": np.ones(20),
            "z": np.empty((2, 20)),
            "out": out,
        }
        with pytest.raises((ValueError, TypeError)):
            pulse.pulse_sample((1, 2), (0, 0), metric, **{**good, **wrong})
