"""Random command lines: a documented exit status, and one line per error."""

import contextlib
import io
import os
import signal
import sys

import numpy as np
import pytest

import lmma
from fuzzing import one_of
from lmma.cli import COMMANDS, main

STATUSES = {0, 1, 2, 3, 130}
FILES = ["x0.npy", "x0.txt", "x0.csv", "wide.npy", "bounds.csv", "text.txt", "empty.txt", "noise.npz",
         "run.npz",
         "run.jsonl", "folder", "missing.npy", "no/such/folder/file.npy", "", ".", "pickled.npy"]  # fmt: skip
NUMBERS = ["0", "1", "2", "3", "-1", "7", "1e1", "0.5", "1.5", "nan", "inf", "-inf", "1e400", "abc", "",
           " ", "1,2", "0x10",
           "1_0", "٣", "--", "10**9", "1e-320"]  # fmt: skip
TARGETS = ["sphere", "rosenbrock", "rotated-cigar", "ellipsoid", "cigar", "spere", "objective:f",
           "objective:fails",
           "objective:text", "objective:missing", "no_such:f", "broken:f", "objective", ":", "objective:",
           ":f", "",
           "objective:f:g", "../objective:f", "os:getcwd", "x0.npy"]  # fmt: skip
SOUND_TARGETS = ["sphere", "rosenbrock", "cigar", "objective:f", "objective:f", "objective:fails"]
VALUES = {
    "--dim": NUMBERS, "--x0": [*NUMBERS, *FILES, "1,2,3", "0.5,0.5", ",", "1,,2"], "--sigma0": [*NUMBERS,
    *FILES, "1,2,3"],
    "--method": [*lmma.methods(), "auto", "MA-ES", "lm-ma", "objective:f", "no:Class", ""],
    "--bounds": [*NUMBERS, *FILES, "0,1", "-1,1", "1,0", "-inf,inf", "0,inf", "1,1", "nan,1", "0,1,2"],
    "--boundary": ["smooth", "reflect", "project", "clip", ""], "--popsize": NUMBERS, "--seed": NUMBERS,
    "--max-generations": NUMBERS, "--max-time": ["1", "10", "0", "-1", "nan", "inf", "abc"],
    "--target": NUMBERS,
    "--tolx": NUMBERS, "--tolfun": NUMBERS, "--restarts": ["0", "1", "2", "ipop", "bipop:2", "bipop:x",
    "-1", "abc", "1.5"],
    "--inject": FILES, "--workers": ["0", "1", "-3", "abc", "1.5", ""], "--timeout": ["1", "0", "-1", "abc",
    "nan"],
    "--quorum": NUMBERS, "--on-error": ["worst", "raise", "resample", "ignore"], "--checkpoint": FILES,
    "--log": FILES,
    "--dtype": ["float64", "float32", "float16"], "--threads": ["1", "2", "0", "abc", "-1"],
    "--set": ["m=3", "m=0", "m=abc", "c_1=0.1", "c_1=9", "x=1", "m", "=", "m=", "=3", "m=3=4", "popsize=7"],
    "--cluster": ["", "nowhere", "dask:", "mpi", "ray:"], "--plot": ["a.svg", "a.txt", "no/such/a.svg",
    "folder"],
    "--save-x": ["a.npy", "a.csv", "a.exe", "no/such/a.npy", "folder"], "--command": ["true", "echo 1",
    "no-such-program",
    "false", "", "'", "cat", "echo {file}", "echo nan"], "--output": ["a.svg", "a.exe", "folder"],
}  # fmt: skip
SOUND = {
    "--x0": ["0.5", "1,2,3", "x0.npy", "x0.csv"], "--sigma0": ["0.3", "1,2,3"],
    "--method": [*lmma.methods(), "auto"],
    "--bounds": ["-5,5", "0,inf"], "--boundary": ["reflect", "project"], "--popsize": ["5", "9"],
    "--seed": ["1", "2"],
    "--target": ["1", "1e9", "-1"], "--tolfun": ["0", "1"], "--restarts": ["1", "bipop:2"],
    "--log": ["a.jsonl"],
    "--on-error": ["worst"], "--checkpoint": ["a.npz"], "--dtype": ["float32"], "--save-x": ["a.npy"],
}  # fmt: skip
SWITCHES = ["--stagnation", "--no-stagnation", "--vectorized", "--json", "--quiet", "--replicate", "--help",
            "--version", "-h",
            "--max-evaluation", "--Dim", "-x", "--", "-1"]  # fmt: skip
