"""The result of :func:`lmma.check`: kind of function, findings, advice and suggested arguments."""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lmma._text import one_line, readable_time
from lmma.checking import advice
from lmma.checking.measure import MIDDLE, ONE, Findings
from lmma.checking.probe import Probe
from lmma.run.observers.json_log import coordinate_name

WIDTH = 92  # of a line, without its label
LITERAL = 120  # characters of an argument in a call to copy


@dataclass(frozen=True, repr=False)
class CheckResult:
    """Result of a function check.

    Attributes
    ----------
    kind : str
        Kind of function: "smooth", "noisy", "rounded", "kinked" ...
    use : {"lmma", "neither"}
        "neither" if the function should be looked at first.
    suggest : dict
        Arguments for ``lmma.minimize(fun, x0, **suggest)``, including those given to ``check``.
    begins_with : {"slopes", "ranks"}
        Use of the values by the default method at the start: slopes where the function is smooth, or ranks.
    findings : dict
        Findings by topic: time, failures, noise, digits, smoothness, scales.
    advice : list of str
        Recommendations, one sentence or paragraph each.
    n, calls, failures : int
        Number of variables, of calls and of failed calls.
    seconds : float
        Median time per call.
    noise : float
        Standard deviation of repeated calls, or of values at nearby points.
    noise_share : float
        The same, relative to the change of the value over one search step.
    digits : int
        Significant digits of the values.
    smoothness : float
        Power of the step by which fourth differences shrink at the roughest place found: 0 at a jump, 1 at a
        kink, 4 for a smooth function; NaN if hidden by noise.
    effects : dict
        Change of the value over one step along each variable tried, by index or name.
    errors : list
        The first failures: ``kind``, ``message``, ``traceback``.
    """

    kind: str
    use: str
    suggest: dict[str, Any]
    begins_with: str
    findings: dict[str, str]
    advice: list[str]
    n: int
    calls: int
    failures: int
    seconds: float
    noise: float
    noise_share: float
    digits: int
    smoothness: float
    effects: dict[Any, float] = field(default_factory=dict)
    errors: list[Any] = field(default_factory=list)
    name: str = "fun"

    def __repr__(self) -> str:
        name = one_line(self.name, 40)
        return f"<check of {name}: {self.kind}, n={self.n}, {self.calls} calls, use {self.use}>"

    def __str__(self) -> str:
        return self.page(self.calls_in_python())

    def page(self, commands: dict[str, str]) -> str:
        """Return the report as text, with ``commands`` after the advice."""
        lines = [f"{one_line(self.name, 60)}: {self._headline()}", ""]
        for label, text in self.findings.items():
            lines += _wrapped(label, text)
        lines.append("")
        lines += _wrapped("advice", " ".join(self.advice))
        for label, text in commands.items():
            lines += ["", *_wrapped(label, text)]
        return "\n".join(lines)

    def _headline(self) -> str:
        from lmma.checking.advice import KINDS

        calls = f"{self.calls} calls" if self.calls != 1 else "1 call"
        return f"{KINDS[self.kind]} ({self.n:,} variable{'s' if self.n != 1 else ''}, {calls})"

    def calls_in_python(self) -> dict[str, str]:
        """Return the Python call to use, by library; empty if the function should be looked at first."""
        if self.use == "neither":
            return {}
        return {"lmma": f"lmma.minimize(fun, x0, {_keywords(self.suggest)})"}

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as JSON-compatible values."""
        from lmma.checking.report import as_plain

        names = (
            "name", "kind", "use", "suggest", "begins_with", "findings", "advice", "n", "calls",
            "failures", "seconds", "noise", "noise_share", "digits", "smoothness", "effects",
        )  # fmt: skip
        found = {name: as_plain(getattr(self, name)) for name in names}
        return found | {"errors": [{"kind": e.kind, "message": e.message} for e in self.errors]}


def _keywords(arguments: dict[str, Any]) -> str:
    """Return arguments as source code, long ones as entries of ``report.suggest``."""
    return ", ".join(
        f"{name}={_literal(value, f'report.suggest[{name!r}]')}" for name, value in arguments.items()
    )


def _literal(value: Any, otherwise: str) -> str:
    """Return a value as a Python literal, or ``otherwise`` if it has none or it is too long."""
    plain = _as_builtin(value)
    try:
        text = repr(plain)
        return text if len(text) <= LITERAL and ast.literal_eval(text) == plain else otherwise
    except Exception:  # not a literal: an object, or NaN and infinity
        return otherwise


def _as_builtin(value: Any) -> Any:
    """Return a value with NumPy's arrays and numbers replaced by Python's."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(map(_as_builtin, value))
    if isinstance(value, dict):
        return {name: _as_builtin(entry) for name, entry in value.items()}
    return value


