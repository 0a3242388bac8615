"""What was seen of a function, and what to do about it, in sentences that a newcomer understands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lmma.checking import advice
from lmma.checking.measure import MIDDLE, ONE, Findings
from lmma.checking.probe import Probe
from lmma.output.progress import readable
from lmma.run.variables import coordinate_name

NAMED = 3  # variables named in a sentence


def duration(seconds: float) -> str:
    """Return a duration as people say it."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"


def findings(kind: str, found: Findings, probe: Probe) -> dict[str, str]:
    """Return a sentence for each thing that was looked at."""
    said = {"time": _time(probe), "failures": _failures(probe)}
    if not probe.values:
        return said
    said["noise"] = _noise(kind, found)
    said["digits"] = _digits(found, probe)
    if found.lines and not found.differ:
        said["smoothness"] = _smoothness(kind, found)
        said["along lines"] = _shape(found)
    if found.effects:
        said["variables"] = _variables(found, probe)
    if not found.complete and kind != "failing":
        said["not seen"] = "the calls or the time allowed were spent before everything had been looked at"
    return said


def _time(probe: Probe) -> str:
    seconds = advice.seconds_a_call(probe)
    if not probe.seconds:
        return "no call was made"
    usual = f"{duration(seconds)} a call, the slowest {duration(max(probe.seconds))}"
    if seconds < advice.SLOW:
        return usual
    return f"{usual}; 1,000 calls one after another take {readable(1000 * seconds)}"


def _failures(probe: Probe) -> str:
    if not probe.failed:
        return "none"
    kinds = ", ".join(f"{count} {kind}" for kind, count in probe.evaluate.failures.most_common(3))
    first = probe.evaluate.errors[0].message if probe.evaluate.errors else ""
    return f"{probe.failed} of {probe.calls} calls ({kinds}){': ' if first else ''}{first[:160]}"


def _noise(kind: str, found: Findings) -> str:
    if not found.differ:
        same = "none from call to call: repeated calls agree"
        if not found.table > 0:
            return same
        if found.table < 1e-13 * abs(found.at_centre):
            return f"{same}, and close neighbours do to the last digits (difference table)"
        return f"{same}; close neighbours scatter by {found.table:.2g} (difference table)"
    share = noise_share(found)
    if found.scale == 0:
        return f"values of one point scatter by {found.level:.2g}"
    how = (
        "more than a step changes them: ranks mean little" if share > 1
        else "so much that many candidates are ranked wrongly" if share > advice.HIDDEN
        else "which misleads as soon as steps get shorter" if share > advice.FAINT
        else "too little to matter before steps are short"
    )  # fmt: skip
    return f"values of one point scatter by {found.level:.2g}, {share:.2g} of what a step changes: {how}"


def noise_share(found: Findings) -> float:
    """Return the level of noise in units of what a step changes, itself without the noise."""
    changed = math.sqrt(max(0.0, found.scale**2 - 2 * found.level**2)) if found.differ else found.scale
    return found.level / changed if changed > 0 else math.inf if found.level > 0 else 0.0


def _digits(found: Findings, probe: Probe) -> str:
    digits = found.digits
    if digits.whole:
        return f"whole numbers, {len(set(probe.values))} different ones"
    if digits.rounded:
        return f"{digits.significant} significant at most: values are rounded or printed short"
    return "those of single precision, about 7" if digits.single else "all that double precision has"


def _smoothness(kind: str, found: Findings) -> str:
    if kind in ("constant", "piecewise constant", "rounded", "structureless", "failing"):
        if found.plateau > 0:
            return f"short steps change nothing, up to {found.plateau:.2g} of a step of the search"
        return "cannot be told: differences over short steps mean nothing"
    if found.order < advice.KINK and found.jump > 0:
        return f"a jump by about {found.jump:.2g} on one of the lines"
    if found.order < advice.KINK:
        return "a kink on one of the lines: the slope jumps, the value does not"
    if kind in ("rough", "single precision"):
        return "smooth from afar; over the short steps of finite differences it is not"
    return "no kink and no jump on the lines; differences over short steps agree"


def _shape(found: Findings) -> str:
    turns = found.turning
    if found.scale == 0:
        return "a step of the search changes nothing in most directions"
    if found.linear:
        return "straight lines: the minimum is far away, or there is none"
    if turns >= advice.VALLEYS:
        return f"up to {turns} turns between falling and rising on one line: many valleys"
    pairs = [(line[MIDDLE - ONE] - line[MIDDLE], line[MIDDLE + ONE] - line[MIDDLE]) for line in found.lines]
    there = [(a, b) for a, b in pairs if math.isfinite(a + b)]
    if there and all(a > 0 and b > 0 for a, b in there):
        return "rises both ways from the start: the start lies low, or the step is long"
    return "falls one way and rises the other, few turns"


def _variables(found: Findings, probe: Probe) -> str:
    known = advice.effects(found)
    if not known:
        return "single variables could not be tried: the calls failed"
    tried = "each" if len(known) == found.n else f"{len(known)} of {found.n:,} tried"
    least = 3 * max(found.level, found.digits.quantum(found.at_centre))
    idle = [i for i, effect in known.items() if effect <= least]
    ratio = advice.ratio_of_effects(found)
    words = [f"{tried}: an equal step changes the value"]
    if len(idle) == len(known):
        return f"{tried}: none changes the value by a step of its own"
    words.append("about equally" if ratio < 10 else f"up to {ratio:.2g} times more for one than for another")
    if idle and found.differ:
        words.append(f"; noise hides what a step of {len(idle)} of them changes")
    elif idle:
        names = ", ".join(label(probe, i) for i in idle[:NAMED])
        words.append(f"; {names}{' and others' if len(idle) > NAMED else ''}: no change seen")
    return " ".join(words).replace(" ;", ";")


