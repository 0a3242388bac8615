"""The progress line: the most important parts fit into 80 columns, and times are readable."""

import io
import re

import numpy as np
import pytest

import lmma
from lmma.run.observers import Progress
from lmma.run.observers.progress_line import ProgressLine

BUSY = Progress(
    1_234_567, 5000, -1.234567e-05, 1e-3, 12_345, 4000.0, popsize=22, restarts=7, quality=0.3, rate=0.1,
    repeats=4.0, violation=3e-3,
)  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_time_left_and_failures_are_seen_whatever_else_there_is(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    line = ProgressLine(10_000_000, stream)
    line(BUSY)
    shown = stream.getvalue().rpartition("\x1b[K")[2]
    assert len(shown) < columns
    assert "..." not in shown
    for words in ("1,234,567 evaluations (12%)", "best -1.234567e-05", "12,345 failed", "7.9 h left"):
        assert words in shown


def test_a_wide_terminal_and_a_pipe_show_all(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = ProgressLine(10_000_000, io.StringIO()).line(BUSY)
    for words in (
        "violation",
        "restart 7",
        "/s",
        "sigma",
        "noise: quality 0.30",
        "rate 0.1",
        "4 evaluations",
    ):
        assert words in whole


def test_a_very_narrow_terminal_still_counts():
    assert ProgressLine(None, io.StringIO()).line(BUSY, 20) == "1,234,567 evaluations"


@pytest.mark.parametrize(
    ("evaluations", "words"),
    [(999, "1 s left"), (500, "5 s left"), (1000, "done")],
    ids=["end", "half", "done"],
)
def test_the_time_left_is_estimated_from_the_budget(evaluations, words):
    line = ProgressLine(1000, io.StringIO())
    assert words in line.line(Progress(evaluations, 1, 0.0, 1.0, 0, evaluations / 100))


def test_the_time_left_is_also_estimated_from_the_time_limit():
    line = ProgressLine(10**9, io.StringIO(), maxtime=600)
    assert "10 min left" in line.line(Progress(10, 1, 0.0, 1.0, 0, 1.0))
    assert "left" not in ProgressLine(None, io.StringIO()).line(Progress(10, 1, 0.0, 1.0, 0, 1.0))


def test_a_resumed_run_shows_the_rate_of_this_process():
    # an hour on a slow machine, then ten seconds on a fast one
    line = ProgressLine(20_000, io.StringIO(), begun=(3600, 3600.0))
    shown = line.line(Progress(13_600, 1, 0.0, 1.0, 0, 3610.0))
    assert "1,000/s" in shown
    assert "6 s left" in shown
    assert "(68%)" in shown


def test_a_run_tells_its_line_where_it_began(tmp_path, capsys, monkeypatch):
    lines = []
    original = ProgressLine.__init__

    def spy(self, *given, **named):
        lines.append(named)
        original(self, *given, **named)

    monkeypatch.setattr(ProgressLine, "__init__", spy)
    options = {"rng": 1, "checkpoint": tmp_path / "run.npz", "progress": True}
    first = lmma.minimize(lambda x: float(x @ x), np.ones(5), 0.5, values="ranks", maxfevals=80, **options)
    lmma.minimize(lambda x: float(x @ x), np.ones(5), 0.5, values="ranks", maxfevals=160, **options)
    assert lines[0]["begun"] == (0, 0.0)
    assert lines[1]["begun"][0] == first.nfev
    assert lines[1]["begun"][1] > 0
    assert re.search(r"evaluations \(100%\)", capsys.readouterr().err)


def test_slow_rates_keep_their_digits():
    assert "0.05/s" in ProgressLine(None, io.StringIO()).line(Progress(5, 1, 0.0, 1.0, 0, 100.0))


NOISY = Progress(
    123_456, 5000, -3.1, 1e-3, 0, 400.0, popsize=22, quality=0.3, rate=0.1, repeats=4.0, average_fun=1.2345678
)


def test_under_noise_the_average_takes_the_place_of_the_best_value():
    line = ProgressLine(1_000_000, io.StringIO())
    narrow = line.line(NOISY, 79)
    assert "average 1.23e+00" in narrow
    assert "noise: quality 0.30" in narrow
    assert "best" not in narrow
    assert "best observed -3.10e+00" in line.line(NOISY)


def test_a_population_that_grows_is_not_called_repeats():
    assert "4 evaluations per candidate" in ProgressLine(None, io.StringIO()).line(NOISY)
    assert "4 times the candidates" in ProgressLine(None, io.StringIO(), grows=True).line(NOISY)


def test_noise_is_shown_as_long_as_it_is_treated():
    calmer = Progress(10, 1, 0.0, 1.0, 0, 1.0, quality=0.9, rate=0.5)
    assert "noise: quality 0.90" in ProgressLine(None, io.StringIO()).line(calmer)
    calm = Progress(10, 1, 0.0, 1.0, 0, 1.0, quality=0.9)
    assert "noise" not in ProgressLine(None, io.StringIO()).line(calm)


def test_a_finished_run_has_no_time_left(capsys):
    result = lmma.minimize(
        lambda x: float(x @ x), np.ones(4), 0.5, values="ranks", rng=1, maxfevals=10**6, progress=True
    )
    assert result.reason == "tolfun"
    last = capsys.readouterr().err.splitlines()[-1]
    assert "done" in last
    assert "left" not in last


def test_a_run_that_breaks_off_still_has_time_left():
    stream = io.StringIO()
    line = ProgressLine(1000, stream)
    line(Progress(500, 5, 1.0, 1.0, 0, 1.0))
    line.close()
    assert "1 s left" in stream.getvalue()
    line.close(ended=True)
    assert "done" in stream.getvalue()
