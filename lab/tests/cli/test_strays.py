"""Workers of an experiment do not import modules from the current directory."""

import subprocess

import pytest

from strays import command, lay_out


@pytest.mark.parametrize("method", ["csa-es", "own:Mine"])
def test_an_experiment_runs_nothing_that_lies_about(method, environment, tmp_path):
    imported = lay_out(tmp_path)
    (tmp_path / "own.py").write_text("import lmma\nclass Mine(lmma.MAES):\n    pass\n")
    words = ("compare", "--methods", f"ma-es,{method}", "--problems", "sphere", "--dims", 4, "--seeds", 1,
             "--workers", 2, "--budget", 100, "--out", tmp_path / "out")  # fmt: skip
    done = subprocess.run(command(*words), cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (tmp_path / "out" / "store.sqlite").exists(), done.stderr
    assert imported() == []
