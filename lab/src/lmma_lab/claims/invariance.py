"""Claims of section 4.1 and the supplement about rotation, translation and the archive variant."""

from __future__ import annotations

from functools import partial

from lmma_lab.analysis.samples import Evidence, Sample
from lmma_lab.claims.compare import ALIKE, listed, runs_of
from lmma_lab.claims.ledger import Finding, claim, decided, fails, holds, undecided
from lmma_lab.presets import ARCHIVE, LM, ROTATED, SIX


def _unaffected(evidence: Evidence, prefix: str, least: int) -> Finding:
    ratios: dict[tuple[str, int], float] = {}
    for problem in SIX:
        for n in evidence.dims(problem, LM):
            plain, changed = evidence.sample(problem, LM, n), evidence.sample(f"{prefix}-{problem}", LM, n)
            if plain is not None and changed is not None and plain.solved:
                ratios[problem, n] = changed.median / plain.median
    if len({problem for problem, _ in ratios}) < least:
        return undecided(f"LM-MA-ES on {least} functions, plain and {prefix}")
    alike = all(1 / ALIKE <= ratio <= ALIKE for ratio in ratios.values())
    return decided(alike, f"{prefix} / plain: {listed(ratios)}")


for _prefix, _where, _name, _least, _count in (
    ("rotated", "section 4.1, supplement II", "rotated", 3, "three"),
    ("shifted", "section 4.1", "translated", 2, "two"),
):
    claim(
        _prefix, _where,
        f"LM-MA-ES performs equally well on {_name} functions.",
        f"The ratio of median evaluations, {_prefix} / plain, is between 1/{ALIKE:g} and {ALIKE:g} on at "
        f"least {_count} functions.",
        runs_of(LM, problems=(*SIX, *(f"{_prefix}-{problem}" for problem in SIX))),
    )(partial(_unaffected, prefix=_prefix, least=_least))  # fmt: skip


FIVE = 5  # runs per group: groups from one distribution separate by chance once in 10 with 3, in 126 with 5


def _fewest(*samples: Sample) -> int:
    return min(len(sample.evaluations) for sample in samples)


@claim(
    "rotated-within-noise", "supplement II, figure 1",
    "Rotated and separable runs differ by at most the variation between runs.",
    "On each function, the medians of the two groups differ by at most the wider of their ranges (at "
    f"least {FIVE} runs each, as in the paper).",
    about=runs_of(LM, problems=(*SIX, *ROTATED)),
)  # fmt: skip
def _within_noise(evidence: Evidence) -> Finding:
    apart, tried = [], []
    for problem in SIX:
        for n in evidence.dims(problem, LM):
            plain, rotated = evidence.sample(problem, LM, n), evidence.sample(f"rotated-{problem}", LM, n)
            if plain is None or rotated is None or _fewest(plain, rotated) < FIVE:
                continue
            a, b = plain.evaluations, rotated.evaluations
            text = f"{problem}, n = {n:,}: {min(a):,} - {max(a):,} against {min(b):,} - {max(b):,}"
            tried.append(text)
            if abs(plain.median - rotated.median) > max(max(a) - min(a), max(b) - min(b)):
                apart.append(text)
    if len(tried) < 3:
        return undecided("three functions, plain and rotated, with five successful runs each")
    return fails("; ".join(apart)) if apart else holds("; ".join(tried))


@claim(
    "archive", "section 3, supplement I",
    "The variant that archives direction vectors at a temporal distance performs comparably.",
    "Median evaluations (or, without success, evaluations spent) are between 1/1.5 and 1.5 times those of "
    "LM-MA-ES on every function that both ran (at least three).",
    about=runs_of(LM, ARCHIVE),
)  # fmt: skip
def _archive(evidence: Evidence) -> Finding:
    ratios: dict[tuple[str, int], float] = {}
    for problem in SIX:
        for n in evidence.dims(problem, ARCHIVE):
            variant, main = evidence.sample(problem, ARCHIVE, n), evidence.sample(problem, LM, n)
            if variant is None or main is None or not main.solved:
                continue
            ratio = (variant.median if variant.solved else float(variant.spent)) / main.median
            if variant.solved or ratio > 1.5:
                ratios[problem, n] = ratio
    alike = all(1 / 1.5 <= ratio <= 1.5 for ratio in ratios.values())
    if alike and len(ratios) < 3:
        return undecided("both variants on three functions")
    return decided(alike, f"archive / main, plain functions: {listed(ratios)}")
