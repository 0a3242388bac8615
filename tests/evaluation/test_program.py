import os
import signal
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pytest

from lmma.evaluation import Serial
from lmma.evaluation.program import Program, ProgramError

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
def test_the_candidate_arrives_and_the_last_line_is_its_value(program):
    x = np.array([0.1, -2.5e-300, 7.0])
    assert program(x) == 0.1 + -2.5e-300 + 7.0


def test_numbers_arrive_to_the_last_bit():
    x = np.array([1 / 3])
    assert python("import sys; print(open(sys.argv[1]).read())", "{file}")(x) == x[0]


def test_the_path_may_stand_inside_a_word():
    code = "import sys; print(open(sys.argv[1][8:]).read())"
    assert python(code, "--input={file}")(np.array([4.5])) == 4.5


@pytest.mark.parametrize(("code", "words"), [
    ("import sys; sys.exit('out of range')", "exited with status 1; standard error ends: out of range"),
    ("import os; os.abort()", "ended by SIGABRT"),
    ("print('many words')", "'many words' last, expected a line with one number"),
    ("print('1 2')", "'1 2' last"),
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
    assert [error.kind for error in evaluate.errors] == ["ProgramError"]


def test_no_shell_reads_the_command():
    program = Program(f"{sys.executable} -S -c 'import sys; print(len(sys.argv[1]))' '$HOME;exit' ")
    assert program(np.zeros(1)) == len("$HOME;exit")


def test_a_program_that_reads_nothing_is_fine():
    assert python("print(3)")(np.zeros(100_000)) == 3.0


def test_a_program_that_cannot_be_started_is_a_failure():
    with pytest.raises(ProgramError, match="cannot be started"):
        Program("./no-such-program")(np.zeros(1))


@pytest.mark.parametrize("command", ["", "  ", "'unclosed"])
def test_commands_without_a_program_are_refused(command):
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

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            python("import time; time.sleep(987)", "{file}")(np.zeros(1))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert born[0].poll() == -signal.SIGTERM
