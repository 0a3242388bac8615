"""Classify a function by its measurements and suggest arguments for minimising it."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.checking.measure import Findings
from lmma.checking.probe import Probe

if TYPE_CHECKING:
    from lmma.run.options import RunOptions

# Kinds of functions with their descriptions
KINDS = {
    "failing": "every call failed",
    "constant": "constant at all points tried",
    "noisy": "noisy: the same point gives different values",
    "discrete": "only integer or categorical variables",
    "piecewise constant": "piecewise constant: plateaus separated by steps",
    "rounded": "rounded: values have few digits",
    "single precision": "single precision: values have about seven digits",
    "structureless": "no structure: nearby points differ as much as distant ones",
    "rough": "rough: nearby points differ by more than rounding errors",
    "jumping": "discontinuous: values jump",
    "kinked": "continuous, with kinks",
    "rugged": "smooth, with many local minima",
    "linear": "linear at all points tried",
    "smooth": "smooth and exact",
}

# Noise and roughness are in units of the change of the value over one step
NOISE_HIGH = 0.3  # many candidates are ranked wrongly
NOISE_LOW = 0.01  # below, ranks are correct until steps are short
STRUCTURELESS = 0.2  # differences between close points
ROUGH = 1e-9  # finite differences become inexact
KINK = 1.9  # order by which fourth differences shrink: 0 at a jump, 1 at a kink, 2 where curvature jumps
VALLEYS = 4  # turning points on a line; a quartic has at most three
SLOW = 5e-3  # seconds per call from which parallel processes pay off
SMALL = 1e-6  # change of the value over one step, below which tolfun= should be smaller
PLATEAU = 1e4  # largest change on a line relative to the median over one step; about 100 for a quartic
BADLY_SCALED = 1e3  # ratio between the effects of equal steps


def kind_of(found: Findings, probe: Probe) -> str:
    """Classify the function; return a key of KINDS."""
    if not probe.values:
        return "failing"
    if len(set(probe.values)) == 1:
        return "constant"
    if found.repeats_differ:
        return "noisy"
    if not found.lines:
        return "discrete"
    return _quantised_kind(found) or _nonsmooth_kind(found) or "smooth"


def _quantised_kind(found: Findings) -> str | None:
    """Return the kind of a function with few distinct values or few digits, else None."""
    steps = found.quanta > 4 or (found.digits.integral and found.plateau > 1e-3)
    if found.plateau > 0 and (not found.digits.rounded or steps):
        return "piecewise constant"
    if found.digits.rounded:
        return "piecewise constant" if found.digits.significant <= 2 else "rounded"
    return "single precision" if found.digits.single else None


def _nonsmooth_kind(found: Findings) -> str | None:
    """Return the kind of a function that is not smooth, or smooth but linear or rugged, else None."""
    if found.level > STRUCTURELESS * found.scale:
        return "structureless"
    if found.level > ROUGH * found.scale:
        return "rough"
    if found.order < KINK:
        return "jumping" if found.jump > 0 else "kinked"
    if found.turning_points >= VALLEYS:
        return "rugged"
    if found.linear:
        return "linear"
    slopes = found.slopes
    usual = max([abs(slope) for slope in slopes] + [found.scale])
    if len(slopes) > 2 and abs(slopes[-1] - slopes[-2]) > 1e-3 * usual:
        return "rough"
    return None


def seconds_per_call(probe: Probe) -> float:
    """Return the median time per call, without the first call, which may include loading."""
    return statistics.median(probe.seconds[1:] or probe.seconds or [math.nan])


def effects(found: Findings) -> dict[int, float]:
    """Return the change of the value over one step, by index of the variables tried."""
    return {i: max(abs(a), abs(b)) for i, (a, b) in found.effects.items() if math.isfinite(a + b)}


def ratio_of_effects(found: Findings) -> float:
    """Return the ratio between the largest effect and the smallest one above noise and rounding."""
    least = 3 * max(found.level, found.digits.quantum(found.at_centre))
    known = [effect for effect in effects(found).values() if effect > least]
    return max(known) / min(known) if known else 1.0


def uses_slopes(found: Findings, probe: Probe) -> bool:
    """Return whether the default method would begin with slopes."""
    return bool(found.smooth) and default_method(probe) == "portfolio"


def default_method(probe: Probe) -> str:
    """Return the name of the method that ``method="auto"`` selects."""
    return probe.run.setup.cls.name


def suggestions(kind: str, found: Findings, probe: Probe) -> dict[str, Any]:
    """Return suggested arguments for ``lmma.minimize(fun, x0, **arguments)``, without those already given."""
    arguments: dict[str, Any] = {"method": "auto"}
    sigma0 = step_size(kind, found, probe)
    if sigma0 is not None:
        arguments["sigma0"] = sigma0
    if kind == "noisy" and takes_a_seed(probe.run.fun, probe.run.options):
        arguments["common_random_numbers"] = True
    if many_valleys(kind, found):
        arguments["restarts"] = "bipop"
    tolfun = tolerance(kind, found, probe)
    if tolfun is not None:
        arguments["tolfun"] = tolfun
    if seconds_per_call(probe) >= SLOW and not probe.run.options.vectorized:
        arguments["workers"] = -1
        popsize = _popsize_for_cores(probe.run.state.strategy.popsize)
        if popsize is not None and not uses_slopes(found, probe):
            arguments["popsize"] = popsize
    if probe.run.options.timeout is not None:
        arguments["timeout"] = probe.run.options.timeout
    return arguments


def many_valleys(kind: str, found: Findings) -> bool:
    """Return whether the lines show many local minima; False for noisy kinds, where noise imitates them."""
    return kind not in ("noisy", "structureless") and found.turning_points >= VALLEYS


def on_plateau(found: Findings) -> bool:
    """Return whether changes near the start are much smaller than farther away."""
    return found.scale < SMALL and found.span > PLATEAU * found.scale


def tolerance(kind: str, found: Findings, probe: Probe) -> float | None:
    """Return ``tolfun`` for a function of small values; None if the default suits or it is unknown.

    It is never smaller than rounding errors or scatter, below which values cannot converge.
    """
    if kind == "noisy" or not 0 < found.scale < SMALL or on_plateau(found):
        return None
    quantum = found.digits.quantum(max(map(abs, probe.values)))
    return float(f"{max(1e-12 * found.scale, 4 * quantum, 6 * found.level):.2g}")


def _popsize_for_cores(usual: int) -> int | None:
    """Return a population size that uses all cores, or None if the default does."""
    from lmma.evaluation import process_count

    cores = process_count(-1)
    return cores if cores > usual else None


def takes_a_seed(fun: Any, options: RunOptions) -> bool:
    """Return whether a function has an optional seed argument that is not used yet."""
    from lmma.run.setup import seed_keywords

    if options.common_random_numbers is not None or options.space is not None:
        return False
    try:
        return not seed_keywords(fun, options.args, None) and "seed" in seed_keywords(fun, options.args, True)
    except ValueError:
        return False


# Initial step size


def step_size(kind: str, found: Findings, probe: Probe) -> float | list[float] | None:
    """Return a better initial step size than the one used by the check, or None."""
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
    if ratio_of_effects(found) >= BADLY_SCALED**2 and len(effects(found)) == found.n:
        return _equalised(found, step, shares)
    if not shares or plain is None:
        return None
    factor = statistics.median(shares) / 3
    if factor <= 10 or kind == "rugged":  # the search shortens a step that is too long quickly
        return None
    return float(f"{plain * min(factor, 100.0):.3g}")


def _steps_to_minimum(found: Findings) -> list[float]:
    """Return the distance, in steps, to the minimum of a parabola fitted along each variable tried."""
    shares = []
    for down, up in found.effects.values():
        curvature = up + down
        if math.isfinite(curvature) and curvature > 8 * found.level:
            shares.append(abs((down - up) / (2 * curvature)))
    return shares


def _equalised(found: Findings, step: Any, shares: list[float]) -> list[float]:
    """Return a step size per variable such that all steps change the value about equally."""
    known = effects(found)
    size = np.array([known[i] for i in range(found.n)])
    usual = float(np.median(size[size > 0]))
    factor = np.sqrt(usual / np.where(size > 0, size, usual))
    # if every parabola has a minimum, scale the steps to the distances of these minima
    fit = 1.0
    if len(shares) == found.n:
        fit = float(np.median(np.array(shares) / 3 / factor))
    steps = step * factor * (fit if 0 < fit < math.inf else 1.0)
    return [float(f"{value:.3g}") for value in steps]


def _mostly_flat(found: Findings) -> bool:
    pairs = np.concatenate([np.diff(line) for line in found.lines])
    return bool(np.count_nonzero(pairs == 0) > len(pairs) / 2)
