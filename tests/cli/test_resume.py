"""Untrusted checkpoints: the search continues, and actions named in the file need confirmation."""

import os
import subprocess
import sys

import pytest

from lmma._archive import read, write

EVIL = "from pathlib import Path\nPath({mark!r}).write_text('')\ndef loss(x):\n    return float(x @ x)\n"
BASE = ["minimize", "sphere", "--dim", "4", "--values", "ranks", "--max-generations", "3", "--quiet"]


@pytest.fixture
def forged(lmma, tmp_path):
    """Returns a function that writes run.npz with a right checksum and a header as it likes."""
    away = tmp_path / "away"
    away.mkdir()
    mark = tmp_path / "ran"
    for folder in (tmp_path, away):
        (folder / "evil.py").write_text(EVIL.format(mark=str(mark)))
    assert lmma(*BASE, "--seed", 1, "--target", "none", "--checkpoint", "run.npz").returncode == 0
    header, arrays = read(tmp_path / "run.npz")

    def forge(words, directory=str(away), **changes):
        extra = {"words": words, "directory": directory, "seed": 1}
        write(tmp_path / "run.npz", header | {"extra": extra} | changes, arrays)

    forge.header, forge.mark, forge.away = header, mark, away
    return forge


@pytest.mark.parametrize("words", [
    ["minimize", "evil:loss", "--dim", "4"],
    ["minimize", "--dim", "4", "--command", "touch {mark}"],
    ["minimize", "--dim", "4", "--command=touch {mark}"],
    [*BASE, "--method", "evil:loss"],
    [*BASE, "--log", "{mark}"],
    [*BASE, "--log={mark}"],
    [*BASE, "--save-x", "{mark}.npy"],
    [*BASE, "--plot", "{mark}.svg"],
    [*BASE, "--cluster", "dask://127.0.0.1:9"],
    [*BASE, "--workers", "2000"],
    [*BASE, "--workers", "-1"],
    [*BASE, "--x0", "evil.npy"],  # from a folder the user has not named
], ids=lambda words: words[-1])  # fmt: skip
def test_actions_named_in_a_file_need_confirmation(lmma, forged, tmp_path, words):
    forged([word.format(mark=forged.mark) for word in words])
    before = sorted(tmp_path.rglob("*"))
    done = lmma("resume", "run.npz", "--max-generations", 9, stdin=subprocess.DEVNULL)
    assert done.returncode == 2, done.stderr
    assert "lmma resume run.npz" in done.stderr
    assert "--trust" in done.stderr
    assert str(forged.away) in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("words", [
    ["attack", "--out", "ran"], ["bench"], ["--version"], ["minimize", "--help"], ["minimize", "--no-such"],
    [7], {"minimize": 1}, ["minimize", "sphere\0"], ["minimize", "sphere", "--set", "m=" + "(" * 5000],
])  # fmt: skip
def test_a_command_line_that_is_none_of_minimize_is_rejected(lmma, forged, words):
    forged(words)
    done = lmma("resume", "run.npz")
    assert done.returncode == 2
    assert "cannot use checkpoint" in done.stderr or "unknown" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("words", "reason"), [
    (["--set", "period=1000000000"], "too many for"),
    (["--set", "period=1000000000", "--method", "pulse"], "too many for"),
    (["--set", "m=1000000000", "--method", "lm-ma-es"], "too many for"),
    (["--popsize", "1000000000"], "too many for"),
    (["--dim", "1000000000"], "it has 4 variables"),
], ids=lambda value: value[-1])  # fmt: skip
def test_sizes_that_a_file_cannot_have_needed_are_rejected_at_once(lmma, forged, words, reason):
    forged([*BASE, *words])
    done = lmma("resume", "run.npz", "--max-generations", 5)
    assert done.returncode == 2
    assert f"cannot use checkpoint run.npz: {'its search needs' if 'many' in reason else ''}" in done.stderr
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_one_process_and_what_is_typed_again_need_no_confirmation(lmma, forged):
    forged([*BASE, "--target", "none", "--workers", "1"])
    assert lmma("resume", "run.npz", "--max-generations", 5).returncode == 0
    forged([*BASE, "--target", "none", "--workers", "2000", "--popsize", "1000000000"])
    done = lmma("resume", "run.npz", "--max-generations", 5, "--workers", 2, "--popsize", 8)
    assert done.returncode == 0, done.stderr


