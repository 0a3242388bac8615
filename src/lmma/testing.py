"""Test suite for the contract of a strategy, for built-in and user-defined ones.

>>> import lmma
>>> from lmma.testing import check_strategy
>>> check_strategy(lmma.LMMAES)

Each check is a function of ``make(x0, sigma0, **options) -> strategy`` and raises ``AssertionError`` naming
the violated clause.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma.layers.bounds import BOXES, Boundary
from lmma.methods import Strategy, strategy_class
from lmma.numerics.checks import Seed
from lmma.numerics.state import state_names

Make = Callable[..., Strategy]
Array = npt.NDArray[np.floating]
Objective = Callable[[Array], Array]
N = 6
GENERATIONS = 30


def check_strategy(strategy: str | type[Strategy] | Make) -> None:
    """Run all checks of the contract on a strategy.

    Parameters
    ----------
    strategy : str, class or callable
        A name, ``"module:Class"``, a subclass of :class:`lmma.Strategy`, or a factory
        ``make(x0, sigma0, **options)``.

    Raises
    ------
    AssertionError
        With a sentence that names the violated clause.
    """
    named = isinstance(strategy, str | type)
    make: Make = strategy_class(strategy) if named else strategy  # type: ignore[arg-type, assignment]
    for check in CHECKS:
        check(make)


def _start() -> Array:
    return np.random.default_rng(7).uniform(-2, 2, N)


def _ellipsoid(X: Array) -> Array:
    return np.asarray(np.square(X) @ 10.0 ** np.linspace(0, 3, X.shape[1]))


def _advance(es: Strategy, f: Objective = _ellipsoid, generations: int = GENERATIONS) -> Strategy:
    for _ in range(generations):
        es.tell(f(es.ask()))
    return es


def _advanced(
    make: Make, f: Objective = _ellipsoid, generations: int = GENERATIONS, rng: Seed = 1
) -> Strategy:
    return _advance(make(_start(), 0.5, rng=rng), f, generations)


def _difference(a: Strategy, b: Strategy, rtol: float = 0.0) -> str:
    """Return a description of the difference of two runs; empty if they are equal."""
    if not np.allclose(a.mean, b.mean, rtol=rtol, atol=rtol * a.sigma):
        return f"the means differ by {np.max(np.abs(a.mean - b.mean)):.3g}"
    if not math.isclose(a.sigma, b.sigma, rel_tol=rtol):
        return f"sigma is {a.sigma} and {b.sigma}"
    return ""


def _check_same(a: Strategy, b: Strategy, clause: str, rtol: float = 0.0) -> None:
    unlike = _difference(a, b, rtol)
    assert not unlike, f"{clause}: {unlike}"


def _check_rejected(call: Callable[[], Any], what: str) -> None:
    try:
        call()
    except (ValueError, TypeError) as error:
        message = str(error)
    else:
        raise AssertionError(f"{what} must raise ValueError or TypeError, but was accepted")
    assert message, f"{what} must raise an error with a message, but the message is empty"


def check_candidates(make: Make) -> None:
    """Check that candidates are finite rows of the right shape and dtype, and that ``out`` is used."""
    for dtype in ("float64", "float32"):
        es = make(_start(), 0.5, rng=1, dtype=dtype)
        rows = es.batch_size
        X = es.ask()
        assert X.shape == (rows, es.n), f"ask() must return (batch_size, n), not {X.shape}"
        assert X.dtype == np.dtype(dtype), f"ask() must return {dtype} if requested, not {X.dtype}"
        assert np.all(np.isfinite(X)), "ask() must return finite numbers"
        es.tell(_ellipsoid(X))
        out = np.full((es.batch_size, es.n), np.nan, dtype=dtype)
        assert es.ask(out=out) is out, "ask(out=out) must return out"
        assert np.all(np.isfinite(out)), "_sample(out) must fill out"


def check_quiet(make: Make) -> None:
    """Check that the caller's arrays and the global generators of NumPy and Python are not modified."""
    x0 = _start()
    before = _global_generators()
    es = make(x0, 0.5, rng=1)
    for _ in range(3):
        values = _ellipsoid(es.ask())
        kept = values.copy()
        es.tell(values)
        assert np.array_equal(values, kept), "tell() must not modify the values passed to it"
    assert np.array_equal(x0, _start()), "x0 must not be modified"
    untouched = before == _global_generators()
    assert untouched, "the global random generators must not be used: use self.generator()"


def _global_generators() -> str:
    return repr((np.random.get_state(), random.getstate()))  # noqa: NPY002


