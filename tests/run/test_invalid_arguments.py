"""Invalid arguments are rejected by name, including values that cannot be printed or compared."""

import numpy as np
import pytest

import lmma


class Unspeakable:
    def __repr__(self):
        raise RuntimeError("no words")

    def __float__(self):
        raise RuntimeError("no number")


EMPTY, UNSPEAKABLE = np.array([]), Unspeakable()
NAMES = ["boundary", "bounds", "callback", "checkpoint", "dtype", "ftarget", "history", "inject", "log",
         "maxfevals", "maxiter", "maxtime", "method", "on_error", "on_interrupt", "popsize", "progress",
         "quorum", "restarts", "rng", "sigma0", "stagnation", "threads", "timeout", "tolfun", "tolx",
         "vectorized", "workers"]  # fmt: skip
CONSTANTS = [("ma-es", "mu"), ("ma-es", "weights"), ("ma-es", "update"), ("ma-es", "c_sigma"),
             ("lm-ma-es", "m"), ("lm-ma-es", "c_d"), ("lm-cma-es", "sampling")]  # fmt: skip


@pytest.mark.parametrize("value", [EMPTY, UNSPEAKABLE], ids=["empty", "unspeakable"])
@pytest.mark.parametrize("name", NAMES)
def test_an_invalid_argument_is_rejected_by_name(name, value):
    with pytest.raises((ValueError, TypeError), match=name):
        lmma.minimize(lambda x: float(x @ x), np.ones(3), **{"maxfevals": 50, name: value})


@pytest.mark.parametrize("value", [EMPTY, UNSPEAKABLE], ids=["empty", "unspeakable"])
@pytest.mark.parametrize(("method", "name"), CONSTANTS)
def test_an_invalid_constant_is_rejected_by_name(method, name, value):
    with pytest.raises((ValueError, TypeError), match=name):
        lmma.minimize(lambda x: float(x @ x), np.ones(3), method=method, maxfevals=50, **{name: value})


def test_a_single_number_is_not_a_box():
    with pytest.raises(TypeError, match="bounds must be"):
        lmma.minimize(lambda x: float(x @ x), np.ones(3), bounds=np.array(2.0), maxfevals=50)


@pytest.mark.parametrize("points", ["", [[1.0], [1.0, 2.0]], np.full(3, 1e200), None.__class__])
def test_points_that_cannot_be_injected_are_rejected_by_name(points):
    with pytest.raises((ValueError, TypeError), match="inject"):
        lmma.minimize(lambda x: float(x @ x), np.ones(3), inject=points, maxfevals=50)


@pytest.mark.parametrize("name", ["stagnation", "vectorized", "progress"])
def test_a_switch_is_on_or_off(name):  # "no" would mean yes
    with pytest.raises(TypeError, match=f"{name} must be True or False, got 'no'"):
        lmma.minimize(lambda x: float(x @ x), np.ones(3), maxfevals=50, **{name: "no"})
    for value in (False, np.False_, 0):
        assert lmma.minimize(lambda x: float(x @ x), np.ones(3), maxfevals=50, **{name: value}).nfev <= 50
