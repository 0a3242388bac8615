"""Rugged problems of engineering and physics, from published formulas: eight held out, six for tuning.

Every function takes rows, (rows, n) -> (rows,), and has a finite box. `HELD_OUT` is for reports only;
constants of methods are chosen on `TUNING`. Distances below 0.03 count as 0.03, so that values are finite.

References
----------
Das and Suganthan, "Problem definitions and evaluation criteria for CEC 2011 competition on testing
evolutionary algorithms on real world optimization problems", 2010 (P1, P2, P5 and P7; values from its code).
Cambridge Cluster Database, Lennard-Jones and Morse clusters and the Thomson problem.
Stillinger, Head-Gordon and Hirshfeld, Phys. Rev. E 48, 1993 (the AB model).
Golinski, J. Mechanisms 5, 1970 (speed reducer); Sandgren, J. Mech. Des. 112, 1990 (pressure vessel).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rugged:
    """A function with a box and the lowest value known.

    Parameters
    ----------
    name : str
        Name under which `get` finds the problem.
    lower, upper : ndarray, shape (n,)
        The box.
    values : callable
        Values of rows.
    best : float
        Lowest value known; inf if none is published.
    centre : bool
        True if a run can start at the centre of the box. It is False if symmetry makes the centre a
        stationary or singular point; then runs start at a uniformly random point.
    """

    name: str
    lower: Array
    upper: Array
    values: Callable[[Array], Array]
    best: float
    centre: bool = False

    @property
    def n(self) -> int:
        """Number of variables."""
        return len(self.lower)

    def __call__(self, rows: npt.ArrayLike) -> Array:
        """Return the values of ``rows``."""
        return self.values(np.atleast_2d(np.asarray(rows, dtype=float)))

    def start(self, seed: int) -> Array:
        """Return the centre of the box, or a uniformly random point where the centre is degenerate."""
        if self.centre:
            return (self.lower + self.upper) / 2
        return np.random.default_rng(seed).uniform(self.lower, self.upper)


def _box(lower: float, upper: float, n: int) -> tuple[Array, Array]:
    return np.full(n, lower), np.full(n, upper)


def _violation(constraints: tuple[Array, ...]) -> Array:
    """Sum the positive parts of constraints g <= 0."""
    return np.asarray(np.sum([np.maximum(g, 0) for g in constraints], axis=0))


def _squared_distances(points: Array) -> Array:
    """Return the squared distances of all pairs, (rows, points, axes) -> (rows, pairs)."""
    first, second = np.triu_indices(points.shape[1], 1)
    steps = points[:, first] - points[:, second]
    return np.asarray(np.maximum(np.einsum("rpa,rpa->rp", steps, steps), 1e-3))


def fm_sound(x: Array) -> Array:
    """Fit the six parameters of a frequency-modulated wave (P1 of CEC'2011)."""
    angle = np.arange(101) * (2 * math.pi / 100)

    def wave(p: Array) -> Array:
        a1, w1, a2, w2, a3, w3 = (p[:, [k]] for k in range(6))
        return np.asarray(a1 * np.sin(w1 * angle + a2 * np.sin(w2 * angle + a3 * np.sin(w3 * angle))))

    wanted = wave(np.array([[1.0, 5.0, -1.5, 4.8, 2.0, 4.9]]))
    return np.asarray(((wave(x) - wanted) ** 2).sum(axis=1))


def lennard_jones(x: Array) -> Array:
    """Return the energy of a Lennard-Jones cluster in units of the pair's depth and distance."""
    inverse = _squared_distances(x.reshape(len(x), -1, 3)) ** -3
    return np.asarray((inverse * (inverse - 2)).sum(axis=1))


def morse(x: Array) -> Array:
    """Return the energy of a Morse cluster with range parameter 6."""
    e = np.exp(6 * (1 - np.sqrt(_squared_distances(x.reshape(len(x), -1, 3)))))
    return np.asarray((e * (e - 2)).sum(axis=1))


def cec_cluster_box(atoms: int) -> tuple[Array, Array]:
    """Return CEC'2011's box of a cluster, in which each further atom has more room."""
    room = 4 + np.floor((np.arange(3 * atoms) - 3) / 3) / 4
    lower, upper = -room, room.copy()
    lower[:3], upper[:3] = 0, (4, 4, math.pi)
    return lower, upper


def tersoff(x: Array) -> Array:
    """Return the Tersoff energy of silicon, model Si(B) (P5 of CEC'2011).

    The competition's code has the third power of the opposite side in the law of cosines; so has this one,
    because the published values belong to it.
    """
    radius, width, n, c, d = 3.0, 0.2, 22.956, 4.8381, 2.0417
    points = x.reshape(len(x), -1, 3)
    atoms = points.shape[1]
    steps = points[:, :, None] - points[:, None]
    r = np.sqrt(np.maximum((steps * steps).sum(-1), 1e-3))
    cutoff = 0.5 - 0.5 * np.sin(math.pi / 2 * np.clip((r - radius) / width, -1, 1))
    cutoff[:, np.arange(atoms), np.arange(atoms)] = 0
    ij, ik, jk = r[:, :, :, None], r[:, :, None, :], r[:, None, :, :]
    cosine = (ij**2 + ik**2 - jk**3) / (2 * ij * ik)
    angular = 1 + c**2 / d**2 - c**2 / (d**2 + cosine**2)
    others = ~np.eye(atoms, dtype=bool)
    bonds = cutoff[:, :, None, :] * angular * np.exp(np.minimum(1.3258**3 * (ij - ik) ** 3, 600))
    zeta = np.where(others, bonds, 0).sum(-1)
    with np.errstate(divide="ignore"):
        order = np.exp(-0.5 / n * np.logaddexp(0, n * np.log(0.33675 * zeta)))
    energy = cutoff * (3264.7 * np.exp(-3.2394 * r) - order * 95.373 * np.exp(-1.3258 * r)) / 2
    return np.asarray(energy.sum(axis=(1, 2)))


def _radar_terms(n: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Array, Array]:
    """Return ends and starts of the sums of phases, their function, and the constants of functions."""
    terms = []
    for i in range(1, n + 1):
        terms += [(j, abs(2 * i - j - 1), 2 * i - 2) for j in range(i, n + 1)]
        terms += [(j, abs(2 * i - j), 2 * i - 1) for j in range(i + 1, n + 1)]
    ends, starts, of = np.array(terms).T
    belongs = np.zeros((len(terms), 2 * n))
    belongs[np.arange(len(terms)), of] = 1
    return ends, starts, belongs, np.tile([0.0, 0.5], n)


_RADAR = _radar_terms(20)


def radar(x: Array) -> Array:
    """Return the largest of the sums that a spread-spectrum radar's polyphase code makes (P7 of CEC'2011).

    As in the competition's code, the sums of the opposite sign are left out, so that 0.5 is a lower bound.
    """
    ends, starts, belongs, constants = _RADAR
    sums = np.concatenate([np.zeros((len(x), 1)), np.cumsum(x, axis=1)], axis=1)
    found = np.cos(sums[:, ends] - sums[:, starts]) @ belongs + constants
    return np.asarray(found.max(axis=1))


def thomson(x: Array) -> Array:
    """Return the electrostatic energy of charges on a sphere, given as polar angles, then azimuths."""
    polar, azimuth = np.split(x, 2, axis=1)
    sine = np.sin(polar)
    points = np.stack([sine * np.cos(azimuth), sine * np.sin(azimuth), np.cos(polar)], axis=-1)
    return np.asarray((_squared_distances(points) ** -0.5).sum(axis=1))


def fibonacci(length: int) -> Array:
    """Return a Fibonacci sequence of 1 (A) and -1 (B) whose length is a Fibonacci number."""
    before, last = [1.0], [-1.0]
    while len(last) < length:
        before, last = last, before + last
    return np.array(last)


def ab_protein(x: Array) -> Array:
    """Return the energy of a two-dimensional AB protein with a Fibonacci sequence, given its bends."""
    kinds = fibonacci(x.shape[1] + 2)
    heading = np.concatenate([np.zeros((len(x), 1)), np.cumsum(x, axis=1)], axis=1)
    path = np.cumsum(np.stack([np.cos(heading), np.sin(heading)], axis=-1), axis=1)
    points = np.concatenate([np.zeros((len(x), 1, 2)), path], axis=1)
    first, second = np.triu_indices(len(kinds), 1)
    charges = (1 + kinds[first] + kinds[second] + 5 * kinds[first] * kinds[second]) / 8
    apart = second - first > 1
    inverse = _squared_distances(points)[:, apart] ** -3
    pairs = inverse * (inverse - charges[apart])
    return np.asarray((1 - np.cos(x)).sum(axis=1) / 4 + 4 * pairs.sum(axis=1))


def speed_reducer(x: Array) -> Array:
    """Return the weight of a speed reducer, plus 1e4 times the sum of the violations."""
    x1, x2, x3, x4, x5, x6, x7 = x.T
    weight = (
        0.7854 * x1 * x2**2 * (3.3333 * x3**2 + 14.9334 * x3 - 43.0934)
        - 1.508 * x1 * (x6**2 + x7**2) + 7.4777 * (x6**3 + x7**3) + 0.7854 * (x4 * x6**2 + x5 * x7**2)
    )  # fmt: skip
    constraints = (
        27 / (x1 * x2**2 * x3) - 1,
        397.5 / (x1 * x2**2 * x3**2) - 1,
        1.93 * x4**3 / (x2 * x3 * x6**4) - 1,
        1.93 * x5**3 / (x2 * x3 * x7**4) - 1,
        np.sqrt((745 * x4 / (x2 * x3)) ** 2 + 16.9e6) / (110 * x6**3) - 1,
        np.sqrt((745 * x5 / (x2 * x3)) ** 2 + 157.5e6) / (85 * x7**3) - 1,
        x2 * x3 / 40 - 1,
        5 * x2 / x1 - 1,
        x1 / (12 * x2) - 1,
        (1.5 * x6 + 1.9) / x4 - 1,
        (1.1 * x7 + 1.9) / x5 - 1,
    )
    return np.asarray(weight + 1e4 * _violation(constraints))


def pressure_vessel(x: Array) -> Array:
    """Return the cost of a pressure vessel whose walls are multiples of 1/16 inch, plus penalties."""
    shell, head = np.round(16 * x[:, 0]) / 16, np.round(16 * x[:, 1]) / 16
    radius, length = x[:, 2], x[:, 3]
    cost = (
        0.6224 * shell * radius * length + 1.7781 * head * radius**2
        + 3.1661 * shell**2 * length + 19.84 * shell**2 * radius
    )  # fmt: skip
    volume = math.pi * radius**2 * length + 4 / 3 * math.pi * radius**3
    constraints = (0.0193 * radius - shell, 0.00954 * radius - head, 1 - volume / 1_296_000)
    return np.asarray(cost + 1e5 * _violation(constraints))


def _sensor_network(sensors: int = 20, reach: float = 0.4) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """Return true positions with four anchors at the end, squared distances of pairs, and those in reach."""
    corners = np.array([[0.1, 0.1], [0.1, 0.9], [0.9, 0.1], [0.9, 0.9]])
    points = np.concatenate([np.random.default_rng([39, 1]).random((sensors, 2)), corners])
    squared = _squared_distances(points[None])[0]
    measured = (squared < reach**2) & (np.triu_indices(len(points), 1)[0] < sensors)
    return points, squared, measured


_SENSORS = _sensor_network()


def sensor_network(x: Array) -> Array:
    """Return the squared errors of the squared distances between sensors and anchors in reach."""
    points, squared, measured = _SENSORS
    placed = x.reshape(len(x), -1, 2)
    anchors = np.broadcast_to(points[placed.shape[1] :], (len(x), 4, 2))
    found = _squared_distances(np.concatenate([placed, anchors], axis=1))
    return np.asarray(((found - squared)[:, measured] ** 2).sum(axis=1))


def _network(weights: Array, inputs: Array) -> Array:
    """Return the outputs of networks with two inputs and seven tanh units, (rows, 29) -> (rows, inputs)."""
    first, bias, last = weights[:, :14].reshape(-1, 7, 2), weights[:, 14:21], weights[:, 21:28]
    hidden = np.tanh(first @ inputs.T + bias[:, :, None])
    return np.asarray((last[:, None] @ hidden)[:, 0] + weights[:, [28]])


TEACHER = np.random.default_rng([39, 2]).uniform(-3, 3, 29)
_INPUTS = np.random.default_rng([39, 3]).uniform(-2, 2, (60, 2))


def neural_fit(x: Array) -> Array:
    """Return the mean squared error of a small network that learns the outputs of another."""
    return np.asarray(((_network(x, _INPUTS) - _network(TEACHER[None], _INPUTS)) ** 2).mean(axis=1))


def rana(x: Array) -> Array:
    """Return the mean of Rana's function over consecutive pairs, the last with the first."""
    after = np.roll(x, -1, axis=1)
    plus, minus = np.sqrt(np.abs(after + 1 + x)), np.sqrt(np.abs(after + 1 - x))
    pairs = x * np.sin(minus) * np.cos(plus) + (after + 1) * np.cos(minus) * np.sin(plus)
    return np.asarray(pairs.mean(axis=1))


_SINES = np.linspace(1 / 12, 1, 400)  # beyond the main lobe of 24 elements half a wavelength apart


def antenna(x: Array) -> Array:
    """Return the highest side lobe in decibels of a symmetric array with twelve gaps, in wavelengths."""
    positions = np.cumsum(x, axis=1) - x[:, :1] / 2
    field = np.abs(np.cos(2 * math.pi * positions[:, :, None] * _SINES).mean(axis=1))
    return np.asarray(20 * np.log10(field.max(axis=1)))


HELD_OUT = (
    Rugged("fm-sound", *_box(-6.4, 6.35, 6), fm_sound, 0.0, centre=True),
    Rugged("lennard-jones-10", *cec_cluster_box(10), lennard_jones, -28.422532),
    Rugged("tersoff", *cec_cluster_box(10), tersoff, -36.845),
    Rugged("radar", *_box(0, 2 * math.pi, 20), radar, 0.5),
    Rugged("thomson-50", np.zeros(100), np.repeat([math.pi, 2 * math.pi], 50), thomson, 1055.182315),
    Rugged("ab-protein-34", *_box(-math.pi, math.pi, 32), ab_protein, -10.8060),
    Rugged(
        "speed-reducer", np.array([2.6, 0.7, 17, 7.3, 7.3, 2.9, 5.0]),
        np.array([3.6, 0.8, 28, 8.3, 8.3, 3.9, 5.5]), speed_reducer, 2994.471066, centre=True,
    ),
    Rugged("lennard-jones-50", *_box(-2.5, 2.5, 150), lennard_jones, -244.549926),
)  # fmt: skip

TUNING = (
    Rugged(
        "pressure-vessel", np.array([0.0625, 0.0625, 10, 10]), np.array([6.1875, 6.1875, 200, 200]),
        pressure_vessel, 6059.714335, centre=True,
    ),
    Rugged("morse-10", *_box(-2.0, 2.0, 30), morse, -27.473283),
    Rugged("sensor-network", *_box(0, 1, 40), sensor_network, 0.0),
    Rugged("neural-fit", *_box(-5, 5, 29), neural_fit, 0.0),
    Rugged("rana", *_box(-512, 512, 20), rana, -511.707728),
    Rugged("antenna", *_box(0.3, 1.0, 12), antenna, math.inf, centre=True),
)  # fmt: skip

SETS = {"held-out": HELD_OUT, "tuning": TUNING}


def get(name: str) -> Rugged:
    """Return the problem called ``name``."""
    known = {problem.name: problem for problems in SETS.values() for problem in problems}
    if name not in known:
        raise ValueError(f"unknown problem {name!r}; the names are {', '.join(known)}")
    return known[name]