def test_a_built_in_problem_resumes_without_confirmation_in_the_current_folder(lmma, forged):
    forged([*BASE, "--target", "none", "--checkpoint", "/no/such/place.npz"], directory="/no/such/folder")
    done = lmma("resume", "run.npz", "--max-generations", 5)
    assert done.returncode == 0, done.stderr
    assert "5" in done.stdout
    assert read(forged.away.parent / "run.npz")[0]["counters"]["generation"] == 5
    assert list(forged.away.iterdir()) == [forged.away / "evil.py"]


def test_a_method_that_only_the_header_names_is_not_imported(lmma, forged):
    identity = forged.header["identity"] | {"method": "evil:loss"}
    forged([*BASE, "--target", "none"], identity=identity)
    done = lmma("resume", "run.npz", "--max-generations", 5)
    assert done.returncode == 2
    assert "method is 'evil:loss' in the file" in done.stderr
    assert not forged.mark.exists()


def test_repeated_arguments_are_relative_to_the_current_folder(lmma, tmp_path):
    (tmp_path / "mine.py").write_text("def loss(x):\n    return float(x @ x)\n")
    first = ("minimize", "mine:loss", "--dim", 4, "--max-generations", 3, "--checkpoint", "run.npz")
    assert lmma(*first, "--log", "run.jsonl", "--seed", 1).returncode == 0
    refused = lmma("resume", "run.npz", "--max-generations", 5, "--log", "run.jsonl")
    assert refused.returncode == 2
    assert "lmma resume run.npz mine:loss --max-generations 5 --log run.jsonl" in refused.stderr
    for _ in range(2):  # what is saved again can be resumed again
        done = lmma("resume", "run.npz", "mine:loss", "--log", "run.jsonl", "--max-generations", 5)
        assert done.returncode == 0, done.stderr
    new = lmma("resume", "run.npz", "--command", "true", "--log", "run.jsonl")
    assert "belongs to another run: fun is" in new.stderr


def test_trust_does_what_was_shown_in_the_folder_of_the_file(lmma, forged):
    forged(["minimize", "evil:loss", "--dim", "4", "--max-generations", "5"],
           identity=forged.header["identity"] | {"fun": "loss"})  # fmt: skip
    done = lmma("resume", "run.npz", "--trust")
    assert forged.mark.exists()
    assert f"imports and calls evil:loss in the folder {forged.away}" in done.stderr


def test_a_moved_folder_is_reported_with_the_command_to_use(lmma, forged):
    forged(["minimize", "evil:loss", "--dim", "4"], directory="/gone/away")
    done = lmma("resume", "run.npz", "--trust")
    assert done.returncode == 2
    assert "/gone/away" in done.stderr
    assert f"and run lmma resume {forged.away.parent / 'run.npz'} evil:loss" in done.stderr
    assert not forged.mark.exists()


def test_a_terminal_does_not_obey_what_a_file_says(lmma, forged):
    forged(["minimize", "--dim", "4", "--command", "touch \x1b[2J\nlmma: all is well"])
    done = lmma("resume", "run.npz")
    assert "\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
@pytest.mark.parametrize(("answer", "runs"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_on_a_terminal_the_user_is_asked(environment, forged, answer, runs):
    import pty

    forged(["minimize", "evil:loss", "--dim", "4"])
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    command = [sys.executable, "-m", "lmma", "resume", "run.npz"]
    process = subprocess.Popen(
        command,
        cwd=forged.away.parent,
        env=environment,
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.DEVNULL,
    )
    os.close(theirs)
    process.wait(60)
    shown = os.read(ours, 4096).decode()
    os.close(ours)
    assert "imports and calls evil:loss" in shown
    assert forged.mark.exists() == runs
