"""Noise handling: measure noise by its effect on ranks, and counteract it if it hides the ranking.

=======  =================  ========  ==================================================================
symbol   code               shape     meaning
=======  =================  ========  ==================================================================
q        -                  float     agreement of two rankings of one generation: 1 without noise, about 0
                                      where values are noise
S        ``quality``        float     fading mean of q
eta      ``rate``           float     learning rate of the mean: mean += eta sigma d_mean
k        ``repeats``        float     evaluations per candidate, or population in units of the first one
b        ``slope``          float     growth of a generation's range of values with sigma, in logarithms
T        ``EVERY``          int       generations between two probes
=======  =================  ========  ==================================================================

With many variables, different z are almost orthogonal. Therefore two rankings r1, r2 of a generation lead to
steps of the mean with correlation rho = mu_w sum_k w_r1(k) w_r2(k), for any strategy:

    q = (rho - mu_w/lam) / (1 - mu_w/lam).

A probe evaluates a generation twice and passes the means of both values to the strategy, so no evaluation is
lost. While repeated values differ only by rounding, a probe repeats two candidates instead of all.

The treatment separates the distance of candidates from the mean, sigma, from the step of the mean, eta sigma.
The signal about the gradient in a generation is sigma |gradient|, relative to the range of its values, which
contains noise and curvature. So sigma is best where range/sigma is smallest, at a slope b of 1. Under
additive noise b is below 1 until curvature is as large as the noise; under noise proportional to fun, which
grows with sigma, b reaches 1 earlier. This needs no knowledge of the optimum or of the kind of noise:
generations alternate between two values of sigma, and their ranges give b, unaffected by drift. eta
compensates for the longer sigma, so the mean does not move farther.

The length of that step is left to the rule that adapts sigma. It is slowed by eta too, which lengthens its
memory and averages out noise. With many variables that memory exceeds the length of typical runs. Therefore
eta sigma falls like 1/sqrt(t) (Polyak and Juditsky 1992, with the averaged mean as result) unless that rule
increases it.
Nomura, Akimoto and Ono (2023) adapt eta by the signal in the steps of the mean; with many variables their
target drives eta to 0 even without noise. With damped steps, averaging values (Hansen et al. 2009, Uchida et
al. 2024) costs more than it gains.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal, final, get_args

import numpy as np
import numpy.typing as npt

from lmma.layers.layer import Layer, Told
from lmma.numerics.recombination import Array, Indices, log_weights
from lmma.numerics.state import COUNT, FINITE, FLAG, NOT_NAN, NOT_NEGATIVE, POSITIVE, VALUE, Declared

if TYPE_CHECKING:
    from lmma.methods.base import Method
    from lmma.methods.convergence import Convergence

Values = npt.NDArray[np.float64]

Treatment = Literal["auto", "mix", "average", "population"]
NONE: Indices = np.arange(0)

REACH = 1e3  # times the initial step: upper limit on step growth caused by noise
EVERY = 20  # generations between two probes, which need 1/20 of all evaluations
CHECKED = 2  # candidates in a probe until repeated values first differ
NEGLIGIBLE = 1e-3  # of a generation's range of values: smaller differences may be rounding in fun
CALM = 0.95  # quality above which probes are half as frequent, after CALM_PROBES of them
CALM_PROBES = 5
GOOD = 0.4  # target quality of averaging
FOUND, LOST = 0.8, 0.95  # noise counts as found below FOUND, until quality exceeds LOST
CLEAR = 0.6  # steps of the mean shorten below this quality; its learning rate rises above it
MOST_REPEATS = 1000.0
FORGET = 0.3  # weight of a new probe in the quality
LEAST_RATE = 1e-4
PATIENT_RATE = 2e-4  # at larger learning rates, stagnation does not stop the run
AIM = 0.85  # target slope: the signal is best at 1, but a shorter sigma blurs fun less
APART = 0.5  # logarithm of the ratio of the two alternating values of sigma
SLOPE_PAIRS = 10  # pairs of generations in the fading mean of the slope
CHANGE = 0.1  # upper limit on the change of log(eta) per pair of generations
FALL = 0.5  # eta sigma falls with this power of the time since noise was found
FALL_DELAY = 80  # generations by which that time is offset
HORIZON = 5  # the mean is averaged over the last fifth of the time since noise was found


def checked_treatment(noise: object) -> Treatment | None:
    """Return ``noise`` if it is a valid treatment or None; raise ValueError otherwise."""
    if noise is None or (isinstance(noise, str) and noise in get_args(Treatment)):
        return noise  # type: ignore[return-value]
    from lmma._text import nearest, shown

    hint = ""
    if isinstance(noise, str):
        hint = " (use None)" if noise == "none" else nearest(noise, list(get_args(Treatment)))
    choices = ", ".join(repr(choice) for choice in get_args(Treatment))
    raise ValueError(f"noise must be one of {choices}, or None; got {shown(noise)}{hint}")


def agreement(first: Values, second: Values) -> float:
    """Return q for two evaluations of the same candidates, or NaN if fewer than four have both values."""
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


def mean_of_repeats(values: Values, rows: Indices, repeats: Values) -> Values:
    """Return the mean of the values of each candidate, ignoring failed evaluations."""
    valid, fresh = np.isfinite(values), np.isfinite(repeats)
    total, count = np.where(valid, values, 0.0), valid.astype(np.float64)
    np.add.at(total, rows[fresh], repeats[fresh])
    np.add.at(count, rows[fresh], 1.0)
    # If all repeats are equal, return the values unchanged: a computed mean could be rounded
    same = valid[rows] & (repeats == values[rows])
    if np.all(same | ~fresh):
        return values
    means: Values = np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
    return means


@final
class Noise(Layer):
    """Measures the noise in a strategy's values and adapts the strategy to it.

    Parameters
    ----------
    treatment : str
        ``"mix"`` or ``"auto"``: lower the learning rate of the mean, or average if the method has none;
        ``"average"``: repeat evaluations; ``"population"``: enlarge the population.
    n, popsize : int
        The number of variables, and of candidates per generation.
    damps : bool
        True if the method supports a learning rate of its mean.
    convergence : Convergence
        The convergence test, which uses averages instead of best values once noise is found.

    Attributes
    ----------
    spread : float
        Typical difference between two values of the same candidate.
    level : float
        Fading mean of the values of all candidates since noise was found.
    found : bool
        True if there is noise that affects the ranking.
    """

    name = "noise"
    STATE: ClassVar[Declared] = {
        "quality": FINITE, "probes": COUNT, "rate": POSITIVE, "repeats": POSITIVE, "differs": FLAG,
        "next_probe": COUNT, "checked_at": COUNT, "rounds": COUNT, "spread": NOT_NEGATIVE, "level": VALUE,
        "found": FLAG, "found_for": COUNT, "popsize": COUNT, "first_popsize": COUNT, "centre": FINITE,
        "slope": FINITE, "pairs": COUNT, "side": FINITE, "wide": NOT_NAN,
    }  # fmt: skip

    def __init__(
        self, treatment: Treatment, n: int, popsize: int, *, damps: bool, convergence: Convergence
    ) -> None:
        self.treatment = treatment
        self._convergence = convergence
        self._factor = 1.0  # factor of sigma after this generation
        self.damps = damps and treatment in ("auto", "mix")
        self.quality = 1.0
        self.probes = 0
        self.rate = 1.0
        self.repeats = 1.0
        self.differs = False  # a repeated value has differed
        self.next_probe = EVERY
        self.checked_at = 0
        self.rounds = 0  # evaluations of whole generations so far, repeats included
        self.spread = 0.0
        self.level = math.inf
        self.found = False
        self.found_for = 0  # generations
        self.popsize = popsize
        self.first_popsize = popsize
        self.slope = 1.0
        self.pairs = 0
        self.side = 0  # 1 with the longer, -1 with the shorter of the alternating sigmas; else 0
        self.wide = np.zeros(2)  # logarithms of range and sigma with the longer one
        self.centre: Array = np.zeros(n)  # average of the mean since noise was found

    def on_tell(self, method: Method, told: Told) -> Told:
        """Replace repeated values by their means, and set the learning rate."""
        raw, self._factor = self.process(told.raw, told.repeats, method.generation, method.sigma)  # type: ignore[arg-type]  # checked
        return told._replace(raw=raw, plain=raw, values=raw, rate=self.rate)

    def after_update(self, method: Method, told: Told) -> None:
        """Update the averages, and change sigma by the factor of the treatment."""
        valid = told.raw[np.isfinite(told.raw)]
        self.track(method.mean, float(valid.mean()) if len(valid) else self.level)
        if told.report is None and not math.isnan(self.average):
            self._convergence.use_average(self.average, first=self.found_for == 1)
        if self.rate != 1.0:
            method.stabilise(self.rate)
        longer = method.sigma * self._factor
        method.sigma = min(longer, max(method.sigma, REACH * method.sigma0))

    @property
    def average(self) -> float:
        """Fading mean of the values of all candidates since noise was found; NaN without noise."""
        return self.level if self.found and math.isfinite(self.level) else math.nan

    # Rows to evaluate repeatedly

    def rows(self, generation: int, count: int | None = None) -> Indices:
        """Return the candidates, among ``count``, to evaluate again; an index may occur several times."""
        count = self.popsize if count is None else count
        every_row = np.arange(count)
        if (copies := self.copies) > 1:
            return np.tile(every_row, copies - 1)
        if generation < self.next_probe:
            return NONE
        if self.differs or count <= CHECKED:
            return every_row
        return np.sort((generation // EVERY + np.array([0, count // 2])) % count)

    @property
    def copies(self) -> int:
        """Evaluations per candidate in this generation, not counting probes."""
        return 1 if self.treatment == "population" else round(min(self.repeats, MOST_REPEATS))

    @property
    def wanted_popsize(self) -> int:
        """The population size that the treatment requires."""
        if self.treatment != "population":
            return self.popsize
        return round(min(self.repeats, MOST_REPEATS) * self.first_popsize)

    # Update from their values

    def process(
        self, values: Values, repeats: Values | None, generation: int, sigma: float = 1.0
    ) -> tuple[Values, float]:
        """Return the values to rank, and the factor by which the treatment changes sigma."""
        rows = self.rows(generation, len(values))
        factor = self._alternate_sigma(values, sigma) if self.damps else 1.0
        self.rounds += 1
        if repeats is None or len(rows) == 0:
            return values, factor
        self.rounds += -(-len(rows) // len(values))
        if len(rows) < len(values):
            self._check(values, rows, repeats, generation)
        else:
            self._measure_quality(values, repeats, generation)
        return mean_of_repeats(values, rows, repeats), factor

    def _check(self, values: Values, rows: Indices, repeats: Values, generation: int) -> None:
        """Set ``differs`` if any of the repeated values differs; schedule the next probe."""
        self.differs = _could_change_ranks(values, np.abs(repeats - values[rows]))
        self.next_probe = generation + (1 if self.differs else EVERY)

    def _measure_quality(self, values: Values, repeats: Values, generation: int) -> None:
        """Update quality, spread and treatment from a generation whose candidates were all repeated."""
        rounds = np.vstack((values, repeats.reshape(-1, len(values))))
        first, second = _mean(rounds[::2]), _mean(rounds[1::2])
        q = agreement(first, second)
        if math.isnan(q):
            self.next_probe = generation + EVERY
            return
        if len(rounds) > 2:  # quality of the mean of both halves (Spearman and Brown)
            q = 2 * q / (1 + q) if q > 0 else q
        passed = generation - self.checked_at if self.probes else EVERY
        self.checked_at = generation
        self.probes += 1
        weight = max(FORGET * min(1.0, passed / EVERY), 1 / self.probes)
        if len(rounds) > 2:
            weight = max(weight, FORGET / 3)
        self.quality += weight * (q - self.quality)
        apart = np.abs(first - second)
        typical = float(np.nanmedian(apart)) * math.sqrt(len(rounds) / 2)
        self.spread += weight * (typical - self.spread)
        self.differs = self.found or _could_change_ranks(values, apart)
        calm = self.quality >= CALM and self.probes >= CALM_PROBES
        self.next_probe = generation + EVERY * (2 if calm else 1)
        self._adapt(min(1.0, passed / EVERY))

    def _adapt(self, share: float) -> None:
        """Update ``found``, and adapt k; ``share`` is the time since the last probe, relative to EVERY."""
        if self.quality < FOUND:
            self.found = True
        elif self.quality > LOST and self.rate == 1.0 and self.repeats == 1.0:
            self.found = False
        need = min(1.0, max(-1.0, 1.0 - self.quality / GOOD))
        if not self.damps and (need > 0 or self.repeats > 1.0):
            self.repeats = min(MOST_REPEATS, max(1.0, self.repeats * math.exp(0.3 * need * share)))

    def _alternate_sigma(self, values: Values, sigma: float) -> float:
        """Return the factor that alternates sigma while there is noise; adapt eta to the slope."""
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
            return factor  # values are equal, or sigma was limited
        rise = before_width - width
        self.pairs += 1
        slope = min(4.0, max(-2.0, rise / APART))
        self.slope += (slope - self.slope) / min(SLOPE_PAIRS, self.pairs + 2)
        need = -1.0 if self.quality > CLEAR else min(1.0, max(-1.0, AIM - self.slope))
        before = self.rate
        self.rate = min(1.0, max(LEAST_RATE, before * math.exp(-CHANGE * need)))
        return factor * (before / self.rate)

    def track(self, mean: Array, average: float) -> None:
        """Update the averages of mean and value, and lower eta, while there is noise."""
        if not self.found:
            self.found_for = 0
            return
        weight = HORIZON / (HORIZON + self.found_for)
        self.centre += weight * (mean - self.centre)
        weight = 1.0 if self.found_for == 0 else max(0.1, 1 / (1 + self.found_for))
        self.level = average if weight == 1.0 else self.level + weight * (average - self.level)
        self.found_for += 1
        if self.damps and self.quality < CLEAR and self.found_for * self.rate * self.popsize < len(mean):
            falls = (1 - 1 / (FALL_DELAY + self.found_for)) ** FALL
            self.rate = max(LEAST_RATE, self.rate * falls)

    @property
    def has_more_to_try(self) -> bool:
        """True if the learning rate of the mean can still fall considerably."""
        return self.damps and self.rate > PATIENT_RATE


def _log_range(values: Values) -> float:
    """Return the logarithm of the range of the middle two thirds, or -inf if it is undefined."""
    ordered = np.sort(values[np.isfinite(values)])
    if len(ordered) < 4:
        return -math.inf
    tail = len(ordered) // 6
    width = float(ordered[-1 - tail] - ordered[tail])
    return math.log(width) if 0 < width < math.inf else -math.inf


def _could_change_ranks(values: Values, differences: Values) -> bool:
    """Return True if a difference is more than rounding, relative to the range of the values."""
    values = values[np.isfinite(values)]
    differences = differences[np.isfinite(differences)]
    return bool(len(differences) and np.max(differences) > NEGLIGIBLE * np.ptp(values))


def _mean(rounds: Values) -> Values:
    """Return the mean of each column, ignoring values that are not finite."""
    valid = np.isfinite(rounds)
    count = np.count_nonzero(valid, axis=0)
    total = np.where(valid, rounds, 0.0).sum(axis=0)
    means: Values = np.divide(total, count, out=np.full(rounds.shape[1], np.nan), where=count > 0)
    return means
