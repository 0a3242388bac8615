"""Unattended runs on the command line: checkpoints, logs and signals."""

import json
import os
import re
import signal
import time

import numpy as np
import pytest

LOSS = """
import numpy as np
def loss(x):
    if x.min() < 1 or x.max() > 3:
        raise ValueError("outside")
    return float(((x - 1) ** 2).sum())
"""


@pytest.fixture
def loss(tmp_path):
    (tmp_path / "mine.py").write_text(LOSS)
    return "mine:loss"


@pytest.fixture
def outcome(lmma):
    """Runs a command with --json and returns what it printed."""

    def run(*words):
        done = lmma(*words, "--json", "--quiet")
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    return run


def test_bounds_are_two_numbers_or_a_file(outcome, loss, tmp_path):
    found = outcome("minimize", loss, "--dim", 3, "--x0", 2, "--bounds", "1,3", "--target", 1e-6, "--seed", 1)
    assert (found["success"], found["failures"]) == (True, 0)
    np.savetxt(tmp_path / "box.txt", [[1, 3], [2, 2], [1.5, np.inf]])
    found = outcome(
        "minimize", "sphere", "--x0", "2,2,2", "--bounds", "box.txt", "--target", "none", "--seed", 1
    )
    np.testing.assert_allclose(found["x"], [1, 2, 1.5], atol=1e-4)


# Notes which process started the one it runs in; of the candidates of `hangs` the first does.
WHERE = """
import os, time
from pathlib import Path
def loss(x):
    Path(f"started-by-{os.getppid()}").touch()
    return float(x @ x)
def hangs(x):
    try:
        os.close(os.open("hanging", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return float(x @ x)
    time.sleep(1000)
"""


def test_workers_are_processes_and_change_nothing(outcome, tmp_path):
    (tmp_path / "where.py").write_text(WHERE)
    words = ("minimize", "where:loss", "--x0", "1,2,3", "--max-generations", 4, "--seed", 1)
    alone = outcome(*words)
    assert [path.name for path in tmp_path.glob("started-by-*")] == [f"started-by-{os.getpid()}"]
    (tmp_path / f"started-by-{os.getpid()}").unlink()
    assert outcome(*words, "--workers", 2)["x"] == alone["x"]
    [left] = tmp_path.glob("started-by-*")  # by the command, which the test started
    assert left.name != f"started-by-{os.getpid()}"


def test_an_evaluation_that_hangs_is_given_up(outcome, tmp_path):
    (tmp_path / "where.py").write_text(WHERE)
    words = ("minimize", "where:hangs", "--x0", "1,2,3", "--max-generations", 2, "--seed", 1)
    found = outcome(*words, "--workers", 1, "--timeout", 5)
    assert (found["failed"], found["failures"]) == ({"timeout": 1}, 1)


def test_a_quorum_does_not_wait_for_the_last(outcome, tmp_path):
    (tmp_path / "where.py").write_text(WHERE)
    words = ("minimize", "where:hangs", "--x0", "1,2,3", "--max-generations", 3, "--seed", 1)
    found = outcome(*words, "--workers", 2, "--quorum", 0.5)
    assert (found["nit"], found["failures"]) == (3, 0)
    assert found["late"] >= 1


def test_restarts_are_shown(lmma, outcome):
    words = ("minimize", "rastrigin", "--dim", 3, "--seed", 1, "--tolfun", 1e-3, "--target", "none",
             "--values", "ranks")  # fmt: skip
    done = lmma(*words, "--restarts", 2)
    assert done.returncode == 0
    [line] = [line for line in done.stdout.splitlines() if line.split()[0] == "restarts"]
    assert re.findall(r"popsize (\d+)", line) == ["7", "14", "28"]  # populations
    assert [run["popsize"] for run in outcome(*words, "--restarts", 2)["runs"]] == [7, 14, 28]
    assert not any(line.split()[0] == "restarts" for line in lmma(*words).stdout.splitlines())


def test_a_run_that_was_killed_is_resumed_to_the_same_end(lmma, outcome, started, tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time\nfrom lmma.problems import get\n"
        "def sphere(X):\n    time.sleep(0.003)\n    return get('sphere')(X)\n"
    )
    start = "1,1,1,1,1,1"
    slow = ("minimize", "slow:sphere", "--vectorized", "--x0", start, "--sigma0", 1, "--max-generations", 200,
            "--tolx", 0, "--tolfun", 0, "--values", "ranks")  # fmt: skip
    whole = outcome(*slow, "--seed", 4)
    process = started(*slow, "--seed", 4, "--checkpoint", "run.npz", "--log", "run.jsonl", "--quiet")
    deadline = time.monotonic() + 60
    while not (tmp_path / "run.jsonl").exists() or "\n" not in (tmp_path / "run.jsonl").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)  # saved at once, whatever the clock says
    process.communicate()
    assert process.returncode == 130
    assert (tmp_path / "run.npz").exists()
    mine = ("slow:sphere", "--log", "run.jsonl")
    resumed = outcome("resume", "run.npz", *mine)
    assert resumed["x"] == whole["x"]
    assert (resumed["nfev"], resumed["seed"]) == (whole["nfev"], 4)
    longer = outcome("resume", "run.npz", *mine, "--max-generations", 250)
    assert longer["nit"] == 250


