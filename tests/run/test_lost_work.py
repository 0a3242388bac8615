"""No work is lost: however a run ends, it returns its best point and can be resumed to the same result."""

import contextlib
import copy
import os
import pickle
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import lmma
from adapting import ADAPTING
from lmma.methods import ask_tell, strategy_class
from lmma.run.checkpoint import Checkpoint, read
from lmma.run.options import RunOptions
from lmma.run.run import Run
from lmma.run.state import RunState

METHODS = sorted(lmma.methods())


def spheres(X):
    return np.sum(np.square(X) * (1.0 + np.arange(X.shape[1])), axis=1)


def run(x0=(2.0, 2.0, 2.0), sigma0=0.7, **options):
    return lmma.minimize(spheres, x0, sigma0, **{"vectorized": True, "rng": 5, "tolfun": 0} | options)


def end_of(result):
    """Return all of a result that must not depend on how often the run was broken."""
    return result.nfev, result.fun, result.sigma, [*result.x], [*result.mean], result.reason, result.runs


def saved_at_each_generation(tmp_path, **options):
    """Return the files of a run as they stood after each generation, and the end of the run."""
    file, copies = tmp_path / "run.npz", []

    def keep(x):
        copies.append(shutil.copy(file, tmp_path / f"{len(copies)}.npz"))
        saved._due = 0.0  # a slow disk would have it less often

    saved = Checkpoint(file, every=0)
    return copies, end_of(run(checkpoint=saved, callback=keep, **options))


# Points that are to be evaluated


@pytest.mark.parametrize("method", ADAPTING)
def test_points_wait_in_the_checkpoint_and_are_evaluated_once(method, tmp_path):
    points = np.linspace(-1.0, 1.0, 3 * 20).reshape(20, 3)  # three generations of seven, nearly
    options = {"method": method, "inject": points, "restarts": 2, "tolx": 0.2, "maxiter": 40}
    unbroken = end_of(run(**options))
    copies, end = saved_at_each_generation(tmp_path, **options)
    assert end == unbroken
    assert len(end[-1]) > 1  # there was a restart
    for file in copies:
        assert end_of(run(checkpoint=file, **options)) == unbroken, f"broken after {file}"


def test_points_without_values_are_still_pending(tmp_path):
    points = np.linspace(-1.0, 1.0, 30).reshape(10, 3)
    options = {"method": "ma-es", "inject": points, "maxiter": 20, "vectorized": True, "rng": 5}
    unbroken = end_of(lmma.minimize(spheres, np.full(3, 2.0), 0.7, **options))
    calls = []

    def interrupted(X):
        calls.append(len(X))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return spheres(X)

    interrupted.__qualname__ = spheres.__qualname__
    search = Run(interrupted, np.full(3, 2.0), 0.7,
                 RunOptions(checkpoint=tmp_path / "run.npz", **options))  # fmt: skip
    assert search.execute().reason == "interrupted"
    assert len(read(tmp_path / "run.npz")[1]["strategy.injection.points"]) == 3
    options["checkpoint"] = tmp_path / "run.npz"
    assert end_of(lmma.minimize(spheres, np.full(3, 2.0), 0.7, **options)) == unbroken


# Restarts


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("where", ["before", "rules", "strategy", "plan", "finished"])
def test_an_interruption_while_a_restart_is_set_up_skips_no_restart(where, error, tmp_path, monkeypatch):
    options = {"method": "ma-es", "restarts": 3, "tolx": 0.05, "maxiter": 200}
    unbroken = end_of(run(**options))
    assert len(unbroken[-1]) == 4
    file = tmp_path / "run.npz"

    def breaks(*given, **named):
        raise error("now")

    with monkeypatch.context() as patch:
        if where == "before":
            patch.setattr("lmma.run.restarts.restart_point", breaks)
        elif where == "rules":
            kept = lmma.run.run.rules_for
            patch.setattr(
                "lmma.run.run.rules_for",
                lambda options, strategy, share=None: (
                    kept(options, strategy, share) if strategy.popsize == 7 else breaks()
                ),
            )
        else:
            break_at_assignment(patch, where, breaks)
        with pytest.raises(error):
            run(checkpoint=Checkpoint(file, every=0), on_interrupt="raise", **options)
    assert read(file)[0]["counters"]["generation"] > 0
    assert end_of(run(checkpoint=file, **options)) == unbroken