def check_draws(make: Make) -> None:
    """Check that every generation draws new numbers, even if all evaluations of the last one failed."""
    es = make(_start(), 0.5, rng=1)
    X = es.ask().copy()
    es.tell(np.full(len(X), np.nan))
    rows = min(len(X), es.batch_size)
    assert not np.array_equal(X[:rows], es.ask()[:rows]), (
        "every generation must draw new numbers, but two drew the same: use self.generator()"
    )


def check_learns(make: Make) -> None:
    """Check that the mean moves, and that its direction depends on the ranks of the candidates."""
    es = _advanced(make)
    moved = not np.array_equal(es.mean, _start())
    assert moved, f"_update() must move the mean, but it is unchanged after {GENERATIONS} generations"
    other = _advanced(make, lambda X: -_ellipsoid(X))
    assert not np.array_equal(es.mean, other.mean), (
        "ranks must determine the run, but f and -f give the same run: use order in _update()"
    )


def check_monotone(make: Make) -> None:
    """Check that only ranks matter: a strictly increasing transform of f does not change the run.

    A strategy that declares ``uses_values`` is exempt.
    """
    if make(_start(), 0.5).uses_values:
        return
    a, b = _advanced(make), _advanced(make, lambda X: np.log(_ellipsoid(X)) * 3 - 7)
    _check_same(a, b, "only ranks may matter, but an increasing transform of f changes the run")


def check_counters(make: Make) -> None:
    """Check that counters are correct, and that the best point is one of the candidates."""
    es = make(_start(), 0.5, rng=1, popsize=9)
    assert (es.n, es.popsize, es.generation, es.evaluations) == (N, 9, 0, 0), "a new strategy must start at 0"
    seen = []
    for _ in range(5):
        X = es.ask()
        seen.append(X.copy())
        es.tell(_ellipsoid(X))
    rows = np.vstack(seen)
    assert (es.generation, es.evaluations) == (5, len(rows)), (
        f"5 batches with {len(rows)} rows in total were told, but generation, evaluations = {es.generation}, "
        f"{es.evaluations}"
    )
    k = int(np.argmin(_ellipsoid(rows)))
    assert np.array_equal(es.best_x, rows[k]), "best_x must be the best candidate so far"
    assert 0 < es.spread < math.inf, f"spread must be the size of a typical step, but is {es.spread}"
    result = es.result
    for name in ("x", "fun", "nfev", "nit", "success"):
        assert name in result, f"result must have {name}"
    text = repr(es)
    assert es.name and es.name in text and "\n" not in text, f"repr() must be a line with the name: {text}"  # noqa: PT018


def check_seed(make: Make) -> None:
    """Check that a seed determines the run bit for bit, that seeds differ, and that a key is a seed."""
    a, b, c = (_advanced(make, rng=seed) for seed in (3, 3, 4))
    _check_same(a, b, "a seed must determine the run")
    assert not np.array_equal(a.mean, c.mean), "another seed must give another run"
    _check_same(a, _advanced(make, rng=a.key), "rng=es.key must reproduce the run of es")


def check_translation(make: Make) -> None:
    """Check that translating f and the start translates the run."""
    offset = np.full(N, 4.0)
    exact = not make(_start(), 0.5).uses_values
    generations = GENERATIONS if exact else 5  # differences of values amplify rounding errors
    a = _advanced(make, generations=generations)
    b = _advance(make(_start() + offset, 0.5, rng=1), lambda X: _ellipsoid(X - offset), generations)
    b.mean -= offset
    if not exact:
        close = np.allclose(a.mean, b.mean, rtol=0, atol=1e-6)
        assert close, "translating f and x0 must translate the run, but for rounding errors"
        return
    _check_same(a, b, "translating f and x0 must translate the run", rtol=1e-7)


def check_scale(make: Make) -> None:
    """Check that scaling x and sigma0 scales the run, also with one step size per coordinate."""
    a = _advanced(make)
    b = _advance(make(_start() * 1024, 512.0, rng=1), lambda X: _ellipsoid(X / 1024))
    b.mean /= 1024
    b.sigma /= 1024
    _check_same(a, b, "scaling x and sigma0 must scale the run", rtol=1e-9)
    scale = 4.0 ** np.arange(N)
    c = _advance(make(_start() * scale, 0.5 * scale, rng=1), lambda X: _ellipsoid(X / scale))
    c.mean /= scale
    c.sigma *= 0.5 / c.sigma0
    _check_same(a, c, "sigma0 per coordinate must scale the run: use self.steps", rtol=1e-9)


