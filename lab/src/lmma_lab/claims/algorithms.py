"""Claims about the algorithms: abstract and sections 1 to 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from lmma_lab.analysis.samples import Evidence
from lmma_lab.claims.compare import (
    ALIKE,
    NEARLY_LINEAR,
    NEARLY_SQUARE,
    ROUNDING,
    grows,
    listed,
    measured,
    paths_of,
    ratios_of,
    runs_of,
    same_path,
)
from lmma_lab.claims.ledger import Decide, Finding, claim, decided, undecided
from lmma_lab.presets import CMA, LM, MA
from lmma_lab.tasks import Memory

claim(
    "update", "section 2, eq. 2",
    "The additive update of fast MA-ES is equivalent to the multiplicative one.",
    "Two runs of 100 generations with the same random numbers, one with each update, differ by at most "
    f"{ROUNDING:g} of the distance travelled.",
    about=paths_of(MA, "update"),
)(partial(same_path, method=MA, change="update"))  # fmt: skip


@claim(
    "ma-cma", "abstract, section 1",
    "MA-ES does without the covariance matrix of CMA-ES and loses no performance.",
    f"On each function that both ran, MA-ES needs at most {ALIKE:g} times the median evaluations of CMA-ES.",
    about=runs_of(MA, CMA),
)  # fmt: skip
def _ma_against_cma(evidence: Evidence) -> Finding:
    ratios = ratios_of(evidence, MA, CMA)
    if len(ratios) < 2:
        return undecided("MA-ES and CMA-ES on at least two functions at the same n")
    return decided(max(ratios.values()) <= ALIKE, f"MA-ES / CMA-ES: {listed(ratios)}")


SMALLEST = 512  # from here on a matrix (2 MiB) dominates the memory of a strategy


def _memory_grows(method: str, name: str, digits: int, fits: Callable[[float], bool]) -> Decide:
    """Return a rule: the power of n fitted to peak memory satisfies ``fits``."""

    def decide(evidence: Evidence) -> Finding:
        return grows(evidence.memory(method), f"memory of {name}", SMALLEST, fits, largest)

    def largest(points: Mapping[int, float]) -> str:
        n = max(points)
        return f"; {points[n] / 2**20:.{digits}g} MiB at n = {n:,}"

    return decide


claim(
    "memory", "abstract, section 3",
    "LM-MA-ES needs O(n log n) memory.",
    f"For n >= {SMALLEST}, peak memory grows with a fitted power of at most {NEARLY_LINEAR:g}.",
    about=measured(Memory, LM),
)(_memory_grows(LM, "LM-MA-ES", 2, lambda power: power <= NEARLY_LINEAR))  # fmt: skip
claim(
    "memory-ma", "section 1",
    "MA-ES needs O(n^2) memory.",
    f"For n >= {SMALLEST}, peak memory grows with a fitted power of at least {NEARLY_SQUARE:g}.",
    about=measured(Memory, MA),
)(_memory_grows(MA, "MA-ES", 3, lambda power: power >= NEARLY_SQUARE))  # fmt: skip


for _change, _where, _wording, _rule, _limit in (
    ("monotone", "section 3",
     "LM-MA-ES is invariant to strictly increasing transformations of the objective.",
     "100 generations on f and on its cube root minus 7 are bitwise identical.", 0.0),
    ("translation", "section 3, supplement II",
     "LM-MA-ES is invariant to translation if the start is translated as well.",
     f"100 generations from x0 on f and from x0 + t on f(x - t) differ by at most {ROUNDING:g}, relatively.",
     ROUNDING),
    ("scale", "supplement II",
     "LM-MA-ES is invariant to scaling of the search space if start and step size are scaled as well.",
     f"100 generations on f and on f(x / 1024) from 1024 times the start differ by at most {ROUNDING:g}.",
     ROUNDING),
):  # fmt: skip
    claim(_change, _where, _wording, _rule, paths_of(LM, _change))(
        partial(same_path, method=LM, change=_change, limit=_limit)
    )
