"""Cost per generation over n, timed alternately in one process, as a record and a table.

R is the time of one ask + tell divided by the time NumPy needs to draw the same number of standard normal
numbers, (lambda, n) in float64.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from lmma import kernels
from lmma._text import text_table
from lmma.numerics.recombination import default_popsize
from lmma_lab.timing.generations import copy, draw, lmma_step, on_numpy, peer, products
from lmma_lab.timing.stopwatch import Step, best_times

DRAW, COPY, PRODUCTS = "NumPy's draw", "memory copy", "products of ma-es"
OTHERS = {  # label in tables and figures -> name of the adaptor
    "lmmaes": "lmmaes",
    "pypop7 LMMAES": "pypop7-lmmaes",
    "evosax LM_MA_ES": "evosax-lmmaes",
    "pycma": "pycma",
    "pycma VD": "pycma-vd",
    "cmaes": "cmaes",
    "fcmaes CR-FM-NES": "fcmaes-crfmnes",
}
OUR_MATRICES_UP_TO = 2048  # variables; beyond, lmma's methods with an n x n matrix are skipped
FIT_FROM = 1000  # variables from which the exponent is fitted; below, Python's overhead dominates


def contenders(n: int, peers: bool, say: Callable[[str], object]) -> dict[str, Step]:
    """Return the steps to time at ``n`` variables; report and skip those that are unavailable."""
    makers: dict[str, Callable[[int], Step | None]] = {
        DRAW: draw,
        COPY: copy,
        "lm-ma-es": lambda n: lmma_step("lm-ma-es", n),
        "lm-ma-es, 2 threads": lambda n: lmma_step("lm-ma-es", n, threads=2),
        "lm-ma-es, float32": lambda n: lmma_step("lm-ma-es", n, dtype="float32"),
        "lm-ma-es, float32, 2 threads": lambda n: lmma_step("lm-ma-es", n, dtype="float32", threads=2),
        "lm-ma-es, NumPy kernels": lambda n: on_numpy("lm-ma-es", n),
        "d-lm-ma-es": lambda n: lmma_step("d-lm-ma-es", n),
    }
    if n <= OUR_MATRICES_UP_TO:
        makers |= {
            PRODUCTS: products,
            "ma-es": lambda n: lmma_step("ma-es", n),
            "cma-es": lambda n: lmma_step("cma-es", n),
        }
    if peers:
        makers |= {label: partial(peer, name) for label, name in OTHERS.items()}
    found: dict[str, Step] = {}
    for name, make in makers.items():
        try:
            step = make(n)
        except ImportError as missing:
            say(f"{name}: skipped, {missing}")
        except Exception as error:  # a failing peer must not prevent the other measurements
            say(f"{name}: skipped at n = {n}, {type(error).__name__}: {error}")
        else:
            if step is not None:
                found[name] = step
    return found


def measure(
    dims: Sequence[int],
    *,
    repeat: int = 30,
    patience: float = 6.0,
    peers: bool = True,
    say: Callable[[str], object] = print,
) -> dict[str, Any]:
    """Return a record of the best times; call ``say`` with the table for each n as soon as it is measured."""
    times: dict[str, dict[str, float]] = {}
    for n in dims:
        times[str(n)] = best_times(contenders(n, peers, say), repeat, patience)
        say(rows_of(n, times[str(n)]))
    return {
        "kernels": kernels.backend(),
        "machine": platform.machine(),
        "numpy": np.__version__,
        "repeat": repeat,
        "popsize": {str(n): default_popsize(n) for n in dims},
        "seconds": times,
        "exponent": exponent({n: times[str(n)]["lm-ma-es"] for n in dims}),
    }


def rows_of(n: int, seconds: dict[str, float]) -> str:
    """Return the measurements at ``n`` variables as a text table, the fastest first."""
    base, ours = seconds[DRAW], seconds["lm-ma-es"]
    rows = [
        [name, f"{time * 1e6:,.1f}", f"{time / base:.2f}", f"{time / ours:.2f}"]
        for name, time in sorted(seconds.items(), key=lambda item: item[1])
    ]
    head = f"n = {n:,}, lambda = {default_popsize(n)}; R: relative to NumPy's {base * 1e6:,.1f} microseconds"
    table = text_table([["", "microseconds", "R", "times lm-ma-es"], *rows], right=(1, 2, 3))
    return f"{head}\n\n{table}\n"


def exponent(seconds: dict[int, float]) -> float | None:
    """Return the slope of log time per sample over log n for n >= ``FIT_FROM``; None for fewer than two n."""
    dims = [n for n in seconds if n >= FIT_FROM]
    if len(dims) < 2:
        return None
    samples = [seconds[n] / default_popsize(n) for n in dims]
    return float(np.polyfit(np.log(dims), np.log(samples), 1)[0])
