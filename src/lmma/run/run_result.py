"""What :func:`lmma.minimize` returns: SciPy's result, which prints short, draws itself and is saved."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from lmma.kernels.words import one_line, shown

LINES = 25  # of a printed result, at most
WIDTH = 96  # of one of them, without its label
MESSAGE = 4  # lines of the message, at most
FIRST = (
    "message", "success", "reason", "fun", "x", "nfev", "nit", "method", "sigma", "failures", "runs",
    "warnings",
)  # fmt: skip
LATER = ("learned", "hess_inv", "mean", "status")  # what is left out first


class RunResult(OptimizeResult):  # type: ignore[misc]  # SciPy has no types
    """The result of a run: a dictionary whose keys are attributes as well.

    ``print(result)`` takes at most 25 lines, however much it holds. See :func:`lmma.minimize` for the keys.
    """

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result into a file that :func:`lmma.load` reads, without pickle.

        The file is whole or as it was before. What neither numbers nor words can say is left out, and named
        in the ``warnings`` of the result that is loaded.
        """
        from lmma.run.result_file import save

        save(self, path)

    def plot(self, *, target: float | None = None, title: str | None = None) -> Any:
        """Return a ``matplotlib.figure.Figure`` of the best value and the step size over evaluations.

        It needs the record that ``minimize(..., history=True)`` keeps. Under noise it also shows the average
        of recent candidates, the result, how far ranks can be trusted, and what was done about it.
        """
        history = self.get("history")
        if not history:
            raise ValueError("result.plot() draws result.history: call minimize(..., history=True)")
        from lmma.output.plotting import convergence

        if title is None:
            title = f"{self.get('method', 'run')}, n = {len(self.get('vector', self['x']))}"
        return convergence(history, target=target, title=title, answer=answer_of(self))

    def __repr__(self) -> str:
        found = f"fun={_number(self['fun'])}" if "fun" in self else "no value"
        words = [f"<result: {found}"]
        if "nfev" in self:
            words.append(f"after {self['nfev']:,} evaluations")
        if "method" in self:
            words.append(f"by {one_line(self['method'], 40)}")
        if "x" in self:
            words.append(f"(n={np.size(self.get('vector', self['x']))})")
        ended = f", {one_line(self['reason'], 40)}" if "reason" in self else ""
        return " ".join(words) + ended + ">"

    def __str__(self) -> str:
        lines = list(self._lines())
        if len(lines) > LINES:
            lines = [*lines[: LINES - 1], f"{'...':>10}  and more: list(result) names all"]
        return "\n".join(lines)

    def _lines(self) -> Iterator[str]:
        for name in self._names():
            label = f"{one_line(name, 24):>10}: "
            if name == "message":
                words = textwrap.wrap(one_line(self[name], MESSAGE * WIDTH), WIDTH) or [""]
                yield label + words[0]
                yield from (" " * len(label) + line for line in words[1 : MESSAGE + 1])
            else:
                yield label + summary(name, self[name])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:right'>{escape(one_line(name, 24))}</th>"
            f"<td style='text-align:left'>{escape(one_line(summary(name, self[name]), 400))}</td></tr>"
            for name in self._names()[: 2 * LINES]
        )
        return f"<table>{rows}</table>"

    def _names(self) -> list[str]:
        """Return the keys, what people look for first."""
        middle = [name for name in self if name not in FIRST and name not in LATER]
        return [name for name in (*FIRST, *middle, *LATER) if name in self]

    def __dir__(self) -> list[str]:
        return [*self.keys(), "plot", "save"]


def answer_of(result: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Return evaluations, value and standard error of a result under noise; None if there was none."""
    error = result.get("fun_error", math.nan)
    return (result["nfev"], result["fun"], error) if math.isfinite(error) else None


def summary(name: str, value: Any) -> str:
    """Return one quantity of a result in at most one line."""
    if isinstance(value, np.ndarray):
        return vector(value)
    if isinstance(value, bool | np.bool_) or value is None:
        return str(value)
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        return _number(value)
    if isinstance(value, str):
        return one_line(value, MESSAGE * WIDTH if name == "message" else WIDTH)
    if name == "noise" and isinstance(value, Mapping):
        known = (f"{each} {v if isinstance(v, bool) else _number(v, 3)}" for each, v in value.items())
        return one_line(", ".join(known), WIDTH)
    if name == "history" and isinstance(value, Mapping):
        snapshots = max((len(column) for column in value.values()), default=0)
        return f"{snapshots:,} snapshots of {one_line(', '.join(map(str, value)), WIDTH - 24)}"
    if name in ("runs", "errors", "warnings") and isinstance(value, Sequence) and value:
        more = f" (the first of {len(value):,})" if len(value) > 1 else ""
        first = value[0]
        words = f"{first.kind}: {first.message}" if hasattr(first, "traceback") else str(first)
        return one_line(words, WIDTH - len(more)) + more
    return one_line(shown(value), WIDTH)


def vector(x: Any) -> str:
    """Return an array on one line, its middle left out where it is long."""
    x = np.asarray(x)
    if x.ndim != 1:
        return f"array of shape {x.shape}"
    text = np.array2string(x, threshold=6, edgeitems=3, precision=6, max_line_width=10**6)
    return f"{one_line(text, WIDTH)}{f' (n = {len(x):,})' if len(x) > 6 else ''}"


def _number(value: Any, digits: int = 10) -> str:
    if not isinstance(value, int | float | np.number):
        return one_line(shown(value), WIDTH)
    return f"{value:.{digits}g}" if math.isfinite(value) else str(float(value))
