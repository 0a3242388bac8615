"""The contract of a strategy as a public suite, for the library's strategies and for users' own.

>>> import lmma
>>> from lmma.testing import check_strategy
>>> check_strategy(lmma.LMMAES)

Each check is a function of ``make(x0, sigma0, **options) -> strategy`` and raises ``AssertionError`` with
the clause that is broken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma.strategies import Strategy, strategy_class

Make = Callable[..., Strategy]
Array = npt.NDArray[np.floating]
Objective = Callable[[Array], Array]
N = 6
ROUNDS = 30


def check_strategy(strategy: str | Make) -> None:
    """Run every clause of the contract on a strategy, given by name, as a class or as a factory."""
    make = strategy_class(strategy) if isinstance(strategy, str) else strategy
    for check in CHECKS:
        check(make)


def _start() -> Array:
    return np.random.default_rng(7).uniform(-2, 2, N)


def _ellipsoid(X: Array) -> Array:
    return np.asarray(np.square(X) @ 10.0 ** np.linspace(0, 3, X.shape[1]))


def _advance(es: Strategy, f: Objective = _ellipsoid, rounds: int = ROUNDS) -> Strategy:
    for _ in range(rounds):
        es.tell(f(es.ask()))
    return es


def _same(a: Strategy, b: Strategy, what: str, rtol: float = 0.0) -> None:
    close = np.allclose(a.mean, b.mean, rtol=rtol, atol=rtol * a.sigma)
    assert close, f"{what}: the means differ by {np.max(np.abs(a.mean - b.mean))}"
    assert math.isclose(a.sigma, b.sigma, rel_tol=rtol), f"{what}: sigma {a.sigma} and {b.sigma}"


def _refused(call: Callable[[], Any], what: str) -> None:
    try:
        call()
    except (ValueError, TypeError) as error:
        words = str(error)
    else:
        raise AssertionError(f"{what}: accepted, should raise ValueError or TypeError")
    assert words, f"{what}: the error has no message"


def check_candidates(make: Make) -> None:
    """Candidates are finite rows of the right shape and dtype; ``out`` is filled and returned."""
    for dtype in ("float64", "float32"):
        es = make(_start(), 0.5, rng=1, dtype=dtype)
        X = es.ask()
        assert X.shape == (es.popsize, es.n), f"ask() has shape {X.shape}"
        assert X.dtype == np.dtype(dtype), f"ask() has dtype {X.dtype}, asked for {dtype}"
        assert np.all(np.isfinite(X)), "ask() is not finite"
        es.tell(_ellipsoid(X))
        out = np.empty_like(X)
        assert es.ask(out=out) is out, "ask(out=out) does not return out"


def check_attributes(make: Make) -> None:
    """Counters count, and the best so far is one of the candidates."""
    es = make(_start(), 0.5, rng=1, popsize=9)
    assert (es.n, es.popsize, es.generation, es.evaluations) == (N, 9, 0, 0)
    seen = []
    for _ in range(5):
        X = es.ask()
        seen.append(X.copy())
        es.tell(_ellipsoid(X))
    assert (es.generation, es.evaluations) == (5, 45), "generation or evaluations are miscounted"
    rows = np.vstack(seen)
    k = int(np.argmin(_ellipsoid(rows)))
    assert np.array_equal(es.best_x, rows[k]), "best_x is not the best candidate seen"
    result = es.result
    for name in ("x", "fun", "nfev", "nit", "success"):
        assert name in result, f"result lacks {name}"


def check_seed(make: Make) -> None:
    """A seed fixes the run bit for bit; another seed gives another run."""
    a, b, c = (_advance(make(_start(), 0.5, rng=seed)) for seed in (3, 3, 4))
    _same(a, b, "same seed")
    assert not np.array_equal(a.mean, c.mean), "different seeds give the same run"


def check_quiet(make: Make) -> None:
    """Neither the caller's arrays nor NumPy's global generator are touched."""
    x0, before = _start(), repr(np.random.get_state())  # noqa: NPY002
    es = make(x0, 0.5, rng=1)
    X = es.ask()
    values = _ellipsoid(X)
    kept = values.copy()
    es.tell(values)
    after = repr(np.random.get_state())  # noqa: NPY002
    assert np.array_equal(x0, _start()), "x0 was altered"
    assert np.array_equal(values, kept), "the values told were altered"
    assert before == after, "numpy.random was touched"


def check_monotone(make: Make) -> None:
    """Only ranks count: a strictly increasing transform of f changes nothing."""
    a = _advance(make(_start(), 0.5, rng=1))
    b = _advance(make(_start(), 0.5, rng=1), lambda X: np.log(_ellipsoid(X)) * 3 - 7)
    _same(a, b, "increasing transform of f")


def check_translation(make: Make) -> None:
    """Moving f and the start moves the run."""
    offset = np.full(N, 4.0)
    a = _advance(make(_start(), 0.5, rng=1))
    b = _advance(make(_start() + offset, 0.5, rng=1), lambda X: _ellipsoid(X - offset))
    b.mean -= offset
    _same(a, b, "translation", rtol=1e-7)


def check_scale(make: Make) -> None:
    """Scaling x and sigma0 scales the run."""
    a = _advance(make(_start(), 0.5, rng=1))
    b = _advance(make(_start() * 1024, 512.0, rng=1), lambda X: _ellipsoid(X / 1024))
    b.mean /= 1024
    b.sigma /= 1024
    _same(a, b, "scale", rtol=1e-9)


def check_sigma_per_coordinate(make: Make) -> None:
    """One step size for each coordinate equals rescaled coordinates."""
    scale = 4.0 ** np.arange(N)
    a = _advance(make(_start(), 0.5, rng=1))
    b = _advance(make(_start() * scale, 0.5 * scale, rng=1), lambda X: _ellipsoid(X / scale))
    b.mean /= scale
    b.sigma *= 0.5 / b.sigma0
    _same(a, b, "sigma0 per coordinate", rtol=1e-9)


def check_resume(make: Make) -> None:
    """A run resumed from its state equals the unbroken run bit for bit, also after ask without tell."""
    a = _advance(make(_start(), 0.5, rng=1), rounds=2 * ROUNDS)
    b = _advance(make(_start(), 0.5, rng=1))
    b.ask()
    c = make(np.zeros(N), 1.0, rng=99)
    c.set_state(b.get_state())
    _advance(c)
    _same(a, c, "resumed run")
    d = _advance(make(_start(), np.linspace(0.1, 1, N), rng=1))
    c.set_state(d.get_state())
    _same(_advance(c), _advance(d), "resumed run with a step size per coordinate")
    c.set_state(_advance(make(_start(), 0.5, rng=1), rounds=2 * ROUNDS).get_state())
    assert (a.evaluations, a.best_fun) == (c.evaluations, c.best_fun), "counters are not resumed"


def check_call_order(make: Make) -> None:
    """``tell`` before ``ask`` and ``ask`` twice are refused, and refusals leave the run as it was."""
    es = make(_start(), 0.5, rng=1)
    _refused(lambda: es.tell(np.zeros(es.popsize)), "tell before ask")
    X = es.ask()
    _refused(es.ask, "ask twice")
    for values in (np.zeros(es.popsize + 1), np.zeros((es.popsize, 1)), [None] * es.popsize, "abc"):
        _refused(lambda values=values: es.tell(values), f"tell({values!r:.40})")  # type: ignore[misc]
    es.tell(_ellipsoid(X))
    _same(_advance(es, rounds=ROUNDS - 1), _advance(make(_start(), 0.5, rng=1)), "refused calls")


def check_arguments(make: Make) -> None:
    """Bad arguments are refused with words."""
    bad: list[tuple[str, tuple[Any, Any], dict[str, Any]]] = [
        ("x0 with two dimensions", (np.zeros((2, 3)), 1.0), {}),
        ("empty x0", (np.zeros(0), 1.0), {}),
        ("x0 with NaN", (np.array([0.0, np.nan]), 1.0), {}),
        ("x0 of strings", (["a", "b"], 1.0), {}),
        ("sigma0 zero", (np.zeros(3), 0.0), {}),
        ("sigma0 negative", (np.zeros(3), -1.0), {}),
        ("sigma0 NaN", (np.zeros(3), math.nan), {}),
        ("sigma0 of another length", (np.zeros(3), np.ones(2)), {}),
        ("popsize 1", (np.zeros(3), 1.0), {"popsize": 1}),
        ("popsize 2.5", (np.zeros(3), 1.0), {"popsize": 2.5}),
        ("dtype int", (np.zeros(3), 1.0), {"dtype": "int32"}),
        ("rng a string", (np.zeros(3), 1.0), {"rng": "seed"}),
        ("an unknown option", (np.zeros(3), 1.0), {"no_such_option": 1}),
    ]
    for what, positional, options in bad:
        _refused(lambda p=positional, o=options: make(*p, **o), what)  # type: ignore[misc]


def check_failures(make: Make) -> None:
    """NaN ranks last and is counted; a generation of nothing but NaN leaves mean and sigma alone."""
    es = _advance(make(_start(), 0.5, rng=1), rounds=5)
    mean, sigma = es.mean.copy(), es.sigma
    es.ask()
    es.tell(np.full(es.popsize, np.nan))
    assert np.array_equal(es.mean, mean), "a generation of NaN moved the mean"
    assert es.sigma == sigma, "a generation of NaN changed sigma"
    assert es.failures == es.popsize, f"{es.failures} failures counted, {es.popsize} told"
    a, b = (_advance(make(_start(), 0.5, rng=1), rounds=3) for _ in range(2))
    X = a.ask()
    values = _ellipsoid(X)
    worst = int(np.argmax(values))
    a.tell(np.where(np.arange(a.popsize) == worst, np.nan, values))
    b.ask()
    b.tell(np.where(np.arange(b.popsize) == worst, 1e300, values))
    _same(a, b, "NaN in place of the worst value", rtol=1e-12)
    a.ask()
    only_one = np.full(a.popsize, np.nan)
    only_one[2] = 1.0
    a.tell(only_one)
    assert np.all(np.isfinite(a.mean)), "one value among NaN spoilt the mean"


def check_single_precision(make: Make) -> None:
    """In float32 the state stays float32 and the run still descends."""
    es = make(_start(), 0.5, rng=1, dtype="float32")
    first = float(_ellipsoid(es.mean[None])[0])
    _advance(es, rounds=300)
    assert es.mean.dtype == np.float32, f"the mean became {es.mean.dtype}"
    assert es.best_fun < 1e-2 * first, f"float32 run got from {first} only to {es.best_fun}"


def check_solves_the_sphere(make: Make) -> None:
    """The sphere is solved to 1e-10 from n = 1 up, within ten times CMA-ES's budget."""
    for n in (1, 2, 3, 5, 10, 20):
        es = make(np.full(n, 2.0), 1.0, rng=n, tolx=0.0, tolfun=0.0)
        while es.best_fun > 1e-10 and es.evaluations < 4000 + 2000 * n and not es.stop():
            X = es.ask()
            es.tell(np.sum(np.square(X), axis=1))
        assert es.best_fun <= 1e-10, f"n = {n}: {es.best_fun} after {es.evaluations} evaluations"


def check_stops(make: Make) -> None:
    """``stop()`` is empty on the way and names tolx or tolfun once converged."""
    es = make(np.full(5, 2.0), 1.0, rng=1)
    assert es.stop() == {}, f"stop() before the first generation: {es.stop()}"
    while not es.stop() and es.evaluations < 50_000:
        es.tell(np.sum(np.square(es.ask()), axis=1))
    assert set(es.stop()) & {"tolx", "tolfun"}, f"stop() on a solved sphere: {es.stop()}"


CHECKS: tuple[Callable[[Make], None], ...] = (
    check_candidates,
    check_attributes,
    check_seed,
    check_quiet,
    check_monotone,
    check_translation,
    check_scale,
    check_sigma_per_coordinate,
    check_resume,
    check_call_order,
    check_arguments,
    check_failures,
    check_single_precision,
    check_solves_the_sphere,
    check_stops,
)