def break_at_assignment(patch, name, breaks):
    """Have what is run break off right after the restart's ``name`` has been assigned."""
    usual = RunState.__setattr__

    def assign(self, attribute, value):
        usual(self, attribute, value)
        if attribute == name and (value if name == "finished" else value.popsize > 7):
            breaks()

    patch.setattr(RunState, "__setattr__", assign)


def test_after_a_warm_start_restarts_look_elsewhere():
    first = run(method="ma-es", x0=np.full(5, 3.0), tolfun=1e-11)
    assert first.sigma < 1e-5
    seen = []

    def watched(X):
        seen.append(X.copy())
        return spheres(X)

    options = {"method": "ma-es", "vectorized": True, "rng": 1, "noise": None, "tolx": 1e-2}
    again = lmma.minimize(watched, first, restarts=2, **options)
    assert len(again.runs) == 3
    at = np.cumsum([0] + [part.evaluations // part.popsize for part in again.runs[:-1]])
    steps = [(seen[k] - seen[k].mean(axis=0)).std() for k in at]
    assert steps[0] < 1e-4  # the first goes on with the step it was handed
    for step in steps[1:]:  # 0.3, as if nobody had told one
        assert 0.1 < step < 0.6
    assert np.linalg.norm(seen[at[1]].mean(axis=0) - first.mean) > 0.1
    told = lmma.minimize(watched, first, 1e-3, restarts=1, **options | {"tolx": 1e-4})
    assert len(told.runs) == 2
    assert (seen[-1] - seen[-1].mean(axis=0)).std() < 2e-3  # a step that was told counts for restarts too


# Ctrl-C


def press(*calls):
    """Return an objective during whose ``calls`` Ctrl-C is pressed, and a list of the calls made."""
    seen = []

    def fun(X):
        seen.append(len(X))
        if len(seen) in calls:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)  # cut short
        return spheres(X)

    fun.__qualname__ = spheres.__qualname__
    return fun, seen


def of_spheres(fun=spheres, **options):
    options = {"method": "ma-es", "vectorized": True, "rng": 5, "maxiter": 40} | options
    return lmma.minimize(fun, np.full(3, 2.0), 0.7, **options)


def test_ctrl_c_returns_the_best_so_far_and_the_run_can_be_resumed(tmp_path):
    fun, seen = press(12)
    file = tmp_path / "run.npz"
    result = of_spheres(fun, checkpoint=file)
    assert (result.reason, result.success, result.nit, len(seen)) == ("interrupted", False, 11, 12)
    assert end_of(result)[:-2] == end_of(of_spheres(maxiter=11))[:-2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert end_of(of_spheres(checkpoint=file)) == end_of(of_spheres())


def test_a_requested_exception_is_raised_after_the_run_is_saved(tmp_path):
    from scipy.optimize import minimize

    file = tmp_path / "run.npz"
    with pytest.raises(KeyboardInterrupt):
        of_spheres(press(12)[0], checkpoint=file, on_interrupt="raise")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert read(file)[0]["counters"]["generation"] == 11
    options = {"sigma0": 0.7, "vectorized": True, "rng": 5, "maxiter": 40}
    method = lmma.scipy_method("ma-es")
    assert minimize(press(2)[0], [2.0] * 3, method=method, options=options).reason == "interrupted"
    with pytest.raises(KeyboardInterrupt):
        minimize(press(2)[0], [2.0] * 3, method=method, options=options | {"on_interrupt": "raise"})
    with pytest.raises(ValueError, match="on_interrupt must be"):
        of_spheres(on_interrupt="never")


class Pressed(lmma.MAES):
    """Ctrl-C is pressed in the middle of an update, ``times`` times."""

    class METHOD(lmma.MAES.METHOD):
        times = 1

        def update(self, told):
            if self.generation == 4:
                for _ in range(self.times):
                    os.kill(os.getpid(), signal.SIGINT)
            super().update(told)


class PressedTwice(lmma.MAES):
    class METHOD(Pressed.METHOD):
        times = 2


def test_an_update_is_finished_first_and_a_second_ctrl_c_is_raised_at_once(tmp_path):
    result = of_spheres(method=Pressed)
    assert (result.reason, result.nit) == ("interrupted", 5)
    assert end_of(result)[:-2] == end_of(of_spheres(maxiter=5))[:-2]
    file = tmp_path / "run.npz"
    with pytest.raises(KeyboardInterrupt):
        of_spheres(method=PressedTwice, checkpoint=Checkpoint(file, every=0))
    assert read(file)[0]["counters"]["generation"] <= 4  # half an update is not saved
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_a_callback_ends_the_run_too():
    def callback(x):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)

    result = of_spheres(callback=callback)
    assert (result.reason, result.nit) == ("interrupted", 1)


def test_a_handler_of_the_program_itself_is_left_alone_and_threads_set_none():
    pressed = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        fun, _ = press()
        result = of_spheres(lambda X: os.kill(os.getpid(), signal.SIGINT) or fun(X), maxiter=3)
        assert (result.reason, len(pressed)) == ("maxiter", 3)
    finally:
        signal.signal(signal.SIGINT, before)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(of_spheres, maxiter=3).result().nit == 3


# Memory


@pytest.fixture
def free(monkeypatch):
    """Returns a function that sets how many bytes are free, as far as the library can see."""
    monkeypatch.setattr(ask_tell, "UNCHECKED_BELOW", 0)
    monkeypatch.setattr("lmma.numerics.memory.UNCHECKED_BELOW", 0)

    def say(size):
        monkeypatch.setattr("lmma.numerics.memory.available_memory", lambda: size)

    return say


@pytest.mark.parametrize("restarts", [4, "bipop:4"])
def test_a_restart_that_does_not_fit_ends_the_run_with_its_best(restarts, free, tmp_path):
    options = {"restarts": restarts, "tolx": 0.05, "checkpoint": tmp_path / "run.npz", "maxiter": 10_000}
    free(lmma.MAES.memory(3, 28))
    result = of_spheres(**options)
    assert (result.reason, result.success) == ("memory", False)
    assert max(single.popsize for single in result.runs) == 28
    assert result.fun == min(single.best_fun for single in result.runs)
    assert "a population of 56 does not fit" in result.message
    assert "Reduce restarts=" in result.message
    [words] = result.warnings
    assert "population up to 112, for which ma-es needs about" in words
    assert "2 of 4 larger populations fit" in words
    assert end_of(of_spheres(**options)) == end_of(result)
    free(10**9)
    more = of_spheres(**options)
    assert (more.reason, more.warnings) == ("tolx", [])
    assert end_of(more) == end_of(of_spheres(**options | {"checkpoint": None}))


def test_restarts_beyond_the_budget_need_no_memory(free):
    free(lmma.MAES.memory(3, 28))
    assert of_spheres(restarts=4, maxfevals=50).warnings == []
    assert of_spheres(restarts=0, maxfevals=50).warnings == []
    assert "2 of 45 " in of_spheres(restarts=10_000, maxiter=1).warnings[0]
    assert of_spheres(restarts=4, maxfevals=60).warnings != []


def test_memory_that_gives_out_in_mid_run_ends_it_with_the_best():
    class Hungry(lmma.MAES):
        def ask(self, out=None):
            if self.generation == 5:
                raise MemoryError
            return super().ask(out)

    result = of_spheres(method=Hungry)
    assert (result.reason, result.nit) == ("memory", 5)


@pytest.mark.parametrize(
    ("method", "given", "fits", "advice"),
    [
        ("lm-ma-es", {}, ("lm-ma-es", 22, 4), "dtype='float32' would fit"),
        ("lm-ma-es", {"popsize": 1000}, ("lm-ma-es", 22, 8), "popsize=22 would fit"),
        ("lm-ma-es", {"popsize": 1000}, ("lm-ma-es", 22, 4), "popsize=22 with dtype='float32' would fit"),
        ("ma-es", {}, ("lm-ma-es", 22, 8), "method='lm-ma-es' would fit"),
        ("ma-es", {"popsize": 1000}, ("lm-ma-es", 1000, 8), "method='lm-ma-es' would fit"),
        ("ma-es", {"popsize": 1000}, ("ma-es", 22, 8), "popsize=22 would fit"),
        ("ma-es", {"popsize": 1000}, ("lm-ma-es", 22, 8), "method='lm-ma-es' and popsize=22 would fit"),
        ("lm-ma-es", {"dtype": "float32"}, ("lm-ma-es", 2, 4), "no method fits"),
    ],
)
def test_advice_never_names_what_is_in_use(method, given, fits, advice, free):
    name, popsize, itemsize = fits
    n = 500
    free(strategy_class(name).memory(n, popsize, itemsize))
    with pytest.raises(MemoryError, match=f": {advice}"):
        lmma.minimize(spheres, np.zeros(n), 1.0, method=method, **given)


# Results that travel


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", METHODS)
def test_a_result_can_be_pickled_and_copied(method, dtype):
    n = 60
    options = {"vectorized": True, "rng": 2, "history": 5, "method": method, "dtype": dtype, "tolfun": 0}
    scales = np.linspace(0.5, 1.5, n)
    result = lmma.minimize(spheres, np.ones(n), scales, maxiter=50, popsize=200, **options)
    data = pickle.dumps(result)
    parts = {name: value for name, value in result.learned.parts().items() if isinstance(value, np.ndarray)}
    size = sum(array.nbytes for array in parts.values())
    assert len(data) < size + 15_000  # no candidates, which alone have 48,000 bytes or more
    v = np.linspace(-1, 1, n)
    for copied in (pickle.loads(data), copy.deepcopy(result), pickle.loads(pickle.dumps(pickle.loads(data)))):
        assert end_of(copied) == end_of(result)
        assert copied.keys() == result.keys()
        assert repr(copied.learned) == repr(result.learned)
        assert np.array_equal(copied.hess_inv @ v, result.hess_inv @ v)
        assert np.array_equal(copied.hess_inv.T @ v, result.hess_inv @ v)
        again = [lmma.minimize(spheres, start, maxiter=10, **options) for start in (copied, result)]
        assert end_of(again[0]) == end_of(again[1])


@pytest.mark.parametrize("method", METHODS)
def test_a_copy_of_a_strategy_goes_its_own_way(method):
    one = strategy_class(method)(np.ones(5), 1.0, rng=1)
    for _ in range(20):
        one.tell(spheres(one.ask()))
    other = pickle.loads(pickle.dumps(one))
    for _ in range(20):
        one.tell(spheres(one.ask()))
    for _ in range(20):
        other.tell(spheres(other.ask()))
    for name, value in one.get_state().items():
        assert np.array_equal(value, other.get_state()[name]), name


SEEDS = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import numpy as np
import lmma

def fun(x):
    return float(x @ x)

def of_seed(seed):
    return lmma.minimize(fun, np.ones(8), 0.5, rng=seed, maxfevals=2000)

if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        there = list(pool.map(of_seed, range(4)))
    for seed, result in enumerate(there):
        here = of_seed(seed)
        assert (here.fun, here.nfev, here.message, here.runs) == (
            result.fun, result.nfev, result.message, result.runs)
        assert np.array_equal(here.x, result.x)
        assert np.array_equal(here.hess_inv @ here.x, result.hess_inv @ here.x)
    print(len(there))
"""


def test_seeds_can_be_spread_over_processes(python, tmp_path):
    (tmp_path / "seeds.py").write_text(SEEDS)
    assert python("seeds.py") == "4\n"


# The display


@pytest.mark.parametrize("how", ["full", "closed", "none"])
def test_a_run_continues_if_its_progress_cannot_be_shown(how, monkeypatch):
    with open("/dev/full", "w", buffering=1) as stream:
        if how == "closed":
            stream.close()
        monkeypatch.setattr("sys.stderr", None if how == "none" else stream)
        result = of_spheres(progress=True)
        monkeypatch.undo()
        assert end_of(result) == end_of(of_spheres())
        with contextlib.suppress(OSError):  # what could not be written is still in its buffer
            stream.close()