def test_resuming_needs_no_seed(outcome):
    words = ("minimize", "sphere", "--dim", 4, "--checkpoint", "run.npz", "--target", "none",
             "--values", "ranks")  # fmt: skip
    first = outcome(*words, "--max-generations", 10)
    again = outcome(*words, "--max-generations", 20)
    assert (first["seed"], again["nit"]) == (again["seed"], 20)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["resume", "none.npz"], "does not exist"),
        (["resume", "broken.npz"], "cannot use checkpoint"),
        (["minimize", "ellipsoid", "--dim", 4, "--checkpoint", "run.npz"], "belongs to another run: fun is"),
        (["minimize", "sphere", "--dim", 4, "--bounds", "1"], "--bounds must be two numbers LOW,HIGH"),
        (["minimize", "sphere", "--dim", 4, "--bounds", "2,1"], "lower bound exceeds upper bound"),
        (["minimize", "sphere", "--dim", 4, "--restarts", "often"], "--restarts must be"),
        (["minimize", "sphere", "--dim", 4, "--workers", 0], "--workers must be at least 1"),
        (["minimize", "sphere", "--dim", 4, "--checkpoint", "no/run.npz"], "cannot be written"),
        (["plot", "none.jsonl"], "cannot be read"),
        (["plot", "broken.npz"], "not a record"),
    ],
)
def test_an_impossible_request_is_one_line_and_status_2(lmma, words, hint, tmp_path):
    if "run.npz" in words:
        lmma("minimize", "sphere", "--dim", 4, "--max-generations", 2, "--checkpoint", "run.npz", "--quiet")
    (tmp_path / "broken.npz").write_text("this is\nno checkpoint\n")
    done = lmma(*words)
    assert done.returncode == 2
    assert hint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_program_named_by_a_file_is_not_run_unasked(lmma, tmp_path):
    command = "sh -c 'touch ran; echo 1'"
    words = (
        "minimize",
        "--command",
        command,
        "--x0",
        "1,2",
        "--max-generations",
        1,
        "--checkpoint",
        "run.npz",
    )
    lmma(*words)
    assert (tmp_path / "ran").exists()
    (tmp_path / "ran").unlink()
    done = lmma("resume", "run.npz", "--max-generations", 2)
    assert done.returncode == 2
    assert "If you trust it" in done.stderr
    assert not (tmp_path / "ran").exists()
    assert lmma("resume", "run.npz", "--max-generations", 2, "--command", command).returncode in (0, 1)
    assert (tmp_path / "ran").exists()


def test_a_log_is_drawn_in_four_panels(lmma, drawn, tmp_path):
    records = [
        {
            "evaluations": 10 * k,
            "best_fun": 2.0**-k,
            "sigma": 1 / k,
            "step": 1 / k,
            "seconds": k,
            "restarts": 0,
        }
        for k in range(1, 40)
    ]
    curves = {}
    for restart in (20, 99):
        lines = [json.dumps(each | {"restarts": int(each["seconds"] >= restart)}) for each in records]
        lines.append('{"evaluations": 12')  # the run is just writing
        (tmp_path / "run.jsonl").write_text("\n".join(lines))
        done = lmma("plot", "run.jsonl", "--output", "run.svg")
        assert done.returncode == 0, done.stderr
        assert "39 records, 390 evaluations" in done.stdout
        texts, curves[restart] = drawn("run.svg")
        assert {"best value", "step length per coordinate", "evaluations/s", "run.jsonl"} <= set(texts)
        assert sum(points > 10 for points in curves[restart]) >= 3  # the speed, a straight line, may need two
    assert len(curves[20]) == len(curves[99]) + 4  # a line at the restart in each panel


def test_the_log_of_a_run_can_be_plotted(lmma, tmp_path):
    words = (
        "minimize",
        "sphere",
        "--dim",
        3,
        "--restarts",
        1,
        "--target",
        "none",
        "--log",
        "run.jsonl",
        "--json",
    )
    result = json.loads(lmma(*words).stdout)
    done = lmma("plot", "run.jsonl")
    assert done.returncode == 0, done.stderr
    assert f"run.png: {len((tmp_path / 'run.jsonl').read_text().splitlines())} records" in done.stdout
    assert f" {result['nfev']:,} evaluations" in done.stdout
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_restarts_that_exceed_memory_are_reported_before_the_run(lmma):
    words = ("minimize", "sphere", "--dim", 100000, "--method", "csa-es", "--restarts", 30)
    done = lmma(*words, "--max-generations", 1, "--quiet", "--json")
    assert "lmma: restarts increase the population up to" in done.stderr
    assert json.loads(done.stdout)["warnings"][0] in done.stderr


def test_the_same_command_twice_at_once_is_rejected_the_second_time(lmma, started, tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time\ndef loss(x):\n    time.sleep(0.01)\n    return float(x @ x)\n"
    )
    words = ("minimize", "slow:loss", "--x0", "1,1", "--seed", 1, "--checkpoint", "run.npz", "--log", "log",
             "--values", "ranks", "--quiet", "--tolx", 0, "--tolfun", 0,
             "--max-generations", 10_000)  # fmt: skip
    process = started(*words)
    deadline = time.monotonic() + 60
    while not (tmp_path / "log").exists() or not (tmp_path / "log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    second = lmma(*words)
    assert second.returncode == 2
    assert f"is in use by process {process.pid} on " in second.stderr
    assert len(second.stderr.splitlines()) == 1
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert (tmp_path / "log").read_text()
    assert lmma(*words, "--max-generations", 1).returncode == 0


def test_a_plot_names_the_run_and_compares_lengths_with_the_bounds(lmma, drawn, tmp_path):
    words = ("minimize", "sphere", "--dim", 5, "--bounds", "-5,5", "--seed", 3, "--max-evaluations", 400)
    assert lmma(*words, "--target", "none", "--log", "run.jsonl", "--quiet").returncode == 0
    done = lmma("plot", "run.jsonl", "--output", "run.svg")
    assert done.returncode == 0, done.stderr
    texts, _ = drawn("run.svg")
    assert any(
        text.startswith("run.jsonl: ") and text.endswith("n = 5, seed 3, 400 evaluations") for text in texts
    )
    assert "median step / width of the bounds" in texts
