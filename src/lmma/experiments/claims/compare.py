"""What the rules have in common: ratios between methods, thresholds, and words for them."""

from __future__ import annotations

import math

from lmma.experiments.analysis.samples import Evidence
from lmma.experiments.claims.ledger import PAPER_RANGE, About, Finding, decided, undecided
from lmma.experiments.presets import LM, MA, SIX
from lmma.experiments.tasks import SIGMA0, TARGET, Invariance, Measurement, Solve

NEARLY_LINEAR = 1.25  # n log n has a slope of 1.1 to 1.15 between n = 1,024 and 65,536
NEARLY_SQUARE = 1.7  # n^2 on a machine whose caches make small n dearer or cheaper than they should be
ALIKE = 1.25  # medians of 3 to 5 runs vary by 5 to 10%
ROUNDING = 1e-8  # relative; paths of 100 generations that differ in rounding alone part by 1e-15 to 1e-10


def runs_of(*methods: str, problems: tuple[str, ...] = SIX) -> About:
    """Return the test for runs of these methods, in the dimensions of the paper."""
    return lambda task: (
        isinstance(task, Solve)
        and task.method in methods
        and task.problem in problems
        and task.n >= PAPER_RANGE
        and (task.target, task.sigma0) == (TARGET, SIGMA0)
    )


def measured(kind: type[Measurement], *methods: str) -> About:
    """Return the test for times or memory of these methods."""
    return lambda task: isinstance(task, kind) and task.method in methods


def paths_of(method: str, change: str) -> About:
    """Return the test for runs that ought to be one."""
    return lambda task: isinstance(task, Invariance) and (task.method, task.change) == (method, change)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def same_path(evidence: Evidence, method: str, change: str, limit: float = ROUNDING) -> Finding:
    """Return whether runs that ought to be one stayed within ``limit`` of one another."""
    differences = evidence.differences(method, change)
    if not differences:
        return undecided(f"runs of {method} under {change}")
    worst = max(differences)
    return decided(worst <= limit, f"largest difference {worst:.1e} in {_runs(len(differences))}")


def ratios_of(evidence: Evidence, one: str, two: str) -> dict[tuple[str, int], float]:
    """Return median evaluations of one method over the other's, where both solved the problem."""
    ratios = {}
    for problem in SIX:
        ours, theirs = evidence.medians(problem, one), evidence.medians(problem, two)
        for n in evidence.common(problem, one, two):
            ratios[problem, n] = ours[n] / theirs[n]
    return ratios


def gains_in_time(evidence: Evidence) -> dict[tuple[str, int], float]:
    """Return how many times longer MA-ES takes than LM-MA-ES, where both solved the problem."""
    gains = {}
    for problem in SIX:
        for n in evidence.common(problem, LM, MA):
            ours, theirs = evidence.sample(problem, LM, n), evidence.sample(problem, MA, n)
            if ours is not None and theirs is not None:
                gains[problem, n] = theirs.median_seconds / ours.median_seconds
    return gains


def listed(ratios: dict[tuple[str, int], float]) -> str:
    """Return ratios by function and n in a few words."""
    at_one_n = len({n for _, n in ratios}) == 1
    texts: dict[str, list[str]] = {}
    for (problem, n), ratio in ratios.items():
        word = "unsolved" if math.isinf(ratio) else f"{ratio:.2f}"
        texts.setdefault(problem, []).append(word if at_one_n else f"{word} (n = {n:,})")
    text = "; ".join(f"{problem} {', '.join(words)}" for problem, words in texts.items())
    return text + (f"; all at n = {next(iter(ratios))[1]:,}" if at_one_n else "")
