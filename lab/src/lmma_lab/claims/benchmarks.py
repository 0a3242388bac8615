"""Claims about benchmarks: section 4.1, figures 1 to 3."""

from __future__ import annotations

from functools import partial

from lmma_lab.analysis.samples import Evidence, growth
from lmma_lab.claims.compare import (
    ALIKE,
    NEARLY_LINEAR,
    NEARLY_SQUARE,
    dims_of,
    gains_in_time,
    grows,
    listed,
    measured,
    ratios_of,
    runs_of,
)
from lmma_lab.claims.ledger import Finding, claim, decided, fails, holds, undecided
from lmma_lab.presets import ACMA, CMA, LM, LMCMA, MA, ROTATED, SIX, VD
from lmma_lab.tasks import Timing

ENOUGH_RUNS = 3  # one run in four ends in Rosenbrock's local optimum, all three of them once in 64
CLEAR = 0.15  # a variation of medians by 5% changes a power fitted over one doubling by 0.1
LARGE = 1024  # from here on the interpreter's overhead is small


@claim(
    "time", "section 4.1, figure 1",
    "The internal cost of LM-MA-ES per sample scales like n log n.",
    f"For n >= {LARGE:,}, CPU time per sample grows with a fitted power of at most {NEARLY_LINEAR:g}.",
    about=measured(Timing, LM),
)  # fmt: skip
def _time(evidence: Evidence) -> Finding:
    return grows(
        evidence.timings(LM), "times of LM-MA-ES", LARGE, lambda power: power <= NEARLY_LINEAR, dims_of
    )


@claim(
    "time-ma", "section 4.1, figure 1",
    "The internal cost of fast MA-ES per sample scales like n^2.",
    f"For n >= 512, CPU time per sample grows with a fitted power of at least {NEARLY_SQUARE:g}.",
    about=measured(Timing, MA),
)  # fmt: skip
def _time_of_ma(evidence: Evidence) -> Finding:
    return grows(evidence.timings(MA), "times of MA-ES", 512, lambda power: power >= NEARLY_SQUARE, dims_of)


@claim(
    "cheaper", "section 4.1, figure 1",
    "A sample of LM-MA-ES costs less than one of MA-ES.",
    "CPU time per sample is lower in every dimension n >= 128 in which both were timed.",
    about=measured(Timing, LM, MA),
)  # fmt: skip
def _cheaper(evidence: Evidence) -> Finding:
    limited, full = evidence.timings(LM), evidence.timings(MA)
    gains = {n: full[n] / limited[n] for n in sorted(set(limited) & set(full)) if n >= 128}
    if not gains or max(gains) < LARGE:
        return undecided(f"times of both up to n = {LARGE:,}")
    listed = ", ".join(f"n = {n:,}: {gain:.2g} times" for n, gain in gains.items())
    return decided(min(gains.values()) > 1, listed)


@claim(
    "solves", "section 4.1, figure 2",
    "LM-MA-ES reaches 1e-10 on all six functions.",
    "All six functions were run, and at least one run on each function and dimension reached it. A cell of "
    "one or two runs that ended in a local optimum, not at their budget, is ignored.",
    about=runs_of(LM),
)  # fmt: skip
def _solves(evidence: Evidence) -> Finding:
    samples = {(p, n): s for p in SIX for n in evidence.dims(p, LM) if (s := evidence.sample(p, LM, n))}
    missing = [problem for problem in SIX if not evidence.dims(problem, LM)]
    unsolved = {pair: sample for pair, sample in samples.items() if not sample.solved}
    open = [pair for pair, s in unsolved.items() if s.runs < ENOUGH_RUNS and not _ended(evidence, *pair)]
    failed = [f"{problem} at n = {n:,}" for problem, n in unsolved if (problem, n) not in open]
    if failed:
        return fails(f"not reached: {', '.join(failed)}")
    missing += [problem for problem in SIX if problem not in missing and not evidence.medians(problem, LM)]
    if missing:
        return undecided(f"LM-MA-ES on {', '.join(missing)}")
    reached, runs = (sum(len(s.evaluations) for s in samples.values()), sum(s.runs for s in samples.values()))
    measured = f"{reached} of {runs} runs reached it, n up to {max(n for _, n in samples):,}"
    if open:
        measured += f"; too few runs on {', '.join(f'{problem} at n = {n:,}' for problem, n in open)}"
    return holds(measured)


