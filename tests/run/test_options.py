"""Run options are declared consistently in Python, on the command line and in the documentation."""

import argparse
import dataclasses
import importlib.util
import inspect
import math
import re
import sys
from pathlib import Path
from typing import get_args

import pytest

import lmma
from lmma._text import in_python
from lmma.cli import minimize as command
from lmma.cli.options import GROUPS, READERS, as_flag, given_options
from lmma.evaluation.base import OnError
from lmma.layers.bounds import BOXES, Boundary
from lmma.layers.constraints import Handling
from lmma.layers.noise import Treatment
from lmma.run.options import RunOptions, spellings
from lmma.run.run import Run
from lmma.run.stopping import ENDINGS, Ending, Rule, Stop, ending_of

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("options_page", ROOT / "docs" / "tools" / "options.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

SIGNATURE = inspect.signature(lmma.minimize).parameters
FIELDS = {declared.name: declared for declared in dataclasses.fields(RunOptions)}
OF_THE_START = {"fun", "x0", "sigma0"}
ALIASES = {"seed": "rng", "options": "constants"}


@pytest.fixture(scope="module")
def parser():
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "constants"])
def test_each_option_is_in_the_signature_of_minimize_with_the_same_default(name):
    assert SIGNATURE[name].default == FIELDS[name].default


def test_each_parameter_of_minimize_is_an_option():
    assert {ALIASES.get(name, name) for name in SIGNATURE if name not in OF_THE_START} == set(FIELDS)


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "constants"])
def test_each_parameter_of_minimize_reaches_the_run(name, monkeypatch):
    received = {}
    module = sys.modules[lmma.minimize.__module__]
    monkeypatch.setattr(module, "RunOptions", lambda **options: received.update(options))
    monkeypatch.setattr(Run, "__init__", lambda *given: None)
    monkeypatch.setattr(Run, "execute", lambda self: None)
    value = object()
    lmma.minimize(sum, [0.0], 1.0, **{name: value})
    assert received[name] is value


@pytest.mark.parametrize(
    ("name", "known"),
    [("boundary", Boundary), ("constraint_handling", Handling), ("noise", Treatment), ("on_error", OnError)],
)
def test_the_command_line_offers_every_value_of_a_type(name, known, parser):
    offered = next(action.choices for action in parser._actions if action.dest == name)
    assert set(offered) - {"none"} == set(get_args(known)) - {"none"}


def test_every_boundary_has_a_class():
    assert set(BOXES) == set(get_args(Boundary))


@pytest.mark.parametrize("name", FIELDS)
def test_each_option_is_explained_in_the_docstring_of_minimize(name):
    text = re.search(r"Parameters\n\s*-+\n(.*?)Returns\n", lmma.minimize.__doc__, re.DOTALL)[1]
    names = re.findall(r"^    (\*{0,2}[\w, ]+?)(?: :.*)?$", text, re.MULTILINE)
    explained = {word.strip().lstrip("*") for line in names for word in line.split(",")}
    assert {"constants": "options"}.get(name, name) in explained


@pytest.mark.parametrize(("name", "spelling"), [(name, spelling) for name, spelling, _ in spellings()])
def test_each_option_is_on_the_command_line_or_says_why_not(name, spelling, parser):
    by_dest = {action.dest: action for action in parser._actions}
    if spelling.flag:
        assert spelling.flag in by_dest[name].option_strings
        assert not spelling.library_only
        assert spelling.group in GROUPS
        assert spelling.help in by_dest[name].help
    else:
        assert name not in by_dest
        assert spelling.library_only


def test_each_option_is_in_the_reference_documentation():
    text = tool.PAGE.read_text()
    for name, spelling, _ in spellings():
        shown = "**options" if name == "constants" else name
        assert f"| `{shown}` |" in text
        assert spelling.flag in text
    assert text == tool.page(), "run: python docs/tools/options.py"


EXAMPLES = {
    "method": ("ma-es", "ma-es"), "boundary": ("reflect", "reflect"), "popsize": ("12", 12), "rng": ("7", 7),
    "maxfevals": ("1e6", 1_000_000), "maxiter": ("10", 10), "maxtime": ("1.5", 1.5), "ftarget": ("-3", -3.0),
    "tolx": ("0", 0.0), "tolfun": ("1e-3", 1e-3), "restarts": ("bipop:5", "bipop:5"), "workers": ("-1", -1),
    "timeout": ("2", 2.0), "quorum": ("0.85", 0.85), "on_error": ("raise", "raise"),
    "checkpoint": ("a.npz", "a.npz"), "log": ("a.jsonl", "a.jsonl"), "dtype": ("float32", "float32"),
    "threads": ("2", 2), "noise": ("average", "average"), "constants": ("m=20", {"m": 20}),
    "constraints": ("math:hypot", math.hypot), "constraint_handling": ("rank", "rank"),
    "feasibility_tol": ("1e-6", 1e-6), "values": ("ranks", "ranks"), "archive": ("runs.db", "runs.db"),
}  # fmt: skip


