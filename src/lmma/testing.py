"""The contract of a strategy as a public suite, for the library's strategies and for users' own.

>>> import lmma
>>> from lmma.testing import check_strategy
>>> check_strategy(lmma.LMMAES)

Each check is a function of ``make(x0, sigma0, **options) -> strategy`` and raises ``AssertionError`` with
the clause that is broken.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma.strategies import Strategy, strategy_class
from lmma.strategies.parts.bounds import WAYS, Boundary
from lmma.strategies.parts.checks import Seed
from lmma.strategies.parts.state import state_names

Make = Callable[..., Strategy]
Array = npt.NDArray[np.floating]
Objective = Callable[[Array], Array]
N = 6
GENERATIONS = 30


def check_strategy(strategy: str | type[Strategy] | Make) -> None:
    """Run every clause of the contract on a strategy.

    Parameters
    ----------
    strategy : str, class or callable
        A name, ``"module:Class"``, a subclass of :class:`lmma.Strategy`, or a factory
        ``make(x0, sigma0, **options)``.

    Raises
    ------
    AssertionError
        With one sentence that says which clause is broken.
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


def _unlike(a: Strategy, b: Strategy, rtol: float = 0.0) -> str:
    """Return how two runs differ, or nothing."""
    if not np.allclose(a.mean, b.mean, rtol=rtol, atol=rtol * a.sigma):
        return f"the means differ by {np.max(np.abs(a.mean - b.mean)):.3g}"
    if not math.isclose(a.sigma, b.sigma, rel_tol=rtol):
        return f"sigma is {a.sigma} and {b.sigma}"
    return ""


def _same(a: Strategy, b: Strategy, clause: str, rtol: float = 0.0) -> None:
    unlike = _unlike(a, b, rtol)
    assert not unlike, f"{clause}: {unlike}"


def _refused(call: Callable[[], Any], what: str) -> None:
    try:
        call()
    except (ValueError, TypeError) as error:
        words = str(error)
    else:
        raise AssertionError(f"{what} must be refused with ValueError or TypeError, but was accepted")
    assert words, f"{what} must be refused in words, but the error has no message"


def check_candidates(make: Make) -> None:
    """Candidates are finite rows of the right shape and dtype; ``out`` is filled and returned."""
    for dtype in ("float64", "float32"):
        es = make(_start(), 0.5, rng=1, dtype=dtype)
        X = es.ask()
        assert X.shape == (es.popsize, es.n), f"ask() must return (popsize, n), not {X.shape}"
        assert X.dtype == np.dtype(dtype), f"ask() must return {dtype} where asked for, not {X.dtype}"
        assert np.all(np.isfinite(X)), "ask() must return finite numbers"
        es.tell(_ellipsoid(X))
        out = np.full_like(X, np.nan)
        assert es.ask(out=out) is out, "ask(out=out) must return out"
        assert np.all(np.isfinite(out)), "_sample(out) must fill out"


def check_quiet(make: Make) -> None:
    """Neither the caller's arrays nor the global generators of NumPy and Python are touched."""
    x0 = _start()
    before = _global_generators()
    es = make(x0, 0.5, rng=1)
    for _ in range(3):
        values = _ellipsoid(es.ask())
        kept = values.copy()
        es.tell(values)
        assert np.array_equal(values, kept), "tell() must not alter the values it is given"
    assert np.array_equal(x0, _start()), "x0 must not be altered"
    untouched = before == _global_generators()
    assert untouched, "the global random generators must not be touched: use self.generator()"


def _global_generators() -> str:
    return repr((np.random.get_state(), random.getstate()))  # noqa: NPY002


def check_draws(make: Make) -> None:
    """Every generation draws numbers of its own, even where nothing was learned from the last one."""
    es = make(_start(), 0.5, rng=1)
    X = es.ask().copy()
    es.tell(np.full(es.popsize, np.nan))
    assert not np.array_equal(X, es.ask()), (
        "every generation must draw other numbers, but two drew the same: use self.generator()"
    )


