"""From what was seen of a function to what it is called, and to what to do about it."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.checking.measure import Findings
from lmma.checking.probe import Probe

if TYPE_CHECKING:
    from lmma.run.options import RunOptions

# What a function may be, and in how many words; the first that fits is taken
KINDS = {
    "failing": "no call gave a number",
    "constant": "constant as far as one can see",
    "noisy": "noisy: the same point gives different values",
    "discrete": "of integers or choices alone",
    "piecewise constant": "piecewise constant: plateaus with steps between them",
    "rounded": "rounded: values have few digits",
    "single precision": "in single precision: values have about seven digits",
    "structureless": "without structure: neighbours differ as much as strangers",
    "rough": "rough: neighbours differ by more than the last digits",
    "jumping": "with jumps",
    "kinked": "continuous, with kinks",
    "rugged": "smooth, with many valleys",
    "linear": "linear where it was looked at",
    "smooth": "smooth and exact",
}

HIDDEN = 0.3  # noise in units of what a step changes, from which ranks mean little
FAINT = 0.01  # below which they are right until steps are short
BLIND = 0.2  # differences of neighbours, in the same units, from which nothing can be learned
ROUGH = 1e-9  # from which finite differences are not exact any more
KINK = 1.9  # order by which fourth differences shrink: 0 at a jump, 1 at a kink, 2 where curvature jumps
VALLEYS = 4  # turns on a line, which no quartic has
SLOW = 5e-3  # seconds a call, from which processes pay
SMALL, LARGE = 1e-6, 1e100  # beyond, changes of values do not fit SciPy's tolerances and products of slopes
APART = 1e3  # ratio of effects of equal steps from which variables are badly scaled
TOO_FAR_APART = 1e9  # from which BFGS's products lose all digits
DENSE_UP_TO = 1000  # variables for which BFGS's matrix is kept


def kind_of(found: Findings, probe: Probe) -> str:
    """Return what the function is, a key of KINDS."""
    if not probe.values:
        return "failing"
    if len(set(probe.values)) == 1:
        return "constant"
    if found.differ:
        return "noisy"
    if not found.lines:
        return "discrete"
    return _few_values(found) or _not_smooth(found) or "smooth"


def _few_values(found: Findings) -> str | None:
    """Return what a function is that has few values or few digits."""
    steps = found.quanta > 4 or (found.digits.whole and found.plateau > 1e-3)
    if found.plateau > 0 and (not found.digits.rounded or steps):
        return "piecewise constant"
    if found.digits.rounded:
        return "piecewise constant" if found.digits.significant <= 2 else "rounded"
    return "single precision" if found.digits.single else None


def _not_smooth(found: Findings) -> str | None:
    """Return what a function is whose differences do not vanish with the step."""
    if found.level > BLIND * found.scale:
        return "structureless"
    if found.level > ROUGH * found.scale:
        return "rough"
    if found.order < KINK:
        return "jumping" if found.jump > 0 else "kinked"
    if found.turning >= VALLEYS:
        return "rugged"
    if found.linear:
        return "linear"
    slopes = found.slopes
    usual = max([abs(slope) for slope in slopes] + [found.scale])
    if len(slopes) > 2 and abs(slopes[-1] - slopes[-2]) > 1e-3 * usual:
        return "rough"
    return None


def seconds_a_call(probe: Probe) -> float:
    """Return the median duration of a call, the first one aside: it may load what it needs."""
    return statistics.median(probe.seconds[1:] or probe.seconds or [math.nan])


def effects(found: Findings) -> dict[int, float]:
    """Return by how much a step of each variable that was tried changes the value."""
    return {i: max(abs(a), abs(b)) for i, (a, b) in found.effects.items() if math.isfinite(a + b)}


def ratio_of_effects(found: Findings) -> float:
    """Return how many times more the strongest variable changes the value than the weakest that does."""
    least = 3 * max(found.level, found.digits.quantum(found.at_centre))
    known = [effect for effect in effects(found).values() if effect > least]
    return max(known) / min(known) if known else 1.0


def ill_scaled(found: Findings) -> bool:
    """Return whether variables differ so much that SciPy's steps and products do not fit them all."""
    return found.fits is False or ratio_of_effects(found) > TOO_FAR_APART


def is_extreme(found: Findings) -> bool:
    """Return whether values are so small or large that products of them leave the range of numbers."""
    scale = max(found.scale, 0.0)
    return 0 < scale < SMALL or scale > LARGE


def use_scipy(kind: str, found: Findings, probe: Probe) -> bool:
    """Return whether SciPy's methods with finite differences are the better choice."""
    return (
        kind == "smooth"
        and probe.failed == 0
        and found.complete
        and not ill_scaled(found)
        and not is_extreme(found)
        and not probe.discrete
        and probe.run.options.space is None
        and probe.evaluate.beside is None
    )


