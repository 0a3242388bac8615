"""lmma check: targets as for lmma minimize, with text and JSON output."""

import json
import shlex
import sys

import pytest

from lmma.cli import main

MODEL = """
import numpy as np

def loss(x):
    return float(((x - 1) ** 2).sum())

def noisy(x):
    return loss(x) + 0.1 * np.random.standard_normal()

def rows(X):
    return ((X - 1) ** 2).sum(axis=1)

def broken(x):
    raise RuntimeError("no licence")

def talkative(x):
    print("working")
    return loss(x)

def text(x):
    return "12"

def cost(speed, gear):
    return (speed - 2) ** 2 + gear

def valleys(speed, gear):
    return (speed - 2) ** 2 + gear + 20 * np.cos(7 * speed)
"""


@pytest.fixture(autouse=True)
def _model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checked_model.py").write_text(MODEL)
    yield
    sys.modules.pop("checked_model", None)


def said(capsys, *words):
    status = main(["check", *words])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_page_says_what_to_type(capsys):
    status, out, _ = said(capsys, "checked_model:loss", "--dim", "5")
    assert status == 0
    assert "checked_model:loss: smooth and exact (5 variables" in out
    assert "portfolio: slopes first" in out
    assert "lmma minimize checked_model:loss --dim=5\n" in out


@pytest.mark.parametrize("function", ["loss", "noisy"])
def test_the_suggested_command_runs(function, capsys):
    _, out, _ = said(capsys, f"checked_model:{function}", "--x0", "0.5,0.5,-1", "--json")
    words = shlex.split(json.loads(out)["command"])[1:]
    assert main([*words, "--max-evaluations", "300", "--quiet"]) in (0, 1)


def test_json_is_all_there_is_on_standard_output(capsys):
    status, out, err = said(capsys, "checked_model:talkative", "--dim", "3", "--json")
    fields = json.loads(out)
    assert (status, fields["kind"], fields["use"]) == (0, "smooth", "lmma")
    assert "working" in err


def test_advice_is_spelled_as_the_shell_has_it(capsys):
    _, out, _ = said(capsys, "checked_model:noisy", "--dim", "3")
    assert "--noise auto detects the noise" in out


def test_bounds_vectors_and_a_built_in_problem(capsys):
    status, out, _ = said(capsys, "checked_model:rows", "--dim", "3", "--vectorized", "--bounds", "0,2")
    assert status == 0
    assert "--bounds=0,2 --vectorized" in out
    status, out, _ = said(capsys, "rastrigin", "--dim", "10", "--seed", "1")
    assert "many local minima" in out
    assert "--restarts=bipop" in out


def test_a_program(capsys):
    code = "import sys; print('%.4g' % sum((float(w) - 1) ** 2 for w in sys.stdin.read().split()))"
    command = shlex.join([sys.executable, "-S", "-E", "-c", code])
    status, out, _ = said(capsys, "--command", command, "--x0", "1,2,4.5", "--json")
    fields = json.loads(out)
    assert (status, fields["kind"], fields["digits"]) == (0, "rounded", 4)
    assert fields["suggest"]["workers"] == -1


def test_a_space_from_its_file(capsys, tmp_path):
    (tmp_path / "knobs.toml").write_text(
        "[variables]\nspeed = { real = [1, 9] }\ngear = { integer = [1, 6] }\n[run]\nmax-evaluations = 100\n"
        'objective = "checked_model:cost"\n'
    )
    status, out, _ = said(capsys, "--space", "knobs.toml")
    assert status == 0
    assert "checked_model:cost" in out
    assert "--space=knobs.toml" in out


def test_options_in_the_file_are_kept(capsys, tmp_path):
    (tmp_path / "knobs.toml").write_text(
        "[variables]\nspeed = { real = [1, 9] }\ngear = { real = [1, 6] }\n[run]\nmax-evaluations = 30\n"
        'objective = "checked_model:valleys"\nrestarts = 2\nmax-time = 20\n'
    )
    _, out, _ = said(capsys, "--space", "knobs.toml", "--json")
    fields = json.loads(out)
    assert fields["calls"] <= 30
    assert fields["suggest"]["restarts"] == "bipop"
    assert fields["command"] == "lmma minimize checked_model:valleys --space=knobs.toml"


def test_a_budget_is_copied_to_the_command(capsys):
    _, out, _ = said(capsys, "checked_model:loss", "--dim", "3", "--max-evaluations", "25", "--json")
    fields = json.loads(out)
    assert fields["calls"] <= 25
    assert "--max-evaluations=25" in fields["command"]


def test_the_default_seed_is_the_one_in_the_help(capsys):
    _, default, _ = said(capsys, "checked_model:loss", "--dim", "3", "--json")
    _, given, _ = said(capsys, "checked_model:loss", "--dim", "3", "--seed", "0", "--json")
    assert json.loads(default)["effects"] == json.loads(given)["effects"]
    _, out, _ = said(capsys, "--help")
    assert "same points (default: 0)" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["checked_model:loss"], 2, "number of variables"),
        (["checked_model:loss", "--dim", "3", "--calls", "5"], 2, "at least 20"),
        (["checked_model:nothing", "--dim", "3"], 2, "has no 'nothing'"),
        (["checked_model:text", "--dim", "3"], 2, "must return one real number"),
        ([], 2, "expected either TARGET"),
        (["checked_model:loss", "--space", "none.toml"], 2, "none.toml"),
        (["checked_model:broken", "--dim", "3"], 3, ""),
    ],
    ids=["no start", "few calls", "no function", "text", "no target", "no file", "broken"],
)
def test_mistakes_are_reported_in_one_line(words, status, message, capsys):
    got, out, err = said(capsys, *words)
    assert got == status
    assert message in err
    if status == 3:
        assert "no licence" in out
