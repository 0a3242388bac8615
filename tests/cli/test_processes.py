"""Behaviour that needs a separate process: exit statuses, signals, terminals, streams."""

import json
import os
import re
import signal
import sys
import time
from contextlib import contextmanager

import pytest

posix = pytest.mark.skipif(os.name != "posix", reason="signals and terminals as POSIX has them")

# Says so when it has begun, then takes its time; counts down so that every evaluation is the best yet.
SLOW = """
import itertools, time
from pathlib import Path
count = itertools.count()
def loss(x):
    k = next(count)
    if k == 30:
        Path("begun").touch()
    if k > 30:
        time.sleep(0.05)
    return 1000.0 - k
"""


@contextmanager
def inherited(disposition):
    """Start processes with this disposition of SIGHUP: nohup sets it to ignore, a terminal to the default."""
    before = signal.signal(signal.SIGHUP, disposition)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def wait_for(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never appeared"
        time.sleep(0.02)


def test_success_is_status_0_and_a_summary(lmma):
    done = lmma("minimize", "sphere", "--dim", 3, "--seed", 1)
    assert done.returncode == 0
    for words in ("best value", "Target reached", "evaluations", "time", "x  ", "seed"):
        assert words in done.stdout


@pytest.mark.parametrize(
    "budget", [("--max-evaluations", 200), ("--max-generations", 9), ("--max-time", 0.01)], ids=lambda b: b[0]
)
def test_a_run_that_ends_at_its_budget_has_status_0(lmma, budget):
    done = lmma("minimize", "rosenbrock", *budget, "--seed", 1)
    assert done.returncode == 0
    assert f"{budget[0]} = {budget[1]}" in done.stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("sphere", "--target", -1, "--tolfun", 1e-3), "was not reached"),
        (("here:down", "--constraints", "here:g", "--max-evaluations", 60), "No feasible point"),
        (("here:flat", "--dim", 3), "Flat"),
        (("here:down", "--dim", 3), "Diverged"),
    ],
    ids=["target missed", "infeasible", "flat", "diverged"],
)  # fmt: skip
def test_a_run_that_ends_early_or_without_a_usable_point_has_status_1(lmma, tmp_path, words, reason):
    (tmp_path / "here.py").write_text(
        "def g(x): return 1.0\ndef flat(x): return 1.0\ndef down(x): return -float(x.sum())\n"
    )
    done = lmma("minimize", *words, "--seed", 1, "--dim", 3)
    assert reason in done.stdout, done.stderr
    assert done.returncode == 1


def test_a_wrong_argument_is_status_2_and_one_line(lmma):
    done = lmma("minimize", "spere")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "did you mean 'sphere'" in done.stderr


def test_an_objective_that_always_fails_is_status_3(lmma):
    done = lmma("minimize", "--command", f"{sys.executable} -c 'import sys; sys.exit(\"no licence\")'",
                "--dim", 2, "--popsize", 2)  # fmt: skip
    assert done.returncode == 3
    assert "no licence" in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_json_is_all_there_is_on_standard_output(lmma, tmp_path):
    (tmp_path / "chatty.py").write_text("def loss(x):\n    print('hello')\n    return float(x @ x)\n")
    done = lmma("minimize", "chatty:loss", "--x0", "1,-2", "--seed", 1, "--target", 1e-3, "--json")
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert "hello" in done.stderr
    assert result["success"] is True
    assert result["fun"] <= 1e-3
    assert result["fun"] == pytest.approx(sum(value**2 for value in result["x"]), rel=1e-12)


@posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupt_prints_the_best_so_far(started, tmp_path, name):
    number = getattr(signal, name)
    (tmp_path / "slow.py").write_text(SLOW)
    with inherited(signal.SIG_DFL):
        process = started("minimize", "slow:loss", "--dim", 2, "--popsize", 10, "--json")
    wait_for(tmp_path / "begun")
    process.send_signal(number)
    output, complaints = process.communicate(timeout=60)
    result = json.loads(output)
    assert process.returncode == 130
    assert result["reason"] == "interrupted"
    assert result["nfev"] >= 30
    assert result["fun"] == 1001.0 - result["nfev"]
    assert "Traceback" not in complaints


