"""Random arguments of ``minimize``: a valid result, or an error that names the argument."""

import asyncio
import decimal
import fractions
import math

import numpy as np

import lmma
from fuzzing import one_of

BUDGET = 120
ALL = [*lmma.methods()] if callable(lmma.methods) else list(lmma.methods)


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Stubborn:
    def __float__(self):
        raise RuntimeError("no number")

    def __repr__(self):
        raise RuntimeError("no words")


class Floating:
    def __float__(self):
        return 1.5


def _raises(error):
    def fun(x):
        raise error

    return fun


def _sphere(x):
    return float(x @ x)


def _in_place(x):
    x -= 3.0
    return float(x @ x)


def _spoils(x):
    value = float(x @ x)
    x[:] = np.nan
    return value


def _half(x):
    if math.sin(1e3 * float(x[0])) > 0:
        raise OSError("half of them fail")
    return float(x @ x)


def _unbounded(x):
    return -(float(np.abs(x).sum()) ** 3)


def _first_then_text(x, seen=[]):  # noqa: B006 (it is to remember)
    seen.append(x)
    return 1.0 if len(seen) % 2 else "text"


# Objectives: name, function of one candidate, whether its value is a function of x
FUNCTIONS = [
    ("sphere", _sphere, True),
    ("plane", lambda x: float(x[0]), True),
    ("constant", lambda x: 1.0, True),
    ("rounded", lambda x: float(f"{float(x @ x):.2g}"), True),
    ("huge", lambda x: 1e300 * float(x @ x), True),
    ("tiny", lambda x: 1e-300 * float(x @ x), True),
    ("unbounded", _unbounded, True),
    ("in place", _in_place, True),
    ("spoils its argument", _spoils, True),
    ("half fail", _half, True),
    ("whole numbers", lambda x: round(10 * float(x @ x)), True),
    ("array of one number", lambda x: np.array(float(x @ x)), True),
    ("vector of one number", lambda x: np.array([float(x @ x)]), True),
    ("single precision", lambda x: np.float32(min(float(x @ x), 1e30)), True),
    ("half precision", lambda x: np.float16(min(float(x @ x), 1e4)), True),
    ("truth", lambda x: bool(x[0] > 0), True),
    ("truth of NumPy", lambda x: np.bool_(x[0] > 0), True),
    ("steps", lambda x: np.sign(x[0]), True),
    ("NaN", lambda x: math.nan, False),
    ("inf", lambda x: math.inf, False),
    ("-inf", lambda x: -math.inf, False),
    ("sometimes NaN", lambda x: math.nan if x[0] > 0 else float(x @ x), True),
    ("sometimes -inf", lambda x: -math.inf if x[0] > 0 else float(x @ x), True),
    ("text", lambda x: "1.0", False),
    ("nothing", lambda x: None, False),
    ("complex", lambda x: complex(x[0], 1.0), False),
    ("vector", lambda x: x, False),
    ("matrix", lambda x: np.eye(2), False),
    ("list", lambda x: [1.0], False),
    ("dictionary", lambda x: {"fun": 1.0}, False),
    ("too long an integer", lambda x: 10**400, False),
    ("decimal", lambda x: decimal.Decimal(str(float(x @ x))), False),
    ("fraction", lambda x: fractions.Fraction(float(x @ x)), False),
    ("stubborn", lambda x: Stubborn(), False),
    ("floating", lambda x: Floating(), False),
    ("now and then text", _first_then_text, False),
    ("wrong arguments", lambda x, y, z: 1.0, False),
    ("no arguments", lambda: 1.0, False),
    ("OSError", _raises(OSError("down")), False),
    ("MemoryError", _raises(MemoryError()), False),
    ("RecursionError", _raises(RecursionError("deep")), False),
    ("StopIteration", _raises(StopIteration()), False),
    ("ZeroDivisionError", lambda x: 1 / 0, False),
    ("AssertionError", _raises(AssertionError()), False),
    ("unspeakable", _raises(Unspeakable()), False),
    ("CancelledError", _raises(asyncio.CancelledError()), False),
    ("GeneratorExit", _raises(GeneratorExit()), False),
    ("SystemExit", _raises(SystemExit(3)), False),
    ("warns", lambda x: float(np.exp(np.float64(1e3) * abs(x[0]))), False),
    ("no function", 3, False),
    ("a type", list, False),
    ("no objective", None, False),
]
HEALTHY = 11  # the first of them, for cases in which something else is odd
NAN, INF = math.nan, math.inf
ODD = [None, NAN, INF, -INF, 0, -1, 1.5, "3", "", b"x", [], (), {}, [1], [[1.0]], object(), True, 1e300,
       2**70,
       1j, np.array(2.0), np.array([]), np.array(["a"]), np.float32(0.1), np.int8(3),
       np.datetime64("2017-05-18"),
       Stubborn(), np.array([None]), range(3), lambda *_: 1, math.nan * 1j, -0.0, 5e-324]  # fmt: skip


