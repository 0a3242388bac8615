"""Noise, values that differ from call to call: judged by ranks alone, treated where it hides the ranks.

=======  =================  ========  ==================================================================
symbol   code               shape     meaning
=======  =================  ========  ==================================================================
q        -                  float     agreement of two rankings of a generation: 1 without noise, about 0
                                      where values are noise
S        ``quality``        float     fading mean of q
eta      ``rate``           float     learning rate of the mean: mean += eta sigma d_mean
k        ``repeats``        float     evaluations of a candidate, or population in units of the first one
b        ``slope``          float     growth of a generation's range of values with sigma, in logarithms
T        ``EVERY``          int       generations between two probes
=======  =================  ========  ==================================================================

Different z are almost orthogonal where there are many variables, so two rankings r1, r2 of a generation lead
to steps of the mean that agree by rho = mu_w sum_k w_r1(k) w_r2(k), whatever the strategy:

    q = (rho - mu_w/lam) / (1 - mu_w/lam).

A probe evaluates a generation twice; the strategy is told the means of both values: nothing is wasted.
While repeated values are the same but for rounding, two candidates are probed in place of all.

Treatment separates how far candidates lie from the mean, sigma, from how far the mean moves, eta sigma. What
the values of a generation tell about the gradient is sigma |gradient| beside their whole range: noise, and
curvature, which is no less a disturbance. So sigma is best where range/sigma is least, at a slope b of 1.
Under additive noise b is below 1 until sigma is so long that curvature is as large as the noise; under noise
in proportion to fun, which grows with sigma, it is 1 sooner. No point need be known, nor the kind of noise:
two values of sigma take turns, and the ranges of their generations give b, whatever drifts meanwhile. eta
makes good for sigma, so that the mean moves no further.

How far it moves is left to the rule that adapts sigma, slowed by eta as the search is, which lengthens its
memory and brings signals out of the noise. For many variables that memory is longer than a run; therefore eta
sigma falls like 1/sqrt(t) (Polyak and Juditsky 1992, with the average of the mean as result) unless that rule
raises it. Nomura, Akimoto and Ono (2023) adapt eta by the signal in the steps of the mean; their target
drives it to nothing for many variables even without noise. With steps so damped, averages (Hansen et al.
2009, Uchida et al. 2024) cost more than they bring.
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
GOOD = 0.4  # quality aimed at by averages
FOUND, LOST = 0.8, 0.95  # noise matters from the one on until the other is reached
CLEAR = 0.6  # quality below which the steps of the mean shorten, above which its learning rate rises again
MOST_REPEATS = 1000.0
FORGET = 0.3  # weight of a new probe in the quality
LEAST_RATE = 1e-4
PATIENT_RATE = 2e-4  # until there, standing still is no reason to stop
AIM = 0.85  # the slope aimed at: where it is 1 sigma tells the most, but a shorter one blurs less of fun
APART = 0.5  # logarithm of the ratio of the two sigmas that take turns
TURNS = 10  # pairs of generations in the fading mean of the slope
CHANGE = 0.1  # at most, of the logarithm of eta, in a pair of generations
FALL = 0.5  # power of the time that noise was there, by which eta sigma falls
SETTLED = 80  # generations, from which on it does
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
        "level", "found", "found_for", "popsize", "first_popsize", "centre", "slope", "pairs", "side", "wide",
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
        self.slope = 1.0
        self.pairs = 0
        self.side = 0  # 1 and -1 where the longer and the shorter sigma take turns
        self.wide = np.zeros(2)  # logarithms of range and sigma, of the longer one
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

    def take(
        self, values: Values, again: Values | None, generation: int, sigma: float = 1.0
    ) -> tuple[Values, float]:
        """Return the values to rank, and the factor by which the treatment changes sigma."""
        rows = self.rows(generation)
        factor = self._take_turns(values, sigma) if self.damps else 1.0
        self.rounds += 1
        if again is None or len(rows) == 0:
            return values, factor
        self.rounds += -(-len(rows) // self.popsize)
        if len(rows) < self.popsize:
            self._check(values, rows, again, generation)
        else:
            self._judge(values, again, generation)
        return mean_of_repeats(values, rows, again), factor

    def _check(self, values: Values, rows: Indices, again: Values, generation: int) -> None:
        """Look whether any of a few values is another one when repeated."""
        self.differs = _could_change_ranks(values, np.abs(again - values[rows]))
        self.next_probe = generation + (1 if self.differs else EVERY)

    def _judge(self, values: Values, again: Values, generation: int) -> None:
        """Take in a generation of which all candidates were repeated."""
        rounds = np.vstack((values, again.reshape(-1, self.popsize)))
        first, second = _mean(rounds[::2]), _mean(rounds[1::2])
        q = agreement(first, second)
        if math.isnan(q):
            self.next_probe = generation + EVERY
            return
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
        self._treat(min(1.0, passed / EVERY))

    def _treat(self, share: float) -> None:
        """Say whether there is noise; change k after ``share`` of the usual time between probes."""
        if self.quality < FOUND:
            self.found = True
        elif self.quality > LOST and self.rate == 1.0 and self.repeats == 1.0:
            self.found = False
        need = min(1.0, max(-1.0, 1.0 - self.quality / GOOD))
        if not self.damps and (need > 0 or self.repeats > 1.0):
            self.repeats = min(MOST_REPEATS, max(1.0, self.repeats * math.exp(0.3 * need * share)))

    def _take_turns(self, values: Values, sigma: float) -> float:
        """Let two values of sigma take turns while there is noise, and eta follow the slope between them."""
        side = self.side
        self.side = (-1 if side == 1 else 1) if self.found else 0
        factor = math.exp((self.side - side) * APART / 2)
        if not self.found or side == 0:
            return factor
        width, length = _log_range(values), math.log(sigma)
        if side == 1:
            self.wide[:] = width, length
            return factor
        before_width, before_length = self.wide.tolist()
        if math.isinf(width) or math.isinf(before_width) or before_length - length < APART / 2:
            return factor  # values are equal, or sigma has come to a limit
        rise = before_width - width
        self.pairs += 1
        slope = min(4.0, max(-2.0, rise / APART))
        self.slope += (slope - self.slope) / min(TURNS, self.pairs + 2)
        need = -1.0 if self.quality > CLEAR else min(1.0, max(-1.0, AIM - self.slope))
        before = self.rate
        self.rate = min(1.0, max(LEAST_RATE, before * math.exp(-CHANGE * need)))
        return factor * (before / self.rate)

    def follow(self, mean: Array, average: float) -> None:
        """Take note of where the search is after a generation."""
        if not self.found:
            self.found_for = 0
            return
        weight = HORIZON / (HORIZON + self.found_for)
        self.centre += weight * (mean - self.centre)
        weight = 1.0 if self.found_for == 0 else max(0.1, 1 / (1 + self.found_for))
        self.level = average if weight == 1.0 else self.level + weight * (average - self.level)
        self.found_for += 1
        if self.damps and self.quality < CLEAR and self.found_for * self.rate * self.popsize < len(mean):
            falls = (1 - 1 / (SETTLED + self.found_for)) ** FALL
            self.rate = max(LEAST_RATE, self.rate * falls)

    @property
    def has_more_to_try(self) -> bool:
        """Whether the learning rate of the mean may still fall by much."""
        return self.damps and self.rate > PATIENT_RATE


def _log_range(values: Values) -> float:
    """Return the logarithm of the range of the middle two thirds; infinite where there is none."""
    there = np.sort(values[np.isfinite(values)])
    if len(there) < 4:
        return -math.inf
    tail = len(there) // 6
    width = float(there[-1 - tail] - there[tail])
    return math.log(width) if 0 < width < math.inf else -math.inf


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
