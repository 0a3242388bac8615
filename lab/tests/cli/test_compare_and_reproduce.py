"""``lmma reproduce`` and ``lmma compare`` on the command line."""

import signal

import pytest

from lmma.cli import main

MINE = """
import time

from lmma import MAES


class MyES(MAES):
    pass


class Slow(MyES):
    def __init__(self, *args, **options):
        time.sleep(0.3)
        super().__init__(*args, **options)
"""
SMALL = ("--problems", "sphere", "--dims", "4", "--seeds", "2")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["reproduce", "--preset", "slow"], "smoke, quick, paper"),
        (["reproduce", "fig9"], "fig1, fig2, fig3, figS1"),
        (["reproduce", "fig2", "--dims", "7"], "exclude every task"),
        (["reproduce", "--workers", "0"], "at least 1"),
        (["compare", "--problems", "spere", "--methods", "ma-es", "--dims", "4"], "'sphere'"),
        (["compare", "--problems", "sphere", "--methods", "ma-ess", "--dims", "4"], "'ma-es'"),
        (
            ["compare", "--problems", "sphere", "--methods", "absent:ES", "--dims", "4"],
            "cannot import 'absent'",
        ),
        (["compare", "--problems", "sphere", "--methods", "ma-es", "--dims", "x"], "--dims"),
    ],
)
def test_mistakes_are_one_line_before_any_work(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    complaint = capsys.readouterr().err
    assert said in complaint
    assert complaint.count("\n") == 1


def test_a_dry_run_says_how_much_there_is_to_do(capsys, tmp_path):
    assert main(["reproduce", "--preset", "paper", "--dry-run", "--out", str(tmp_path / "o")]) == 0
    out = capsys.readouterr().out
    assert "runs" in out
    assert "about" in out
    assert not (tmp_path / "o" / "report.html").exists()


def test_compare_runs_a_user_strategy_next_to_built_in_ones_and_only_once(lmma, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    command = ("compare", *SMALL, "--methods", "ma-es,mine:MyES", "--workers", "2", "--out", "o")
    first = lmma(*command)
    assert first.returncode == 0, first.stderr
    lines = [line.split() for line in first.stdout.splitlines() if line.startswith("sphere")]
    ours, theirs = lines
    assert ours[1:2] + theirs[1:2] == ["ma-es", "mine:MyES"]
    assert ours[4] == theirs[4]  # the same algorithm from the same seeds
    assert {"report.html", "comparison.png", "runs.csv"} <= {p.name for p in (tmp_path / "o").iterdir()}
    again = lmma(*command, "--report-only")
    assert "nothing left to do" in again.stdout
    more = lmma(*command[:-2], "--out", "o", "--seeds", "3")
    assert "6 tasks (6 runs), 4 of them already finished" in more.stdout


def test_compare_knows_auto(lmma):
    done = lmma("compare", *SMALL, "--methods", "auto,portfolio", "--out", "o")
    assert done.returncode == 0, done.stderr
    auto, named = [line.split() for line in done.stdout.splitlines() if line.startswith("sphere")]
    assert (auto[1], named[1]) == ("auto", "portfolio")
    assert auto[4] == named[4]


def test_reproduce_makes_figure_ledger_and_page(lmma, tmp_path):
    done = lmma("reproduce", "fig1", "--workers", "2", "--out", "o")
    assert done.returncode == 0, done.stderr
    assert "claims:" in done.stdout
    assert "[" in done.stderr  # plain lines in a pipe
    assert "\x1b" not in done.stderr
    names = {path.name for path in (tmp_path / "o").iterdir()}
    assert {
        "fig1.png",
        "fig1.svg",
        "fig1.csv",
        "ledger.md",
        "report.html",
        "report.md",
        "store.sqlite",
    } <= names


def test_ctrl_c_says_how_to_continue(started, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    words = ("compare", "--problems", "sphere", "--dims", "4", "--seeds", "40", "--methods", "mine:Slow")
    process = started(*words, "--out", "o", start_new_session=True)
    for line in process.stderr:
        if line.startswith("[2/40]"):
            break
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "of 40 tasks are finished" in said
    assert "lmma compare --problems sphere --dims 4 --seeds 40 --methods mine:Slow --out o" in said
    assert "Traceback" not in said


def test_an_output_path_that_cannot_be_written_is_reported(lmma, tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = lmma("compare", *SMALL, "--methods", "ma-es", "--out", "file/o")
    assert done.returncode == 1
    assert "cannot create the folder" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_report_that_cannot_be_written_loses_no_run(lmma, tmp_path):
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "runs.csv").mkdir()  # a folder where a file should go
    (tmp_path / "o" / "runs.csv" / "x").write_text("")
    command = ("compare", *SMALL, "--methods", "ma-es", "--out", "o")
    done = lmma(*command)
    assert done.returncode == 1
    assert "Finished runs are saved" in done.stderr
    (tmp_path / "o" / "runs.csv" / "x").unlink()
    (tmp_path / "o" / "runs.csv").rmdir()
    done = lmma(*command)
    assert done.returncode == 0
    assert "nothing left to do" in done.stdout


@pytest.mark.slow
def test_the_smoke_preset_makes_all_figures(lmma, tmp_path):
    done = lmma("reproduce", "--workers", "2", "--out", "o")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "o").glob("fig*.png"))) == 4
