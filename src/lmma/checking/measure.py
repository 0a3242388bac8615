"""What some calls show of a function: repeats, lines, difference tables, short steps, single variables.

Lengths along a line are in steps of the search: at 1 lies a candidate of the first generation.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lmma.checking.differences import fourth, noise_level, turns
from lmma.checking.digits import Digits, digits
from lmma.checking.probe import Probe, Spent

Values = npt.NDArray[np.float64]

REPEATS = 3  # calls at the start; more once they differ
LINES = 3
PLACES = np.linspace(-3.0, 3.0, 13)
MIDDLE = len(PLACES) // 2
ONE = 2  # places from the middle to a step of 1
TABLE = 7  # values in a difference table
APART = (1e-6, 1.37e-6)  # between them, of one table and of another: what is periodic hides from one at most
SHRINKING = 4  # ever shorter steps
SHRINK = 16.0  # by this factor
ZOOMS = 5  # times the spacing is halved where a line is least smooth
ANOTHER = 24  # calls that must be left for one more line
ALONE = 4.0  # times the next but one: a change that stands alone, or two that do, is a jump
EXACT = 1e-13  # relative: repeated values that differ by less are the same


@dataclass
class Findings:
    """What was seen; NaN or None for what was not looked at."""

    n: int
    differ: bool = False  # repeated calls at one point
    spread: float = 0.0  # standard deviation of repeats
    lines: list[Values] = field(default_factory=list)
    tables: list[float] = field(default_factory=list)  # levels of noise by differences
    shrinking: list[tuple[float, float, float]] = field(default_factory=list)  # step, value left, right
    order: float = math.nan  # by which power of the step the roughest place of a line smooths: 0 for a jump
    jump: float = 0.0  # there, if one of many short steps changes the value much more than all others
    quanta: float = 0.0  # what is left there, in units of what rounding leaves
    effects: dict[int, tuple[float, float]] = field(default_factory=dict)  # changes by a step down and up
    fits: bool | None = None  # whether SciPy's steps are right for the steepest variable
    at_start: float = math.nan
    at_centre: float = math.nan
    digits: Digits = field(default_factory=lambda: Digits(17, 17, False, False, False))
    complete: bool = False

    @property
    def level(self) -> float:
        """The level of noise, from repeats and from neighbours."""
        if self.spread > 0:
            return statistics.median([self.spread, *self.tables])
        return self.table if self.tables else 0.0

    @property
    def table(self) -> float:
        """How much close neighbours scatter."""
        return max(self.tables, default=math.nan)

    @property
    def scale(self) -> float:
        """How much values change over a step: the median change along the lines."""
        near = [line[[MIDDLE - ONE, MIDDLE + ONE]] - line[MIDDLE] for line in self.lines]
        changes = np.abs(np.concatenate(near)) if near else np.empty(0)
        return float(np.median(changes[np.isfinite(changes)])) if np.isfinite(changes).any() else 0.0

    @property
    def slopes(self) -> list[float]:
        """Slopes at the centre by central differences, the step ever shorter."""
        return [(b - a) / (2 * step) for step, a, b in self.shrinking if math.isfinite(b - a)]

    @property
    def plateau(self) -> float:
        """The longest step that left the value as it was, both ways; 0 if none did."""
        flat = [step for step, left, right in self.shrinking if left == right == self.at_centre]
        return max(flat, default=0.0)

    @property
    def turning(self) -> int:
        """The most turns between falling and rising on any line, beyond what noise and digits make."""
        least = max(6 * self.level, 2 * self.digits.quantum(self.at_centre))
        counts = [turns(line[np.isfinite(line)], max(least, 1e-3 * _span(line))) for line in self.lines
                  if np.isfinite(line).sum() > 2]  # fmt: skip
        return max(counts, default=0)

    @property
    def linear(self) -> bool:
        """Whether no line is curved at all, as far as digits can tell."""
        whole = [line for line in self.lines if np.isfinite(line).all() and _span(line) > 0]
        return bool(whole) and all(
            np.max(np.abs(np.diff(line, 2))) < max(1e-9 * _span(line), 8 * self.level) for line in whole
        )


def measure(probe: Probe, rng: np.random.Generator) -> Findings:
    """Ask ``probe`` until its calls are spent or everything is known."""
    found = Findings(len(probe.x0))
    with contextlib.suppress(Spent), np.errstate(over="ignore", invalid="ignore", under="ignore"):
        _repeat(probe, found, rng)
        if probe.discrete:
            _sample(probe, found)
        if np.any(probe.step > 0):
            directions = _lines(probe, found, rng)
            for direction, apart in zip(directions, APART, strict=False):
                _table(probe, found, direction, apart)
            if not found.differ:
                _shrink(probe, found, directions[0])
                _zoom(probe, found, directions, 0)
            _variables(probe, found, rng)
            while not found.differ and probe.left >= ANOTHER:
                directions.append(_another_line(probe, found, rng))
                _zoom(probe, found, directions, len(directions) - 1)
        found.complete = True
    if probe.values:
        found.digits = digits(probe.values)
    return found


def _repeat(probe: Probe, found: Findings, rng: np.random.Generator) -> None:
    """See whether the same point gives the same value, at the start and at a candidate."""
    first = probe.at(np.tile(probe.x0, (REPEATS, 1)))
    found.at_start = float(np.nanmean(first)) if np.isfinite(first).any() else math.nan
    while not np.isfinite(found.at_start) and not probe.values:  # the start fails: somewhere near it
        _move(probe, rng)
    here = probe.at(probe.centre[np.newaxis])
    if np.isfinite(first).any() and np.array_equal(probe.centre, probe.x0):
        first = np.append(first, here)
    there = np.tile(probe.points(probe.direction(rng.standard_normal(found.n)), np.ones(1)), (2, 1))
    again = probe.at(there)
    found.at_centre = float(here[0])
    found.differ = _differ(first) or _differ(again)
    if found.differ:
        more = probe.at(np.tile(probe.centre, (REPEATS + 1, 1)))
        values = np.append(here, more)
        found.at_centre = float(np.nanmedian(values))
        found.spread = max(_deviation(values), _deviation(again) if _deviation(values) == 0 else 0.0)


def _move(probe: Probe, rng: np.random.Generator) -> None:
    """Look for a centre where the function has a value."""
    point = probe.points(probe.direction(rng.standard_normal(len(probe.x0))), np.ones(1))
    if np.isfinite(probe.at(point)).any():
        probe.centre = point[0]


def _sample(probe: Probe, found: Findings) -> None:
    """Evaluate candidates of a search with integers or choices, of which lines would say little."""
    strategy = probe.run.strategy
    for _ in range(2):
        candidates = strategy.candidates if strategy.candidates is not None else strategy.ask()
        strategy.tell(probe.at(candidates.copy()))


def _lines(probe: Probe, found: Findings, rng: np.random.Generator) -> list[Values]:
    """Evaluate along two random directions and one variable."""
    varied = np.flatnonzero(probe.step > 0)
    alone = np.zeros(found.n)
    alone[rng.choice(varied)] = 1.0
    directions = [probe.direction(rng.standard_normal(found.n)) for _ in range(LINES - 1)]
    directions.append(probe.direction(alone))
    for direction in directions:
        found.lines.append(_with_middle(probe.line(direction, np.delete(PLACES, MIDDLE)), found.at_centre))
    return directions


def _another_line(probe: Probe, found: Findings, rng: np.random.Generator) -> Values:
    """Evaluate along one more random direction, which is returned."""
    direction = probe.direction(rng.standard_normal(found.n))
    found.lines.append(_with_middle(probe.line(direction, np.delete(PLACES, MIDDLE)), found.at_centre))
    return direction


def _table(probe: Probe, found: Findings, direction: Values, apart: float) -> None:
    """Estimate the noise of neighbours, which may differ though each point always gives one value."""
    values = probe.line(direction, np.array([apart * place for place in range(1, TABLE + 1)]))
    if np.isfinite(values).all():
        found.tables.append(noise_level(values))


def _shrink(probe: Probe, found: Findings, direction: Values) -> None:
    """Take ever shorter steps both ways from the centre."""
    step = float(PLACES[1] - PLACES[0])
    for _ in range(SHRINKING):
        step /= SHRINK
        left, right = probe.line(direction, np.array([-step, step])).tolist()
        found.shrinking.append((step, left, right))


def _zoom(probe: Probe, found: Findings, directions: list[Values], newest: int) -> None:
    """Halve the spacing again and again where a line is least smooth, and see what becomes of differences.

    Lines before ``newest`` have been looked at.
    """
    known = digits(probe.values)
    floors = [_floor(found, known, line) for line in found.lines]
    site = _roughest(found.lines[newest:], floors[newest:])
    if site is None:
        found.order = float(np.fmin(found.order, 4.0))  # cubics at most, as far as numbers can tell
        return
    line, first = site[0] + newest, site[1]
    values, spacing = found.lines[line][first : first + 5], float(PLACES[1] - PLACES[0])
    start, sizes, jump = float(PLACES[first]), [float(np.abs(fourth(values))[0])], 0.0
    while len(sizes) <= ZOOMS and sizes[-1] >= floors[line] and probe.left >= 4:
        spacing /= 2
        between = np.array([start + spacing * place for place in (1, 3, 5, 7)])
        finer = np.empty(9)
        finer[::2], finer[1::2] = values, probe.line(directions[line], between)
        if not np.isfinite(finer).all():
            return
        differences = np.abs(fourth(finer))
        at = int(np.argmax(differences))
        values, start = finer[at : at + 5], start + spacing * at
        sizes.append(float(differences[at]))
        steps = np.sort(np.abs(np.diff(finer)))
        jump = float(steps[-1]) if steps[-1] > ALONE * steps[-3] else 0.0
    last = sizes[-4:]  # at first, several kinks may lie close together
    if len(last) < 2:
        return
    order = math.log2(last[0] / last[-1]) / (len(last) - 1) if last[-1] > 0 else 4.0
    if not order >= found.order:
        found.order, found.jump = order, jump
        # fourth differences of a jump by 1 are 1, -3, 3, -1
        found.quanta = sizes[-1] / 3 / known.quantum(_largest(found, found.lines[line]))


def _floor(found: Findings, known: Digits, line: Values) -> float:
    """Return what fourth differences of a line may be by noise and digits alone: 16 halves, and more."""
    largest = _largest(found, line)
    return max(60 * found.level, 60 * float(np.spacing(largest)), 8 * known.quantum(largest))


def _largest(found: Findings, line: Values) -> float:
    return float(np.max(np.abs(line[np.isfinite(line)]), initial=abs(found.at_centre)))


def _roughest(lines: list[Values], floors: list[float]) -> tuple[int, int] | None:
    """Return line and first of five values whose fourth difference stands out most from its line's."""
    best, site = 0.0, None
    for number, (line, floor) in enumerate(zip(lines, floors, strict=True)):
        differences = np.abs(fourth(line))
        there = np.isfinite(differences)
        if not there.any():
            continue
        usual = float(np.median(differences[there])) + 1e-3 * float(np.max(differences[there])) + floor / 60
        for at in np.flatnonzero(there & (differences > floor)).tolist():
            if differences[at] / usual > best:
                best, site = float(differences[at] / usual), (number, int(at))
    return site


