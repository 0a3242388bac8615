import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from lmma.evaluation import Serial
from lmma.evaluation.base import EvaluationOptions
from lmma.evaluation.objective import dumps
from lmma.evaluation.program import MAX_OUTPUT, Program, ProgramError
from lmma.evaluation.watcher import watcher

READ_FILE = "import sys; print('noise'); print(sum(float(line) for line in open(sys.argv[1])))"
READ_INPUT = "import sys; print(sum(float(line) for line in sys.stdin)); print()"


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert list(tmp_path.iterdir()) == [], "temporary files were left behind"


def python(code, *words):
    return Program(" ".join([sys.executable, "-S", "-c", f'"{code}"', *words]))


@pytest.mark.parametrize("program", [python(READ_FILE, "{file}"), python(READ_INPUT)])
def test_the_program_receives_the_candidate_and_its_last_line_is_the_value(program):
    x = np.array([0.1, -2.5e-300, 7.0])
    assert program(x) == 0.1 + -2.5e-300 + 7.0


def test_numbers_reach_the_program_to_the_last_bit():
    x = np.array([1 / 3])
    assert python("import sys; print(open(sys.argv[1]).read())", "{file}")(x) == x[0]


def test_the_path_may_stand_inside_a_word():
    code = "import sys; print(open(sys.argv[1][8:]).read())"
    assert python(code, "--input={file}")(np.array([4.5])) == 4.5


@pytest.mark.parametrize(("code", "words"), [
    ("import sys; sys.exit('out of range')", "exited with status 1; standard error ends: out of range"),
    ("import os; os.abort()", "killed by SIGABRT"),
    ("print('many words')", "must be a number, got 'many words'"),
    ("pass", "printed nothing"),
])  # fmt: skip
def test_no_number_is_a_failure_with_its_cause(code, words):
    with pytest.raises(ProgramError) as caught:
        python(code, "{file}")(np.zeros(2))
    assert words in str(caught.value)


def test_only_the_end_of_a_long_complaint_is_kept():
    with pytest.raises(ProgramError) as caught:
        python("import sys; sys.exit('x' * 100000 + 'END')")(np.zeros(2))
    assert str(caught.value).endswith("END")
    assert len(str(caught.value)) < 1000


def test_failures_are_counted_by_the_evaluator():
    evaluate = Serial(
        python("import sys; x = float(sys.stdin.read()); print(x) if x > 0 else sys.exit('no')")
    )
    values = evaluate(np.array([[1.0], [-1.0], [2.0]]))
    assert np.array_equal(values, [1.0, np.nan, 2.0], equal_nan=True)
    assert [error.kind for error in evaluate.record.errors] == ["ProgramError"]


def test_no_shell_reads_the_command():
    program = Program(f"{sys.executable} -S -c 'import sys; print(len(sys.argv[1]))' '$HOME;exit' ")
    assert program(np.zeros(1)) == len("$HOME;exit")


def test_a_program_that_reads_nothing_is_fine():
    assert python("print(3)")(np.zeros(100_000)) == 3.0


def test_a_program_that_cannot_be_started_is_a_failure():
    with pytest.raises(ProgramError, match="cannot start"):
        Program("./no-such-program")(np.zeros(1))


@pytest.mark.parametrize("command", ["", "  ", "'unclosed"])
def test_commands_without_a_program_are_rejected(command):
    with pytest.raises(ValueError, match="command"):
        Program(command)


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="not the main thread")
def test_an_interrupt_while_the_program_starts_leaves_no_program_behind(monkeypatch):
    born = []
    start = subprocess.Popen

    def interrupted(*words, **options):
        born.append(start(*words, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return born[-1]

    watcher.update("warm", gone=True)  # it is a process too, and not the one that is meant
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            python("import time; time.sleep(987)", "{file}")(np.zeros(1))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert born[0].poll() == -signal.SIGTERM


# Nothing is left behind, nothing is waited for without end

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
MARK = "98" + str(os.getpid())  # seconds to sleep: what a program of ours is known by


def left_behind(mark=MARK):
    """The processes that still sleep for us."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if mark.encode() in words and "State:\tZ" not in (folder / "status").read_text():
                    found.append(folder.name)
            except OSError:
                pass
    return found


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@linux
@pytest.mark.parametrize(
    "command",
    [f"sh -c 'sleep {MARK} & echo 3'", f"sh -c 'sleep {MARK} 2>&1 & echo 3' {{file}}"],
    ids=["by standard input", "by a file"],  # the same in every process that collects tests
)
def test_a_child_that_holds_the_output_is_not_waited_for(command):
    assert Program(command)(np.zeros(2)) == 3.0
    wait_until(lambda: not left_behind())


@linux
def test_a_child_that_does_not_listen_is_ended_with_its_program():
    program = Program(f'sh -c \'trap "" TERM; (trap "" TERM; sleep {MARK}; sleep {MARK}) & sleep {MARK}\'')
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        program(np.zeros(2))
    wait_until(lambda: not left_behind())


def test_output_is_read_with_a_limit():
    code = "import sys; [sys.stdout.write('x' * 9999 + chr(10)) for _ in range(3000)]; print(4.5)"
    program = python(code)
    program(np.zeros(1))
    tracemalloc.start()
    assert program(np.zeros(1)) == 4.5
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20 * MAX_OUTPUT


@pytest.mark.parametrize("code", ["print('1' * 70000)", "print(7); print(chr(10) * 70000)"])
def test_an_incomplete_line_is_not_a_number(code):
    with pytest.raises(ProgramError, match="no complete line with a number in the last 65,536 bytes"):
        python(code)(np.zeros(1))


@linux
def test_a_time_out_leaves_neither_file_nor_program(tmp_path, monkeypatch):
    from lmma.evaluation.pool.pool import Pool

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    program = Program(f"sh -c 'sleep {MARK}' {{file}}")
    pool = Pool(dumps((program, ())), EvaluationOptions(timeout=0.3), workers=2)
    try:
        assert np.isnan(pool(np.zeros((4, 3)))).all()
    finally:
        pool.close()
    wait_until(lambda: not left_behind() and not list(tmp_path.iterdir()))


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_program_does_not_outlive_who_runs_it(number, workers, tmp_path, environment):
    code = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # ignored under nohup
        "import lmma, sys, numpy as np; from lmma.evaluation.program import Program\n"
        f"lmma.minimize(Program(sys.argv[1]), np.ones(3), 1.0, values='ranks', workers={workers})"
    )
    sleepers = f"sh -c 'sleep {MARK} & setsid sleep {MARK} & sleep {MARK}' {{file}}"
    run = subprocess.Popen(
        [sys.executable, "-c", code, sleepers], env=environment | {"TMPDIR": str(tmp_path)}, cwd=tmp_path
    )
    try:
        wait_until(lambda: len(left_behind()) >= 3 * workers)
        assert len(list(tmp_path.iterdir())) == workers
        run.send_signal(number)
        run.wait(60)
    finally:
        run.kill()
        run.wait()
    wait_until(lambda: not left_behind() and not list(tmp_path.iterdir()))
