"""Named sets of problems."""

import pytest

from lmma_lab import suites

TABLE_1 = ["sphere", "ellipsoid", "rosenbrock", "discus", "cigar", "different-powers"]


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


def test_an_unknown_suite_is_rejected():
    with pytest.raises(ValueError, match=r"unknown suite 'papr' \(did you mean 'paper'"):
        suites.get("papr")
    assert suites.names() == ["paper", "paper-rotated"]
