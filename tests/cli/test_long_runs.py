"""What makes a run safe to leave alone, from the command line."""

import json
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
        assert done.stdout, done.stderr
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


def test_workers_and_timeouts_are_passed_on(outcome, loss):
    words = ("minimize", loss, "--dim", 3, "--x0", 2, "--bounds", "1,3", "--max-generations", 4, "--seed", 1)
    assert outcome(*words)["x"] == outcome(*words, "--workers", 2, "--timeout", 60)["x"]


def test_restarts_are_shown(lmma):
    done = lmma("minimize", "rastrigin", "--dim", 3, "--restarts", "bipop:2", "--seed", 1, "--tolfun", 1e-3)
    assert "restarts" in done.stdout
    assert "restarts were made" in done.stdout or "The target is reached" in done.stdout


def test_a_run_that_was_killed_is_resumed_to_the_same_end(lmma, outcome, started, tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time\nfrom lmma.problems import get\n"
        "def sphere(X):\n    time.sleep(0.003)\n    return get('sphere')(X)\n"
    )
    start = "1,1,1,1,1,1"
    slow = ("minimize", "slow:sphere", "--vectorized", "--x0", start, "--sigma0", 1, "--max-generations", 200,
            "--tolx", 0, "--tolfun", 0)  # fmt: skip
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
    resumed = outcome("resume", "run.npz")
    assert resumed["x"] == whole["x"]
    assert (resumed["nfev"], resumed["seed"]) == (whole["nfev"], 4)
    longer = outcome("resume", "run.npz", "--max-generations", 250)
    assert longer["nit"] == 250


def test_resuming_needs_no_seed(outcome):
    words = ("minimize", "sphere", "--dim", 4, "--checkpoint", "run.npz", "--target", "none")
    first = outcome(*words, "--max-generations", 10)
    again = outcome(*words, "--max-generations", 20)
    assert (first["seed"], again["nit"]) == (again["seed"], 20)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["resume", "none.npz"], "there is no checkpoint"),
        (["resume", "broken.npz"], "refused"),
        (["minimize", "ellipsoid", "--dim", 4, "--checkpoint", "run.npz"], "is of another run: fun is"),
        (["minimize", "sphere", "--dim", 4, "--bounds", "1"], "--bounds must be LOW,HIGH"),
        (["minimize", "sphere", "--dim", 4, "--bounds", "2,1"], "upside down"),
        (["minimize", "sphere", "--dim", 4, "--restarts", "often"], "--restarts must be"),
        (["minimize", "sphere", "--dim", 4, "--workers", 0], "--workers must be at least 1"),
        (["minimize", "sphere", "--dim", 4, "--checkpoint", "no/run.npz"], "cannot be written"),
        (["plot", "none.jsonl"], "cannot be read"),
        (["plot", "broken.npz"], "not a record"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_status_2(lmma, words, hint, tmp_path):
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


def test_a_log_is_drawn_in_four_panels(lmma, tmp_path):
    lmma(
        "minimize",
        "rastrigin",
        "--dim",
        3,
        "--restarts",
        1,
        "--tolfun",
        1e-3,
        "--seed",
        1,
        "--log",
        "run.jsonl",
    )
    with open(tmp_path / "run.jsonl", "a") as file:
        file.write('{"evaluations": 12')  # the run is just writing
    done = lmma("plot", "run.jsonl")
    assert done.returncode == 0, done.stderr
    assert "run.png" in done.stdout
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
