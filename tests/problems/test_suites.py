"""Names, suggestions, suites, and what importing them costs."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from lmma import problems
from lmma.problems import suites

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
    with pytest.raises(ValueError, match=f"unknown problem '{wrong}'; did you mean '{right}'"):
        problems.get(wrong)


@pytest.mark.parametrize("wrong", ["", "rotated", "rotated-", "-", "qqqqqqqq"])
def test_hopeless_names_are_answered_with_the_list(wrong):
    with pytest.raises(ValueError, match="The names are sphere, ellipsoid"):
        problems.get(wrong)


def test_a_name_is_a_string():
    with pytest.raises(TypeError, match="name must be a string"):
        problems.get(3)


def test_the_paper_suite_holds_table_1_with_the_papers_protocol():
    suite = suites.get("paper")
    assert [problem.name for problem in suite] == TABLE_1
    assert len(suite) == 6
    assert suite.target == 1e-10
    for problem in suite:
        assert (problem.lower, problem.upper, problem.sigma0) == (-5, 5, 3)


def test_the_rotated_suite_holds_the_same_rotated():
    suite = suites.get("paper-rotated")
    assert [problem.name for problem in suite] == [f"rotated-{name}" for name in TABLE_1]
    assert suite.target == 1e-10


def test_starts_are_uniform_in_the_box():
    suite = suites.get("paper")
    problem = suite.problems[0]
    x = suite.start(problem, 10_000, np.random.default_rng(1))
    assert x.shape == (10_000,)
    assert -5 <= x.min() < -4.99
    assert 4.99 < x.max() <= 5
    # Standard deviation of uniform on [-5, 5]: 2.887; standard error of the mean 0.029.
    assert abs(x.mean()) < 5 * 0.029
    narrow = dataclasses.replace(problem, lower=1.0, upper=2.0)
    assert 1 <= suites.start(narrow, 100, 1).min() <= suites.start(narrow, 100, 1).max() <= 2


def test_a_seed_fixes_the_start():
    problem = problems.get("sphere")
    first = suites.start(problem, 5, 1)
    np.testing.assert_array_equal(suites.start(problem, 5, np.random.default_rng(1)), first)
    assert not np.array_equal(suites.start(problem, 5, 2), first)


def test_suites_refuse_mistakes():
    with pytest.raises(ValueError, match="unknown suite 'papr'; did you mean 'paper'"):
        suites.get("papr")
    with pytest.raises(ValueError, match="n must be at least 1"):
        suites.start(problems.get("sphere"), 0)
    assert suites.names() == ["paper", "paper-rotated"]


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