def scipys_arguments(found: Findings, probe: Probe) -> dict[str, Any]:
    """Return what to call ``scipy.optimize.minimize(fun, x0, **arguments)`` with."""
    given: dict[str, Any] = {"args": probe.run.options.args} if probe.run.options.args else {}
    if not probe.bounded and found.n <= DENSE_UP_TO:
        gtol = {"options": {"gtol": 1e-5 * found.scale}} if found.scale < 1e-2 else {}
        return given | {"method": "BFGS", "jac": "3-point"} | gtol
    if probe.bounded:
        given["bounds"] = list(zip(probe.lower.tolist(), probe.upper.tolist(), strict=True))
    # evaluations of differences count: the default of 15,000 ends large problems early
    more = {"maxfun": max(15_000, 2000 * found.n)}
    return given | {"method": "L-BFGS-B", "jac": "3-point", "options": more}


def suggestions(kind: str, found: Findings, probe: Probe) -> dict[str, Any]:
    """Return what to call ``lmma.minimize(fun, x0, **arguments)`` with, besides what was given."""
    arguments: dict[str, Any] = {"method": "auto"}
    sigma0 = step_size(kind, found, probe)
    if sigma0 is not None:
        arguments["sigma0"] = sigma0
    if kind == "noisy":
        arguments["noise"] = "auto"
        if takes_a_seed(probe.run.fun, probe.run.options):
            arguments["common_random_numbers"] = True
    if kind == "rugged":
        arguments["restarts"] = "bipop"
    if kind == "smooth" and not probe.discrete and probe.failed == 0 and probe.evaluate.beside is None:
        arguments["polish"] = True
    if 0 < found.scale < SMALL and kind != "noisy":
        arguments["tolfun"] = 1e-12 * found.scale if found.scale > 1e-290 else 0.0
    if seconds_a_call(probe) >= SLOW and not probe.run.options.vectorized:
        arguments["workers"] = -1
        popsize = _popsize_for_cores(probe.run.strategy.popsize)
        if popsize is not None:
            arguments["popsize"] = popsize
    if probe.run.options.timeout is not None:
        arguments["timeout"] = probe.run.options.timeout
    return arguments


def _popsize_for_cores(usual: int) -> int | None:
    """Return a population that lets no core idle, None where the usual one does."""
    from lmma.evaluation.choose import _processes

    cores = _processes(-1)
    return cores if cores > usual else None


def takes_a_seed(fun: Any, options: RunOptions) -> bool:
    """Return whether a function could be told which random numbers to take, and is not yet."""
    from lmma.evaluation.seeded import wanted_seeds

    if options.common_random_numbers is not None or options.space is not None:
        return False
    try:
        return not wanted_seeds(fun, options.args, None) and "seed" in wanted_seeds(fun, options.args, True)
    except ValueError:
        return False


# The first step


def step_size(kind: str, found: Findings, probe: Probe) -> float | list[float] | None:
    """Return a better initial step size than the one that was looked with; None if there is none."""
    if probe.bounded or probe.discrete or probe.run.options.space is not None:
        return None
    step = probe.step
    plain = float(step[0]) if np.ptp(step) == 0 else None
    if kind == "constant" or (kind == "piecewise constant" and _mostly_flat(found)) or kind == "linear":
        return 10 * plain if plain is not None else (10 * step).tolist()
    if (
        kind not in ("smooth", "rugged", "kinked", "rounded", "single precision", "jumping")
        or not found.effects
    ):
        return None
    shares = _steps_to_minimum(found)
    if ratio_of_effects(found) >= APART**2 and len(effects(found)) == found.n:
        return _equalised(found, step, shares)
    if not shares or plain is None:
        return None
    factor = statistics.median(shares) / 3
    if factor <= 10 or kind == "rugged":  # that a step is too long is soon learned
        return None
    return float(f"{plain * min(factor, 100.0):.3g}")


def _steps_to_minimum(found: Findings) -> list[float]:
    """Return how many steps away a parabola along each variable that was tried has its minimum."""
    shares = []
    for down, up in found.effects.values():
        curvature = up + down
        if math.isfinite(curvature) and curvature > 8 * found.level:
            shares.append(abs((down - up) / (2 * curvature)))
    return shares


def _equalised(found: Findings, step: Any, shares: list[float]) -> list[float]:
    """Return steps that change the value about equally."""
    known = effects(found)
    size = np.array([known[i] for i in range(found.n)])
    usual = float(np.median(size[size > 0]))
    factor = np.sqrt(usual / np.where(size > 0, size, usual))
    # where parabolas say how far their minima are, the whole is made to fit them
    fit = 1.0
    if len(shares) == found.n:
        fit = float(np.median(np.array(shares) / 3 / factor))
    steps = step * factor * (fit if 0 < fit < math.inf else 1.0)
    return [float(f"{value:.3g}") for value in steps]


def _mostly_flat(found: Findings) -> bool:
    pairs = np.concatenate([np.diff(line) for line in found.lines])
    return bool(np.count_nonzero(pairs == 0) > len(pairs) / 2)
