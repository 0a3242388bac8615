"""Sizes requested by a file are compared with its own size before memory is allocated."""

import tracemalloc

import numpy as np
import pytest

import lmma
from lmma._archive import RESULT, read, write
from lmma.methods.memory_check import check_saved_options
from lmma.methods.registry import strategy_class
from lmma.numerics.memory import DoesNotFit
from lmma.run.checkpoint import CheckpointError


def sphere(x):
    return float(x @ x)


@pytest.mark.parametrize(("method", "options"), [
    ("lm-ma-es", {"m": 150_000_000}), ("lm-ma-es", {"m": 10_000}), ("d-lm-ma-es", {"m": 10**15}),
    ("lm-ma-es-archive", {"m": 10_000}), ("pulse", {"period": 10**9}), ("pulse-full", {"period": 10**6}),
])  # fmt: skip
def test_a_result_whose_options_need_much_memory_is_rejected_at_once(method, options, tmp_path):
    file = tmp_path / "result.npz"
    lmma.minimize(sphere, np.ones(5), 0.5, rng=1, maxfevals=200, method=method).save(file)
    header, arrays = read(file, RESULT)
    header["learned"]["options"] = options
    write(file, header, arrays, RESULT)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="too many for a file of"):
            lmma.load(file)
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("method", "options"), [
    ("lm-ma-es", {"m": 300}), ("lm-cma-es", {"m": 500}), ("pulse", {"period": 50, "k_long": 20}),
    ("d-lm-ma-es", {"m": 2}),
])  # fmt: skip
def test_results_with_unusual_options_come_back(method, options, tmp_path):
    file = tmp_path / "result.npz"
    result = lmma.minimize(sphere, np.ones(30), 0.5, rng=1, maxfevals=300, method=method, **options)
    result.save(file)
    assert lmma.load(file).learned.options == options


@pytest.mark.parametrize("method", lmma.methods())
def test_memory_of_options_covers_what_is_stored(method):
    n, known = 40, strategy_class(method).known_options()
    options = {name: size for name, size in (("m", 35), ("period", 9), ("k_long", 20)) if name in known}
    usual, changed = (lmma.strategy(method, np.ones(n), 1.0, rng=1, **given) for given in ({}, options))
    held = [sum(np.asarray(value).nbytes for value in es.get_state().values()) for es in (usual, changed)]
    more = type(changed).memory_of_options(n, changed.popsize, 8, options)
    assert more >= held[1] - held[0]
    check_saved_options(type(changed), n, changed.popsize, 8, options, held[1])


@pytest.mark.parametrize(("method", "options"), [
    ("lm-ma-es", {"m": 10**12}), ("pulse", {"period": 10**12}),
])  # fmt: skip
def test_options_that_do_not_fit_in_memory_are_rejected_by_name(method, options):
    (name,) = options
    with pytest.raises(DoesNotFit, match=f"{name}=1000000000000 needs about .*the default of {name}"):
        lmma.minimize(sphere, np.ones(5), 0.5, method=method, **options)


def test_a_number_of_vectors_is_checked_before_arrays_of_that_size_are_made():
    with pytest.raises(ValueError, match="m must lie between 1 and 10000, got 20000"):
        lmma.minimize(sphere, np.ones(5), 0.5, method="lm-ma-es", m=20_000)


def test_a_checkpoint_does_not_enlarge_the_population_beyond_reason(tmp_path):
    file = tmp_path / "run.npz"

    def run(maxfevals):
        return lmma.minimize(
            sphere,
            np.ones(4),
            0.5,
            values="ranks",
            rng=1,
            restarts=3,
            tolfun=1.0,
            maxfevals=maxfevals,
            checkpoint=file,
        )

    run(600)
    header, arrays = read(file)
    assert header["plan"]["number"] > 0
    write(file, header | {"plan": header["plan"] | {"popsize": 10**9}}, arrays)
    with pytest.raises(CheckpointError, match=r"popsize=1000000000 needs .* the run began with"):
        run(900)
    write(file, header, arrays)
    assert run(900).nfev > 600


def test_a_checkpoint_of_a_noisy_run_does_not_either(tmp_path):
    file = tmp_path / "run.npz"

    def run(maxiter):
        rng = np.random.default_rng(1)
        return lmma.minimize(
            lambda x: sphere(x) + rng.standard_normal(), np.ones(4), 0.5, rng=1, noise="population",
            maxiter=maxiter, checkpoint=file,
        )  # fmt: skip

    run(20)
    header, arrays = read(file)
    huge = arrays | {"strategy.noise.popsize": np.array(10**9)}
    write(file, header, huge)
    with pytest.raises(CheckpointError, match="popsize=1000000000 needs"):
        run(30)