def check_resume(make: Make) -> None:
    """Check that a resumed run equals the unbroken one bit for bit, also if saved between ask and tell."""
    a, b = _advanced(make, generations=2 * GENERATIONS), _advanced(make)
    b.ask()
    c = make(np.zeros(N), 1.0, rng=99)
    c.set_state(b.get_state())
    unsaved = _unsaved_attributes(b, c)
    unlike = _difference(a, _advance(c))
    assert not unlike, (
        f"a resumed run must equal the uninterrupted one, but {unlike}; changed and not in STATE: {unsaved}"
    )
    for name in ("evaluations", "failures", "best_fun", "spread"):
        assert getattr(a, name) == getattr(c, name), f"a resumed run must keep {name}"
    d = _advance(make(_start(), np.linspace(0.1, 1, N), rng=1))
    c.set_state(d.get_state())
    _check_same(
        _advance(c),
        _advance(d),
        "a resumed run with a step size per coordinate must equal the uninterrupted one",
    )


def _unsaved_attributes(a: Strategy, b: Strategy) -> str:
    """Return the names of public attributes that differ between two strategies and are not in STATE."""
    known = {*state_names(type(a)), "options"}
    unlike = [
        name
        for name, value in vars(a).items()
        if name not in known and not name.startswith("_")
        if isinstance(value, int | float | np.ndarray | list)
        if not np.array_equal(np.asarray(value), np.asarray(getattr(b, name, np.nan)))
    ]
    return ", ".join(unlike) or "no public attribute"


def check_call_order(make: Make) -> None:
    """Check that tell() before ask() and a second ask() raise, and that failed calls change nothing."""
    es = make(_start(), 0.5, rng=1)
    rows = es.batch_size
    _check_rejected(lambda: es.tell(np.zeros(rows)), "tell before ask")
    X = es.ask()
    _check_rejected(es.ask, "ask twice")
    for values in (np.zeros(rows + 1), np.zeros((rows, 1)), [None] * rows, "abc"):
        _check_rejected(lambda values=values: es.tell(values), f"tell({values!r:.40})")  # type: ignore[misc]
    es.tell(_ellipsoid(X))
    _check_same(
        _advance(es, generations=GENERATIONS - 1), _advanced(make), "failed calls must not change the run"
    )


def check_arguments(make: Make) -> None:
    """Check that invalid arguments raise errors with a message."""
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
        ("rng is a string", (np.zeros(3), 1.0), {"rng": "seed"}),
        ("x0 outside bounds", (np.zeros(3), 1.0), {"bounds": [1, 2]}),
        ("an unknown option", (np.zeros(3), 1.0), {"no_such_option": 1}),
    ]
    for what, positional, options in bad:
        _check_rejected(lambda p=positional, o=options: make(*p, **o), what)  # type: ignore[misc]


