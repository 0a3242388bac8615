"""What :func:`lmma.check` returns: what kind of function it is, and what to do, in words and as arguments."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lmma.kernels.words import one_line

WIDTH = 92  # of a line, its label aside


@dataclass(frozen=True, repr=False)
class CheckResult:
    """What some calls showed of a function.

    Attributes
    ----------
    kind : str
        What the function is, in a word or two: "smooth", "noisy", "rounded", "kinked" ...
    use : {"scipy", "lmma", "neither"}
        Whether to use lmma at all.
    suggest : dict
        Arguments for ``lmma.minimize(fun, x0, **suggest)``, those given to ``check`` among them.
    scipy : dict
        Arguments for ``scipy.optimize.minimize(fun, x0, **scipy)``; empty where that is no good idea.
    findings : dict
        What was seen, a sentence each: time, failures, noise, digits, smoothness, scales.
    advice : list of str
        What to do, in sentences.
    n, calls, failures : int
        Variables, calls that were made, and how many of them failed.
    seconds : float
        How long a call takes, the median.
    noise : float
        How far values of one point, or of close neighbours, lie apart: a standard deviation.
    noise_share : float
        The same in units of what a step of the search changes.
    digits : int
        Significant digits of the values.
    smoothness : float
        The power of the step by which fourth differences vanish at the roughest place seen: 0 at a jump, 1 at
        a kink, 4 where all is smooth; NaN where noise hides it.
    effects : dict
        By how much a step along each variable that was tried changes the value, by its number or name.
    errors : list
        The first failures: ``kind``, ``message``, ``traceback``.
    """

    kind: str
    use: str
    suggest: dict[str, Any]
    scipy: dict[str, Any]
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
        """Return everything for people, with what to type after the advice."""
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
        """Return what to write in Python, by whose function it is; what was recommended first."""
        written = {}
        if self.use == "scipy":
            fun = "lambda x: fun(x[None])[0]" if self.suggest.get("vectorized") else "fun"
            written["SciPy"] = f"scipy.optimize.minimize({fun}, x0, {_keywords(self.scipy)})"
        if self.use != "neither":
            written["lmma"] = f"lmma.minimize(fun, x0, {_keywords(self.suggest)})"
        return written

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        from lmma.checking.words import plain

        names = (
            "name", "kind", "use", "suggest", "scipy", "findings", "advice", "n", "calls", "failures",
            "seconds", "noise", "noise_share", "digits", "smoothness", "effects",
        )  # fmt: skip
        found = {name: plain(getattr(self, name)) for name in names}
        return found | {"errors": [{"kind": e.kind, "message": e.message} for e in self.errors]}


def _keywords(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_written(value)}" for name, value in arguments.items())


def _written(value: Any) -> str:
    """Return a value as it is typed, long arrays shortened."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list) and len(value) > 6:
        return f"[{', '.join(repr(v) for v in value[:3])}, ... {len(value)} in all]"
    return one_line(repr(value), 120)


def _wrapped(label: str, text: str) -> list[str]:
    first, *more = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"  {label:<11}  {first}", *(f"{'':15}{line}" for line in more)]