def _ended(evidence: Evidence, problem: str, n: int) -> bool:
    """Return True if a run of LM-MA-ES spent its budget."""
    return any(record["reason"] == "maxfevals" for record in evidence.unreached(problem, LM, n))


@claim(
    "fewer", "section 4.1, figure 2",
    "In many cases LM-MA-ES needs fewer evaluations than MA-ES.",
    "Median evaluations are lower in at least a third of the pairs of function and n that both ran (at least "
    "six pairs, on five of the six functions).",
    about=runs_of(LM, MA),
)  # fmt: skip
def _fewer(evidence: Evidence) -> Finding:
    ratios = ratios_of(evidence, LM, MA)
    if len(ratios) < 6 or len({problem for problem, _ in ratios}) < 5:
        return undecided(
            "LM-MA-ES and MA-ES on at least six pairs of function and n, with at least five functions"
        )
    wins = {pair: ratio for pair, ratio in ratios.items() if ratio < 1}
    return decided(
        3 * len(wins) >= len(ratios), f"{len(wins)} of {len(ratios)} pairs: {listed(wins) or 'none'}"
    )


@claim(
    "fewer-as-n-grows", "section 4.1, figure 2",
    "LM-MA-ES needs fewer evaluations than MA-ES more often as n grows.",
    "Between the smallest and the largest n common to both, the ratio LM-MA-ES / MA-ES falls on more "
    "functions than it rises, and the number of functions with a ratio below 1 does not fall (at least "
    "three functions).",
    about=runs_of(LM, MA),
)  # fmt: skip
def _fewer_as_n_grows(evidence: Evidence) -> Finding:
    ratios = ratios_of(evidence, LM, MA)
    ends = {}
    for problem in SIX:
        dims = sorted(n for p, n in ratios if p == problem)
        if len(dims) >= 2:
            ends[problem] = (ratios[problem, dims[0]], ratios[problem, dims[-1]])
    if len(ends) < 3:
        return undecided("both methods on three functions, each in two dimensions")
    falls = sum(last < first for first, last in ends.values())
    before, after = sum(first < 1 for first, _ in ends.values()), sum(last < 1 for _, last in ends.values())
    listed = ", ".join(f"{problem} {first:.2g} -> {last:.2g}" for problem, (first, last) in ends.items())
    return decided(2 * falls > len(ends) and after >= before, f"{listed}; better on {before}, then {after}")


@claim(
    "faster", "section 4.1, figure 2",
    "LM-MA-ES is always faster than MA-ES in wall-clock time.",
    "Median CPU seconds to the target are lower on every pair of function and n that both ran (six or more).",
    about=runs_of(LM, MA),
)  # fmt: skip
def _faster(evidence: Evidence) -> Finding:
    gains = gains_in_time(evidence)
    slower = {pair: 1 / gain for pair, gain in gains.items() if gain <= 1}
    if slower:
        return fails(f"slower on {len(slower)} of {len(gains)} pairs (ratio of times): {listed(slower)}")
    if len(gains) < 6:
        return undecided("LM-MA-ES and MA-ES on at least six pairs of function and n")
    return holds(
        f"faster on all {len(gains)} pairs, by {min(gains.values()):.2g} to {max(gains.values()):.2g} times"
    )