def check_failures(make: Make) -> None:
    """Check that NaN is counted and ranks last; a generation of only NaN does not change mean and sigma."""
    es = _advanced(make, generations=5)
    mean, sigma = es.mean.copy(), es.sigma
    rows = len(es.ask())
    es.tell(np.full(rows, np.nan))
    unchanged = np.array_equal(es.mean, mean) and es.sigma == sigma
    assert unchanged, "a generation of only NaN must not change mean and sigma"
    assert es.failures == rows, f"failures must be {rows} after {rows} NaN values, but is {es.failures}"
    if es.uses_values:
        return
    a, b = (_advanced(make, generations=3) for _ in range(2))
    values = _ellipsoid(a.ask())
    worst = np.arange(len(values)) == np.argmax(values)
    a.tell(np.where(worst, np.nan, values))
    b.ask()
    b.tell(np.where(worst, 1e300, values))
    _check_same(a, b, "NaN must rank last: NaN for the worst value must not change the run", rtol=1e-12)
    only_one = np.full(len(a.ask()), np.nan)
    only_one[len(only_one) // 2] = 1.0
    a.tell(only_one)
    assert np.all(np.isfinite(a.mean)), "one value among NaN must keep the mean finite: order may be short"


def check_single_precision(make: Make) -> None:
    """Check that in float32 the mean stays float32 and the run still descends."""
    es = make(_start(), 0.5, rng=1, dtype="float32")
    first = float(_ellipsoid(es.mean[None])[0])
    _advance(es, generations=300)
    assert es.mean.dtype == np.float32, f"the mean must stay float32, but became {es.mean.dtype}"
    assert es.best_fun < 1e-2 * first, f"a float32 run must descend, but went from {first} to {es.best_fun}"


def check_bounds(make: Make) -> None:
    """Check that with each ``boundary``, all candidates lie within bounds, and a run can be resumed."""
    low, high = np.full(N, -2.0), np.where(np.arange(N) == 2, np.inf, 2.5)
    boundaries: list[Boundary] = list(BOXES)  # type: ignore[arg-type]
    for boundary in boundaries:
        es, resumed = (make(_start(), 0.5, rng=1, bounds=(low, high), boundary=boundary) for _ in range(2))
        for generation in range(2 * GENERATIONS):
            if generation == GENERATIONS:
                resumed.set_state(es.get_state())
            X = es.ask()
            clause = f"candidates must lie within bounds with boundary={boundary!r}"
            assert np.all((low <= X) & (high >= X)), clause
            es.tell(_ellipsoid(X - 3.0))
        assert np.all((es.best_x >= low) & (es.best_x <= high)), "best_x must lie within bounds"
        value = float(_ellipsoid(es.best_x[None] - 3.0)[0])
        assert math.isclose(es.best_fun, value, rel_tol=1e-12), "best_fun must be the value of best_x"
        _advance(resumed, lambda X: _ellipsoid(X - 3.0))
        _check_same(es, resumed, f"a resumed run with boundary={boundary!r} must equal the uninterrupted one")


def check_abilities(make: Make) -> None:
    """Check that the methods inject, resample and ask_blocks work if the class declares them, else raise."""
    es = make(_start(), 0.5, rng=1)
    point = _start() + 0.1
    if es.can_inject:
        es.inject(point)
        assert np.any(np.all(es.ask() == point, axis=1)), "an injected point must be among the candidates"
        saved = [each for name, each in es.get_state().items() if name.endswith("injection.points")]
        assert [np.shape(each) for each in saved] == [(1, N)], (
            "an injected point must be in the state until tell()"
        )
    else:
        _check_rejected(lambda: es.inject(point), "inject() without can_inject")
        es.ask()
    assert es.candidates is not None
    before = es.candidates.copy()
    if es.can_resample:
        es.resample([1, 3])
        redrawn = np.flatnonzero(np.any(es.candidates != before, axis=1)).tolist()
        assert redrawn == [1, 3], f"resample([1, 3]) must draw these rows again, but drew {redrawn}"
    else:
        _check_rejected(lambda: es.resample([1, 3]), "resample() without can_resample")
    es.tell(_ellipsoid(before))
    assert len(es.injected) == 0, "an injected point must be removed by tell()"
    if es.can_stream:
        rows = np.concatenate([block.copy() for block in es.ask_blocks(2)])
        assert rows.shape == before.shape, f"ask_blocks() must yield all candidates, but yielded {len(rows)}"
    else:
        _check_rejected(lambda: es.ask_blocks(2), "ask_blocks() without can_stream")


def check_solves_the_sphere(make: Make) -> None:
    """Check that the sphere is solved to 1e-10 for n = 1 to 20, within ten times the budget of CMA-ES.

    With a fixed step size sigma, the mean must come within sigma sqrt(n) of the optimum.
    """
    for n in (1, 2, 3, 5, 10, 20):
        es = make(np.full(n, 2.0), 1.0, rng=n, tolx=0.0, tolfun=0.0)
        if es.fixed_step:
            _check_fixed_step(make(np.full(n, 10.0), 0.5, rng=n, popsize=20, tolx=0.0, tolfun=0.0))
            continue
        while es.best_fun > 1e-10 and es.evaluations < 4000 + 2000 * n and not es.stop():
            es.tell(np.sum(np.square(es.ask()), axis=1))
        assert es.best_fun <= 1e-10, (
            f"the sphere must be solved, but n={n} reached {es.best_fun:.3g} in {es.evaluations} evaluations"
        )


def _check_fixed_step(es: Strategy) -> None:
    least = math.inf
    for _ in range(200):
        es.tell(np.sum(np.square(es.ask()), axis=1))
        least = min(least, float(np.sum(np.square(es.mean))))
    limit = es.n * es.sigma**2
    assert least < limit, f"the mean must come within sigma sqrt(n), but n = {es.n} reached f = {least:.3g}"


def check_stops(make: Make) -> None:
    """Check that ``stop()`` is empty before convergence; after it, it says so unless steps are fixed."""
    es = make(np.full(5, 2.0), 1.0, rng=1)
    assert es.stop() == {}, f"stop() must be empty before the first generation, but is {es.stop()}"
    if es.fixed_step:
        return
    while not es.stop() and es.evaluations < 50_000:
        es.tell(np.sum(np.square(es.ask()), axis=1))
    converged = set(es.stop()) & {"tolx", "tolfun", "converged"}
    assert converged, f"stop() must contain tolx or tolfun on a solved sphere, but is {es.stop()}"


CHECKS: tuple[Callable[[Make], None], ...] = (
    check_candidates,
    check_quiet,
    check_draws,
    check_learns,
    check_monotone,
    check_counters,
    check_seed,
    check_translation,
    check_scale,
    check_resume,
    check_call_order,
    check_arguments,
    check_failures,
    check_single_precision,
    check_bounds,
    check_abilities,
    check_solves_the_sphere,
    check_stops,
)
