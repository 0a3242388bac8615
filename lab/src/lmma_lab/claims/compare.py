"""Helpers shared by the rules: ratios between methods, thresholds and their texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from lmma_lab.analysis.samples import Evidence, growth
from lmma_lab.claims.ledger import PAPER_RANGE, About, Finding, decided, undecided
from lmma_lab.presets import LM, MA, SIX
from lmma_lab.tasks import SIGMA0, TARGET, Invariance, Measurement, Solve

NEARLY_LINEAR = 1.25  # n log n has a slope of 1.1 to 1.15 between n = 1,024 and 65,536
NEARLY_SQUARE = 1.7  # n^2, with a margin because caches distort the cost at small n
ALIKE = 1.25  # medians of 3 to 5 runs vary by 5 to 10%
ROUNDING = 1e-8  # relative; after 100 generations, rounding alone causes differences of 1e-15 to 1e-10


def runs_of(*methods: str, problems: tuple[str, ...] = SIX) -> About:
    """Return a predicate for runs of these methods in the dimensions of the paper."""
    return lambda task: (
        isinstance(task, Solve)
        and task.method in methods
        and task.problem in problems
        and task.n >= PAPER_RANGE
        and (task.target, task.sigma0) == (TARGET, SIGMA0)
    )


def measured(kind: type[Measurement], *methods: str) -> About:
    """Return a predicate for measured times or memory of these methods."""
    return lambda task: isinstance(task, kind) and task.method in methods


def paths_of(method: str, change: str) -> About:
    """Return a predicate for runs that test an invariance."""
    return lambda task: isinstance(task, Invariance) and (task.method, task.change) == (method, change)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def same_path(evidence: Evidence, method: str, change: str, limit: float = ROUNDING) -> Finding:
    """Decide whether runs that should coincide differ by at most ``limit``."""
    differences = evidence.differences(method, change)
    if not differences:
        return undecided(f"runs of {method} under {change}")
    worst = max(differences)
    return decided(worst <= limit, f"largest difference {worst:.1e} in {_runs(len(differences))}")


def grows(
    points: Mapping[int, float],
    what: str,
    first: int,
    fits: Callable[[float], bool],
    more: Callable[[Mapping[int, float]], str],
) -> Finding:
    """Decide whether the power of n, fitted to ``points`` with n >= ``first``, satisfies ``fits``.

    The points must cover at least two doublings of n; otherwise the verdict asks for ``what``. The text
    ``more(points)`` follows the power.
    """
    chosen = {n: value for n, value in points.items() if n >= first}
    power = growth(chosen)
    if power is None or max(chosen) < 4 * first:
        return undecided(f"{what} from n = {first:,} to at least {4 * first:,}")
    return decided(fits(power), f"n^{power:.2f}{more(chosen)}")


def dims_of(points: Mapping[int, float]) -> str:
    """Return a text with the range of dimensions."""
    return f" from n = {min(points):,} to {max(points):,}"


def ratios_of(evidence: Evidence, one: str, two: str) -> dict[tuple[str, int], float]:
    """Return the ratios of median evaluations for problems that both methods solved."""
    ratios = {}
    for problem in SIX:
        ours, theirs = evidence.medians(problem, one), evidence.medians(problem, two)
        for n in evidence.common(problem, one, two):
            ratios[problem, n] = ours[n] / theirs[n]
    return ratios


def gains_in_time(evidence: Evidence) -> dict[tuple[str, int], float]:
    """Return the ratios of seconds, MA-ES / LM-MA-ES, for problems that both solved."""
    gains = {}
    for problem in SIX:
        for n in evidence.common(problem, LM, MA):
            ours, theirs = evidence.sample(problem, LM, n), evidence.sample(problem, MA, n)
            if ours is not None and theirs is not None:
                gains[problem, n] = theirs.median_seconds / ours.median_seconds
    return gains


def listed(ratios: dict[tuple[str, int], float]) -> str:
    """Return a text that lists ratios by function and n."""
    at_one_n = len({n for _, n in ratios}) == 1
    texts: dict[str, list[str]] = {}
    for (problem, n), ratio in ratios.items():
        word = "unsolved" if math.isinf(ratio) else f"{ratio:.2f}"
        texts.setdefault(problem, []).append(word if at_one_n else f"{word} (n = {n:,})")
    text = "; ".join(f"{problem} {', '.join(parts)}" for problem, parts in texts.items())
    return text + (f"; all at n = {next(iter(ratios))[1]:,}" if at_one_n else "")