def check_learns(make: Make) -> None:
    """Something is learned: the mean moves, and which candidates were better decides where to."""
    es = _advanced(make)
    moved = not np.array_equal(es.mean, _start())
    assert moved, f"_update() must learn, but after {GENERATIONS} generations the mean is where it was"
    other = _advanced(make, lambda X: -_ellipsoid(X))
    assert not np.array_equal(es.mean, other.mean), (
        "ranks must decide, but f and -f give the same run: candidates are to be taken by order"
    )


def check_monotone(make: Make) -> None:
    """Only ranks count: a strictly increasing transform of f changes nothing."""
    a, b = _advanced(make), _advanced(make, lambda X: np.log(_ellipsoid(X)) * 3 - 7)
    _same(a, b, "only ranks may count, but an increasing transform of f changes the run")


def check_counters(make: Make) -> None:
    """Counters count, and the best so far is one of the candidates."""
    es = make(_start(), 0.5, rng=1, popsize=9)
    assert (es.n, es.popsize, es.generation, es.evaluations) == (N, 9, 0, 0), "a new strategy must start at 0"
    seen = []
    for _ in range(5):
        X = es.ask()
        seen.append(X.copy())
        es.tell(_ellipsoid(X))
    assert (es.generation, es.evaluations) == (5, 45), (
        f"5 generations of 9 were told, but generation, evaluations = {es.generation}, {es.evaluations}"
    )
    rows = np.vstack(seen)
    k = int(np.argmin(_ellipsoid(rows)))
    assert np.array_equal(es.best_x, rows[k]), "best_x must be the best candidate seen"
    assert 0 < es.spread < math.inf, f"spread must be the size of a typical step, but is {es.spread}"
    result = es.result
    for name in ("x", "fun", "nfev", "nit", "success"):
        assert name in result, f"result must have {name}"
    words = repr(es)
    assert es.name and es.name in words and "\n" not in words, f"repr() must be a line with the name: {words}"  # noqa: PT018


def check_seed(make: Make) -> None:
    """A seed fixes the run bit for bit; another seed gives another run; a key is a seed."""
    a, b, c = (_advanced(make, rng=seed) for seed in (3, 3, 4))
    _same(a, b, "a seed must fix the run")
    assert not np.array_equal(a.mean, c.mean), "another seed must give another run"
    _same(a, _advanced(make, rng=a.key), "rng=es.key must give the run of es")


def check_translation(make: Make) -> None:
    """Moving f and the start moves the run."""
    offset = np.full(N, 4.0)
    a = _advanced(make)
    b = _advance(make(_start() + offset, 0.5, rng=1), lambda X: _ellipsoid(X - offset))
    b.mean -= offset
    _same(a, b, "f and x0 moved must give the run moved", rtol=1e-7)


def check_scale(make: Make) -> None:
    """Scaling x and sigma0 scales the run; one step size for each coordinate is a scale of its own."""
    a = _advanced(make)
    b = _advance(make(_start() * 1024, 512.0, rng=1), lambda X: _ellipsoid(X / 1024))
    b.mean /= 1024
    b.sigma /= 1024
    _same(a, b, "x and sigma0 scaled must give the run scaled", rtol=1e-9)
    scale = 4.0 ** np.arange(N)
    c = _advance(make(_start() * scale, 0.5 * scale, rng=1), lambda X: _ellipsoid(X / scale))
    c.mean /= scale
    c.sigma *= 0.5 / c.sigma0
    _same(a, c, "sigma0 per coordinate must scale the run: use self.steps", rtol=1e-9)


def check_resume(make: Make) -> None:
    """A run resumed from its state equals the unbroken run bit for bit, also after ask without tell."""
    a, b = _advanced(make, generations=2 * GENERATIONS), _advanced(make)
    b.ask()
    c = make(np.zeros(N), 1.0, rng=99)
    c.set_state(b.get_state())
    forgotten = _forgotten(b, c)
    unlike = _unlike(a, _advance(c))
    assert not unlike, (
        f"a resumed run must equal the unbroken one, but {unlike}; not in STATE and changed: {forgotten}"
    )
    for name in ("evaluations", "failures", "best_fun", "spread"):
        assert getattr(a, name) == getattr(c, name), f"a resumed run must go on with {name}"
    d = _advance(make(_start(), np.linspace(0.1, 1, N), rng=1))
    c.set_state(d.get_state())
    _same(_advance(c), _advance(d), "a run with a step size per coordinate must be resumed as it was")


