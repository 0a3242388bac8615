"""A search with integers or choices succeeds only at the optimum of its neighbourhood."""

import numpy as np
import pytest

import lmma
from adapting import BY_RANKS

KINDS = ("absolute", "squares", "rugged", "plateau", "coupled")


def problem(seed):
    """Return a random function, its space, and the number of its integers: one to five, 10 to 10^6 wide."""
    rng = np.random.default_rng(seed)
    integers, reals, choices = rng.integers(1, 6), rng.integers(0, 3), rng.integers(0, 3)
    width = 10 ** rng.uniform(1, 6, integers)
    best = np.rint(rng.uniform(-0.5, 0.5, integers) * width)
    variables = {f"i{j}": lmma.Integer(-int(wide / 2) - 1, int(wide / 2) + 1) for j, wide in enumerate(width)}
    variables |= {f"r{j}": lmma.Real(-1, 1) for j in range(reals)}
    variables |= {f"c{j}": lmma.Choice(list(range(int(rng.integers(2, 6))))) for j in range(choices)}
    kind = KINDS[seed % len(KINDS)]

    def fun(values):
        x = np.array([values[f"i{j}"] for j in range(integers)]) - best
        rest = sum((values[f"r{j}"] - 0.3) ** 2 for j in range(reals))
        rest += sum(values[f"c{j}"] != 1 for j in range(choices))
        if kind == "absolute":
            return float(np.abs(x).sum() + rest)
        if kind == "squares":
            return float(x**2 @ np.logspace(0, 3, integers) + rest)
        if kind == "rugged":
            return float((np.abs(x) + 5 * (x % 3)).sum() + rest)
        if kind == "plateau":
            return float(np.maximum(np.abs(x) - 0.02 * width, 0).sum() + rest)
        return float(np.abs(x).sum() + abs(x.sum()) + rest)

    return fun, lmma.Space(**variables), kind


def better_neighbours(fun, space, found):
    """Return the neighbours of ``found`` with a lower value: one integer changed by one, or one choice."""
    value, better = fun(found), []
    for name, variable in space.items():
        if isinstance(variable, lmma.Integer):
            others = [k for k in (found[name] - 1, found[name] + 1) if variable.low <= k <= variable.high]
        else:
            others = variable.values if isinstance(variable, lmma.Choice) else ()
        better += [{name: other} for other in others if fun({**found, name: other}) < value]
    return better


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_success_is_the_optimum_of_the_neighbourhood(first):
    methods = BY_RANKS
    succeeded = 0
    for seed in range(first, first + 20):
        fun, space, kind = problem(seed)
        method = "auto" if seed % 2 else methods[seed // 2 % len(methods)]
        result = lmma.minimize(fun, space, rng=seed, method=method, maxfevals=20_000)
        if result.success:
            succeeded += 1
            assert better_neighbours(fun, space, result.x) == [], (seed, method, kind)
    assert succeeded >= 14


def test_a_wide_integer_is_found():
    space = lmma.Space(a=lmma.Integer(-(10**6), 10**6))
    result = lmma.minimize(lambda a: float(abs(a - 333)), space, rng=0, maxfevals=20_000)
    assert (result.x["a"], result.reason, result.success) == (333, "integer_search_exhausted", True)
    assert result.nfev < 500


@pytest.mark.parametrize("on_error", ["resample", "worst"])
def test_neighbours_that_all_fail_are_not_redrawn_and_do_not_fail_the_run(on_error, monkeypatch):
    calls, redrawn, usual = set(), [], lmma.Strategy.resample

    def resample(es, rows, attempt=1):
        redrawn.append(es.asks_for_neighbours)
        usual(es, rows, attempt)

    def lonely(x):
        """Fails if the sum is odd: at every neighbour of a point that has a value."""
        calls.add(tuple(x))
        return float(np.abs(x - 4).sum()) if x.sum() % 2 == 0 else float("nan")

    monkeypatch.setattr(lmma.Strategy, "resample", resample)
    result = lmma.minimize(
        lonely, np.zeros(8), 6.0, bounds=(-40, 40), integrality=True, rng=3, on_error=on_error,
        maxfevals=50_000, popsize=5,
    )  # fmt: skip
    assert result.reason == "integer_search_exhausted"
    for step in (*np.eye(8), *-np.eye(8)):
        assert tuple(result.x + step) in calls
    assert not any(redrawn)
    assert bool(redrawn) == (on_error == "resample")


def test_a_run_resumed_between_neighbours_equals_the_unbroken_one(tmp_path):
    def fun(x):
        return float(np.abs(x - 3).sum())

    def run(**options):
        return lmma.minimize(fun, np.zeros(10), 3.0, bounds=(-9, 9), integrality=True, rng=2, **options)

    unbroken = run()
    for left in (1, 8, 15, 19):
        file = tmp_path / f"{left}.npz"
        run(checkpoint=file, maxfevals=unbroken.nfev - left)
        resumed = run(checkpoint=file)
        assert (resumed.nfev, resumed.nit, resumed.fun) == (unbroken.nfev, unbroken.nit, unbroken.fun)
        assert np.array_equal(resumed.x, unbroken.x)
        assert resumed.message == unbroken.message