def label(probe: Probe, i: int) -> str:
    """Return what a coordinate is called."""
    return coordinate_name(probe.run.options, i)


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it; what is not finite is None."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value if isinstance(value, str | int | bool | None) else repr(value)


# What to do


def sentences(kind: str, use: str, found: Findings, probe: Probe) -> list[str]:
    """Return the advice."""
    said = [_main(kind, use, found, probe)]
    if kind != "failing":
        said += _asides(kind, use, found, probe)
    return said


def _main(kind: str, use: str, found: Findings, probe: Probe) -> str:
    if kind == "smooth" and use == "scipy":
        return (
            "Do not use lmma first: the function is smooth and exact, and SciPy's quasi-Newton methods with "
            "central differences need a fraction of the calls. If you can give its gradient, do."
        )
    if kind == "smooth":
        return _smooth_but(found, probe)
    return {
        "failing": "Repair the function or the start first: not one call gave a number.",
        "constant": "Look at the function first: it gave one value everywhere. If it has plateaus, a longer "
        "first step may see beyond this one.",
        "noisy": "Use lmma with noise='auto': finite differences would follow the noise.",
        "discrete": "Use lmma, which knows integers and choices.",
        "piecewise constant": "Use lmma: there are no slopes to follow. If the steps come from variables "
        "that are integers, say so with integrality= or a Space.",
        "rounded": f"Use lmma: with {found.digits.significant} digits, finite differences are 0 or wrong. "
        "More digits, if your program can print them, help every method.",
        "single precision": "Use lmma: seven digits are too few for finite differences with their usual "
        "steps. Double precision inside the function helps every method.",
        "structureless": "No method can do better than random search here: close neighbours say nothing of "
        "one another. Look whether this is meant.",
        "rough": f"Use lmma: neighbours scatter by {found.level:.2g}, which finite differences with their "
        "usual steps would take for slopes. Tighter tolerances inside the function may cure it.",
        "jumping": "Use lmma: at a jump there is no slope to follow.",
        "kinked": "Use lmma: quasi-Newton methods get stuck at kinks.",
        "rugged": "Use lmma with restarts: from a start, SciPy's methods find the nearest of many valleys.",
        "linear": "Use lmma with a longer first step, or give bounds: nothing was seen of a minimum.",
    }[kind]


def _smooth_but(found: Findings, probe: Probe) -> str:
    """Return why a smooth function is not sent to SciPy."""
    if advice.is_extreme(found):
        return (
            f"Use lmma, or multiply the function by {10.0 ** -round(math.log10(found.scale)):.0e}: its "
            "values are so far from 1 that SciPy's tolerances and products of slopes break down."
        )
    if advice.ill_scaled(found):
        return (
            "Use lmma with a step for each variable, or divide each variable by its scale and use SciPy's "
            "BFGS: the step of its differences does not fit variables as different as these."
        )
    if probe.failed:
        return "Use lmma: calls fail here and there, where finite differences would break."
    if probe.run.options.space is not None:
        return (
            "Use lmma with polish=True, which ends with SciPy's quasi-Newton method: the function is smooth, "
            "but takes values by name."
        )
    if probe.discrete:
        return "Use lmma: some variables are integers or choices, for which there are no slopes."
    if probe.evaluate.beside is not None:
        return "Use lmma, which takes the constraints that the function returns; SciPy wants them apart."
    return "Use lmma, or try SciPy's BFGS: what was seen is smooth, but not all was looked at."


def _asides(kind: str, use: str, found: Findings, probe: Probe) -> list[str]:
    """Return what else is worth a sentence."""
    said = []
    if kind == "noisy":
        share = noise_share(found)
        if advice.takes_a_seed(probe.run.fun, probe.run.options):
            said.append(
                "It takes a seed: common_random_numbers=True gives all candidates of a generation the same."
            )
        elif not probe.run.seeds:
            said.append(
                "If it draws batches or episodes, let it take seed=: all of a generation then share one."
            )
        if share > 1:
            said.append("Averages inside the function, or a longer first step, would make progress visible.")
    share_failed = probe.failed / max(1, probe.calls)
    if share_failed >= 0.05:
        said.append(
            f"{share_failed:.0%} of the calls failed: they rank last, which is fine; bounds that exclude "
            "such points save them."
        )
    if math.isnan(found.at_start):
        said.append("The start itself failed: begin somewhere that works.")
    ratio = advice.ratio_of_effects(found)
    if ratio >= advice.APART and len(advice.effects(found)) > 1:
        strongest = max(advice.effects(found).items(), key=lambda pair: pair[1])[0]
        said.append(
            f"The variables are badly scaled ({label(probe, strongest)} is the strongest): a sigma0 for "
            "each, or bounds, spare the search learning it."
        )
    if advice.seconds_a_call(probe) >= advice.SLOW:
        said.append(
            "Calls are slow: a generation can be evaluated side by side, workers=-1."
            if not probe.run.options.vectorized
            else "Calls are slow: a generation is one call already."
        )
    if use == "scipy" and found.n > 100:
        said.append(
            f"A gradient by central differences takes {2 * found.n:,} calls; workers= runs them side by side."
        )
    return said
