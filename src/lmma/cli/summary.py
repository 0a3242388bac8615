"""A finished run, summed up for people and for programs."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.cli import status
from lmma.cli.options import in_shell
from lmma.run.result import message

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

    from lmma.run.run import Run

SHOWN = 6  # coordinates of x in the summary


@dataclass(frozen=True)
class Summary:
    """A finished run and what is said about it on the command line."""

    name: str  # of the objective
    run: Run
    result: OptimizeResult
    seed: int
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
        assert self.run.stop is not None
        return message(self.run, self.run.stop, in_shell)

    @property
    def popsize(self) -> int:
        """The population size the run began with."""
        return int(self.result.runs[0].popsize)

    @property
    def sigma0(self) -> float:
        """The step size that the run began with; the geometric mean of one for each coordinate."""
        return math.exp(float(np.mean(np.log(self.run.setup.sigma0))))

    def as_text(self, plot: Path | None = None, save_x: Path | None = None) -> str:
        """Return a summary for people."""
        result = self.result
        found = math.isfinite(result.fun)
        rate = f", {result.nfev / self.seconds:,.0f} evaluations/s" if self.seconds > 0 else ""
        grown = f", then up to {max(run.popsize for run in result.runs)}" if len(result.runs) > 1 else ""
        rows = [
            ("best value", f"{result.fun:.10g}" if found else "none"),
            ("stopped", self.message),
            ("evaluations", f"{result.nfev:,} in {result.nit:,} generations of {self.popsize}{grown}"),
            ("time", f"{self.seconds:.3g} s{rate}"),
            ("step size", f"{result.sigma:.3g} (began at {self.sigma0:.3g})"),
            ("seed", str(self.seed)),
        ]
        if found:
            rows.insert(1, ("x", _first_few(result.x)))
        if "maxcv" in result:
            rows.insert(1, ("violation", f"{result.maxcv:.3g}"))
        if result.failures:
            rows.append(("failed", f"{result.failures:,} evaluations"))
            rows += [("", f"{error.kind}: {error.message}") for error in result.errors[:1]]
        if result.late or result.deaths:
            rows.append(
                ("workers", f"{result.deaths:,} died and were replaced; {result.late:,} results were late")
            )
        if len(result.runs) > 1:
            rows.append(
                ("restarts", "; ".join(f"{run.best_fun:.4g} of {run.popsize}" for run in result.runs))
            )
        rows += [("warning", text) for text in result.warnings]
        rows += [
            (what, str(path)) for what, path in (("plot", plot), ("x saved", save_x)) if path is not None
        ]
        indent = "\n" + " " * 15
        return "\n".join(
            [self.title, *(f"  {label:<11}  {text}".replace("\n", indent) for label, text in rows)]
        )

    def as_json(self) -> str:
        """Return the result as one JSON object; what is not finite is null."""
        result = self.result
        fields = {
            "objective": self.name,
            "method": result.method,
            "n": self.n,
            "fun": result.fun,
            "success": bool(result.success),
            "reason": result.reason,
            "message": self.message,
            "exit_status": self.status,
            "target": self.run.options.ftarget,
            "nfev": result.nfev,
            "nit": result.nit,
            "seconds": self.seconds,
            "seed": self.seed,
            "popsize": self.popsize,
            "sigma0": self.sigma0,
            "sigma": result.sigma,
            "failures": result.failures,
            "failed": dict(result.failed),
            "late": result.late,
            "deaths": result.deaths,
            "runs": [_finite(asdict(run)) for run in result.runs],
            "warnings": result.warnings,
            "errors": [asdict(error) for error in result.errors],
            "x": [float(value) for value in result.x],
            **_of_constraints(result),
        }
        return json.dumps(_finite(fields), allow_nan=False)


def _of_constraints(result: OptimizeResult) -> dict[str, Any]:
    """Return what JSON says of constraints, if there are any; None for what is not finite."""
    if "maxcv" not in result:
        return {}
    numbers = {name: result[name] for name in ("constr", "multipliers") if result[name] is not None}
    return {"maxcv": result.maxcv} | {
        name: [[float(v) if math.isfinite(v) else None for v in part] for part in parts]
        for name, parts in numbers.items()
    }


def _first_few(x: Any) -> str:
    numbers = ", ".join(f"{value:.6g}" for value in x[:SHOWN])
    return f"[{numbers}, ...]" if len(x) > SHOWN else f"[{numbers}]"


def _finite(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in fields.items()}
