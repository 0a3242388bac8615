"""Rugged problems at published optima and in batches."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lmma_lab import rugged

PROBLEMS = [problem for problems in rugged.SETS.values() for problem in problems]
GOLDEN = (1 + math.sqrt(5)) / 2


def icosahedron():
    """Return the twelve corners, at distance 1 from the centre."""
    corners = [(0, a, b * GOLDEN) for a in (-1, 1) for b in (-1, 1)]
    return np.array([np.roll(corner, k) for corner in corners for k in range(3)]) / math.sqrt(1 + GOLDEN**2)


def centred_icosahedra(radii):
    """Return clusters of 13 atoms, one for each radius."""
    shape = np.concatenate([np.zeros((1, 3)), icosahedron()])
    return (radii[:, None, None] * shape).reshape(len(radii), -1)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_batches_have_the_values_of_rows(problem):
    rows = np.random.default_rng(1).uniform(problem.lower, problem.upper, (7, problem.n))
    values = problem(rows)
    assert values.shape == (7,)
    assert np.isfinite(values).all()
    assert (values > problem.best).all() or problem.best == math.inf
    # Sums of 45 to 1225 pairs, in another order; terms of repulsion are up to 1e18.
    assert_allclose(values, [problem(row)[0] for row in rows], rtol=1e-10)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_starts_are_inside_the_box_and_repeat(problem):
    start = problem.start(3)
    assert ((problem.lower <= start) & (start <= problem.upper)).all()
    assert (start == problem.start(3)).all()
    assert (start == problem.start(4)).all() == problem.centre
    assert np.isfinite(problem(start)).all()


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("fm-sound", [1.0, 5.0, -1.5, 4.8, 2.0, 4.9]),
        ("speed-reducer", [3.5, 0.7, 17, 7.3, 7.715319911, 3.350214666, 5.286654465]),
        ("pressure-vessel", [0.8125, 0.4375, 42.0984455958549, 176.6365958424394]),
        ("sensor-network", rugged._SENSORS[0][:20].ravel()),
        ("neural-fit", rugged.TEACHER),
    ],
)
def test_published_optima_have_their_values(name, point):
    problem = rugged.get(name)
    assert_allclose(problem(point), problem.best, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("energy", "best"), [(rugged.lennard_jones, -44.326801), (rugged.morse, -42.439863)])
def test_clusters_of_13_atoms_have_the_energy_of_the_cambridge_database(energy, best):
    assert_allclose(energy(centred_icosahedra(np.linspace(0.9, 1.0, 10_001))).min(), best, rtol=1e-7)


def test_twelve_charges_on_an_icosahedron_have_the_published_energy():
    x, y, z = icosahedron().T
    angles = np.concatenate([np.arccos(z), np.arctan2(y, x) % (2 * math.pi)])
    assert_allclose(rugged.thomson(angles[None]), 49.165253058, rtol=1e-10)


def test_a_pair_of_silicon_atoms_has_half_its_bond_from_each():
    # Without a third atom the bond order is 1.
    distance = 2.35
    expected = 3264.7 * math.exp(-3.2394 * distance) - 95.373 * math.exp(-1.3258 * distance)
    assert_allclose(rugged.tersoff(np.array([[0, 0, 0, 0, distance, 0]])), expected, rtol=1e-12)


def test_tersoff_agrees_with_the_loops_of_its_definition():
    # Atoms within 3 of each other, so that bonds, their neighbours and the width of the cutoff all occur.
    atoms = np.random.default_rng(4).uniform(0, 4, (6, 3))
    r = np.linalg.norm(atoms[:, None] - atoms, axis=-1)

    def cutoff(a):
        return 1.0 if a < 2.8 else 0.0 if a > 3.2 else 0.5 - 0.5 * math.sin(math.pi / 2 * (a - 3) / 0.2)

    energy = 0.0
    for i in range(6):
        for j in set(range(6)) - {i}:
            zeta = 0.0
            for k in set(range(6)) - {i, j}:
                cosine = (r[i, k] ** 2 + r[i, j] ** 2 - r[k, j] ** 3) / (2 * r[i, k] * r[i, j])
                angular = 1 + (4.8381 / 2.0417) ** 2 - 4.8381**2 / (2.0417**2 + cosine**2)
                zeta += cutoff(r[i, k]) * angular * math.exp(1.3258**3 * (r[i, j] - r[i, k]) ** 3)
            with np.errstate(over="ignore"):  # an order of zero
                order = (1 + np.float64(0.33675 * zeta) ** 22.956) ** (-0.5 / 22.956)
            pair = 3264.7 * math.exp(-3.2394 * r[i, j]) - order * 95.373 * math.exp(-1.3258 * r[i, j])
            energy += cutoff(r[i, j]) * pair / 2
    assert_allclose(rugged.tersoff(atoms.reshape(1, -1)), energy, rtol=1e-12)


def test_radar_agrees_with_the_loops_of_its_definition():
    x = rugged.get("radar").start(1)
    n, sums = len(x), []
    for i in range(1, n + 1):
        sums.append(sum(math.cos(x[abs(2 * i - j - 1) : j].sum()) for j in range(i, n + 1)))
        sums.append(0.5 + sum(math.cos(x[abs(2 * i - j) : j].sum()) for j in range(i + 1, n + 1)))
    assert_allclose(rugged.radar(x[None]), max(sums), rtol=1e-12)


def test_fibonacci_sequences_join_their_two_predecessors():
    assert "".join("AB"[int(kind < 0)] for kind in rugged.fibonacci(13)) == "ABBABBABABBAB"


def test_a_uniform_array_has_a_side_lobe_of_13_decibels():
    # The side lobe of 24 equal elements half a wavelength apart: -13.2 dB, as of an aperture, to 0.1 dB.
    assert_allclose(rugged.antenna(np.full((1, 12), 0.5)), -13.2, atol=0.1)


def test_unknown_problems_are_rejected():
    with pytest.raises(ValueError, match="unknown problem 'spring'; the names are fm-sound"):
        rugged.get("spring")


def test_three_monomers_have_the_energy_of_one_bend_and_one_pair():
    # BAB: the outer two attract with 1/2; bent by a, they are 2 cos(a/2) apart.
    bend = 1.2
    inverse = (2 * math.cos(bend / 2)) ** -6
    expected = (1 - math.cos(bend)) / 4 + 4 * (inverse**2 - inverse / 2)
    assert_allclose(rugged.ab_protein(np.array([[bend]])), expected, rtol=1e-12)


def test_a_protein_of_21_monomers_has_the_lowest_energy_published():
    bends = [
        -0.5141, 1.9379, -0.4706, 0.3642, -0.1884, -1.6597, 1.9437, -0.4475, 0.3556, 0.3125,
        1.8079, 0.9489, -0.114, -1.6647, 1.9432, -0.4372, 0.3474, -0.2249, -1.2769,
    ]  # fmt: skip
    assert_allclose(rugged.ab_protein(np.array([bends])), -6.1980, atol=1e-4)


def test_rana_has_the_published_value_at_a_corner():
    assert_allclose(rugged.rana(np.full((1, 20), -512.0)), -511.708, atol=1e-3)
