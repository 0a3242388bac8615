"""Rivals: evolution strategies that start elsewhere once one creeps, and the rules by which they come and go.

A search that creeps in a poor valley and one that is slow in a single curved valley look alike: only the
values of another search tell them apart. So a search is never ended for creeping. It is compared with rivals,
one at a time:

    a search creeps  unless  |f| fell by 10% in the last third of its age t
                     or      gains do not fade:  f(t/1.5) - f(t) >= (f(t/2.25) - f(t/1.5)) / 2
                     or      it will converge within twice its age, at the rate at which its values approach
                             one another
                     or      it has used less than 100 n evaluations, or the run a fifth of its budget

    a rival gets the next generation  if the search creeps and  E < share T
        E evaluations of rivals, T of all;  share = 1/2 on a rugged function, 1/20 elsewhere

    a rival takes over  if it finds a lower value
    a rival is dropped  if it is behind the value that the search had at the same age,
                        or if three times its recent gain, or spread, would not close the gap

Ages count generations: those of a larger population take more evaluations. A search that does not creep has
no rivals: on functions with one valley they would only take evaluations.
"""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING, ClassVar, final

from lmma.numerics.state import COUNT, DISTANCE, NOT_NAN, Declared

if TYPE_CHECKING:
    from lmma.methods.ask_tell import Strategy

ON_RUGGED, ELSEWHERE = 0.5, 0.05  # share of all evaluations for rivals of a search that creeps
FIRST = 100  # evaluations per variable before the first rival
EARLY = 0.2  # of the budget, within which no search counts as creeping
POPULATIONS = (2, 4, 1)  # of rivals in turn, relative to that of the search
RECENT = 1.5  # ages t, t/1.5 and t/2.25 are compared
PROGRESS = 0.1  # share of |f| whose loss is progress
FADING = 0.5  # gain, relative to the one before, above which gains do not fade
AGREEMENT = 1e-11  # spread of values at which a search has converged
YOUNG, OLD = 40, 80  # evaluations per variable: the first judgement, and judgement at full age
AGAIN = 1.2  # growth of the age between judgements
CLOSING = 3.0  # recent gains, or spreads, that a rival may be behind
STEP = 1.05  # growth of the age between two entries of a trace
SMOOTHING = 0.2  # weight of a generation in the spread


@final
class Trace:
    """Best values and spreads of a search, at ages that grow by 5%.

    Attributes
    ----------
    ages : list of int
        Evaluations.
    bests, spreads : list of float
        Best value until then, and difference between the median and the best value of a generation, averaged.
    spread : float
        The latest of these averages.
    """

    STATE: ClassVar[Declared] = {"ages": COUNT, "bests": NOT_NAN, "spreads": DISTANCE, "spread": DISTANCE}

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all entries."""
        self.ages: list[float] = []
        self.bests: list[float] = []
        self.spreads: list[float] = []
        self.spread = math.inf

    def add(self, search: Strategy) -> None:
        """Take in the last generation of ``search``."""
        ranked = search.ranked_values
        if len(ranked):
            spread = ranked.item(len(ranked) // 2) - ranked.item(0)
            if math.isfinite(spread):
                old = self.spread
                self.spread = old + SMOOTHING * (spread - old) if math.isfinite(old) else spread
        if not self.ages or search.evaluations >= STEP * self.ages[-1]:
            self.ages.append(float(search.evaluations))
            self.bests.append(search.best_fun)
            self.spreads.append(self.spread)

    def best_at(self, age: float) -> float:
        """Return the best value after ``age`` evaluations; infinity before the first generation."""
        entry = bisect.bisect_right(self.ages, age) - 1
        return self.bests[entry] if entry >= 0 else math.inf

    def spread_at(self, age: float) -> float:
        """Return the spread after ``age`` evaluations; infinity before the first generation."""
        entry = bisect.bisect_right(self.ages, age) - 1
        return self.spreads[entry] if entry >= 0 else math.inf


def creeps(trace: Trace, search: Strategy, evaluations: int, budget: float) -> bool:
    """Return whether ``search``, with its ``trace``, makes little progress.

    ``evaluations`` are all so far, ``budget`` those of the run.
    """
    early = EARLY * budget if math.isfinite(budget) else 0.0
    if evaluations < early or search.evaluations < FIRST * search.n:
        return False
    age, best = search.evaluations, search.best_fun
    before, recent = trace.best_at(age / RECENT**2), trace.best_at(age / RECENT)
    if not math.isfinite(before):
        return False
    old_gain, gain = before - recent, recent - best
    if gain > PROGRESS * max(abs(recent), abs(best)) or (gain > 0 and gain >= FADING * old_gain):
        return False
    return _evaluations_to_converge(trace, age) >= 2 * age


def _evaluations_to_converge(trace: Trace, age: float) -> float:
    """Return the evaluations until values agree, at the rate of the last third; infinity without one."""
    old, new = trace.spread_at(age / RECENT), trace.spread
    if new == 0:
        return 0.0
    if not new < old < math.inf:
        return math.inf
    rate = math.log(old / new) / (age - age / RECENT)
    return max(0.0, math.log(new / AGREEMENT)) / rate


def falls_behind(trace: Trace, rival: Strategy, course: Trace, search: Strategy) -> bool:
    """Return whether a ``rival`` with its ``trace`` is behind ``search``, with its ``course``, at equal age.

    A young rival is compared with the search at half of its age.
    """
    relative = rival.popsize / search.popsize
    age = rival.evaluations / relative
    limit = course.best_at(age if rival.evaluations >= OLD * rival.n * relative else age / 2)
    if rival.best_fun > limit:
        return True
    gain = trace.best_at(rival.evaluations / RECENT) - rival.best_fun
    return CLOSING * max(gain, trace.spread) < rival.best_fun - search.best_fun


def first_judgement(rival: Strategy, popsize: int) -> int:
    """Return the evaluations of a ``rival`` of a search with this ``popsize`` at which it is judged first."""
    return YOUNG * rival.n * max(1, round(rival.popsize / popsize))


def next_judgement(rival: Strategy) -> int:
    """Return the evaluations of a ``rival`` at which it is judged again."""
    return max(math.ceil(AGAIN * rival.evaluations), rival.evaluations + rival.popsize)
