"""The lightest truss of ten members within limits on stress and displacement (two inches).

One simulation gives weight, stresses and displacements. The classic of structural optimisation: areas of
at least 0.1 square inches, aluminium, two loads of 100,000 pounds; the lightest known weighs 5060.85 pounds.

    python examples/ten_bar_truss.py [PICTURE.svg]
"""

import sys

import numpy as np

import lmma

LENGTH, MODULUS, DENSITY, LOAD = 360.0, 1e7, 0.1, 1e5  # inch, psi, pounds a cubic inch, pounds
JOINTS = LENGTH * np.array([[2, 1], [2, 0], [1, 1], [1, 0], [0, 1], [0, 0]])  # the last two are held
MEMBERS = np.array([[4, 2], [2, 0], [5, 3], [3, 1], [2, 3], [0, 1], [4, 3], [5, 2], [2, 1], [3, 0]])
SPAN = JOINTS[MEMBERS[:, 1]] - JOINTS[MEMBERS[:, 0]]
LENGTHS = np.linalg.norm(SPAN, axis=1)
# How much each member is stretched when a joint moves, (members, two directions for each of four joints)
STRETCH = np.zeros((10, 12))
for member, (start, end) in enumerate(MEMBERS):
    direction = SPAN[member] / LENGTHS[member]
    STRETCH[member, 2 * end : 2 * end + 2] = direction
    STRETCH[member, 2 * start : 2 * start + 2] = -direction
STRETCH = STRETCH[:, :8]
FORCES = np.array([0, 0, 0, -LOAD, 0, 0, 0, -LOAD])  # downwards at the two lower joints


def simulate(areas):
    """Return the weight, and stresses (ksi) and displacements (inch) beside it."""
    stiffness = STRETCH.T @ np.diag(areas * MODULUS / LENGTHS) @ STRETCH
    moved = np.linalg.solve(stiffness, FORCES)
    stress = MODULUS / LENGTHS * (STRETCH @ moved)
    return DENSITY * areas @ LENGTHS, np.concatenate([stress / 1000, moved])


limits = np.concatenate([np.full(10, 25.0), np.full(8, 2.0)])
result = lmma.minimize(
    simulate,
    np.full(10, 15.0),
    5.0,
    bounds=(0.1, 40),
    constraints=lmma.constraints.Returned(-limits, limits),
    rng=1,
)
print(f"{result.fun:.2f} pounds after {result.nfev:,} simulations, violation {result.maxcv:.1e}")
print("areas", result.x.round(2))
stress, moved = np.split(result.constr[0], [10])
print(
    "largest stress", np.abs(stress).max().round(2), "ksi; largest displacement", np.abs(moved).max().round(4)
)

if len(sys.argv) > 1:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots()
    moved = np.append(20 * moved.reshape(4, 2), np.zeros((2, 2)), axis=0)  # drawn twenty times as large
    for (start, end), area, tension in zip(MEMBERS, result.x, stress, strict=True):
        ends = (JOINTS + moved)[[start, end]]
        colour = "#b2182b" if tension > 0 else "#2166ac"
        axes.plot(*ends.T, color=colour, linewidth=0.4 * area + 0.5, alpha=0.8, solid_capstyle="round")
    axes.plot(*(JOINTS + moved).T, "o", color="0.2", markersize=5)
    for joint in (1, 3):
        axes.annotate("", JOINTS[joint] + moved[joint] - [0, 75], JOINTS[joint] + moved[joint],
                      arrowprops={"arrowstyle": "->", "color": "0.2"})  # fmt: skip
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(f"{result.fun:.2f} pounds: thickness is area, red is pulled, blue is pushed", fontsize=10)
    figure.savefig(sys.argv[1])