@posix
def test_a_terminal_that_closes_leaves_a_checkpoint_and_the_files_asked_for(started, tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    with inherited(signal.SIG_DFL):
        process = started("minimize", "slow:loss", "--dim", 2, "--popsize", 10, "--checkpoint", "run.npz",
                          "--save-x", "x.npy", "--json")  # fmt: skip
    wait_for(tmp_path / "begun")
    while process.poll() is None:  # the system sends one SIGHUP, the shell another, at any moment
        process.send_signal(signal.SIGHUP)
        time.sleep(0.002)
    output, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints.count("Traceback")) == (130, 0), complaints
    assert json.loads(output)["nfev"] >= 30
    assert (tmp_path / "run.npz").exists()
    assert (tmp_path / "x.npy").exists()


@posix
def test_nohup_is_respected(started, tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    words = ("minimize", "slow:loss", "--dim", 2, "--popsize", 10, "--max-evaluations", 60, "--json")
    with inherited(signal.SIG_IGN):
        process = started(*words)
    wait_for(tmp_path / "begun")
    process.send_signal(signal.SIGHUP)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(output)["nfev"] == 60


@posix
def test_an_interrupt_ends_the_program_and_what_it_started(started, tmp_path):
    script = tmp_path / "simulate"
    script.write_text("#!/bin/sh\ncp $1 candidate\nsleep 987 & echo $! > pid.new\nmv pid.new pid\nwait\n")
    script.chmod(0o755)
    process = started("minimize", "--command", "./simulate {file}", "--dim", 2, "--seed", 1)
    wait_for(tmp_path / "pid")
    sleeper = int((tmp_path / "pid").read_text())
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "none" in output  # no generation was completed
    deadline = time.monotonic() + 30
    while is_running(sleeper):
        assert time.monotonic() < deadline, "the program's own child outlived it"
        time.sleep(0.02)


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:  # an orphan that has ended but that nobody has waited for counts as gone
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


def test_progress_in_a_pipe_is_plain_lines(lmma):
    done = lmma("minimize", "sphere", "--dim", 5, "--seed", 1)
    assert "\r" not in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stderr.splitlines()
    assert all("evaluations" in line for line in done.stderr.splitlines())


@posix
def test_progress_on_a_terminal_is_one_line_renewed_in_place(started):
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    process = started("minimize", "sphere", "--dim", 5, "--seed", 1, "--max-evaluations", 9000, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux's way to say that the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    output = process.stdout.read()
    text = shown.decode().replace("\r\n", "\n")
    assert process.wait(60) == 0
    assert "best value" in output
    assert text.count("\n") == 1
    assert text.endswith("\n")
    nothing, *lines = text.rstrip("\n").split("\r\x1b[K")
    assert nothing == ""
    assert len(lines) >= 2
    assert all("evaluations" in line for line in lines)
    assert max(len(line) for line in lines) < 40  # the width of this terminal


@posix
def test_a_reader_that_closes_the_pipe_early_is_not_an_error(started):
    process = started("problems")
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == ""


def test_quiet_shows_nothing_on_standard_error(lmma):
    assert lmma("minimize", "sphere", "--dim", 3, "--quiet").stderr == ""


def test_listing_problems_needs_neither_scipy_nor_matplotlib(environment, tmp_path):
    import subprocess

    code = (
        "import sys; from lmma.cli import main; main(['problems']); main(['methods']); main(['--help']);"
        "sys.exit(any(name in sys.modules for name in ('scipy', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, timeout=60,
                          stdout=subprocess.DEVNULL).returncode == 0  # fmt: skip


def test_the_rate_after_a_resume_is_that_of_the_evaluations_made_since(lmma, tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time\ndef f(x):\n    time.sleep(0.005)\n    return float(x @ x)\n"
    )
    first = lmma("minimize", "slow:f", "--dim", 4, "--x0", 1, "--seed", 1, "--max-evaluations", 160,
                 "--values", "ranks", "--checkpoint", "run.npz")  # fmt: skip
    assert "in total" not in first.stdout
    again = lmma("resume", "run.npz", "slow:f", "--max-evaluations", 176)
    rate, total = re.search(r"startup, ([\d.,]+) evaluations/s; ([\d.]+) s in total", again.stdout).groups()
    assert float(rate) <= 200  # of calls that take 5 ms
    assert float(total) >= 176 * 0.005
