"""Names, suggestions, starts, and import time."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from lmma import problems

TABLE_1 = ["sphere", "ellipsoid", "rosenbrock", "discus", "cigar", "different-powers"]


def test_names_are_those_of_the_table_and_rastrigin():
    assert problems.names() == [*TABLE_1, "rastrigin"]
    assert [problems.get(name).name for name in problems.names()] == problems.names()


def test_one_name_is_one_frozen_problem():
    assert problems.get("rotated-cigar") is problems.get("rotated-cigar")
    with pytest.raises(dataclasses.FrozenInstanceError):
        problems.get("cigar").sigma0 = 1.0


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("shpere", "sphere"),
        ("different_powers", "different-powers"),
        ("rotated-cigr", "rotated-cigar"),
        ("rotated_cigar", "rotated-cigar"),
        ("shiftd-sphere", "shifted-sphere"),
        ("Rosenbrock", "rosenbrock"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(wrong, right):
    with pytest.raises(ValueError, match=rf"unknown problem '{wrong}' \(did you mean '{right}'\?\)"):
        problems.get(wrong)


@pytest.mark.parametrize("wrong", ["", "rotated", "rotated-", "-", "qqqqqqqq"])
def test_hopeless_names_are_answered_with_the_list(wrong):
    with pytest.raises(ValueError, match="valid names are sphere, ellipsoid"):
        problems.get(wrong)


def test_a_name_is_a_string():
    with pytest.raises(TypeError, match="name must be a string"):
        problems.get(3)


def test_starts_are_uniform_in_the_box():
    problem = problems.get("sphere")
    x = problem.start(10_000, np.random.default_rng(1))
    assert x.shape == (10_000,)
    assert -5 <= x.min() < -4.99
    assert 4.99 < x.max() <= 5
    # Standard deviation of uniform on [-5, 5]: 2.887; standard error of the mean 0.029.
    assert abs(x.mean()) < 5 * 0.029
    narrow = dataclasses.replace(problem, lower=1.0, upper=2.0)
    assert 1 <= narrow.start(100, 1).min() <= narrow.start(100, 1).max() <= 2


def test_a_seed_fixes_the_start():
    problem = problems.get("sphere")
    first = problem.start(5, 1)
    np.testing.assert_array_equal(problem.start(5, np.random.default_rng(1)), first)
    assert not np.array_equal(problem.start(5, 2), first)


def test_a_start_needs_a_variable():
    with pytest.raises(ValueError, match="n must be at least 1"):
        problems.get("sphere").start(0)


def test_importing_problems_needs_numpy_alone():
    program = (
        "import sys, numpy\n"
        "import lmma; before = set(sys.modules)\n"
        "import lmma.problems\n"
        "new = {m for m in set(sys.modules) - before if not m.startswith('lmma.problems')}\n"
        "print(*{m.split('.')[0] for m in new} - sys.stdlib_module_names - {'numpy'})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
