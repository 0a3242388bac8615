import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def mpiexec():
    pytest.importorskip("mpi4py", reason="mpi4py is not installed: pip install 'lmma[mpi]'")
    launcher = Path(sys.executable).with_name("mpiexec")
    program = str(launcher) if launcher.exists() else shutil.which("mpiexec")
    if program is None:
        pytest.skip("there is no mpiexec")
    words = [program, "-n", "3", sys.executable, "-m", "mpi4py.futures"]
    probe = subprocess.run([*words, "-c", "print('works')"], capture_output=True, text=True, timeout=60)
    if "works" not in probe.stdout:
        pytest.skip(f"mpiexec does not run here: {probe.stderr[-300:]}")
    return words


def run(words, **options):
    path = os.pathsep.join([str(HERE.parent), *filter(None, sys.path)])
    return subprocess.run(
        words, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": path}, **options
    )


def test_an_mpi_pool_gives_the_same_run_and_counts_every_fault(mpiexec, tmp_path):
    done = run([*mpiexec, str(HERE / "mpi_run.py"), str(tmp_path)])
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["same"]
    assert found["deaths"] == found["faults"]["kill"]


def test_the_command_runs_under_mpiexec(mpiexec, tmp_path):
    (tmp_path / "model.py").write_text("def loss(x):\n    return float(x @ x)\n")
    words = ["minimize", "model:loss", "--dim", "4", "--sigma0", "1", "--seed", "1", "--max-generations", "9"]
    there = run([*mpiexec, "-m", "lmma", *words, "--cluster", "mpi", "--json"], cwd=tmp_path)
    here = run([sys.executable, "-m", "lmma", *words, "--json"], cwd=tmp_path)
    assert there.returncode == here.returncode == 0, there.stderr[-2000:]
    assert json.loads(there.stdout)["fun"] == json.loads(here.stdout)["fun"]


def test_without_mpiexec_the_message_names_the_command(tmp_path):
    pytest.importorskip(
        "mpi4py.MPI", reason="mpi4py is not installed: pip install 'lmma[mpi]'", exc_type=ImportError
    )
    words = ["minimize", "sphere", "--dim", "4", "--max-evaluations", "50", "--cluster", "mpi"]
    done = run([sys.executable, "-m", "lmma", *words], cwd=tmp_path)
    assert done.returncode == 2, done.stderr[-2000:]
    assert "start the run under mpiexec, for example mpiexec -n 5" in done.stderr
    assert len(done.stderr.splitlines()) == 1
