"""Measurements of a function: repeats, lines, difference tables, short steps, single variables.

Lengths along a line are in search steps: a candidate of the first generation is at distance 1.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from lmma.checking.probe import BudgetExhausted, Probe
from lmma.methods import gate
from lmma.numerics.value_noise import ValueNoise

Values = npt.NDArray[np.float64]

REPEATS = 3  # calls at the start; more once they differ
LINES = 3
PLACES = np.linspace(-3.0, 3.0, 13)
MIDDLE = len(PLACES) // 2
ONE = 2  # number of places from the middle to distance 1
TABLE = 7  # values in a difference table
SPACINGS = (1e-6, 1.37e-6)  # of two tables: periodic noise can be invisible to one of them, but not both
SHRINKING = 4  # number of steps, each shorter than the one before
SHRINK = 16.0  # by this factor
ZOOMS = 5  # halvings of the spacing at the roughest place of a line
CALLS_PER_LINE = 24  # calls needed for one more line
JUMP_RATIO = 4.0  # the largest change is a jump if it exceeds the third largest by this factor
EXACT = 1e-13  # relative difference below which repeated values are equal


@dataclass
class Findings:
    """Measurements of the function check; NaN, None or empty if not made."""

    n: int
    repeats_differ: bool = False  # repeated calls at one point
    spread: float = 0.0  # standard deviation of repeats
    lines: list[Values] = field(default_factory=list)
    tables: list[float] = field(default_factory=list)  # noise levels by difference tables
    shrinking: list[tuple[float, float, float]] = field(default_factory=list)  # step, value left, right
    order: float = math.nan  # power of the step by which fourth differences shrink at the roughest place
    jump: float = 0.0  # size of the jump at that place, 0 if there is none
    quanta: float = 0.0  # remaining differences there, in units of the rounding quantum
    effects: dict[int, tuple[float, float]] = field(default_factory=dict)  # changes by a step down and up
    smooth: bool | None = None  # decision of the gate, by which the default method begins
    at_start: float = math.nan
    at_centre: float = math.nan
    digits: Digits = field(default_factory=lambda: Digits(17, 17, False, False, False))
    complete: bool = False

    @property
    def level(self) -> float:
        """The noise level, from repeats and from nearby points."""
        if self.spread > 0:
            return statistics.median([self.spread, *self.tables])
        return self.table if self.tables else 0.0

    @property
    def table(self) -> float:
        """The noise level between nearby points."""
        return max(self.tables, default=math.nan)

    @property
    def scale(self) -> float:
        """The median change of the value over one step along the lines."""
        near = [line[[MIDDLE - ONE, MIDDLE + ONE]] - line[MIDDLE] for line in self.lines]
        changes = np.abs(np.concatenate(near)) if near else np.empty(0)
        return float(np.median(changes[np.isfinite(changes)])) if np.isfinite(changes).any() else 0.0

    @property
    def span(self) -> float:
        """The largest change of the value along a line."""
        return max((_span(line) for line in self.lines), default=0.0)

    @property
    def slopes(self) -> list[float]:
        """Slopes at the centre by central differences with shrinking steps."""
        return [(b - a) / (2 * step) for step, a, b in self.shrinking if math.isfinite(b - a)]

    @property
    def plateau(self) -> float:
        """The longest step that does not change the value in either direction, or 0."""
        flat = [step for step, left, right in self.shrinking if left == right == self.at_centre]
        return max(flat, default=0.0)

    @property
    def turning_points(self) -> int:
        """The largest number of turning points on a line, ignoring those caused by noise and rounding."""
        least = max(6 * self.level, 2 * self.digits.quantum(self.at_centre))
        counts = [count_turns(line[np.isfinite(line)], max(least, 1e-3 * _span(line))) for line in self.lines
                  if np.isfinite(line).sum() > 2]  # fmt: skip
        return max(counts, default=0)

    @property
    def linear(self) -> bool:
        """True if all lines are straight within noise and rounding."""
        complete = [line for line in self.lines if np.isfinite(line).all() and _span(line) > 0]
        return bool(complete) and all(
            np.max(np.abs(np.diff(line, 2))) < max(1e-9 * _span(line), 8 * self.level) for line in complete
        )


def measure(probe: Probe, rng: np.random.Generator) -> Findings:
    """Make all measurements, or as many as the limits of ``probe`` allow."""
    found = Findings(len(probe.x0))
    with contextlib.suppress(BudgetExhausted), np.errstate(over="ignore", invalid="ignore", under="ignore"):
        _repeat(probe, found, rng)
        if probe.discrete:
            _sample(probe, found)
        if np.any(probe.step > 0):
            directions = _lines(probe, found, rng)
            for direction, spacing in zip(directions, SPACINGS, strict=False):
                _table(probe, found, direction, spacing)
            if not found.repeats_differ:
                _shrink(probe, found, directions[0])
                _zoom(probe, found, directions, 0)
            _gate(probe, found, rng)
            _variables(probe, found, rng)
            while not found.repeats_differ and probe.left >= CALLS_PER_LINE:
                directions.append(_another_line(probe, found, rng))
                _zoom(probe, found, directions, len(directions) - 1)
        found.complete = True
    if probe.values:
        found.digits = digits(probe.values)
    return found


def _repeat(probe: Probe, found: Findings, rng: np.random.Generator) -> None:
    """Test at the start and at one candidate whether repeated calls agree."""
    first = probe.at(np.tile(probe.x0, (REPEATS, 1)))
    found.at_start = float(np.nanmean(first)) if np.isfinite(first).any() else math.nan
    while not np.isfinite(found.at_start) and not probe.values:  # the start failed: try points near it
        _move(probe, rng)
    here = probe.at(probe.centre[np.newaxis])
    if np.isfinite(first).any() and np.array_equal(probe.centre, probe.x0):
        first = np.append(first, here)
    candidate = np.tile(probe.points(probe.direction(rng.standard_normal(found.n)), np.ones(1)), (2, 1))
    repeats = probe.at(candidate)
    found.at_centre = float(here[0])
    found.repeats_differ = _values_differ(first) or _values_differ(repeats)
    if found.repeats_differ:
        more = probe.at(np.tile(probe.centre, (REPEATS + 1, 1)))
        values = np.append(here, more)
        found.at_centre = float(np.nanmedian(values))
        found.spread = max(_deviation(values), _deviation(repeats) if _deviation(values) == 0 else 0.0)


def _move(probe: Probe, rng: np.random.Generator) -> None:
    """Try a random point and make it the centre if the function has a value there."""
    point = probe.points(probe.direction(rng.standard_normal(len(probe.x0))), np.ones(1))
    if np.isfinite(probe.at(point)).any():
        probe.centre = point[0]


def _sample(probe: Probe, found: Findings) -> None:
    """Evaluate two generations of a search: lines reveal little about integers and choices."""
    strategy = probe.run.state.strategy
    for _ in range(2):
        candidates = strategy.candidates if strategy.candidates is not None else strategy.ask()
        strategy.tell(probe.at(candidates.copy()))


def _lines(probe: Probe, found: Findings, rng: np.random.Generator) -> list[Values]:
    """Evaluate along two random directions and one variable."""
    varied = np.flatnonzero(probe.step > 0)
    axis = np.zeros(found.n)
    axis[rng.choice(varied)] = 1.0
    directions = [probe.direction(rng.standard_normal(found.n)) for _ in range(LINES - 1)]
    directions.append(probe.direction(axis))
    for direction in directions:
        found.lines.append(_with_middle(probe.line(direction, np.delete(PLACES, MIDDLE)), found.at_centre))
    return directions


def _another_line(probe: Probe, found: Findings, rng: np.random.Generator) -> Values:
    """Evaluate along one more random direction; return the direction."""
    direction = probe.direction(rng.standard_normal(found.n))
    found.lines.append(_with_middle(probe.line(direction, np.delete(PLACES, MIDDLE)), found.at_centre))
    return direction


def _table(probe: Probe, found: Findings, direction: Values, spacing: float) -> None:
    """Estimate the noise between nearby points, which can exist even if repeated calls agree."""
    values = probe.line(direction, np.array([spacing * place for place in range(1, TABLE + 1)]))
    if np.isfinite(values).all():
        found.tables.append(noise_level(values))


def _shrink(probe: Probe, found: Findings, direction: Values) -> None:
    """Evaluate at shrinking steps in both directions from the centre."""
    step = float(PLACES[1] - PLACES[0])
    for _ in range(SHRINKING):
        step /= SHRINK
        left, right = probe.line(direction, np.array([-step, step])).tolist()
        found.shrinking.append((step, left, right))


def _zoom(probe: Probe, found: Findings, directions: list[Values], newest: int) -> None:
    """Halve the spacing repeatedly at the roughest place of the lines and record how differences shrink.

    Lines before ``newest`` have already been examined.
    """
    known = digits(probe.values)
    floors = [_floor(found, known, line) for line in found.lines]
    site = _roughest(found.lines[newest:], floors[newest:])
    if site is None:
        found.order = float(np.fmin(found.order, 4.0))  # no more than a cubic, within rounding
        return
    line, first = site[0] + newest, site[1]
    values, spacing = found.lines[line][first : first + 5], float(PLACES[1] - PLACES[0])
    start, sizes, jump = float(PLACES[first]), [float(np.abs(fourth_differences(values))[0])], 0.0
    while len(sizes) <= ZOOMS and sizes[-1] >= floors[line] and probe.left >= 4:
        spacing /= 2
        between = np.array([start + spacing * place for place in (1, 3, 5, 7)])
        finer = np.empty(9)
        finer[::2], finer[1::2] = values, probe.line(directions[line], between)
        if not np.isfinite(finer).all():
            return
        differences = np.abs(fourth_differences(finer))
        at = int(np.argmax(differences))
        values, start = finer[at : at + 5], start + spacing * at
        sizes.append(float(differences[at]))
        steps = np.sort(np.abs(np.diff(finer)))
        jump = float(steps[-1]) if steps[-1] > JUMP_RATIO * steps[-3] else 0.0
    last = sizes[-4:]  # the first intervals may contain several kinks
    if len(last) < 2:
        return
    order = math.log2(last[0] / last[-1]) / (len(last) - 1) if last[-1] > 0 else 4.0
    if not order >= found.order:
        found.order, found.jump = order, jump
        # fourth differences of a jump by 1 are 1, -3, 3, -1
        found.quanta = sizes[-1] / 3 / known.quantum(_largest(found, found.lines[line]))


def _floor(found: Findings, known: Digits, line: Values) -> float:
    """Return the size of fourth differences that noise and rounding alone can cause, with a margin."""
    largest = _largest(found, line)
    return max(60 * found.level, 60 * float(np.spacing(largest)), 8 * known.quantum(largest))


def _largest(found: Findings, line: Values) -> float:
    return float(np.max(np.abs(line[np.isfinite(line)]), initial=abs(found.at_centre)))


def _roughest(lines: list[Values], floors: list[float]) -> tuple[int, int] | None:
    """Return (line, index) of the fourth difference that exceeds the typical one of its line most."""
    best, site = 0.0, None
    for number, (line, floor) in enumerate(zip(lines, floors, strict=True)):
        differences = np.abs(fourth_differences(line))
        finite = np.isfinite(differences)
        if not finite.any():
            continue
        usual = float(np.median(differences[finite])) + 1e-3 * float(np.max(differences[finite])) + floor / 60
        for at in np.flatnonzero(finite & (differences > floor)).tolist():
            if differences[at] / usual > best:
                best, site = float(differences[at] / usual), (number, int(at))
    return site


def _variables(probe: Probe, found: Findings, rng: np.random.Generator) -> None:
    """Step along single variables: all of them, or as many as the remaining calls allow."""
    varied = np.flatnonzero(probe.step > 0)
    count = min(len(varied), max(0, probe.left - 4) // 2)
    for i in sorted(rng.choice(varied, count, replace=False).tolist()):
        direction = probe.direction(np.eye(1, found.n, i)[0])
        down, up = (probe.line(direction, np.array([-1.0, 1.0])) - found.at_centre).tolist()
        found.effects[i] = (down, up)


def _gate(probe: Probe, found: Findings, rng: np.random.Generator) -> None:
    """Decide with the gate of the default method whether the function is smooth at two scales."""
    if not math.isfinite(found.at_centre):
        return
    limits = (probe.lower, probe.upper) if probe.bounded else None
    lines = gate.random_lines(rng, gate.line_count(found.n), probe.step)
    lines, one_sided = gate.inside(probe.centre, lines, gate.AT_START[0], limits)
    values = probe.at(gate.points(probe.centre, lines, gate.AT_START, limits, one_sided=one_sided))
    errors = ValueNoise()
    errors.remember(np.array(probe.values))
    errors.measure(np.empty(0), found.at_centre)
    values = np.where(np.isfinite(values), values, math.nan)
    found.smooth = gate.judge(values, found.at_centre, gate.AT_START, errors, one_sided=one_sided).smooth


def _with_middle(values: Values, middle: float) -> Values:
    return np.insert(values, MIDDLE, middle)


def _values_differ(values: Values) -> bool:
    """Return whether finite values at one point differ by more than rounding."""
    finite = values[np.isfinite(values)]
    return len(finite) > 1 and bool(np.ptp(finite) > EXACT * np.max(np.abs(finite)))


def _deviation(values: Values) -> float:
    finite = values[np.isfinite(values)]
    return float(np.std(finite, ddof=1)) if len(finite) > 1 else 0.0


def _span(line: Values) -> float:
    finite = line[np.isfinite(line)]
    return float(np.ptp(finite)) if len(finite) else 0.0


MAX_ORDER = 12  # columns of a difference table
AGREEMENT = 4.0  # noise levels of columns agree if they differ by at most this factor


def levels(values: Values) -> list[float]:
    """Return sigma_k for k = 1, 2, ... of equally spaced values."""
    found = []
    column = np.asarray(values, dtype=np.float64)
    for k in range(1, min(len(column), MAX_ORDER + 1)):
        column = np.diff(column)
        with np.errstate(over="ignore", under="ignore"):
            scale = float(np.max(np.abs(column)))
            mean = float(np.mean(np.square(column / scale))) if 0.0 < scale < math.inf else 0.0
        gamma = math.factorial(k) ** 2 / math.factorial(2 * k)
        found.append(scale * math.sqrt(gamma * mean) if mean else 0.0)
    return found


def noise_level(values: Values) -> float:
    """Return the noise level of values at equal, tiny spacing.

    It is taken from the first three consecutive columns of the difference table that agree and whose
    differences change sign. If there are none, it is the smallest of the last three: smooth variation has
    vanished by then.
    """
    found = levels(values)
    for k in range(len(found) - 2):
        three = found[k : k + 3]
        signs = np.sign(np.diff(values, k + 1))
        sign_changes = bool(np.any(signs > 0) and np.any(signs < 0))
        if min(three) > 0 and max(three) <= AGREEMENT * min(three) and sign_changes:
            return three[0]
    return min(found[-3:])


def fourth_differences(values: Values) -> Values:
    """Return fourth differences: zero for a cubic, large at a kink or a jump."""
    return np.asarray(np.diff(values, 4))


def count_turns(values: Values, least: float) -> int:
    """Return the number of turning points along a line, ignoring changes of at most ``least``."""
    count, direction, extreme = 0, 0, values[0]
    for value in values[1:]:
        change = value - extreme
        if direction * change > 0 or (direction == 0 and abs(change) > least):
            direction, extreme = (1 if change > 0 else -1), value
        elif direction and abs(change) > least:
            count, direction, extreme = count + 1, -direction, value
    return count


MAX_ROUNDED_DIGITS = 10  # values with no more significant digits count as rounded
MIN_VALUES = 8  # distinct values needed for a conclusion


@dataclass(frozen=True)
class Digits:
    """Precision of the values of a function, estimated from their decimal digits."""

    significant: int  # maximum number of significant digits
    decimals: int  # maximum number of decimals
    single: bool  # whether all are single-precision numbers
    rounded: bool
    integral: bool  # whether all are whole numbers

    def quantum(self, value: float) -> float:
        """Return the spacing of representable or rounded values near ``value``."""
        if not self.rounded:
            precision = np.float32 if self.single else np.float64
            return float(np.spacing(precision(abs(value))))
        leading = math.floor(math.log10(abs(value))) if value else 0
        return max(10.0 ** (leading - self.significant + 1), 10.0**-self.decimals)


def digits(values: npt.ArrayLike) -> Digits:
    """Determine the precision of finite values from their digits."""
    different = np.unique(np.asarray(values, dtype=np.float64))
    pairs = [_count_digits(value) for value in different.tolist() if value]
    significant = max((found for found, _ in pairs), default=1)
    decimals = max((found for _, found in pairs), default=0)
    with np.errstate(over="ignore", under="ignore"):
        single = bool(np.all(different == different.astype(np.float32)))
    known = len(different) >= MIN_VALUES
    rounded = (known and significant <= MAX_ROUNDED_DIGITS) or (
        len(different) > 1 and significant <= MAX_ROUNDED_DIGITS // 2
    )
    integral = len(different) > 1 and bool(np.all(different == np.floor(different)))
    return Digits(significant, decimals, single and known and not rounded, rounded, integral)


def _count_digits(value: float) -> tuple[int, int]:
    """Return the numbers of significant digits and decimals in the shortest representation."""
    written = Decimal(repr(value)).normalize()
    _, figures, exponent = written.as_tuple()
    return len(figures), max(0, -int(exponent))