def _forgotten(a: Strategy, b: Strategy) -> str:
    """Return which attributes of two strategies that ought to be one differ, as words."""
    known = {*state_names(type(a)), "options"}
    unlike = [
        name
        for name, value in vars(a).items()
        if name not in known and not name.startswith("_")
        if isinstance(value, int | float | np.ndarray | list)
        if not np.array_equal(np.asarray(value), np.asarray(getattr(b, name, np.nan)))
    ]
    return ", ".join(unlike) or "nothing that is public"


def check_call_order(make: Make) -> None:
    """``tell`` before ``ask`` and ``ask`` twice are refused, and refusals leave the run as it was."""
    es = make(_start(), 0.5, rng=1)
    _refused(lambda: es.tell(np.zeros(es.popsize)), "tell before ask")
    X = es.ask()
    _refused(es.ask, "ask twice")
    for values in (np.zeros(es.popsize + 1), np.zeros((es.popsize, 1)), [None] * es.popsize, "abc"):
        _refused(lambda values=values: es.tell(values), f"tell({values!r:.40})")  # type: ignore[misc]
    es.tell(_ellipsoid(X))
    _same(_advance(es, generations=GENERATIONS - 1), _advanced(make), "refused calls must change nothing")


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
        ("x0 outside bounds", (np.zeros(3), 1.0), {"bounds": [1, 2]}),
        ("an unknown option", (np.zeros(3), 1.0), {"no_such_option": 1}),
    ]
    for what, positional, options in bad:
        _refused(lambda p=positional, o=options: make(*p, **o), what)  # type: ignore[misc]


def check_failures(make: Make) -> None:
    """NaN ranks last and is counted; a generation of nothing but NaN leaves mean and sigma alone."""
    es = _advanced(make, generations=5)
    mean, sigma = es.mean.copy(), es.sigma
    es.ask()
    es.tell(np.full(es.popsize, np.nan))
    alone = np.array_equal(es.mean, mean) and es.sigma == sigma
    assert alone, "a generation of nothing but NaN must leave mean and sigma alone"
    assert es.failures == es.popsize, f"{es.failures} failures were counted, but {es.popsize} told"
    a, b = (_advanced(make, generations=3) for _ in range(2))
    values = _ellipsoid(a.ask())
    worst = np.arange(a.popsize) == np.argmax(values)
    a.tell(np.where(worst, np.nan, values))
    b.ask()
    b.tell(np.where(worst, 1e300, values))
    _same(a, b, "NaN must rank last: NaN for the worst value must change nothing", rtol=1e-12)
    a.ask()
    only_one = np.full(a.popsize, np.nan)
    only_one[2] = 1.0
    a.tell(only_one)
    assert np.all(np.isfinite(a.mean)), "one value among NaN must not spoil the mean: order may be short"


def check_single_precision(make: Make) -> None:
    """In float32 the state stays float32 and the run still descends."""
    es = make(_start(), 0.5, rng=1, dtype="float32")
    first = float(_ellipsoid(es.mean[None])[0])
    _advance(es, generations=300)
    assert es.mean.dtype == np.float32, f"the mean must stay float32, but became {es.mean.dtype}"
    assert es.best_fun < 1e-2 * first, f"a float32 run must descend, but got from {first} to {es.best_fun}"


