"""Arguments of the compiled core are converted and checked before anything is written."""

import ctypes
import importlib.util
import os
import sys

import numpy as np
import pytest

from lmma import kernels
from lmma.kernels.reference_pulse import Learned, Metric, Ranks, Rates, ThroughCore

KEY = (3, 4)
N, ROWS, M = 12, 3, 4
MISTAKES = (ValueError, TypeError, OverflowError)


def sampling():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((M, N))
    return {
        "key": KEY, "generation": 1, "first": 0, "vectors": vectors, "active": M, "gram": vectors @ vectors.T,
        "c_d": np.full(M, 0.1), "mean": np.zeros(N), "step": 1.0, "z": np.full((ROWS, N), np.nan),
        "out": np.full((ROWS, N), np.nan), "threads": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step", 10**400), ("step", -(10**400)), ("threads", 2**80), ("threads", -(2**80)), ("threads", -1),
        ("threads", 1.5), ("generation", -1), ("generation", 2**64), ("generation", None), ("first", -1),
        ("first", 2**64), ("first", 2**64 - 1), ("first", 2**63), ("active", -1), ("active", 2**70),
        ("key", (2**64, 0)), ("key", (0, -1)),
    ],
    ids=lambda value: str(value)[:24],
)  # fmt: skip
def test_a_number_that_does_not_fit_is_rejected_and_nothing_written(core, name, value):
    arguments = {**sampling(), name: value}
    before = arguments["vectors"].copy()
    update = (np.full(M, 0.5), np.ones(M), np.ones(N))
    with pytest.raises(MISTAKES):
        core.lm_sample(**arguments, update=update)
    assert np.isnan(arguments["out"]).all()
    assert np.isnan(arguments["z"]).all()
    np.testing.assert_array_equal(arguments["vectors"], before)


@pytest.mark.parametrize(
    ("name", "value"),
    [("step", 10**400), ("generation", -1), ("first", 2**70)],
    ids=["step", "generation", "first"],
)
def test_the_error_names_the_argument(core, name, value):
    with pytest.raises(OverflowError, match=name):
        core.lm_sample(**{**sampling(), name: value})


@pytest.mark.parametrize("name", ["rate", "share"])
@pytest.mark.parametrize("value", [10**400, "much", None], ids=["huge", "text", "none"])
def test_rates_that_are_not_finite_do_not_change_the_scales(core, name, value):
    arguments = {
        "scales": np.ones(N), "rate": 0.1, "weights": np.ones(2), "order": np.arange(2),
        "rows": np.ones((ROWS, N)), "path": np.ones(N), "share": 0.3,
    }  # fmt: skip
    with pytest.raises(MISTAKES):
        core.rescale(**{**arguments, name: value})
    assert np.all(arguments["scales"] == 1.0)


def test_a_length_that_is_not_finite_does_not_change_the_gram_matrix(core):
    gram = np.eye(M)
    for length2 in (10**400, "long", None):
        with pytest.raises(MISTAKES):
            core.lm_gram(gram, np.full(M, 0.5), np.ones(M), np.ones(M), length2)
    np.testing.assert_array_equal(gram, np.eye(M))


def test_a_path_that_cannot_take_the_step_stays_as_it_is(core):
    path = np.ones(N)
    for keep, gain, step in (("much", 0.5, path), (0.5, None, path), (0.5, 0.5, np.ones(N - 1))):
        with pytest.raises(MISTAKES):
            core.fade(path, keep, gain, step)
    with pytest.raises(MISTAKES):
        core.fade(path, 0.5, 0.5, np.ones(N, np.float32))
    assert np.all(path == 1.0)


SAME_SIZE = [np.int64, np.uint64, np.complex64, "S8", "V8", "M8[s]", ">f8"]


@pytest.mark.parametrize("dtype", SAME_SIZE)
@pytest.mark.parametrize("name", ["vectors", "gram", "c_d", "mean", "step", "z", "out"])
def test_other_types_of_eight_bytes_are_rejected(core, name, dtype):
    arguments = sampling()
    shape = (N,) if name == "step" else arguments[name].shape
    with pytest.raises(MISTAKES):
        core.lm_sample(**{**arguments, name: np.zeros(shape, dtype)})


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, "S4", ">f4"])
def test_other_types_of_four_bytes_are_rejected(core, dtype):
    with pytest.raises(MISTAKES):
        core.normals(KEY, 0, 0, np.zeros((ROWS, N), dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.uint64, np.int32, np.bool_, ">i8"])
def test_indices_of_other_types_are_rejected(core, dtype):
    with pytest.raises(TypeError, match="order"):
        core.recombine(np.ones(2), np.arange(2).astype(dtype), np.ones((ROWS, N)), np.zeros(N))


