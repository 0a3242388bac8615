"""Summary of a finished run, as text and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.cli import status
from lmma.cli.options import as_flag
from lmma.run.result import point_of
from lmma.space import Space

if TYPE_CHECKING:
    from lmma.run.result import RunResult
    from lmma.run.run import Run
    from lmma.run.state import SingleRun
    from lmma.space.point import Point

SHOWN = 6  # coordinates of x in the summary
NAMED = 20  # variables of a space in the summary


@dataclass(frozen=True)
class Summary:
    """A finished run and its report on the command line."""

    name: str  # of the objective
    run: Run
    result: RunResult
    seed: int
    seconds: float
    begun: tuple[int, float] = (0, 0.0)  # evaluations and seconds of earlier processes

    @property
    def n(self) -> int:
        """The number of variables, counting every entry of an array."""
        return len(self.vector)

    @property
    def vector(self) -> Any:
        """The best point as an array."""
        return self.result.get("vector", self.result.x)

    @property
    def x(self) -> Any:
        """The best point for JSON: a list, or values by name."""
        return self._as_json("x")

    def _as_json(self, name: str) -> Any:
        if self.run.options.space is None:
            return [float(value) for value in self.result[name]]
        from lmma.run.observers.json_log import as_json

        return as_json(self.result[name])

    @property
    def variables(self) -> list[tuple[str, float, str]]:
        """Name, position between the limits (0 to 1) and value of each variable; empty without a space."""
        space = self.run.options.space
        if not isinstance(space, Space):
            return []
        values = [
            value for name, _, _ in space.searched() for value in np.ravel(self.result.x[name]).tolist()
        ]
        units = [v.unit_of_measure for _, v, _ in space.searched() for _ in range(v.size)]
        texts = [f"{_format(value)} {unit}".strip() for value, unit in zip(values, units, strict=True)]
        return list(zip(space.labels, space.positions(self.vector).tolist(), texts, strict=True))

    @property
    def title(self) -> str:
        """Method, objective and number of variables."""
        return f"{self.result.method} on {self.name}, n = {self.n}"

    @property
    def status(self) -> int:
        """The exit status."""
        if self.result.reason == "interrupted":
            return status.INTERRUPTED
        if self.result.nfev > 0 and not math.isfinite(self.result.fun):
            return status.ALL_FAILED
        if self.result.get("maxcv", 0.0) > self.run.options.feasibility_tol:
            return status.UNSOLVED
        return status.OK if self.result.success or within_budget(self.result) else status.UNSOLVED

    @property
    def message(self) -> str:
        """The reason for stopping, with arguments spelled as command-line options."""
        return self.run.message(as_flag)

    @property
    def popsize(self) -> int:
        """The initial population size."""
        return self.run.first_popsize

    @property
    def sigma0(self) -> float:
        """The initial step size; the geometric mean if there is one per coordinate."""
        return math.exp(float(np.mean(np.log(self.run.setup.sigma0))))

    @property
    def total_seconds(self) -> float:
        """The time of this process and of those that it continues."""
        return self.begun[1] + self.seconds

    @property
    def _time(self) -> str:
        """The time and the rate of this process, with startup; after a resume also the total time."""
        if self.seconds <= 0:
            return f"{self.seconds:.3g} s"
        rate = max(0, self.result.nfev - self.begun[0]) / self.seconds
        shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
        text = f"{self.seconds:.3g} s including startup, {shown} evaluations/s"
        return text + (f"; {self.total_seconds:.3g} s in total" if self.begun[0] else "")

    def as_text(self, plot: Path | None = None, save_x: Path | None = None) -> str:
        """Return the summary as text."""
        result = self.result
        found = math.isfinite(result.fun)
        most = max(run.popsize for run in result.runs)
        grown = f", then up to {most}" if len(result.runs) > 1 or most > self.popsize else ""
        batches = f"generations of {self.popsize}{grown}"
        if self.run.setup.cls.uses_values:  # the population has no meaning
            batches = "batches of varying size"
        rows = [
            ("best value", self._value if found else "none"),
            ("stopped", self.message),
            ("evaluations", f"{result.nfev:,} in {result.nit:,} {batches}"),
            ("time", self._time),
            ("step size", f"{result.sigma:.3g} (initially {self.sigma0:.3g})"),
            ("seed", str(self.seed)),
        ]
        if found and self.run.options.space is None:
            rows.insert(1, ("x", _first_few(result.x)))
        elif found:
            rows[1:1] = self._named_rows()
        if parts := result.get("parts"):
            rows.append(("parts", _describe_parts(parts)))
        if result.get("noise", {}).get("found"):
            rows.append(("noise", describe_noise(result.noise, self.run.options.noise)))
        if "maxcv" in result:
            rows.insert(1, ("violation", f"{result.maxcv:.3g}"))
        if (calls := result.get("calls")) is not None and calls < result.nfev - self.begun[0]:
            rows[-3:-3] = [("calls", f"{calls:,} of fun; the other values were known")]
        if result.failures:
            rows.append(("failed", f"{result.failures:,} evaluations"))
            rows += [("", str(error)) for error in result.errors[:1]]
        if result.late or result.deaths:
            rows.append(
                ("workers", f"{result.deaths:,} died and were replaced; {result.late:,} results came late")
            )
        if len(result.runs) > 1:
            rows.append(
                (
                    "restarts",
                    "; ".join(f"{run.best_fun:.4g} {_how(run)}" for run in result.runs),
                )
            )
        rows += [("warning", text) for text in result.warnings]
        rows += [
            (label, str(path)) for label, path in (("plot", plot), ("x saved", save_x)) if path is not None
        ]
        indent = "\n" + " " * 15
        return "\n".join(
            [self.title, *(f"  {label:<11}  {text}".replace("\n", indent) for label, text in rows)]
        )

    @property
    def _value(self) -> str:
        """The best value; under noise with its standard error and with fewer digits."""
        error = self.result.get("fun_error", math.nan)
        if not math.isfinite(error):
            return f"{self.result.fun:.10g}"
        return f"{self.result.fun:.6g} +- {error:.2g} (best observed: {self.result.fun_seen:.6g})"

    def _named_rows(self) -> list[tuple[str, str]]:
        """Return one row per variable, at most NAMED; an array is one row."""
        point = point_of(self.result)
        assert point is not None
        return named_rows(point, "use --json or --save-x")

    def as_json(self) -> str:
        """Return the result as a JSON object, with null for numbers that are not finite."""
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
            **({"calls": result.calls} if "calls" in result else {}),
            "seconds": self.seconds,
            "total_seconds": self.total_seconds,
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
            **_constraint_fields(result),
        }
        if "parts" in result:
            fields["parts"] = result.parts
        if "noise" in result and (result.noise["found"] or self.run.options.noise != "auto"):
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


def _how(run: SingleRun) -> str:
    """Return what a single run consisted of."""
    return "by slopes" if run.begin == "slopes" else f"with popsize {run.popsize}"


def _describe_parts(parts: Mapping[str, int]) -> str:
    """Return the evaluations of each part of a portfolio."""
    words = {
        "slopes": "by slopes", "ranks": "by ranks", "rivals": "by rivals", "coordinates": "by coordinates",
        "looks": "to decide between them",
    }  # fmt: skip
    return ", ".join(f"{parts[name]:,} {text}" for name, text in words.items() if parts.get(name))


def named_rows(point: Point, hint: str) -> list[tuple[str, str]]:
    """Return one row per variable of a point, at most NAMED; ``hint`` describes how to get the others."""
    lines = point.lines(NAMED)
    if (more := len(point.values) - len(point.fixed) - len(lines)) > 0:
        lines.append(f"and {more:,} more ({hint})")
    return [("x" if k == 0 else "", line) for k, line in enumerate(lines)]


def within_budget(result: RunResult) -> bool:
    """Return whether a budget that the user gave ended the run."""
    from lmma.run.stopping import ending_of

    return ending_of(result.reason).budget_exhausted or result.reason == "allowance"


def describe_noise(noise: dict[str, Any], treatment: str | None) -> str:
    """Return a line on the reliability of the ranking and the noise treatment."""
    text = f"rank quality {max(0.0, noise['quality']):.2f} (1: no noise, 0: random order)"
    if noise["repeats"] > 1:
        unit = "times the candidates" if treatment == "population" else "evaluations per candidate"
        text += f", {noise['repeats']:.3g} {unit}"
    return text + (f", learning rate {noise['rate']:.2g}" if noise["rate"] < 1 else "")


def _constraint_fields(result: RunResult) -> dict[str, Any]:
    """Return the JSON fields on constraints, if any, with None for numbers that are not finite."""
    if "maxcv" not in result:
        return {}
    numbers = {name: result[name] for name in ("constr", "multipliers") if result[name] is not None}
    return {"maxcv": result.maxcv} | {
        name: [[float(v) if math.isfinite(v) else None for v in part] for part in parts]
        for name, parts in numbers.items()
    }


def _first_few(x: Any) -> str:
    return f"[{_abbreviate([f'{value:.6g}' for value in x[: SHOWN + 1]])}]"


def _abbreviate(texts: list[str]) -> str:
    return ", ".join(texts[:SHOWN]) + (", ..." if len(texts) > SHOWN else "")


def _format(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _finite(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in fields.items()}
