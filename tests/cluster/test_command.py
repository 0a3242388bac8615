"""``lmma minimize --cluster``."""

import json
import os

import pytest

from lmma.cli import main

WORDS = [
    "minimize",
    "model_for_clusters:loss",
    "--dim",
    "4",
    "--sigma0",
    "1",
    "--seed",
    "1",
    "--quiet",
    "--json",
]


@pytest.fixture
def model(tmp_path, monkeypatch):
    (tmp_path / "model_for_clusters.py").write_text(
        "import numpy as np\n\n\ndef scale(x):\n    return np.arange(1, len(x) + 1)\n\n\n"
        "def loss(x):\n    return float(x**2 @ scale(x))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize("replicate", [[], ["--replicate"]])
def test_the_command_runs_on_a_cluster_that_lacks_the_file(model, dask_cluster, capsys, replicate, tmp_path):
    address = dask_cluster.scheduler_address.replace("tcp://", "dask://")
    budget = ["--max-generations", "8"]
    assert main([*WORDS, *budget]) == 0
    here = json.loads(capsys.readouterr().out)
    saved = ["--checkpoint", str(tmp_path / "run.npz")]
    assert main([*WORDS, "--max-generations", "3", *saved, "--cluster", address, *replicate]) == 0
    assert main(["resume", str(tmp_path / "run.npz"), "--max-generations", "8", "--trust"]) == 0
    there = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert there["fun"] == here["fun"]
    assert there["x"] == here["x"]


def test_the_command_runs_on_ray(model, ray_session, capsys):
    assert main([*WORDS, "--max-generations", "5"]) == 0
    here = json.loads(capsys.readouterr().out)
    assert main([*WORDS, "--max-generations", "5", "--cluster", "ray://auto", "--replicate"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["x"] == here["x"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--replicate"], "specify it with --cluster"),
        (["--cluster", "dask://here:1", "--workers", "2"], "cannot be combined with --cluster"),
        (["--cluster", "slurm://here"], "dask://host:port"),
        (["--cluster", "dask://"], "dask://host:port"),
    ],
)
def test_wishes_that_cannot_be_met_are_rejected(model, words, complaint, capsys):
    assert os.path.exists("model_for_clusters.py")
    assert main([*WORDS, *words]) == 2
    assert complaint in capsys.readouterr().err