OBJECTIVE = """
def f(x): return float(x @ x)
def fails(x): raise OSError("down")
def text(x): return "text"
number = 3
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with files of every kind, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "objective.py").write_text(OBJECTIVE)
    (tmp_path / "broken.py").write_text("def f(x:\n")
    np.save("x0.npy", np.full(3, 0.5))
    np.save("wide.npy", np.ones((2, 5)))
    np.save("pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savetxt("x0.txt", np.full(3, 0.5))
    np.savetxt("x0.csv", np.full((1, 3), 0.5), delimiter=",")
    np.savetxt("bounds.csv", [[-1, 1]] * 3, delimiter=",")
    (tmp_path / "text.txt").write_text("these are\nno numbers\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "noise.npz").write_bytes(np.random.default_rng(1).bytes(3000))
    (tmp_path / "folder").mkdir()
    lines = ["minimize", "sphere", "--dim", "3", "--max-evaluations", "70", "--quiet", "--seed", "1"]
    run([*lines, "--checkpoint", "run.npz", "--log", "run.jsonl"])
    return tmp_path


def run(words):
    """Return exit status, standard output and standard error of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), np.errstate(all="ignore"):
        status = main(words)
    return status, out.getvalue(), err.getvalue()


def test_any_command_line_ends_with_a_documented_status(fuzz, here):
    kept = {file: file.read_bytes() for file in here.iterdir() if file.is_file()}

    def case(rng):
        for file in set(here.iterdir()) - set(kept):
            if file.is_file():
                file.unlink()
        for file, content in kept.items():
            file.write_bytes(content)
        path, handlers = (
            list(sys.path),
            [signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)],
        )
        try:
            return command_line(rng)
        finally:
            os.chdir(here)
            sys.path[:] = path
            for which, handler in zip((signal.SIGINT, signal.SIGTERM), handlers, strict=True):
                signal.signal(which, handler)

    fuzz(case, short=200, long=10_000, at_least=["status 0", "status 2", "status 3"])


def message_of(rng):
    """Return a command line that is somewhat like a right one."""
    command = one_of(rng, ["minimize"] * 12 + ["plot", "resume", "methods", "problems", "attack", "compare",
                                               "bench",
                                               "reproduce", "minimise", "", "bench cost"])  # fmt: skip
    words = [command] if " " not in command else command.split()
    if command == "minimize":
        odd = rng.random() < 0.5
        if rng.random() < 0.85:
            words.append(one_of(rng, TARGETS if odd else SOUND_TARGETS))
        words += ["--dim", "3"]
    elif command in ("plot", "resume"):
        words.append(one_of(rng, FILES))
    if rng.random() < 0.4:
        for option in rng.permutation(list(SOUND))[: int(rng.integers(5))].tolist():
            words += [option, one_of(rng, SOUND[option])]
    for _ in range(int(rng.integers(0, 3))):
        if rng.random() < 0.15:
            words.append(one_of(rng, SWITCHES))
        else:
            option = one_of(rng, list(VALUES))
            words += one_of(
                rng,
                [[option, one_of(rng, VALUES[option])]] * 6
                + [[option], [f"{option}={one_of(rng, VALUES[option])}"]],
            )
    if command in ("attack", "compare", "bench", "bench cost", "reproduce"):
        words.append(one_of(rng, ["--no-such-option", "--help", "--out"]))  # or they would work for hours
    elif command in ("minimize", "resume"):
        words += ["--max-evaluations", one_of(rng, ["70", "70", "70", "5", "12"])]
    if rng.random() < 0.05 and command == "minimize":
        words.insert(int(rng.integers(len(words) - 2)), one_of(rng, ["sphere", "plot", "ä", "--"]))
    return words


def command_line(rng):
    words = message_of(rng)
    told = f"lmma {words}"
    try:
        status, out, err = run(words)
    except BaseException as error:
        if type(error).__name__ == "Hangs":
            raise
        raise AssertionError(f"{type(error).__name__}: {error}: {told}") from error
    assert status in STATUSES, f"exit status {status!r}: {told}"
    assert "Traceback" not in err, f"{err}: {told}"
    if status == 2:
        lines = err.strip().splitlines()
        assert lines, f"a mistake without a word: {told}"
        assert lines[-1].startswith("lmma: "), f"{err!r}: {told}"
        assert len(lines) == 1, f"more than one line: {err!r}: {told}"
        assert not out, f"{out!r} on standard output: {told}"
    assert words[0] in COMMANDS or status in (0, 2), told
    return f"status {status}"
