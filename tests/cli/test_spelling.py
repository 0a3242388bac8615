"""The same spelling in Python and on the command line: every argument of one is accepted by the other."""

import argparse
import inspect
from argparse import ArgumentTypeError

import pytest

import lmma
from lmma.cli import check, minimize
from lmma.cli.arguments import whole_number
from lmma.cli.options import given_options
from lmma.run.options import spellings

OF_THE_START = {"x0", "sigma0"}
IN_PYTHON = {name for name in inspect.signature(lmma.minimize).parameters if name not in ("fun", "options")}
ON_THE_COMMAND_LINE = {name: spelling for name, spelling, _ in spellings() if spelling.flag}
VALUES = {
    "bounds": "0,1", "boundary": "reflect", "integrality": "all", "constraint_handling": "rank",
    "popsize": "12", "rng": "7", "noise": "auto", "maxfevals": "1e6", "maxiter": "10", "maxtime": "1.5",
    "ftarget": "-3", "tolx": "0", "tolfun": "1e-3", "restarts": "2", "workers": "2", "timeout": "2",
    "quorum": "0.9", "on_error": "raise", "checkpoint": "a.npz", "log": "a.jsonl", "dtype": "float32",
    "threads": "2", "method": "ma-es", "feasibility_tol": "1e-6", "constraints": "math:hypot",
    "space": "a.toml",
}  # fmt: skip


@pytest.fixture(scope="module")
def parser():
    parser = argparse.ArgumentParser()
    minimize.add_arguments(parser)
    return parser


def flags_of(parser):
    return {flag: action.dest for action in parser._actions for flag in action.option_strings}


def test_every_argument_of_minimize_is_an_option_of_that_name_or_says_why_not(parser):
    flags = flags_of(parser)
    silent = {name for name, spelling, _ in spellings() if spelling.library_only}
    for name in IN_PYTHON - silent:
        assert f"--{name.replace('_', '-')}" in flags, name


def test_the_older_spelling_does_the_same(parser):
    flags = flags_of(parser)
    for name, spelling in ON_THE_COMMAND_LINE.items():
        assert flags[spelling.flag] == flags[spelling.in_python(name)] == name


@pytest.mark.parametrize("name", VALUES)
def test_both_spellings_give_the_same_value(name, parser):
    spelling = ON_THE_COMMAND_LINE[name]
    one = parser.parse_args(["sphere", f"{spelling.flag}={VALUES[name]}"])
    other = parser.parse_args(["sphere", f"{spelling.in_python(name)}={VALUES[name]}"])
    assert vars(one) == vars(other)


def test_switches_too(parser):
    for flag in ("--no-stagnation", "--vectorized", "--polish"):
        assert given_options(parser.parse_args(["sphere", flag]), 3)


def test_every_option_of_the_search_is_an_argument_of_minimize(parser):
    shell = {"json", "plot", "save_x", "quiet", "cluster", "replicate", "command", "dim", "target", "help"}
    for action in parser._actions:
        assert action.dest in IN_PYTHON | shell | {"constants"}, action.dest


def test_arguments_of_check_have_the_same_names_in_python():
    parser = argparse.ArgumentParser()
    check.add_arguments(parser)
    known = set(inspect.signature(lmma.check).parameters)
    for action in parser._actions:
        assert action.dest in known | {"json", "command", "dim", "target", "help"}, action.dest


def test_both_names_of_an_option_cannot_be_mistaken_for_two(parser):
    given = given_options(parser.parse_args(["sphere", "--max-evaluations", "5", "--maxfevals", "7"]), 3)
    assert given == {"maxfevals": 7}  # the last one counts, as ever


@pytest.mark.parametrize("text", ["-3", "-1e3", "2.5", "nan", "1e400"])
def test_whole_numbers_are_whole_and_not_negative(text):
    with pytest.raises(ArgumentTypeError):
        whole_number(text)


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("1e6", 10**6), ("1_000", 1000), ("9" * 30, 10**30 - 1)]
)
def test_whole_numbers_may_be_written_in_several_ways(text, value):
    assert whole_number(text) == value
