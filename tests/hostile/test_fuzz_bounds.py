"""Random boxes: no evaluation lies outside, for any precision, method and boundary."""

import numpy as np

import lmma
from fuzzing import one_of

METHODS = lmma.methods()
BUDGET = 120


def test_no_evaluation_leaves_a_random_box(fuzz):
    fuzz(boxes, short=250, long=3_500, at_least=["inside"])


def interval(rng):
    """Return the bounds of one coordinate."""
    kind = one_of(
        rng, ["wide", "wide", "wide", "fixed", "low", "high", "none", "tiny", "spacing", "huge", "unit"]
    )
    centre = float(rng.normal() * 10.0 ** rng.integers(-3, 4))
    if kind == "wide":
        return centre, centre + 10.0 ** float(rng.uniform(-3, 3))
    if kind == "unit":  # mixed units: metres beside millionths
        return 0.0, 10.0 ** float(rng.integers(-9, 10))
    if kind == "fixed":
        return centre, centre
    if kind == "low":
        return centre, np.inf
    if kind == "high":
        return -np.inf, centre
    if kind == "none":
        return -np.inf, np.inf
    if kind == "tiny":
        return centre, centre + abs(centre) * 1e-12
    if kind == "spacing":
        return centre, float(np.nextafter(centre, np.inf))
    return -(10.0 ** float(rng.uniform(10, 300))), 10.0 ** float(rng.uniform(10, 300))


def boxes(rng):
    n = int(rng.integers(1, 7))
    low, high = np.array([interval(rng) for _ in range(n)]).T
    share = rng.random(n)
    with np.errstate(over="ignore", invalid="ignore"):
        between = np.clip(low + share * (high - low), low, high)
    x0 = np.where(np.isfinite(between), between, np.clip(rng.normal(size=n), low, high))
    method = one_of(rng, METHODS)
    optimum = rng.normal(size=n) * 10.0 ** rng.integers(-2, 3)
    outside = []

    def leaves(x):
        x = x.astype(np.float64)  # compared exactly
        return not np.all((x >= low) & (x <= high))  # NaN is outside too

    def fun(x):
        if leaves(x):
            outside.append(x.copy())
        with np.errstate(over="ignore"):
            return min(float(np.sum(np.abs(x.astype(float) - optimum))), 1e300)

    given = {
        "bounds": one_of(rng, [list(zip(low, high, strict=True)), Limits(low, high)]),
        "boundary": one_of(rng, ["smooth", "reflect", "project"]),
        "dtype": one_of(rng, ["float64", "float32"]),
        "sigma0": one_of(rng, [None, None, 1.0, 1e-3, 1e3, 10.0 ** rng.uniform(-3, 3, n)]),
        "restarts": one_of(rng, [0, 0, 2]),
        "rng": int(rng.integers(1000)),
    }
    if rng.random() < 0.5:
        rows, given["vectorized"] = fun, True
        objective = lambda X: np.array([rows(x) for x in X])  # noqa: E731
    else:
        objective = fun
    told = f"{method}, {low.tolist()} {high.tolist()}, {given}"
    try:
        with np.errstate(all="ignore"):  # boxes up to 1e300: squares overflow, and may
            result = lmma.minimize(objective, x0, method=method, maxfevals=BUDGET, **given)
    except (ValueError, TypeError) as error:
        words = str(error)
        assert any(name in words for name in ("bounds", "x0", "sigma0", "dtype")), f"{words}: {told}"
        narrow = given["dtype"] == "float32" and not np.all(_has_single(low, high))
        nothing = np.array_equal(low, high)  # is left to search for
        # the square, and with it the default step, is infinite; or x0 itself in single precision
        far = np.abs(x0).max() > (1e150 if given["dtype"] == "float64" else 1e38)
        assert narrow or nothing or far or given["sigma0"] is not None, (
            f"a fair box is refused: {words}: {told}"
        )
        return "refused"
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}: {told}") from error
    assert not outside, f"{len(outside)} of {result.nfev} evaluations outside, such as {outside[0]}: {told}"
    x = np.asarray(result.x)
    assert not leaves(x), f"x = {x} is outside: {told}"
    assert np.isfinite(x).all(), f"x = {x}: {told}"
    assert 0 < result.nfev <= BUDGET, told
    assert result.message, told
    value = float(objective(x[np.newaxis].copy())[0] if given.get("vectorized") else objective(x.copy()))
    assert value == result.fun, f"fun(x) = {value}, result.fun = {result.fun}: {told}"
    return "inside"


class Limits:
    """As SciPy's Bounds."""

    def __init__(self, lb, ub):
        self.lb, self.ub = lb, ub

    def __repr__(self):
        return "Bounds"


def _has_single(low, high):
    """Return for which intervals a number in single precision lies inside."""
    with np.errstate(over="ignore"):
        below = low.astype(np.float32)
        first = np.where(below < low, np.nextafter(below, np.float32(np.inf)), below)
    return (first <= high) & (np.isfinite(first) | ~np.isfinite(low))