def test_words_of_the_wrong_width_are_rejected(core):
    from lmma.kernels import _core

    for real, unsigned in ((np.float64, np.uint32), (np.float32, np.uint64), (np.float64, np.int64)):
        with pytest.raises(TypeError, match="words"):
            _core.pairs(np.zeros((2, 8), unsigned), np.zeros((2, 8), real))


@pytest.mark.parametrize("make", [ctypes.c_int64, ctypes.c_longlong, ctypes.c_ssize_t])
def test_indices_may_come_from_any_exporter_of_the_right_width(core, make):
    out = np.zeros(N)
    core.recombine(np.ones(2), (make * 2)(0, 2), np.arange(ROWS * N, dtype=float).reshape(ROWS, N), out)
    np.testing.assert_array_equal(out, 2.0 * np.arange(N) + 2 * N)


def test_rows_off_their_alignment_are_rejected(core):
    memory = np.zeros(8 * ROWS * N + 1, np.uint8)
    crooked = memory[1:].view(np.float64).reshape(ROWS, N)
    with pytest.raises(ValueError, match="out"):
        core.normals(KEY, 0, 0, crooked)


class Meddler:
    """A number whose conversion alters an array, as another thread could while the GIL is released."""

    def __init__(self, number, order, index):
        self.number, self.order, self.index = number, order, index

    def __index__(self):
        self.order[:] = self.index
        return self.number


def test_indices_altered_during_a_call_do_not_lead_out_of_the_array(core):
    whole = np.full((6, N), 1e6)  # what lies behind the rows
    rows = whole[:3]
    rows[:] = np.arange(3)[:, None]
    weights = np.ones(2)
    for kernel in (core.recombine, core.squares):
        order, out = np.array([1, 2]), np.zeros(N)
        kernel(weights, order, rows, out, threads=Meddler(1, order, 5))
        np.testing.assert_array_equal(out, 3.0 if kernel is core.recombine else 5.0)
    order, scales = np.array([1, 2]), np.ones(N)
    core.rescale(scales, 1.0, weights, order, rows, np.ones(N), 0.0, threads=Meddler(1, order, 5))
    np.testing.assert_allclose(scales, np.exp(5.0), rtol=1e-12)
    order, projections = np.array([1, 2]), np.full((6, M), 1e6)
    projections[:3] = np.arange(3)[:, None]
    active = Meddler(0, order, 5)
    u, _ = core.lm_direction(
        weights, order, projections[:3], active, np.eye(M), np.full(M, 0.1), np.zeros((M, N)), np.zeros(N)
    )
    np.testing.assert_array_equal(u, 3.0)


def learning():
    """Arguments of the core's pulse_learn, as native.py passes them."""
    rng = np.random.default_rng(2)
    rows, n, longs, k = 6, N, 2, 5
    gains = np.array([1.0, 0.0, 2.0, 0.5, 0.0])
    axes = np.linalg.qr(rng.standard_normal((n, k)))[0].T.copy()
    z, paths = rng.standard_normal((rows, n)), rng.standard_normal((2, n))
    v, w = np.array([0.5, 0.3, 0.2, -0.2, -0.3, -0.5]), np.array([0.6, 0.3, 0.1, 0.0, 0.0, 0.0])
    metric = Metric(np.ones(n), axes, longs, gains + 1.0, gains, np.ones(k - longs))
    images, duals = z.copy(), z.copy()
    few = np.vstack((paths, axes))
    through_core = ThroughCore(images, duals, few, few.copy(), rng.standard_normal(n), np.ones(n))
    rates = Rates(0.1, 0.1, 0.01, 1.0, 0.1, 0.1, 0.1, 0.05, 0.05, 0.5, 0.1)
    learned = Learned(*(np.zeros((count, n)) for count in (longs + 1 + 3, k - longs + 3, rows + 1 + k)))
    return {
        "z": z, "paths": paths, "ranked": Ranks(v, w, 3, 3, 1), "metric": metric, "rates": rates,
        "constants": (0.3, 1e-30), "through_core": through_core, "learned": learned, "threads": 1,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["ranks", "weights", "gains", "sizes", "concentration"])
def test_numbers_altered_during_a_call_do_not_change_what_pulse_learns(core, name):
    from lmma.kernels import _core

    expected, altered = learning(), learning()
    _core.pulse_learn(*expected.values())
    array = getattr(altered["ranked"] if name in ("ranks", "weights") else altered["metric"], name)
    value = -7.0 if name == "ranks" else 7.0  # more rows would be selected than the arrays have places for
    _core.pulse_learn(*{**altered, "threads": Meddler(1, array, value)}.values())
    assert np.all(array == value)
    np.testing.assert_array_equal(altered["metric"].scales, expected["metric"].scales)
    for one, other in zip(altered["learned"], expected["learned"], strict=True):
        np.testing.assert_array_equal(one, other)


