"""lmma compare with user functions."""

import sys

import pytest

from lmma.cli import main

MODULE = """
from lmma.problems import Problem


def loss(x):
    if x[0] > 4:
        raise RuntimeError("no mesh")
    return float(((x - 1) ** 2).sum())


def text(x):
    return "12"


number = 3
away = Problem("away", lambda X: (X**2).sum(axis=1), lower=1, upper=2)
"""


@pytest.fixture(autouse=True)
def _module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "compared_module.py").write_text(MODULE)
    yield
    sys.modules.pop("compared_module", None)


def compared(capsys, problems, *words):
    given = [
        "--methods",
        "lm-ma-es,ma-es",
        "--dims",
        "4",
        "--seeds",
        "2",
        "--out",
        "out",
        "--target",
        "1e-3",
        *words,
    ]
    status = main(["compare", "--problems", problems, *given])
    out, err = capsys.readouterr()
    return status, out, err


def test_user_functions_and_problems_are_listed_with_built_in_ones(capsys, tmp_path):
    status, out, _ = compared(capsys, "compared_module:loss,compared_module:away,sphere")
    assert status == 0
    rows = [line.split() for line in out.splitlines() if "ma-es" in line and "2/2" in line]
    assert {(row[0], row[1]) for row in rows} == {
        (problem, method)
        for problem in ("compared_module:loss", "compared_module:away", "sphere")
        for method in ("lm-ma-es", "ma-es")
    }
    assert (tmp_path / "out" / "report.html").exists()
    again = compared(capsys, "compared_module:loss,compared_module:away,sphere")
    assert again[0] == 0
    assert out.splitlines()[-8:] == again[1].splitlines()[-8:]


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("compared_module:nothing", "has no attribute 'nothing'"),
        ("compared_module:number", "not a function"),
        ("no_such_module:loss", "No module named"),
        ("spheer", "did you mean 'sphere'"),
    ],
)
def test_mistakes_are_reported_before_anything_runs(problem, words, capsys):
    status, _, err = compared(capsys, problem)
    assert status == 2
    assert words in err
