"""Noise, values that differ from call to call: judged by ranks alone, treated where it hides the ranks.

=======  =================  ========  ==================================================================
symbol   code               shape     meaning
=======  =================  ========  ==================================================================
q        -                  float     agreement of two rankings of a generation: 1 without noise, about 0
                                      where values are noise
S        ``quality``        float     fading mean of q
eta      ``rate``           float     learning rate of the mean: mean += eta sigma d_mean
k        ``repeats``        float     evaluations of a candidate, or population in units of the first one
T        ``EVERY``          int       generations between two probes
=======  =================  ========  ==================================================================

Different z are almost orthogonal where there are many variables, so two rankings r1, r2 of a generation lead
to steps of the mean that agree by rho = mu_w sum_k w_r1(k) w_r2(k), whatever the strategy:

    q = (rho - mu_w/lam) / (1 - mu_w/lam).

A probe evaluates a generation twice; the strategy is told the means of both values: nothing is wasted.
While repeated values are the same but for rounding, two candidates are probed in place of all.

Treatment begins with eta, and sigma grows as it falls: candidates further apart differ by more than the
noise, while the mean moves no further. Additive noise needs nothing else (Nomura, Akimoto and Ono 2023 adapt
eta by the signal in the steps of the mean; their target drives it to nothing for many variables even without
noise). Candidates further from the mean than about the optimum is, divided by sqrt(n), are no better; so
below an eta of that order, ``soft_rate``, it falls only while the average value does not, and at most like
1/t (Robbins and Monro 1951). Under noise in proportion to fun the mean goes on at an eta that stays: with
steps so damped, averages (Hansen et al. 2009, Uchida et al. 2024) cost more than they bring. Where steps are
too short for any signal the path that rules sigma is a random walk; a small lift leads out of that.
"""

from __future__ import annotations

import math
from typing import Literal, final, get_args

import numpy as np
import numpy.typing as npt

from lmma.strategies.parts.recombination import Array, Indices, log_weights

Values = npt.NDArray[np.float64]

Treatment = Literal["auto", "mix", "average", "population"]
NONE: Indices = np.arange(0)

EVERY = 20  # generations between two probes: a twentieth of all evaluations
CHECKED = 2  # candidates in a probe while no value has ever differed
NEGLIGIBLE = 1e-3  # of the range of a generation's values: rounding, where fun adds up in another order
CALM = 0.95  # quality from which probes are only half as frequent, after FEW of them
FEW = 5
GOOD = 0.4  # quality aimed at
FOUND, LOST = 0.8, 0.95  # noise matters from the one on until the other is reached
BURIED = 0.2  # quality below which the step size is lifted
LIFT = 0.15  # at most, its logarithm, at each probe
MOST_REPEATS = 1000.0
FORGET = 0.3  # weight of a new probe in the quality
LEAST_RATE = 1e-3
PATIENT_RATE = 0.01  # until there, standing still is no reason to stop
SHORTEST = 30  # generations of a block
STRETCH = 0.2  # of the time that noise was there: eta falls like 1/t at most
LOWER = 0.7  # factor of eta after a block without progress
HORIZON = 5  # the mean is averaged over the last fifth of the time that noise was there


def checked_treatment(noise: object) -> Treatment | None:
    """Return ``noise`` if it names a treatment or is None."""
    if noise is None or (isinstance(noise, str) and noise in get_args(Treatment)):
        return noise  # type: ignore[return-value]
    from lmma.strategies.parts.checks import nearest, shown

    hint = nearest(noise, list(get_args(Treatment))) if isinstance(noise, str) else ""
    choices = ", ".join(repr(choice) for choice in get_args(Treatment))
    raise ValueError(f"noise must be one of {choices}, or None; got {shown(noise)}{hint}")