def check_bounds(make: Make) -> None:
    """With bounds every candidate lies inside, however the box is kept, and a run can be resumed."""
    low, high = np.full(N, -2.0), np.where(np.arange(N) == 2, np.inf, 2.5)
    boundaries: list[Boundary] = list(WAYS)  # type: ignore[arg-type]
    for boundary in boundaries:
        es, again = (make(_start(), 0.5, rng=1, bounds=(low, high), boundary=boundary) for _ in range(2))
        for generation in range(2 * GENERATIONS):
            if generation == GENERATIONS:
                again.set_state(es.get_state())
            X = es.ask()
            clause = f"candidates must lie within bounds with boundary={boundary!r}"
            assert np.all((low <= X) & (high >= X)), clause
            es.tell(_ellipsoid(X - 3.0))
        assert np.all((es.best_x >= low) & (es.best_x <= high)), "best_x must lie within bounds"
        value = float(_ellipsoid(es.best_x[None] - 3.0)[0])
        assert math.isclose(es.best_fun, value, rel_tol=1e-12), "best_fun must be the value of best_x"
        _advance(again, lambda X: _ellipsoid(X - 3.0))
        _same(es, again, f"a run within bounds must be resumed as it was with boundary={boundary!r}")


def check_abilities(make: Make) -> None:
    """What the class says it can do of inject, resample and ask_blocks it does; the rest it refuses."""
    es = make(_start(), 0.5, rng=1)
    point = _start() + 0.1
    if es.can_inject:
        es.inject(point)
        assert np.any(np.all(es.ask() == point, axis=1)), "an injected point must be among the candidates"
        assert len(es.get_state()["injected"]) == 1, "an injected point must be in the state until it is told"  # type: ignore[arg-type]
    else:
        _refused(lambda: es.inject(point), "inject() without can_inject")
        es.ask()
    assert es.candidates is not None
    before = es.candidates.copy()
    if es.can_resample:
        es.resample([1, 3])
        redrawn = np.flatnonzero(np.any(es.candidates != before, axis=1)).tolist()
        assert redrawn == [1, 3], f"resample([1, 3]) must draw these rows anew, but drew {redrawn}"
    else:
        _refused(lambda: es.resample([1, 3]), "resample() without can_resample")
    es.tell(_ellipsoid(before))
    assert len(es.injected) == 0, "an injected point must be gone once it is told"
    if es.can_stream:
        rows = np.concatenate([block.copy() for block in es.ask_blocks(2)])
        assert rows.shape == before.shape, f"ask_blocks() must give all candidates, but gave {len(rows)}"
    else:
        _refused(lambda: es.ask_blocks(2), "ask_blocks() without can_stream")


def check_solves_the_sphere(make: Make) -> None:
    """The sphere is solved to 1e-10 from n = 1 up, within ten times CMA-ES's budget.

    A method of a fixed step size must bring the mean within one of them, times the root of n.
    """
    for n in (1, 2, 3, 5, 10, 20):
        es = make(np.full(n, 2.0), 1.0, rng=n, tolx=0.0, tolfun=0.0)
        if es.fixed_step:
            _check_that_it_comes_near(make(np.full(n, 10.0), 0.5, rng=n, popsize=20, tolx=0.0, tolfun=0.0))
            continue
        while es.best_fun > 1e-10 and es.evaluations < 4000 + 2000 * n and not es.stop():
            es.tell(np.sum(np.square(es.ask()), axis=1))
        assert es.best_fun <= 1e-10, (
            f"the sphere must be solved, but n = {n} got to {es.best_fun:.3g} in {es.evaluations} evaluations"
        )


def _check_that_it_comes_near(es: Strategy) -> None:
    least = math.inf
    for _ in range(200):
        es.tell(np.sum(np.square(es.ask()), axis=1))
        least = min(least, float(np.sum(np.square(es.mean))))
    limit = es.n * es.sigma**2
    assert least < limit, f"the mean must come as near as steps let it, but n = {es.n} got to {least:.3g}"


def check_stops(make: Make) -> None:
    """``stop()`` is empty on the way and names tolx or tolfun once converged, unless steps are fixed."""
    es = make(np.full(5, 2.0), 1.0, rng=1)
    assert es.stop() == {}, f"stop() must be empty before the first generation, but is {es.stop()}"
    if es.fixed_step:
        return
    while not es.stop() and es.evaluations < 50_000:
        es.tell(np.sum(np.square(es.ask()), axis=1))
    converged = set(es.stop()) & {"tolx", "tolfun"}
    assert converged, f"stop() must see a solved sphere converge, but is {es.stop()}"


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