def _wrapped(label: str, text: str) -> list[str]:
    first, *more = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"  {label:<11}  {first}", *(f"{'':15}{line}" for line in more)]


NAMED = 3  # variables named in a sentence


def duration(seconds: float) -> str:
    """Format a duration with a suitable unit."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"


def findings(kind: str, found: Findings, probe: Probe) -> dict[str, str]:
    """Return a phrase for each measurement, by topic."""
    texts = {"time": _time(probe), "failures": _failures(probe)}
    if not probe.values:
        return texts
    texts["noise"] = _noise(kind, found)
    texts["digits"] = _digits(found, probe)
    if found.lines and not found.repeats_differ:
        texts["smoothness"] = _smoothness(kind, found)
        texts["along lines"] = _shape(found)
    if found.effects:
        texts["variables"] = _variables(found, probe)
    texts["default"] = _default(found, probe)
    if not found.complete and kind != "failing":
        texts["not seen"] = "the limit on calls or time was reached before all measurements were made"
    return texts


def _default(found: Findings, probe: Probe) -> str:
    """Return what the default method will do."""
    method = advice.default_method(probe)
    if method != "portfolio":
        return f"{method}, which uses only the ranks of values"
    if found.smooth is None:
        return f"{method}: slopes if a look at the start finds the function smooth, else ranks"
    if found.smooth:
        return f"{method}: slopes first, by differences of values; ranks where these gain more"
    return f"{method}: ranks first; slopes once they gain more"


def _time(probe: Probe) -> str:
    seconds = advice.seconds_per_call(probe)
    if not probe.seconds:
        return "no call was made"
    text = f"{duration(seconds)} per call, slowest {duration(max(probe.seconds))}"
    if seconds < advice.SLOW:
        return text
    calls = probe.run.options.maxfevals or 1000
    return f"{text}; {calls:,} sequential calls take {readable_time(calls * seconds)}"


def _failures(probe: Probe) -> str:
    if not probe.failed:
        return "none"
    kinds = ", ".join(f"{count} {kind}" for kind, count in probe.evaluate.record.failures.most_common(3))
    first = probe.evaluate.record.errors[0].message if probe.evaluate.record.errors else ""
    return f"{probe.failed} of {probe.calls} calls ({kinds}){': ' if first else ''}{_ends(first)}"


def _ends(message: str, most: int = 300) -> str:
    """Return a message, shortened in the middle: the last line of a traceback is the one that matters."""
    if len(message) <= most:
        return " ".join(message.split())
    lines = message.strip().splitlines()
    last = lines[-1].strip() if len(lines) > 1 else message
    return f"{lines[0][: most // 2]} ... {last[-most // 2 :]}"


def _noise(kind: str, found: Findings) -> str:
    if not found.repeats_differ:
        same = "none: repeated calls agree"
        if not found.table > 0:
            return same
        if found.table < 1e-13 * abs(found.at_centre):
            return f"{same}; nearby points agree to the last digits (difference table)"
        return f"{same}; nearby points scatter by {found.table:.2g} (difference table)"
    share = noise_share(found)
    if found.scale == 0:
        return f"repeated calls scatter by {found.level:.2g}"
    effect = (
        "ranks carry little information" if share > 1
        else "many candidates are ranked wrongly" if share > advice.NOISE_HIGH
        else "ranks become unreliable as steps get shorter" if share > advice.NOISE_LOW
        else "negligible until steps are short"
    )  # fmt: skip
    times = f"{share:.2g} times" if share < 1000 else "more than 1,000 times"
    return f"repeated calls scatter by {found.level:.2g}, {times} the change over one step: {effect}"


def noise_share(found: Findings) -> float:
    """Return the noise level relative to the change over one step, corrected for the noise in that change."""
    changed = (
        math.sqrt(max(0.0, found.scale**2 - 2 * found.level**2)) if found.repeats_differ else found.scale
    )
    return found.level / changed if changed > 0 else math.inf if found.level > 0 else 0.0


def _digits(found: Findings, probe: Probe) -> str:
    digits = found.digits
    if digits.integral:
        return f"whole numbers, {len(set(probe.values))} distinct values"
    if digits.rounded:
        return f"at most {digits.significant} significant: values are rounded or printed with few digits"
    return "single precision, about 7" if digits.single else "full double precision"


def _smoothness(kind: str, found: Findings) -> str:
    if kind in ("constant", "piecewise constant", "rounded", "structureless", "failing"):
        if found.plateau > 0:
            return f"the value is constant over short steps, up to {found.plateau:.2g} of a search step"
        return "unknown: differences over short steps carry no information"
    if found.order < advice.KINK and found.jump > 0:
        return f"a jump of about {found.jump:.2g} on one of the lines"
    if found.order < advice.KINK:
        return "a kink on one of the lines: the slope jumps, the value does not"
    if kind in ("rough", "single precision"):
        return "smooth over long steps, but not over the short steps of finite differences"
    return "no kinks or jumps on the lines; differences over short steps agree"


def _shape(found: Findings) -> str:
    turns = found.turning_points
    if found.scale == 0:
        return "a search step does not change the value in most directions"
    if found.linear:
        return "linear: the minimum is far away or does not exist"
    if turns >= advice.VALLEYS:
        return f"up to {turns} turning points on one line: many local minima"
    pairs = [(line[MIDDLE - ONE] - line[MIDDLE], line[MIDDLE + ONE] - line[MIDDLE]) for line in found.lines]
    finite = [(a, b) for a, b in pairs if math.isfinite(a + b)]
    if finite and all(a > 0 and b > 0 for a, b in finite):
        return "rising in both directions from the start: it is close to a minimum, or the step is long"
    return "falling in one direction and rising in the other, with few turning points"


def _variables(found: Findings, probe: Probe) -> str:
    known = advice.effects(found)
    if not known:
        return "not measured: the calls failed"
    tried = "all tried" if len(known) == found.n else f"{len(known)} of {found.n:,} tried"
    least = 3 * max(found.level, found.digits.quantum(found.at_centre))
    idle = [i for i, effect in known.items() if effect <= least]
    ratio = advice.ratio_of_effects(found)
    parts = [f"{tried}: equal steps change the value"]
    if len(idle) == len(known):
        return f"{tried}: no single step changes the value"
    parts.append("about equally" if ratio < 10 else f"up to {ratio:.2g} times more for one than for another")
    if idle and found.repeats_differ:
        parts.append(f"; noise hides the effect of {len(idle)} of them")
    elif idle:
        names = ", ".join(label(probe, i) for i in idle[:NAMED])
        parts.append(f"; {names}{' and others' if len(idle) > NAMED else ''}: no effect seen")
    return " ".join(parts).replace(" ;", ";")


def label(probe: Probe, i: int) -> str:
    """Return the display name of coordinate ``i``."""
    return coordinate_name(probe.run.options.space, i)


def as_plain(value: Any) -> Any:
    """Convert a value to JSON-compatible types; numbers that are not finite become None."""
    if isinstance(value, np.ndarray):
        return as_plain(value.tolist())
    if isinstance(value, np.generic):
        return as_plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): as_plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(entry) for entry in value]
    return value if isinstance(value, str | int | bool | None) else repr(value)


# Advice


def sentences(kind: str, found: Findings, probe: Probe) -> list[str]:
    """Return the advice: the main recommendation first, then remarks."""
    texts = [_main(kind, found, probe)]
    if kind != "failing":
        texts += _remarks(kind, found, probe)
    return texts


def _main(kind: str, found: Findings, probe: Probe) -> str:
    if kind == "smooth":
        return _smooth(found, probe)
    return {
        "failing": "Fix the function or the start first: no call returned a number.",
        "constant": "Check the function first: it returned the same value at every point. If it has "
        "plateaus, try a larger initial step size, sigma0=.",
        "noisy": "Use the defaults: noise='auto' detects the noise and allows for it.",
        "discrete": "Use the defaults, which support integers and choices.",
        "piecewise constant": "Use the defaults: the slope is zero on every plateau, but ranks of distant "
        "points are informative. If the steps come from integer variables, declare them with integrality= "
        "or a Space.",
        "rounded": f"Use the defaults, which allow for values with {found.digits.significant} digits. If the "
        "function can return more digits, every method benefits.",
        "single precision": "Use the defaults, which allow for values with seven digits. Computing the "
        "function in double precision helps every method.",
        "structureless": "No method can do better than random search here: the values of nearby points are "
        "unrelated. Check whether this is intended.",
        "rough": f"Use the defaults: nearby points scatter by {found.level:.2g}, which slopes allow for by "
        "longer steps. Tighter tolerances inside the function may remove this.",
        "jumping": "Use the defaults: there is no slope to follow at a jump, but ranks remain informative.",
        "kinked": "Use the defaults: slopes mislead at kinks, but ranks remain informative.",
        "rugged": "Use restarts: slopes only lead to the local minimum closest to the start.",
        "linear": "Use a larger initial step size, sigma0=, or set bounds=: no line contains a minimum.",
    }[kind]


def _smooth(found: Findings, probe: Probe) -> str:
    """Return the advice for a smooth function."""
    if advice.on_plateau(found):
        return "Start elsewhere, or increase sigma0=: near the start the value hardly changes."
    if not found.complete:
        return "Use the defaults: the function looks smooth, but not all measurements were made."
    if advice.default_method(probe) != "portfolio":
        return "Use the defaults: the function is smooth, but this problem is searched by ranks."
    return (
        "Use the defaults: the function is smooth, so that slopes from differences of values need few calls. "
        "If you can provide the exact gradient, scipy.optimize.minimize with jac= needs fewer still."
    )


def _remarks(kind: str, found: Findings, probe: Probe) -> list[str]:
    """Return advice on noise, local minima, plateaus, failures and scaling, as far as it applies."""
    texts = []
    if kind == "noisy":
        share = noise_share(found)
        if advice.takes_a_seed(probe.run.fun, probe.run.options):
            texts.append(
                "The function takes a seed: set common_random_numbers=True so that all candidates of a "
                "generation get the same one."
            )
        elif not probe.run.seeds:
            texts.append(
                "If the noise comes from random batches or episodes, add a seed= argument to the function: "
                "all candidates of a generation then get the same seed."
            )
        if share > 1:
            texts.append("To make progress visible, average inside the function or increase sigma0=.")
    if advice.many_valleys(kind, found) and kind != "rugged":
        texts.append("The lines have many local minima: restarts='bipop' searches in several of them.")
    if advice.on_plateau(found):
        texts.append(
            f"The start is on a plateau: a step changes the value by only {found.scale:.2g}, and "
            f"{found.span:.2g} farther away. Start elsewhere, or increase sigma0=; the default tolfun= may "
            "end the search there."
        )
    share_failed = probe.failed / max(1, probe.calls)
    if share_failed >= 0.05:
        texts.append(
            f"{share_failed:.0%} of the calls failed. Failed candidates rank last, which is harmless; "
            "excluding such points with bounds= saves calls."
        )
    if math.isnan(found.at_start):
        texts.append("The start itself failed: choose a start at which the function works.")
    ratio = advice.ratio_of_effects(found)
    if ratio >= advice.BADLY_SCALED and len(advice.effects(found)) > 1:
        strongest = max(advice.effects(found).items(), key=lambda pair: pair[1])[0]
        texts.append(
            f"The variables are badly scaled ({label(probe, strongest)} has the largest effect): set one "
            "sigma0= per variable, or bounds=, so that the search does not have to learn the scales."
        )
    if advice.seconds_per_call(probe) >= advice.SLOW:
        texts.append(
            "Calls are slow: evaluate each generation in parallel with workers=-1."
            if not probe.run.options.vectorized
            else "Calls are slow, but each generation is already evaluated in one call."
        )
    return texts