def agreement(first: Values, second: Values) -> float:
    """Return q for two evaluations of the same candidates; NaN if fewer than four have both."""
    both = np.isfinite(first) & np.isfinite(second)
    lam = int(np.count_nonzero(both))
    if lam < 4:
        return math.nan
    weights = np.zeros(lam)
    chosen = log_weights(lam, lam // 2)
    weights[: len(chosen)] = chosen
    mu_w = 1.0 / float(weights @ weights)
    rho = mu_w * float(weights[_ranks(first[both])] @ weights[_ranks(second[both])])
    return (rho - mu_w / lam) / (1.0 - mu_w / lam)


def _ranks(values: Values) -> Indices:
    ranks = np.empty(len(values), dtype=np.intp)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks


def mean_of_repeats(values: Values, rows: Indices, again: Values) -> Values:
    """Return for each candidate the mean of its values; those that failed are left out."""
    told, fresh = np.isfinite(values), np.isfinite(again)
    total, count = np.where(told, values, 0.0), told.astype(np.float64)
    np.add.at(total, rows[fresh], again[fresh])
    np.add.at(count, rows[fresh], 1.0)
    # Equal values keep every bit: their mean is no sum that was rounded
    same = told[rows] & (again == values[rows])
    if np.all(same | ~fresh):
        return values
    means: Values = np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
    return means


@final
class Noise:
    """What is known of the noise in a strategy's values, and what is done about it.

    Parameters
    ----------
    treatment : str or None
        ``"mix"`` or ``"auto"``: first the learning rate of the mean, then averages; ``"average"``: repeated
        evaluations alone; ``"population"``: a larger one; None: neither probes nor treatment.
    n, popsize : int
        Variables, and candidates per generation.
    damps : bool
        Whether the strategy takes a learning rate of its mean; else ``"mix"`` averages.

    Attributes
    ----------
    spread : float
        By how much two values of the same candidate differ, typically.
    level : float
        Fading mean of the values of all candidates since noise was found.
    found : bool
        Whether there is noise that matters.
    """

    STATE = (
        "quality", "probes", "rate", "repeats", "differs", "next_probe", "judged_at", "rounds", "spread",
        "level", "found", "found_for", "popsize", "first_popsize", "centre", "block", "sums", "before",
    )  # fmt: skip

    def __init__(self, treatment: Treatment | None, n: int, popsize: int, *, damps: bool) -> None:
        self.treatment = treatment
        self.damps = damps and treatment in ("auto", "mix")
        self.quality = 1.0
        self.probes = 0
        self.rate = 1.0
        self.repeats = 1.0
        self.differs = False  # whether any value has been another one when repeated
        self.next_probe = EVERY
        self.judged_at = 0
        self.rounds = 0  # calls for values so far: each generation, and each of its repeats
        self.spread = 0.0
        self.level = math.inf
        self.found = False
        self.found_for = 0  # generations
        self.popsize = popsize
        self.first_popsize = popsize
        self.soft_rate = soft_rate(n, popsize)
        self.block = SHORTEST  # generations whose average value is compared with that of as many before
        self.sums = np.zeros(3)  # of this block: generations, average values, their squares
        self.before = np.array([np.inf, 0.0])  # of the block before: mean and its squared error
        self.centre: Array = np.zeros(n if treatment else 0)  # average of the mean since noise was found

    # What is to be evaluated

    def rows(self, generation: int) -> Indices:
        """Return which candidates are to be evaluated again, some more than once."""
        if self.treatment is None:
            return NONE
        everyone = np.arange(self.popsize)
        if (copies := self.copies) > 1:
            return np.tile(everyone, copies - 1)
        if generation < self.next_probe:
            return NONE
        if self.differs or self.popsize <= CHECKED:
            return everyone
        return np.sort((generation // EVERY + np.array([0, self.popsize // 2])) % self.popsize)

    @property
    def copies(self) -> int:
        """Evaluations of each candidate in this generation, probes apart."""
        return 1 if self.treatment == "population" else round(min(self.repeats, MOST_REPEATS))

    @property
    def wanted_popsize(self) -> int:
        """The population the treatment asks for."""
        if self.treatment != "population":
            return self.popsize
        return round(min(self.repeats, MOST_REPEATS) * self.first_popsize)

    # What is made of it

    def take(self, values: Values, again: Values | None, generation: int) -> tuple[Values, float]:
        """Return the values to rank, and the factor by which the treatment changes sigma."""
        rows = self.rows(generation)
        self.rounds += 1
        if again is None or len(rows) == 0:
            return values, 1.0
        self.rounds += -(-len(rows) // self.popsize)
        if len(rows) < self.popsize:
            self._check(values, rows, again, generation)
            return mean_of_repeats(values, rows, again), 1.0
        return mean_of_repeats(values, rows, again), self._judge(values, again, generation)

    def _check(self, values: Values, rows: Indices, again: Values, generation: int) -> None:
        """Look whether any of a few values is another one when repeated."""
        self.differs = _could_change_ranks(values, np.abs(again - values[rows]))
        self.next_probe = generation + (1 if self.differs else EVERY)

    def _judge(self, values: Values, again: Values, generation: int) -> float:
        """Take in a generation of which all candidates were repeated; return a factor for sigma."""
        rounds = np.vstack((values, again.reshape(-1, self.popsize)))
        first, second = _mean(rounds[::2]), _mean(rounds[1::2])
        q = agreement(first, second)
        if math.isnan(q):
            self.next_probe = generation + EVERY
            return 1.0
        if len(rounds) > 2:  # of the mean of both halves (Spearman and Brown)
            q = 2 * q / (1 + q) if q > 0 else q
        passed = generation - self.judged_at if self.probes else EVERY
        self.judged_at = generation
        self.probes += 1
        weight = max(FORGET * min(1.0, passed / EVERY), 1 / self.probes)
        if len(rounds) > 2:
            weight = max(weight, FORGET / 3)
        self.quality += weight * (q - self.quality)
        apart = np.abs(first - second)
        typical = float(np.nanmedian(apart)) * math.sqrt(len(rounds) / 2)
        self.spread += weight * (typical - self.spread)
        self.differs = self.found or _could_change_ranks(values, apart)
        calm = self.quality >= CALM and self.probes >= FEW
        self.next_probe = generation + EVERY * (2 if calm else 1)
        share = min(1.0, passed / EVERY)
        # Steps too short for the noise say nothing about their length, and would stay so
        lift = math.exp(LIFT * share * max(0.0, 1.0 - self.quality / BURIED)) if self.found else 1.0
        return self._treat(share) * lift

    def _treat(self, share: float) -> float:
        """Change eta or k after ``share`` of the usual time between probes; return a factor for sigma."""
        if self.quality < FOUND:
            self.found = True
        elif self.quality > LOST and self.rate == 1.0 and self.repeats == 1.0:
            self.found = False
        need = min(1.0, max(-1.0, 1.0 - self.quality / GOOD))
        if not self.damps:
            if need > 0 or self.repeats > 1.0:
                self.repeats = min(MOST_REPEATS, max(1.0, self.repeats * math.exp(0.3 * need * share)))
            return 1.0
        if need > 0 and self.rate <= self.soft_rate:
            return 1.0  # the mean may be on its way all the same: see follow
        change = math.exp(-min(0.3, 0.1 * EVERY * self.rate) * need * share)
        return self._damp(max(change, self.soft_rate / self.rate) if need > 0 else change)

    def _damp(self, change: float) -> float:
        """Multiply eta; return what keeps eta sigma."""
        before = self.rate
        self.rate = min(1.0, max(LEAST_RATE, before * change))
        if self.rate != before:
            self._begin_blocks()
        return before / self.rate

    def _begin_blocks(self) -> None:
        """Compare the average values of two stretches of time from now on."""
        self.block = max(SHORTEST, math.ceil(3 / self.rate), math.ceil(self.found_for * STRETCH))
        self.sums[:] = 0.0
        self.before[:] = np.inf, 0.0

    def follow(self, mean: Array, average: float) -> float:
        """Take note of where the search is after a generation; return a factor for sigma.

        Where eta is small already, it falls further only if the average value has not: a mean that is on its
        way needs no smaller steps, one that only trembles does.
        """
        if not self.found:
            self.found_for = 0
            return 1.0
        weight = HORIZON / (HORIZON + self.found_for)
        self.centre += weight * (mean - self.centre)
        weight = 1.0 if self.found_for == 0 else max(0.1, 1 / (1 + self.found_for))
        self.level = average if weight == 1.0 else self.level + weight * (average - self.level)
        if self.found_for == 0:
            self._begin_blocks()
        self.found_for += 1
        self.sums += 1.0, average, average * average
        if self.sums[0] < self.block:
            return 1.0
        count, total, squares = self.sums
        here = total / count
        error2 = max(0.0, squares / count - here * here) / count
        old, old_error2 = self.before
        falls = old - here > math.sqrt(error2 + old_error2)
        self.before[:] = here, error2
        self.sums[:] = 0.0
        self.block = max(self.block, math.ceil(self.found_for * STRETCH))
        if falls or not self.damps or self.quality > GOOD or self.rate > self.soft_rate:
            return 1.0
        return self._damp(LOWER)

    @property
    def has_more_to_try(self) -> bool:
        """Whether the learning rate of the mean may still fall by much."""
        return self.damps and self.rate > PATIENT_RATE


def soft_rate(n: int, popsize: int) -> float:
    """Return the least learning rate of the mean that a longer step can make good for."""
    weights = log_weights(popsize, max(1, popsize // 2))
    return min(0.1, 1.0 / float(weights @ weights) / math.sqrt(n) / 5)


def _could_change_ranks(values: Values, differences: Values) -> bool:
    """Return whether any of ``differences`` is more than rounding, beside those between candidates."""
    values = values[np.isfinite(values)]
    differences = differences[np.isfinite(differences)]
    return bool(len(differences) and np.max(differences) > NEGLIGIBLE * np.ptp(values))


def _mean(rounds: Values) -> Values:
    """Return the mean of each column, without NaN."""
    there = np.isfinite(rounds)
    count = np.count_nonzero(there, axis=0)
    total = np.where(there, rounds, 0.0).sum(axis=0)
    means: Values = np.divide(total, count, out=np.full(rounds.shape[1], np.nan), where=count > 0)
    return means