def test_a_value_on_the_command_line_is_the_value_in_python(parser, tmp_path):
    box, points = tmp_path / "box.txt", tmp_path / "points.csv"
    box.write_text("0 1\n2 3\n4 inf\n")
    points.write_text("1,2,3\n4,5,6\n")
    words = ["sphere", "--bounds", str(box), "--inject", str(points), "--no-stagnation", "--vectorized"]
    words += ["--integers", "0,2", "--polish", "--archive-new"]
    for name, spelling, _ in spellings():
        if name in EXAMPLES:
            words.append(f"{spelling.flag}={EXAMPLES[name][0]}")
    given = given_options(parser.parse_args(words), 3)
    assert {name: given[name] for name in EXAMPLES} == {name: value for name, (_, value) in EXAMPLES.items()}
    assert given["stagnation"] is False
    assert given["vectorized"] is True
    assert given["polish"] is True
    assert given["archive_new"] is True
    assert [list(given["bounds"].lb), list(given["bounds"].ub)] == [[0, 2, 4], [1, 3, float("inf")]]
    assert given["inject"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert given["integrality"].tolist() == [True, False, True]
    # a space has bounds and integers of its own: tests/cli/test_space_command.py
    assert set(given) | {"space"} == {name for name, spelling, _ in spellings() if spelling.flag}
    RunOptions(**given)


def test_omitted_options_use_the_defaults_of_the_library(parser):
    assert given_options(parser.parse_args(["sphere"]), 3) == {}


def test_every_kind_of_value_has_a_reader():
    kinds = {spelling.kind for _, spelling, _ in spellings() if spelling.flag and not spelling.choices}
    assert kinds <= {*READERS, "word", "switch", "bounds", "file", "rows", "integers", "space", "constraints"}


MISSPELT = {
    "calback": "callback", "chekpoint": "checkpoint", "progres": "progress", "histry": "history",
    "sed": "seed", "maxfeval": "maxfevals", "sigmao": "sigma0", "tolfunn": "tolfun", "c_sigm": "c_sigma",
}  # fmt: skip


@pytest.mark.parametrize(("misspelt", "right"), MISSPELT.items())
def test_a_misspelt_argument_is_answered_with_the_right_one(misspelt, right):
    with pytest.raises(TypeError, match=f"did you mean '{right}'"):
        lmma.minimize(lambda x: x @ x, [1.0, 2.0], 0.5, **{misspelt: 1})


# Reasons to stop


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=lambda ending: ending.reason)
def test_each_ending_names_its_arguments_as_python_and_the_shell_spell_them(ending):
    stop = Stop(ending, 3.0, 2.0)
    here, there = stop.message(in_python), stop.message(as_flag)
    assert "--" not in here
    assert "{" not in here + there
    for name, spelling, _ in spellings():
        if spelling.flag and re.search(rf"\{{{name}\b", ending.template):
            assert re.search(rf"\b{name}\b", here)
            assert spelling.flag in there or spelling.flag.replace("--", "--no-", 1) in there


def test_statuses_of_endings_are_unique():
    statuses = [ending.status for ending in ENDINGS.values()]
    assert len(set(statuses)) == len(statuses)


LUCKY = Ending("lucky", 77, "Lucky: generation {value:.0f}; a larger {popsize} is luckier.", restarts=True)


class LuckyNumber(Rule):
    """A rule written by somebody else, in one place."""

    def check(self, now):
        return Stop(LUCKY, now.strategy.generation) if now.strategy.generation == 7 else None


def test_a_new_rule_is_one_class():
    def run(**options):
        given = RunOptions(rng=1, values="ranks", **options)
        return Run(lambda x: x @ x, [1.0, 2.0], 0.5, given, rules=[LuckyNumber()]).execute()

    result = run()
    assert (result.reason, result.status, result.success, result.nit) == ("lucky", 77, False, 7)
    assert result.message == "Lucky: generation 7; a larger popsize is luckier."
    restarted = run(restarts=2)
    assert [run.reason for run in restarted.runs] == ["lucky"] * 3
    assert restarted.message.endswith("2 restarts were made.")


def test_a_new_rule_changes_no_other_run():
    assert lmma.minimize(lambda x: x @ x, [1.0, 2.0], 0.5, values="ranks", rng=1).reason == "tolfun"
    assert "lucky" not in ENDINGS


def test_a_strategys_own_reason_to_stop_is_passed_on():
    stop = Stop(ending_of("tired {of it}"), 2.5)
    assert stop.message(in_python) == "The strategy ended the run: tired {of it} = 2.5."
    assert stop.ending.restarts
