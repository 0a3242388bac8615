"""Commands complete even if their output streams are full or closed."""

import json
import subprocess
import sys

import numpy as np
import pytest

RUN = ("minimize", "sphere", "--dim", 3, "--seed", 1, "--save-x", "x.npy", "--checkpoint", "run.npz")


@pytest.fixture
def shell(environment, tmp_path):
    """Runs ``lmma ...`` by a shell that redirects its streams."""

    def run(*words, streams=""):
        command = " ".join([sys.executable, "-m", "lmma", *map(str, words), streams])
        return subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )

    return run


@pytest.mark.parametrize("streams", ["2>/dev/full", "2>&-"])
def test_progress_that_cannot_be_shown_changes_nothing(shell, streams, tmp_path):
    done = shell(*RUN, "--json", streams=streams)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["x"] == np.load(tmp_path / "x.npy").tolist()
    assert (tmp_path / "run.npz").exists()


def test_a_result_that_cannot_be_printed_is_reported_after_x_was_saved(shell, tmp_path):
    done = shell(*RUN, "--quiet", streams=">/dev/full")
    assert done.returncode == 4
    assert done.stderr.splitlines() == [
        "lmma: cannot write to standard output: [Errno 28] No space left on device"
    ]
    assert np.abs(np.load(tmp_path / "x.npy")).max() < 1e-4
    assert (tmp_path / "run.npz").exists()
    assert shell(*RUN, streams=">/dev/full 2>/dev/full").returncode == 4


@pytest.mark.parametrize("words", [RUN, ("methods",), ("problems",), ("--version",)])
@pytest.mark.parametrize("streams", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_result_for_a_closed_standard_output_is_a_failure(shell, words, streams, tmp_path):
    done = shell(*words, *(["--quiet"] if words is RUN else []), streams=streams)
    told = "lmma: cannot write to standard output: [Errno 9] Bad file descriptor\n"
    assert (done.returncode, done.stdout, done.stderr) == (4, "", "" if "2>&-" in streams else told)
    if words is RUN:
        assert np.abs(np.load(tmp_path / "x.npy")).max() < 1e-4
        assert (tmp_path / "run.npz").exists()


def test_a_closed_standard_input_changes_nothing(shell):
    assert shell("minimize", "sphere", "--dim", 3, "--quiet", streams="<&-").returncode == 0


@pytest.mark.parametrize("words", [("methods",), ("problems",), ("--help",), ("--version",)])
def test_a_full_disk_is_one_line(shell, words):
    done = shell(*words, streams=">/dev/full")
    assert (done.returncode, len(done.stderr.splitlines())) == (4, 1)


def test_mistakes_keep_their_status(shell):
    for streams in ("2>/dev/full", "2>&-", ">/dev/full", ">&- 2>&-"):
        assert shell("minimize", "nothing", streams=streams).returncode == 2


def test_files_that_cannot_be_written_do_not_cost_the_result(environment, tmp_path):
    code = (
        "import sys, os, lmma.cli\n"
        "def full(a, b):\n    raise OSError(28, 'No space left on device')\n"
        "os.replace = full\n"
        "sys.exit(lmma.cli.main(sys.argv[1:]))"
    )
    np.save(tmp_path / "x.npy", np.arange(3.0))
    words = ["minimize", "sphere", "--dim", "3", "--seed", "1", "--save-x", "x.npy", "--quiet", "--json"]
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=tmp_path, env=environment,
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 4
    assert "lmma: --save-x: cannot write x.npy: [Errno 28] No space left" in done.stderr
    assert json.loads(done.stdout)["fun"] < 1e-9
    assert np.load(tmp_path / "x.npy").tolist() == [0, 1, 2]  # what was there is still there
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]