def _variables(probe: Probe, found: Findings, rng: np.random.Generator) -> None:
    """Step along single variables, all of them if there are few, as far as calls are left."""
    varied = np.flatnonzero(probe.step > 0)
    count = min(len(varied), max(0, probe.left - 4) // 2)
    for i in sorted(rng.choice(varied, count, replace=False).tolist()):
        direction = probe.direction(np.eye(1, found.n, i)[0])
        down, up = (probe.line(direction, np.array([-1.0, 1.0])) - found.at_centre).tolist()
        found.effects[i] = (down, up)
    known = {i: max(abs(a), abs(b)) for i, (a, b) in found.effects.items() if math.isfinite(a + b)}
    if known and not found.differ:
        steepest = max(known, key=lambda i: known[i] / probe.step[i])
        found.fits = _scipys_steps_fit(probe, steepest, known[steepest])


def _scipys_steps_fit(probe: Probe, i: int, effect: float) -> bool:
    """Return whether central differences with SciPy's step and with one much shorter agree."""
    own = np.eye(1, len(probe.x0), i)[0]
    usual = float(np.cbrt(np.finfo(float).eps)) * max(1.0, abs(float(probe.centre[i])))
    slopes = []
    for step in (usual, min(usual, 1e-4 * float(probe.step[i])) / 2):
        left, right = probe.line(own, np.array([-step, step])).tolist()
        slopes.append((right - left) / (2 * step))
    return bool(abs(slopes[0] - slopes[1]) <= 1e-2 * max(abs(slopes[0]), effect / float(probe.step[i])))


def _with_middle(values: Values, middle: float) -> Values:
    return np.insert(values, MIDDLE, middle)


def _differ(values: Values) -> bool:
    """Return whether values of one point differ, beyond the last bits, or some failed and others did not."""
    there = values[np.isfinite(values)]
    return len(there) > 1 and bool(np.ptp(there) > EXACT * np.max(np.abs(there)))


def _deviation(values: Values) -> float:
    there = values[np.isfinite(values)]
    return float(np.std(there, ddof=1)) if len(there) > 1 else 0.0


def _span(line: Values) -> float:
    there = line[np.isfinite(line)]
    return float(np.ptp(there)) if len(there) else 0.0
