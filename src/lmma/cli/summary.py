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
from lmma.space import Space

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

    from lmma.run.run import Run

SHOWN = 6  # coordinates of x in the summary
NAMED = 20  # variables of a space there


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
        """The number of variables, each entry of an array counted."""
        return len(self.vector)

    @property
    def vector(self) -> Any:
        """The best point as an array."""
        return self.result.get("vector", self.result.x)

    @property
    def x(self) -> Any:
        """The best point as JSON has it: a list, or values by name."""
        return self._as_json("x")

    def _as_json(self, name: str) -> Any:
        if self.run.options.space is None:
            return [float(value) for value in self.result[name]]
        from lmma.run.variables import as_json

        return as_json(self.result[name])

    @property
    def variables(self) -> list[tuple[str, float, str]]:
        """What each variable is called, where it lies between its limits, and its value; of a space."""
        space = self.run.options.space
        if not isinstance(space, Space):
            return []
        values = [
            value for name, _, _ in space.searched() for value in np.ravel(self.result.x[name]).tolist()
        ]
        units = [v.unit_of_measure for _, v, _ in space.searched() for _ in range(v.size)]
        texts = [f"{_told(value)} {unit}".strip() for value, unit in zip(values, units, strict=True)]
        return list(zip(space.labels, space.positions(self.vector).tolist(), texts, strict=True))

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
        return self.run.first_popsize

    @property
    def sigma0(self) -> float:
        """The step size that the run began with; the geometric mean of one for each coordinate."""
        return math.exp(float(np.mean(np.log(self.run.setup.sigma0))))

    def as_text(self, plot: Path | None = None, save_x: Path | None = None) -> str:
        """Return a summary for people."""
        result = self.result
        found = math.isfinite(result.fun)
        rate = f", {result.nfev / self.seconds:,.0f} evaluations/s" if self.seconds > 0 else ""
        most = max(run.popsize for run in result.runs)
        grown = f", then up to {most}" if len(result.runs) > 1 or most > self.popsize else ""
        rows = [
            ("best value", self._value if found else "none"),
            ("stopped", self.message),
            ("evaluations", f"{result.nfev:,} in {result.nit:,} generations of {self.popsize}{grown}"),
            ("time", f"{self.seconds:.3g} s{rate}"),
            ("step size", f"{result.sigma:.3g} (began at {self.sigma0:.3g})"),
            ("seed", str(self.seed)),
        ]
        if found and self.run.options.space is None:
            rows.insert(1, ("x", _first_few(result.x)))
        elif found:
            rows[1:1] = self._named_rows()
        if result.get("noise", {}).get("found"):
            rows.append(("noise", noise_in_words(result.noise, self.run.options.noise)))
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

    @property
    def _value(self) -> str:
        """What was found; under noise with its standard error, and no more digits than that bears."""
        error = self.result.get("fun_error", math.nan)
        if not math.isfinite(error):
            return f"{self.result.fun:.10g}"
        return f"{self.result.fun:.6g} +- {error:.2g} (the luckiest seen: {self.result.fun_seen:.6g})"

    def _named_rows(self) -> list[tuple[str, str]]:
        """Return a row for each variable, of the first few; an array is one of them."""
        space = self.run.options.space
        assert isinstance(space, Space)
        rows = []
        for name, variable, _ in space.searched():
            value = self.result.x[name]
            text = (
                _told(value)
                if variable.extent == ()
                else f"[{_few([_told(v) for v in np.ravel(value).tolist()])}]"
            )
            rows.append(("", f"{name} = {text} {variable.unit_of_measure}".rstrip()))
        shown = rows[:NAMED] + (
            [("", f"and {len(rows) - NAMED} more: --json or --save-x")] if len(rows) > NAMED else []
        )
        return [("x", shown[0][1]), *shown[1:]]

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
            "x": self.x,
            **_of_constraints(result),
        }
        if "noise" in result:
            fields["noise"] = _finite(result.noise)
        if "fun_seen" in result:
            fields |= {
                "fun_error": result.fun_error,
                "fun_seen": result.fun_seen,
                "x_seen": self._as_json("x_seen"),
            }
        if "polish" in result:
            fields["polish"] = _finite(result.polish)
        if self.run.options.space is not None:
            fields["vector"] = [float(value) for value in self.vector]
        return json.dumps(_finite(fields), allow_nan=False)


def noise_in_words(noise: dict[str, Any], treatment: str | None) -> str:
    """Return in a line how far ranks could be trusted, and what was done about it."""
    words = f"quality of ranks {max(0.0, noise['quality']):.2f} (1 without noise, 0 by chance)"
    if noise["repeats"] > 1:
        what = "times the candidates" if treatment == "population" else "evaluations a candidate"
        words += f", {noise['repeats']:.3g} {what}"
    return words + (f", learning rate {noise['rate']:.2g}" if noise["rate"] < 1 else "")


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
    return f"[{_few([f'{value:.6g}' for value in x[: SHOWN + 1]])}]"


def _few(texts: list[str]) -> str:
    return ", ".join(texts[:SHOWN]) + (", ..." if len(texts) > SHOWN else "")


def _told(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _finite(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in fields.items()}
