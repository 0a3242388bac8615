"""Files of a run keep their location if the objective changes the current folder."""

import json
import os

import numpy as np
import pytest

import lmma
from lmma.cli import main


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Two folders; the process is in the first."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(here)
    return here, elsewhere


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_checkpoint_and_log_are_written_where_the_run_started(folders, monkeypatch):
    here, elsewhere = folders

    def fun(x):
        os.chdir(elsewhere)
        return float(x @ x)

    def run(**options):
        monkeypatch.chdir(here)
        return lmma.minimize(fun, np.ones(4), 0.5, rng=1, **options)

    unbroken = run(maxfevals=800)
    monkeypatch.chdir(here)
    saved = lmma.checkpoint.Checkpoint("run.npz", every=0)
    run(maxfevals=200, checkpoint=saved, log="run.jsonl")
    assert names(elsewhere) == []
    assert names(here) == ["run.jsonl", "run.npz", "run.npz.prev"]
    resumed = run(maxfevals=800, checkpoint="run.npz", log="run.jsonl")
    assert (resumed.fun, resumed.nfev) == (unbroken.fun, unbroken.nfev)
    assert names(elsewhere) == []
    assert names(here) == ["run.jsonl", "run.npz", "run.npz.prev"]  # and no lock
    last = json.loads((here / "run.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert last["reason"] == resumed.reason


MODEL = """
import os

def loss(x):
    os.chdir("{elsewhere}")
    return float(x @ x)
"""


def test_output_files_of_a_command_are_written_where_it_was_typed(folders, capsys):
    here, elsewhere = folders
    (here / "moving_model.py").write_text(MODEL.format(elsewhere=elsewhere.as_posix()), encoding="utf-8")
    words = "minimize moving_model:loss --dim 3 --max-evaluations 60 --seed 1 --quiet"
    status = main([*words.split(), "--save-x", "best.npy", "--checkpoint", "run.npz", "--log", "run.jsonl"])
    assert (status, names(elsewhere)) == (0, [])
    assert {"best.npy", "run.npz", "run.jsonl"} <= set(names(here))
    assert os.path.samefile(os.curdir, here)
