"""Archives on the command line: --archive, lmma export, lmma show, lmma plot."""

import csv
import json
import os

import pytest

from lmma.cli import main

SPACE = """
[variables]
flow = {real = [1e-4, 1e-1], log = true, unit = "kg/s"}
teeth = {integer = [10, 40]}
oil = {choice = ["A", "B"]}
"""
MODEL = """
import math

def loss(flow, teeth, oil):
    if teeth > 27:
        raise RuntimeError("the mesh is broken")
    return math.log10(flow) ** 2 + abs(teeth - 17) + (oil == "A")

def other(flow, teeth, oil):
    return 0.0
"""
RUN = ["minimize", "model_of_archive:loss", "--space", "space.toml", "--seed", "1", "--quiet"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.toml").write_text(SPACE)
    (tmp_path / "model_of_archive.py").write_text(MODEL)
    return tmp_path


def archived(capsys, *more):
    status = main([*RUN, "--max-evaluations", "90", "--archive", "runs.db", *more])
    return status, capsys.readouterr()


def test_a_run_is_archived_and_its_repetition_costs_nothing(folder, capsys):
    status, first = archived(capsys, "--json")
    assert status == 0
    again = json.loads(archived(capsys, "--json")[1].out)
    first = json.loads(first.out)
    assert (again["calls"], again["fun"], again["x"]) == (0, first["fun"], first["x"])
    assert again["nfev"] == first["nfev"] >= first["calls"]
    assert "0 of fun; the other values were known" in archived(capsys)[1].out


def test_archives_are_exported_with_names_and_units(folder, capsys):
    run = json.loads(archived(capsys, "--json")[1].out)
    assert main(["export", "runs.db", "best.csv", "--best", "3"]) == 0
    assert "best.csv: 3 evaluations" in capsys.readouterr().out
    with open("best.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    assert float(rows[0]["value"]) == run["fun"]
    assert float(rows[0]["flow [kg/s]"]) == pytest.approx(run["x"]["flow"], rel=1e-15)
    assert main(["export", "runs.db", "all.json"]) == 0
    found = json.loads((folder / "all.json").read_text(encoding="utf-8"))
    assert {row["status"] for row in found["evaluations"]} == {"ok", "failed"}


def test_show_describes_an_archive_and_saves_its_best_point(folder, capsys):
    run = json.loads(archived(capsys, "--json")[1].out)
    assert main(["show", "runs.db", "--save-x", "best.csv"]) == 0
    out = capsys.readouterr().out
    assert f"best value    {run['fun']:.10g}" in out
    assert "kg/s" in out
    assert "RuntimeError: the mesh is broken" in out
    assert "flow," in (folder / "best.csv").read_text(encoding="utf-8")


def test_plot_draws_the_evaluations_of_an_archive(folder, capsys):
    pytest.importorskip("matplotlib")
    archived(capsys)
    assert main(["plot", "runs.db", "--output", "runs.svg"]) == 0
    assert "runs.svg: " in capsys.readouterr().out
    picture = (folder / "runs.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in picture for name in ("flow", "teeth", "oil", "failed or infeasible"))
    assert "<!-- B -->" in picture  # the value of a choice


def test_axes_of_the_best_points_are_logarithmic_where_the_search_was():
    pytest.importorskip("matplotlib")
    from lmma.output.plotting.evaluations import evaluations

    best = {"flow": [1e-2, 1e-3], "teeth": [10, 20], "oil": ["$x$", "$\\frac$"]}
    ranges = {"flow": (1e-4, 1e-1), "teeth": (0.0, 40.0)}
    figure = evaluations([2.0, 1.0], best, ranges, ["flow"])
    figure.canvas.draw()
    second, first = (line.get_ydata() for line in figure.axes[1].lines[:2])
    assert list(first) == pytest.approx([2 / 3, 0.25, 1.0])
    assert list(second) == pytest.approx([1 / 3, 0.5, 0.0])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("command", ["show", "plot"])
def test_a_named_pipe_is_rejected_without_waiting(command, folder, capsys):
    os.mkfifo("pipe.jsonl")
    assert main([command, "pipe.jsonl"]) == 2
    assert capsys.readouterr().err == "lmma: pipe.jsonl cannot be read: not a regular file\n"


def test_a_changed_objective_is_rejected_by_flag_and_archive_new_renames_the_file(folder, capsys):
    archived(capsys)
    command = [
        "minimize",
        "model_of_archive:other",
        "--space",
        "space.toml",
        "--archive",
        "runs.db",
        "--quiet",
    ]
    command += ["--max-evaluations", "30"]
    assert main(command) == 2
    assert "--archive-new" in capsys.readouterr().err
    assert main([*command, "--archive-new"]) == 0
    assert (folder / "runs-1.db").exists()


def test_an_archive_is_injected_by_name(folder, capsys):
    run = json.loads(archived(capsys, "--json")[1].out)
    command = [
        *RUN[:-3],
        "--seed",
        "2",
        "--quiet",
        "--json",
        "--max-evaluations",
        "20",
        "--inject",
        "runs.db",
    ]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["fun"] <= run["fun"]


def test_a_resumed_run_asks_before_it_writes_an_archive(folder, capsys):
    archived(capsys, "--checkpoint", "run.npz")
    assert main(["resume", "run.npz"]) == 2
    assert "writes runs.db" in capsys.readouterr().err
    assert main(["resume", "run.npz", "--trust", "--max-evaluations", "120", "--quiet"]) == 0


@pytest.mark.parametrize(("words", "message"), [
    (["export", "none.db", "a.csv"], "does not exist"),
    (["export", "space.toml", "a.csv"], "is not an lmma archive"),
    (["export", "runs.db", "a.xls"], "must end in"),
    (["export", "runs.db", "runs.db"], "is the input file"),
    (["export", "runs.db", "a.db", "--best", "3"], "--best cannot be combined"),
    (["export", "runs.db", "a.csv", "--best", "0"], "at least 1"),
    ([*RUN, "--archive-new"], "--archive-new needs"),
])  # fmt: skip
def test_mistakes_are_rejected_with_a_message(folder, capsys, words, message):
    archived(capsys)
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_a_damaged_archive_is_rejected_with_a_command_that_copies_the_rest(folder, capsys):
    main(["minimize", "sphere", "--dim", "20", "--seed", "1", "--quiet", "--max-evaluations", "500",
          "--values", "ranks", "--archive", "runs.db"])  # fmt: skip
    data = bytearray((folder / "runs.db").read_bytes())
    data[10 * 4096 : 11 * 4096] = bytes(4096)
    (folder / "runs.db").write_bytes(data)
    capsys.readouterr()
    for words in (["show", "runs.db"], ["export", "runs.db", "a.csv"]):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert "is damaged" in said
        assert "lmma export" in said
    assert main(["export", "runs.db", "rescued.db"]) == 0
    count = int(capsys.readouterr().out.split(": ")[1].split()[0])
    assert 400 < count < 500
    assert main(["show", "rescued.db"]) == 0
