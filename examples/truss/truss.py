"""A bridge of 49 steel tubes: choose sections, height and steel for the lowest cost.

    lmma minimize --space truss.toml --plot truss.svg

The truss spans 24 m in 12 panels and carries 40 kN at each lower joint. Each member is one of eleven standard
tubes; steel costs by the kilogram, the better one more. ``design`` returns the cost and the values of all
constraints, which hold where they are at most 0: how far each member is used, in tension or compression or
until it buckles, and how far the middle bends.
"""

from __future__ import annotations

import math

import numpy as np

PANELS, PANEL = 12, 2.0  # number and length in m
LOAD = 40e3  # N at each lower joint between the supports
SAFETY = 1.5
BEND = PANELS * PANEL / 300  # m, what the middle may go down
ELASTICITY, DENSITY = 210e9, 7850.0  # of steel, Pa and kg/m^3
STEELS = {"S235": (235e6, 1.00), "S355": (355e6, 1.12)}  # yield strength in Pa, price in EUR/kg

# Standard tubes: outer diameter and wall in mm, by area
TUBES = np.array([
    (33.7, 2.6), (42.4, 2.6), (48.3, 3.2), (60.3, 3.2), (76.1, 3.6), (88.9, 4.0), (101.6, 5.0), (114.3, 6.3),
    (139.7, 6.3), (139.7, 8.0), (168.3, 8.0),
])  # fmt: skip
OUTER, INNER = TUBES[:, 0] / 1e3, (TUBES[:, 0] - 2 * TUBES[:, 1]) / 1e3
AREA = math.pi / 4 * (OUTER**2 - INNER**2)
INERTIA = math.pi / 64 * (OUTER**4 - INNER**4)


def _members() -> np.ndarray:
    """Return the joints at both ends of each member: lower joints are 0 to 12, upper ones 13 to 25."""
    lower, upper = np.arange(PANELS + 1), np.arange(PANELS + 1) + PANELS + 1
    diagonals = [
        (lower[k], upper[k + 1]) if k >= PANELS // 2 else (upper[k], lower[k + 1]) for k in range(PANELS)
    ]
    chords = [(row[k], row[k + 1]) for row in (lower, upper) for k in range(PANELS)]
    return np.array([*chords, *zip(lower, upper, strict=True), *diagonals])


MEMBERS = _members()  # (49, 2)
# Coordinates of joints that may move: a pin holds the left end, a roller the right one
FREE = np.setdiff1d(np.arange(4 * (PANELS + 1)), [0, 1, 2 * PANELS + 1])


def design(height: float, steel: str, sections: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the cost in EUR and the constraints, at most 0 if they hold: use of 49 members, bend."""
    x = np.tile(np.arange(PANELS + 1) * PANEL, 2)
    joints = np.column_stack((x, np.repeat([0.0, height], PANELS + 1)))
    along = joints[MEMBERS[:, 1]] - joints[MEMBERS[:, 0]]
    length = np.linalg.norm(along, axis=1)
    area, inertia = AREA[sections], INERTIA[sections]
    strength, price = STEELS[steel]

    stretch = np.zeros((len(MEMBERS), 4 * (PANELS + 1)))  # of each member, by what each joint moves
    rows = np.arange(len(MEMBERS))
    for axis in (0, 1):
        direction = along[:, axis] / length
        stretch[rows, 2 * MEMBERS[:, 0] + axis] = -direction
        stretch[rows, 2 * MEMBERS[:, 1] + axis] = direction
    stiffness = ELASTICITY * area / length
    loads = np.zeros(4 * (PANELS + 1))
    loads[2 * np.arange(1, PANELS) + 1] = -LOAD
    matrix = stretch[:, FREE].T @ (stiffness[:, None] * stretch[:, FREE])
    moved = np.zeros(len(loads))
    moved[FREE] = np.linalg.solve(matrix, loads[FREE])

    force = stiffness * (stretch @ moved)  # tension is positive
    bears = np.where(force > 0, strength * area,
                     np.minimum(strength * area, math.pi**2 * ELASTICITY * inertia / length**2))  # fmt: skip
    used = SAFETY * np.abs(force) / bears
    bend = -moved[PANELS + 1] / BEND  # of the lower joint in the middle
    cost = price * DENSITY * float(area @ length)
    return cost, np.append(used, bend) - 1