def test_rates_altered_during_a_call_do_not_change_the_sample(core):
    update = (np.full(M, 0.5), np.full(M, 0.1), np.ones(N))
    made = []
    for altered in (None, "c_d", 0, 1):
        arguments = sampling()
        rates = tuple(array.copy() for array in update)
        if altered is not None:
            array = arguments["c_d"] if altered == "c_d" else rates[altered]
            arguments["threads"] = Meddler(1, array, 0.9)
        core.lm_sample(**arguments, update=rates)
        made.append(arguments["out"])
    for out in made[1:]:
        np.testing.assert_array_equal(out, made[0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ranked", None), ("ranked", ()), ("ranked", [1, 2, 3, 4, 5]), ("ranked", (None,) * 5),
        ("metric", ()), ("metric", (1,) * 6), ("metric", np.ones((6, N))), ("rates", ()), ("rates", None),
        ("rates", ("much",) * 11), ("rates", (10**400,) * 11), ("constants", (0.3,)), ("constants", 0.3),
        ("through_core", ()), ("through_core", (None,) * 6), ("through_core", 3), ("learned", ()),
        ("learned", (None,) * 3), ("learned", None),
    ],
    ids=lambda value: str(value)[:24],
)  # fmt: skip
def test_tuples_that_do_not_fit_are_rejected_and_nothing_learned(core, name, value):
    from lmma.kernels import _core

    arguments = learning()
    with pytest.raises(MISTAKES):
        _core.pulse_learn(*{**arguments, name: value}.values())
    assert np.all(arguments["metric"].scales == 1.0)
    assert not arguments["learned"].long_rows.any()


def test_each_module_object_has_a_state_of_its_own():
    name = "lmma.kernels._core"
    spec = importlib.util.find_spec(name)
    if spec is None:
        pytest.skip(f"{name} was not built")
    one, two = (importlib.util.module_from_spec(spec) for _ in range(2))
    for module in (one, two):
        spec.loader.exec_module(module)
    assert one is not two
    before = two.instructions()
    one.instructions("portable")
    assert two.instructions() == before
    assert sys.modules.get(name) not in (one, two)


NEEDS = """
import numpy as np
from lmma import kernels
n, rows, m = 3000, 1000, 1000
rng = np.random.default_rng(0)
vectors, out = rng.standard_normal((m, n)), np.ones((rows, n))
gram, c_d, mean = np.eye(m), np.full(m, 1e-3), np.zeros(n)
def sample(vectors, out):
    kernels.lm_sample((1, 2), 0, 0, vectors, len(vectors), gram, c_d, mean, 1.0, None, out, threads=2)
sample(vectors[:2], out[:2])
def peak():  # of this program; what getrusage tells includes the process that started it
    with open("/proc/self/status") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
before = peak()
sample(vectors, out)
print(peak() - before, kernels.lm_workspace(n, rows, m, 8, threads=2))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory are read as Linux tells them")
@pytest.mark.skipif("LMMA_SANITIZED" in os.environ, reason="a sanitizer's memory comes on top")
def test_a_sampling_takes_the_memory_it_says(core, run_python):
    took, said = map(int, run_python(NEEDS, LMMA_KERNELS="compiled").stdout.split())
    # pages, the allocator's own and what lay free before: 3 MB of 94
    assert abs(took - said) < 3e6, f"took {took:,} bytes, said {said:,}"


def test_the_workspace_counts_beyond_any_memory_and_rejects_invalid_sizes(core):
    assert core.lm_workspace(0, 0, 0, 8) > 0
    assert core.lm_workspace(10**15, 10**12, 100, 8) > 64 * 10**12 * 100 * 8
    for arguments in ((-1, 1, 1, 8), (1, 1, 1, 2), (2**63, 1, 1, 8), (1, 2**64, 1, 8), (1.5, 1, 1, 8)):
        with pytest.raises(MISTAKES):
            core.lm_workspace(*arguments)


@pytest.mark.parametrize("name", ["lm-ma-es", "d-lm-ma-es"])
def test_the_memory_of_a_strategy_includes_the_sums_of_every_unit(core, name):
    from lmma.methods import strategy_class
    from lmma.numerics.recombination import default_vectors

    if not kernels.backend().startswith("compiled"):
        pytest.skip("the compiled core is not in use")
    n, popsize = 100_000, 10_000
    m = default_vectors(n)
    arrays = (m + 2 * popsize + 14) * n * 8
    assert strategy_class(name).memory(n, popsize) > arrays + 64 * popsize * m * 8 - 6 * n * 8
