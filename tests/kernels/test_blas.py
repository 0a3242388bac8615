"""BLAS uses one thread inside a generation and its previous number outside."""

import contextlib
import threading

import numpy as np
import pytest

import lmma
from lmma.kernels import blas

needs_openblas = pytest.mark.skipif(blas.blas_threads() is None, reason="NumPy's BLAS cannot be asked")


@pytest.fixture
def two_threads():
    with blas.using_blas_threads(2):
        if blas.blas_threads() != 2:
            pytest.skip("BLAS was built for one thread")
        yield


class Spy:
    """Notes how many threads BLAS may use whenever a strategy is at work."""

    def __init__(self, es, monkeypatch):
        self.seen = []
        for name in ("sample", "update"):
            call = getattr(es.method.transform, name)
            monkeypatch.setattr(es.method.transform, name, lambda *args, call=call: self.note(call, *args))

    def note(self, call, *args):
        self.seen.append(blas.blas_threads())
        return call(*args)


@needs_openblas
@pytest.mark.parametrize("method", ["ma-es", "cma-es", "acma-es", "pulse-full", "lm-ma-es"])
def test_a_generation_uses_one_thread_and_gives_back_what_there_was(method, two_threads, monkeypatch):
    es = lmma.strategy(method, np.ones(600), 1.0, rng=1)
    spy = Spy(es, monkeypatch)
    es.tell(np.sum(es.ask() ** 2, axis=1))
    assert spy.seen == [1, 1]
    assert blas.blas_threads() == 2


@needs_openblas
def test_a_run_does_not_depend_on_the_threads_of_blas():
    # the product of a generation differs in its last bits between one thread and two at n = 500
    ends = []
    for count in (1, 2):
        with blas.using_blas_threads(count):
            es = lmma.MAES(np.ones(500), 1.0, rng=1)
            for _ in range(5):
                es.tell(np.sum(es.ask() ** 2, axis=1))
            ends.append(es.mean.copy())
    assert np.array_equal(*ends)


@needs_openblas
def test_a_strategy_that_fails_gives_the_threads_back(two_threads, monkeypatch):
    es = lmma.MAES(np.ones(100), 1.0, rng=1)
    monkeypatch.setattr(es.method.transform, "sample", lambda batch: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        es.ask()
    assert blas.blas_threads() == 2


@needs_openblas
def test_the_last_of_several_threads_restores_what_the_first_found(two_threads):
    entered, leave = threading.Event(), threading.Event()

    def stay():
        with blas.ThreadLimit(1):
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=stay)
    other.start()
    assert entered.wait(10)
    with blas.ThreadLimit(1):
        pass
    inside = blas.blas_threads()  # the other thread is still in it
    leave.set()
    other.join()
    assert (inside, blas.blas_threads()) == (1, 2)


@needs_openblas
def test_a_thread_that_did_not_set_the_number_restores_it(two_threads):
    # set_num_threads of threadpoolctl would ignore it while the first thread lives
    entered, leave = threading.Event(), threading.Event()

    def stay():
        with blas.ThreadLimit(1):
            entered.set()
            leave.wait(10)

    with blas.ThreadLimit(1):
        other = threading.Thread(target=stay)
        other.start()
        assert entered.wait(10)
    assert blas.blas_threads() == 1
    leave.set()
    other.join()
    assert blas.blas_threads() == 2


def test_importing_lmma_does_not_look_for_libraries(run_python):
    assert run_python("import sys, lmma; print('threadpoolctl' in sys.modules)").stdout == "False\n"


def test_small_problems_hold_nothing():
    assert isinstance(blas.limited_threads(20, 12, dense=True), contextlib.nullcontext)
    assert isinstance(blas.limited_threads(128, 18, dense=False), contextlib.nullcontext)


def test_many_candidates_make_a_small_problem_large():
    held = blas.limited_threads(20, 2000, dense=True)
    assert isinstance(held, blas.ThreadLimit)


@pytest.mark.parametrize(("n", "count"), [(500, 1), (1000, 3)])
def test_the_environment_allows_threads_to_large_products_alone(n, count, monkeypatch):
    monkeypatch.setenv("LMMA_BLAS_THREADS", "3")
    held = blas.limited_threads(n, 24, dense=True)
    assert isinstance(held, blas.ThreadLimit)
    assert held.count == count


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
def test_a_number_of_threads_that_is_none_is_rejected(value, monkeypatch):
    monkeypatch.setenv("LMMA_BLAS_THREADS", value)
    with pytest.raises(ValueError, match=f"LMMA_BLAS_THREADS='{value}' must be a whole number"):
        lmma.MAES(np.ones(100), 1.0)