@claim(
    "hundredfold", "section 4.1, figure 2",
    "In some cases LM-MA-ES is 100 times faster than MA-ES in wall-clock time.",
    "Median CPU seconds differ by a factor of at least 100 for some pair. The claim can only fail if there "
    "are runs at n >= 1,024.",
    about=runs_of(LM, MA),
)  # fmt: skip
def _hundredfold(evidence: Evidence) -> Finding:
    gains = gains_in_time(evidence)
    if not gains:
        return undecided("LM-MA-ES and MA-ES on the same functions")
    gain, (problem, n) = max((gain, pair) for pair, gain in gains.items())
    measured = f"at most {gain:.2g} times ({problem}, n = {n:,})"
    same = {m: value for (other, m), value in gains.items() if other == problem}
    power = growth(same)
    if power is not None:
        measured += f", growing like n^{power:.1f}"
    if gain >= 100:
        return holds(measured)
    if max(n for _, n in gains) < 1024:
        return Finding("not enough data", f"{measured}; needs MA-ES at n = 1,024")
    return fails(measured)


def _scaling(evidence: Evidence, problem: str, better: bool) -> Finding:
    dims = evidence.common(problem, LM, LMCMA)
    ours, theirs = (growth(evidence.medians(problem, method), dims) for method in (LM, LMCMA))
    if ours is None or theirs is None:
        return undecided(f"LM-MA-ES and LM-CMA-ES on {problem} in two dimensions")
    measured = f"n^{ours:.2f} and n^{theirs:.2f}, n = {dims[0]:,} to {dims[-1]:,}"
    if abs(ours - theirs) < CLEAR and dims[-1] < 4 * dims[0]:
        return Finding("not enough data", f"{measured}; the difference is too small, needs larger n")
    return decided(ours < theirs if better else ours > theirs, measured)


for _problem, _name, _better in (
    ("rosenbrock", "Rosenbrock", True),
    ("discus", "the discus", True),
    ("cigar", "the cigar", False),
):
    claim(
        f"scaling-{_problem}",
        "section 4.1, figure 3",
        f"LM-MA-ES scales {'better' if _better else 'worse'} than LM-CMA-ES on {_name}.",
        "The power of n fitted to median evaluations, over dimensions both solved, is "
        f"{'lower' if _better else 'higher'} for LM-MA-ES. A difference below {CLEAR:g} only counts if n "
        "grows fourfold.",
        runs_of(LM, LMCMA, problems=(_problem,)),
    )(partial(_scaling, problem=_problem, better=_better))


@claim(
    "vd-rotated", "section 4.1, figure 3; supplement II",
    "VD-CMA-ES does not solve some rotated functions efficiently.",
    "On at least one function that it solves unrotated, it needs over 10 times as many evaluations on the "
    "rotated function, or does not reach the target within 10 times as many.",
    about=runs_of(VD, problems=(*SIX, *ROTATED)),
)  # fmt: skip
def _vd_rotated(evidence: Evidence) -> Finding:
    slow, tried = {}, 0
    for problem in SIX:
        for n in evidence.dims(problem, VD):
            plain, rotated = evidence.sample(problem, VD, n), evidence.sample(f"rotated-{problem}", VD, n)
            if plain is None or rotated is None or not plain.solved:
                continue
            tried += 1
            least = rotated.median if rotated.solved else float(rotated.spent)
            if least > 10 * plain.median:
                slow[problem, n] = least / plain.median
    if slow:
        return holds(f"slower by at least these factors: {listed(slow)} ({tried} pairs tried)")
    if tried < 3:
        return undecided("VD-CMA-ES on three functions, plain and rotated")
    return fails(f"none of {tried} rotated functions takes over 10 times as long")


@claim(
    "active", "section 4.1",
    "Active CMA-ES is up to 2 times more efficient than CMA-ES.",
    f"The largest gain over at least three functions is between {ALIKE:g} and 2.5, and active CMA-ES needs "
    f"at most {ALIKE:g} times the evaluations on each.",


    about=runs_of(CMA, ACMA),
)  # fmt: skip
def _active(evidence: Evidence) -> Finding:
    ratios = ratios_of(evidence, CMA, ACMA)
    if len({problem for problem, _ in ratios}) < 3:
        return undecided("CMA-ES and active CMA-ES on three functions at the same n")
    good = ALIKE <= max(ratios.values()) <= 2.5 and min(ratios.values()) >= 1 / ALIKE
    return decided(good, f"CMA-ES / active CMA-ES: {listed(ratios)}")