def starts(rng, n):
    return one_of(rng, [
        np.zeros(n), np.ones(n, np.float32), [1] * n, np.full(n, 1e300), np.full(n, NAN), np.full(n, INF), [],
        np.zeros((n, 2)), "start", None, 3.0, np.zeros(n, complex), np.array(["a"] * n), np.full(n, 1e-310),
        np.arange(n), np.zeros(n, bool), [None] * n, [[1.0], [1.0, 2.0]], np.zeros((1, n)), {"x": 1},
        iter([1.0]),
        np.ma.masked_array(np.ones(n), mask=True), np.full(n, 1.7e308), np.array(1.0), [1, "2"], {1.0, 2.0},
        np.zeros(n, object), np.broadcast_to(1.0, n), np.ones(2 * n)[::2], np.full(n, 2**62), Stubborn(),
    ])  # fmt: skip


def pools(n):
    """Return for each argument odd values of its own, besides those of every argument."""
    vector = np.ones(n)
    return {
        "sigma0": [vector, -vector, 1e-300, 1e300, [0.1] * (n + 1), 5e-324, 1e-12, vector * np.arange(1,
                   n + 1) ** 9.0],
        "args": [(1, 2), [], None, 7],
        "method": [*ALL, "MA-ES", "ma_es", "no:such", "lmma:minimize", "os:path", int, lmma.Strategy, ":",
                   "math:pi"],
        "bounds": [[0, 1], [1, 0], [(0, 1)] * n, [(0, 1)] * (n + 1), [NAN, 1], [0, None], [None, None],
                   [-INF, INF],
                   [0, 0], [(5, 6)] * n, [(-1, 1)], "01", [[0] * n, [1] * n], [-1e-300, 1e-300], [-1e308,
                   1e308]],
        "boundary": ["reflect", "smooth", "project", "clip", "Reflect"],
        "popsize": [1, 2, 3, 4, 5, 100, BUDGET, BUDGET + 1, 10**9, 10**30, 7.0],
        "rng": [0, 7, 2**128, -5, (1, 2), (1, 2**64), np.random.default_rng(1), np.random.SeedSequence(4),
                "seed"],
        "seed": [0, 7, -5, 2**200],
        "maxiter": [1, 2, 1e9],
        "maxtime": [1e-9, 1e9, 0.01],
        "ftarget": [0.5, -1e300, 1e308],
        "tolx": [0.0, 1e-3, 1e300],
        "tolfun": [0.0, 1e-3, 1e300],
        "stagnation": [False, "no"],
        "restarts": [1, 5, "ipop", "bipop", "bipop:2", "bipop:x", "ipop:", "sometimes", 10**6, lmma.minimize],
        "inject": [vector, [vector, vector], [vector] * 50, np.zeros((0, n)), np.ones(n + 1), vector * 1e200],
        "vectorized": [True, False, "no"],
        "workers": [0, -2, 1.0, map, "two", "dask://", [], "ray:", 2.5],
        "timeout": [1.0, 1e-9],
        "quorum": [0.5, 1.0, 2.0],
        "on_error": ["worst", "raise", "resample", "ignore"],
        "callback": [lambda x: None, lambda x: True, lambda intermediate_result: False, repr, int, "stop"],
        "checkpoint": ["", ".", "/", "/no/such/folder/run.npz", 3, "a\0b"],
        "history": [1, 2, 16, 10**3, "all"],
        "log": ["", ".", "/no/such/folder/run.jsonl", 3, "a\0b"],
        "progress": [False],
        "dtype": ["float32", "float64", np.float32, "float16", "int", "longdouble", float, "f", ">f8",
                  "object"],
        "threads": [1, 2, 10**6],
        "m": [1, 3, 10**6], "c_sigma": [0.1, 2.0], "c_1": [0.1, 3.0], "mu": [1, 5], "weights": [vector],
        "max_evals": [3], "maxfeval": [3], "sigma": [3], "tol": [3], "popSize": [3], "": [3], "x": [3],
        "maxfevals": [1, 2, 3, 7, 50.0, 1e3, BUDGET],
    }  # fmt: skip


