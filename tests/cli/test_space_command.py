"""lmma minimize --space: variables and options from a TOML file, and names in all output."""

import json
import sys

import numpy as np
import pytest

from lmma.cli import main

MODEL = """
def loss(speed, gear, oil, wall):
    return (speed - 3) ** 2 + (gear - 4) ** 2 + (oil != "C") + float(((wall - 0.25) ** 2).sum())
"""
KNOBS = """
[variables]
speed = { real = [1, 9], unit = "m/s" }
gear = { integer = [1, 6] }
oil = { choice = ["A", "C"] }
wall = { real = [-1, 1], shape = 2 }
[run]
seed = 3
max-evaluations = 4000
"""


@pytest.fixture(autouse=True)
def in_a_directory_with_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "gearbox.py").write_text(MODEL)
    (tmp_path / "knobs.toml").write_text(KNOBS)
    yield
    sys.modules.pop("gearbox", None)


@pytest.fixture
def result(capsys):
    def run(*words):
        status = main(["minimize", *map(str, words), "--json", "--quiet"])
        return status, json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def complaint(capsys):
    def run(*words):
        assert main(["minimize", *map(str, words)]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        return err

    return run


def test_values_are_printed_by_name(result, capsys):
    status, found = result("gearbox:loss", "--space", "knobs.toml")
    assert status == 0
    assert found["fun"] < 1e-10
    assert found["seed"] == 3
    assert (found["x"]["gear"], found["x"]["oil"]) == (4, "C")
    assert len(found["vector"]) == found["n"] == 5
    assert main(["minimize", "gearbox:loss", "--space", "knobs.toml", "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "speed = 3 m/s\n" in printed
    assert "wall = [0.25, 0.25]\n" in printed


def test_the_file_may_say_everything_and_the_command_line_overrules_it(result, tmp_path):
    (tmp_path / "knobs.toml").write_text(
        KNOBS + 'objective = "gearbox:loss"\nmethod = "lm-ma-es"\nstagnation = false\nset = { mu = 3 }\n'
        'sigma0 = 0.1\nx0 = { speed = 2 }\nlog = "a.jsonl"\n'
    )
    _, found = result("--space", "knobs.toml")
    assert found["method"] == "lm-ma-es"
    assert (tmp_path / "a.jsonl").exists()
    _, other = result("--space", "knobs.toml", "--method", "ma-es", "--seed", "5", "--max-evaluations", "50")
    assert (other["method"], other["seed"]) == ("ma-es", 5)
    assert other["nfev"] <= 50


def test_the_best_is_written_and_read_back_by_name(result, tmp_path):
    _, found = result("gearbox:loss", "--space", "knobs.toml", "--save-x", "best.json")
    assert json.loads((tmp_path / "best.json").read_text()) == found["x"] | {"$units": {"speed": "m/s"}}
    _, again = result("gearbox:loss", "--space", "knobs.toml", "--x0", "best.json", "--sigma0", "1e-6")
    assert again["nfev"] < found["nfev"]
    result("gearbox:loss", "--space", "knobs.toml", "--save-x", "best.npy")
    assert np.load("best.npy").shape == (5,)
    _, near = result(
        "gearbox:loss", "--space", "knobs.toml", "--x0", "speed=3,oil=C", "--max-evaluations", "20"
    )
    assert near["nfev"] <= 20


def test_plots_have_names(result, drawn):
    pytest.importorskip("matplotlib")
    result("gearbox:loss", "--space", "knobs.toml", "--plot", "a.svg", "--log", "a.jsonl")
    texts, _ = drawn("a.svg")
    assert {"speed", "gear", "oil", "wall[0]", "wall[1]"} <= set(texts)
    assert "3 m/s" in texts
    assert main(["plot", "a.jsonl", "--output", "b.svg"]) == 0
    texts, _ = drawn("b.svg")
    assert {"speed", "gear", "oil", "wall[0]", "wall[1]"} <= set(texts)


PROGRAM = """
import json, sys, tomllib
how = sys.argv[1]
if how == "names":
    values = {"speed": float(sys.argv[2]), "gear": int(sys.argv[3]), "oil": sys.argv[4]}
elif how == "stdin":
    values = json.load(sys.stdin)
else:
    values = (json if sys.argv[2].endswith(".json") else tomllib).load(open(sys.argv[2], "rb"))
speed, gear, oil = values["speed"], values["gear"], values["oil"]
print((speed - 3) ** 2 + (gear - 4) ** 2 + (oil != "C"))
"""


@pytest.mark.parametrize(
    "how", ["names {speed} {gear} {oil}", "stdin", "file {json}", "file {toml}", "file {file}"]
)
def test_a_program_gets_values_by_name(how, result, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = f"{sys.executable} '{tmp_path / 'program.py'}' {how}"  # the folder's name may have a space
    _, found = result("--command", command, "--space", "knobs.toml", "--max-evaluations", "16")
    best = found["x"]
    value = (best["speed"] - 3) ** 2 + (best["gear"] - 4) ** 2 + (best["oil"] != "C")
    assert found["failures"] == 0
    assert found["fun"] == value


def test_a_run_over_a_space_is_resumed(result, capsys):
    whole = result("gearbox:loss", "--space", "knobs.toml", "--max-evaluations", "400")[1]
    result("gearbox:loss", "--space", "knobs.toml", "--max-evaluations", "160", "--checkpoint", "a.npz")
    assert main(["resume", "a.npz", "--max-evaluations", "400"]) == 2  # it names code, and a file of options
    assert "reads variables, options and the code they name from knobs.toml" in capsys.readouterr().err
    main(["resume", "a.npz", "--max-evaluations", "400", "--trust"])
    assert json.loads(capsys.readouterr().out)["vector"] == whole["vector"]


MISTAKES = {
    "unknown option": (
        ["--space", "knobs.toml"],
        "methd = 3",
        "unknown option 'methd'.*did you mean 'method'",
    ),
    "a wrong value": (["--space", "knobs.toml"], 'tolx = "a"', "--tolx: expected a number"),
    "bounds": (["--space", "knobs.toml", "--bounds", "0,1"], "", "--bounds cannot be combined with --space"),
    "dim": (["--space", "knobs.toml", "--dim", "5"], "", "--dim cannot be combined with --space"),
    "no file": (["--space", "none.toml"], "", "none.toml cannot be read"),
    "x0": (["--space", "knobs.toml", "--x0", "sped=3"], "", "unknown variable 'sped'.*did you mean 'speed'"),
    "outside": (["--space", "knobs.toml", "--x0", "speed=30"], "", "speed must be a number from 1 to 9"),
}


@pytest.mark.parametrize(("words", "line", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_one_line_with_a_remedy(words, line, expected, complaint, tmp_path):
    import re

    (tmp_path / "knobs.toml").write_text(KNOBS + line + "\n")
    assert re.search(expected, complaint("gearbox:loss", *words))


def test_a_problem_has_no_names(complaint):
    assert "use module:function" in complaint("sphere", "--space", "knobs.toml")


def test_a_misspelt_placeholder_is_named(complaint):
    words = complaint("--command", "echo {sped}", "--space", "knobs.toml")
    assert "did you mean 'speed'" in words


def test_integers_by_number(result):
    status, found = result("sphere", "--dim", "6", "--integers", "1,3-5", "--seed", "1")
    assert status == 0
    assert all(float(value).is_integer() for value in np.array(found["x"])[[1, 3, 4, 5]])


def test_integers_that_are_not_there_are_rejected(complaint):
    assert "is outside the 3 variables" in complaint("sphere", "--dim", "3", "--integers", "1-9")
    assert "must be all, or indices" in complaint("sphere", "--dim", "3", "--integers", "x")
