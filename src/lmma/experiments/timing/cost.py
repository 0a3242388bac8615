"""The cost of a generation over n: everything timed in one process, in turn, as a record and a table.

R is the time of one ask + tell divided by the time in which NumPy draws as many standard normal numbers,
(lambda, n) in float64.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from lmma import kernels
from lmma.experiments.timing.contest import Step, best_times
from lmma.experiments.timing.generations import copy, draw, on_the_twin, ours, peer, products
from lmma.output.tables import text_table
from lmma.strategies.parts.recombination import default_popsize

DRAW, COPY, PRODUCTS = "NumPy's draw", "memory copy", "products of ma-es"
OTHERS = {  # as tables and figures call them -> the adaptor
    "lmmaes": "lmmaes",
    "pypop7 LMMAES": "pypop7-lmmaes",
    "evosax LM_MA_ES": "evosax-lmmaes",
    "pycma": "pycma",
    "pycma VD": "pycma-vd",
    "cmaes": "cmaes",
    "fcmaes CR-FM-NES": "fcmaes-crfmnes",
}
OUR_MATRICES_UP_TO = 2048  # variables; beyond, n x n methods of ours are left out
FIT_FROM = 1000  # variables from which the exponent is fitted: below, Python dominates


def contenders(n: int, peers: bool, say: Callable[[str], object]) -> dict[str, Step]:
    """Return everything to be timed at ``n`` variables; what is missing is left out with a word."""
    makers: dict[str, Callable[[int], Step | None]] = {
        DRAW: draw,
        COPY: copy,
        "lm-ma-es": lambda n: ours("lm-ma-es", n),
        "lm-ma-es, 2 threads": lambda n: ours("lm-ma-es", n, threads=2),
        "lm-ma-es, float32": lambda n: ours("lm-ma-es", n, dtype="float32"),
        "lm-ma-es, float32, 2 threads": lambda n: ours("lm-ma-es", n, dtype="float32", threads=2),
        "lm-ma-es, NumPy twin": lambda n: on_the_twin("lm-ma-es", n),
        "d-lm-ma-es": lambda n: ours("d-lm-ma-es", n),
    }
    if n <= OUR_MATRICES_UP_TO:
        makers |= {
            PRODUCTS: products,
            "ma-es": lambda n: ours("ma-es", n),
            "cma-es": lambda n: ours("cma-es", n),
        }
    if peers:
        makers |= {label: partial(peer, name) for label, name in OTHERS.items()}
    found: dict[str, Step] = {}
    for name, make in makers.items():
        try:
            step = make(n)
        except ImportError as missing:
            say(f"{name}: left out, {missing}")
        except Exception as error:  # a peer that cannot do it is no reason to measure nothing
            say(f"{name}: left out at n = {n}, {type(error).__name__}: {error}")
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
    """Return a record of the best times; ``say`` hears each row of it as soon as it is known."""
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
    """Return what was measured at ``n`` variables as lines of text, the quickest first."""
    base, ours = seconds[DRAW], seconds["lm-ma-es"]
    rows = [
        [name, f"{time * 1e6:,.1f}", f"{time / base:.2f}", f"{time / ours:.2f}"]
        for name, time in sorted(seconds.items(), key=lambda item: item[1])
    ]
    head = (
        f"n = {n:,}, lambda = {default_popsize(n)}; R: times NumPy's draw of {base * 1e6:,.1f} microseconds"
    )
    table = text_table([["", "microseconds", "R", "times lm-ma-es"], *rows], right=(1, 2, 3))
    return f"{head}\n\n{table}\n"


def exponent(seconds: dict[int, float]) -> float | None:
    """Return the slope of log time per sample over log n from ``FIT_FROM`` on; None for fewer than two n."""
    dims = [n for n in seconds if n >= FIT_FROM]
    if len(dims) < 2:
        return None
    samples = [seconds[n] / default_popsize(n) for n in dims]
    return float(np.polyfit(np.log(dims), np.log(samples), 1)[0])