def test_odd_arguments_are_rejected_by_name_or_give_a_sane_result(fuzz, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fuzz(arguments, short=300, long=10_000, at_least=["result", "refused"])


def minimised(fun, x0, given):
    """Return the result, or how the run ended if fun never returned a value."""
    try:
        return lmma.minimize(fun, x0, **given)
    except BaseException as error:
        if any(note.startswith("lmma: ") for note in getattr(error, "__notes__", ())):
            return "raised from the start"
        raise


def arguments(rng):
    n = int(rng.integers(1, 6))
    label, fun, deterministic = one_of(rng, FUNCTIONS if rng.random() < 0.4 else FUNCTIONS[:HEALTHY])
    given = {"maxfevals": BUDGET, "rng": int(rng.integers(1000)), "method": one_of(rng, ["auto", *ALL])}
    x0 = starts(rng, n) if rng.random() < 0.15 else np.full(n, 0.5)
    own = pools(n)
    names = list(own)
    for _ in range(int(rng.integers(0, 4))):
        name = one_of(rng, names)
        given[name] = one_of(rng, own[name] if rng.random() < 0.7 else ODD)
    if given["maxfevals"] is not BUDGET:  # something else must end the run then
        given["maxiter"] = 5
        given.pop("popsize", None)
        given.pop("restarts", None)
    if callable(fun) and deterministic and given.get("vectorized") is True:
        single = fun
        fun = rows_of(single, n)
    else:
        single = fun
    told = f"{label}, n={n}, x0={shown(x0)}, {shown(given)}"
    try:
        with np.errstate(all="ignore"):  # numbers up to 1e308: squares overflow, and may
            result = minimised(fun, x0, given)
        if isinstance(result, str):
            return result
    except (ValueError, TypeError, MemoryError) as error:
        words = str(error)
        if raised_by_fun(error):
            return "raised by fun"
        if given.get("callback") is int and "callback" not in words:
            return "raised by the callback"  # int(x) of a vector; what a user's function raises is passed on
        raised = asks_to_raise(given)
        asked = [*given, "x0", "fun"]
        assert raised or words, f"{type(error).__name__} without a word: {told}"
        assert raised or any(name and name in words for name in asked), (
            f"no argument is named in {words!r}: {told}"
        )
        return "refused"
    except OSError as error:
        if asks_to_raise(given) and label in ("half fail", "OSError"):
            return "raised as asked"
        if raised_by_fun(error):
            return "raised by fun"
        if not str(error).startswith("log: "):
            assert error.filename is not None, f"{spoken(error)!r} names no file: {told}"
            assert error.filename in (given.get("log"), given.get("checkpoint")), told
        return "refused"
    except BaseException as error:
        if raised_by_fun(error):
            return "raised by fun"
        if asks_to_raise(given) and not isinstance(error, (KeyboardInterrupt, AttributeError)):
            return "raised as asked"
        if isinstance(error, SystemExit) and label == "SystemExit":
            return "exit"  # fun asked for it
        if type(error).__name__ == "Hangs":
            raise
        raise AssertionError(f"{type(error).__name__}: {spoken(error)!r:.200}: {told}") from error
    check_result(result, single, deterministic, given, told)
    return "result"


def raised_by_fun(error):
    """Return whether the objective has raised ``error`` before it ever returned a value."""
    return any(note.startswith("lmma: ") for note in getattr(error, "__notes__", ()))


def asks_to_raise(given):
    how = given.get("on_error")
    return isinstance(how, str) and how == "raise"


def rows_of(fun, n):
    def rows(X):
        values = []
        for x in X:
            try:
                values.append(fun(x))
            except OSError:
                values.append(math.nan)
        return np.array([float(np.asarray(value).item()) for value in values])

    return rows


def check_result(result, fun, deterministic, given, told):
    x = np.asarray(result.x)
    assert np.isfinite(x).all(), f"x = {x}: {told}"
    assert isinstance(result.message, str), told
    assert result.message.strip(), told
    limit = given["maxfevals"]
    if limit is not None:
        assert result.nfev <= limit, f"{result.nfev} evaluations: {told}"
    assert not math.isnan(result.fun), f"fun = NaN: {told}"
    assert np.isfinite(np.asarray(result.mean)).all(), f"mean = {result.mean}: {told}"
    if deterministic and math.isfinite(result.fun):
        args = given.get("args", ())
        if isinstance(args, tuple) and not args:
            value = float(np.asarray(fun(x.copy())).item())
            assert value == result.fun, f"fun(x) = {value}, but result.fun = {result.fun}: {told}"


def spoken(error):
    try:
        return str(error)
    except Exception:
        return "(no words)"


def shown(value):
    if isinstance(value, dict):
        return ", ".join(f"{name}={shown(part)}" for name, part in value.items())
    try:
        return f"{value!r:.60}"
    except Exception:
        return f"<{type(value).__name__}>"
