"""The outcome of a run, for people and for programs."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmma.cli import status
from lmma.run.stopping import FAILING

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

SHOWN = 6  # coordinates of x in the summary

# What the library calls an argument -> what the command line does
OPTIONS = {
    "maxfevals": "--max-evaluations",
    "maxiter": "--max-generations",
    "maxtime": "--max-time",
    "ftarget": "--target",
    "tolx": "--tolx",
    "tolfun": "--tolfun",
    "sigma0": "--sigma0",
    "x0": "--x0",
    "popsize": "--popsize",
    "vectorized": "--vectorized",
    "method": "--method",
    "dtype": "--dtype",
    "restarts": "--restarts",
    "workers": "--workers",
    "timeout": "--timeout",
    "quorum": "--quorum",
    "bounds": "--bounds",
}


def in_options(text: str) -> str:
    """Return a message of the library with its arguments named as options."""
    text = text.replace("vectorized=True", "--vectorized")
    text = re.sub(r"(method|dtype)='([\w-]+)'", r"--\1 \2", text)
    words = "|".join(word for word in OPTIONS if word not in ("method", "dtype", "vectorized"))
    return re.sub(rf"(?<![-\w.])({words})\b", lambda match: OPTIONS[match[1]], text)


@dataclass(frozen=True)
class Outcome:
    """A finished run and what the summary says about it."""

    name: str
    result: OptimizeResult
    seed: int
    popsize: int
    sigma0: float
    goal: float | None
    seconds: float

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.result.x)

    @property
    def title(self) -> str:
        """What was run, in a few words."""
        return f"{self.result.method} on {self.name}, n = {self.n}"

    @property
    def gave_up(self) -> bool:
        """Whether the objective was taken to be broken."""
        return bool(self.result.reason == "failures")

    @property
    def status(self) -> int:
        """The exit status."""
        if self.result.reason == "interrupted":
            return status.INTERRUPTED
        if self.result.nfev > 0 and not math.isfinite(self.result.fun):
            return status.ALL_FAILED
        return status.OK if self.result.success else status.UNSOLVED

    @property
    def message(self) -> str:
        """Why the run ended, in words of the command line."""
        if not self.gave_up:
            return in_options(self.result.message)
        if math.isfinite(self.result.fun):
            return f"Gave up: every evaluation of the last {FAILING} generations failed."
        return f"Gave up: all {self.result.nfev:,} evaluations failed."


def as_text(outcome: Outcome, plot: Path | None = None, save_x: Path | None = None) -> str:
    """Return a summary for people."""
    result = outcome.result
    found = math.isfinite(result.fun)
    rate = f", {result.nfev / outcome.seconds:,.0f} evaluations/s" if outcome.seconds > 0 else ""
    rows = [
        ("best value", f"{result.fun:.10g}" if found else "none"),
        ("stopped", outcome.message),
        ("evaluations", f"{result.nfev:,} in {result.nit:,} generations of {outcome.popsize}"),
        ("time", f"{outcome.seconds:.3g} s{rate}"),
        ("step size", f"{result.sigma:.3g} (began at {outcome.sigma0:.3g})"),
        ("seed", str(outcome.seed)),
    ]
    if found:
        rows.insert(1, ("x", _first_few(result.x)))
    if result.failures:
        rows.append(("failed", f"{result.failures:,} evaluations"))
        rows += [("", f"{error.kind}: {error.message}") for error in result.errors[:1]]
    if result.late or result.deaths:
        rows.append(
            ("workers", f"{result.deaths:,} died and were replaced; {result.late:,} results were late")
        )
    if len(result.legs) > 1:
        rows.append(("restarts", "; ".join(f"{leg.best_fun:.4g} of {leg.popsize}" for leg in result.legs)))
    rows += [("warning", text) for text in result.warnings]
    rows += [(what, str(path)) for what, path in (("plot", plot), ("x saved", save_x)) if path is not None]
    indent = "\n" + " " * 15
    return "\n".join(
        [outcome.title, *(f"  {label:<11}  {text}".replace("\n", indent) for label, text in rows)]
    )


def _first_few(x: Any) -> str:
    numbers = ", ".join(f"{value:.6g}" for value in x[:SHOWN])
    return f"[{numbers}, ...]" if len(x) > SHOWN else f"[{numbers}]"


def as_json(outcome: Outcome) -> str:
    """Return the result as one JSON object; what is not finite is null."""
    result = outcome.result
    fields = {
        "objective": outcome.name,
        "method": result.method,
        "n": outcome.n,
        "fun": result.fun,
        "success": bool(result.success),
        "reason": result.reason,
        "message": outcome.message,
        "exit_status": outcome.status,
        "target": outcome.goal,
        "nfev": result.nfev,
        "nit": result.nit,
        "seconds": outcome.seconds,
        "seed": outcome.seed,
        "popsize": outcome.popsize,
        "sigma0": outcome.sigma0,
        "sigma": result.sigma,
        "failures": result.failures,
        "failed": dict(result.failed),
        "late": result.late,
        "deaths": result.deaths,
        "legs": [_finite(asdict(leg)) for leg in result.legs],
        "warnings": result.warnings,
        "errors": [asdict(error) for error in result.errors],
        "x": [float(value) for value in result.x],
    }
    return json.dumps(_finite(fields), allow_nan=False)


def _finite(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in fields.items()}
