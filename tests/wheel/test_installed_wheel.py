"""Checks of an installed wheel, run by cibuildwheel on every platform with pytest only."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import lmma
from lmma import kernels


def lmma_command(*words, folder):
    """Run the installed command in an empty folder; return what it printed."""
    name = "lmma.exe" if os.name == "nt" else "lmma"
    command = Path(sysconfig.get_path("scripts")) / name
    start = [str(command)] if command.exists() else [sys.executable, "-m", "lmma"]
    done = subprocess.run([*start, *words], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rosenbrock(x):
    return float(((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum())


@pytest.mark.skipif(os.environ.get("LMMA_KERNELS") == "numpy", reason="LMMA_KERNELS=numpy")
def test_the_compiled_core_is_there():
    from lmma.kernels import _core

    assert kernels.missing is None
    assert kernels.in_use().startswith("compiled")
    assert _core.__file__ is not None


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_compiled_normals_equal_those_of_the_reference(dtype):
    from lmma.kernels import reference

    ours, theirs = np.empty((7, 1001), dtype), np.empty((7, 1001), dtype)
    kernels.normals((1, 2), 3, 4, ours)
    reference.normals((1, 2), 3, 4, theirs)
    # both compute from the same words; sine and logarithm may differ by a few last bits
    assert np.max(np.abs(ours - theirs)) < 40 * np.finfo(dtype).eps


@pytest.mark.parametrize("method", ["auto", "lm-ma-es", "ma-es", "d-lm-ma-es", "lm-cma-es"])
def test_a_valley_is_solved(method):
    result = lmma.minimize(rosenbrock, np.zeros(6), 0.3, method=method, rng=1, ftarget=1e-8, restarts=3)
    assert result.success
    assert rosenbrock(result.x) == result.fun <= 1e-8


def test_a_checkpoint_is_gone_on_from(tmp_path):
    file = tmp_path / "run.npz"
    call = {"x0": np.zeros(6), "sigma0": 0.3, "rng": 1}
    whole = lmma.minimize(rosenbrock, **call, maxiter=60)
    lmma.minimize(rosenbrock, **call, maxiter=30, checkpoint=file)
    parts = lmma.minimize(rosenbrock, **call, maxiter=60, checkpoint=file)
    assert np.array_equal(whole.x, parts.x)
    assert (whole.nfev, whole.nit) == (parts.nfev, parts.nit)


def test_workers_work_or_are_rejected_with_a_way_out():
    call = {"x0": np.zeros(4), "sigma0": 0.3, "rng": 1, "maxiter": 5}
    if os.name != "posix":
        with pytest.raises(ValueError, match="executor"):
            lmma.minimize(rosenbrock, **call, workers=2)
        return
    result = lmma.minimize(rosenbrock, **call, workers=2)
    assert result.failures == 0
    assert result.x.tolist() == lmma.minimize(rosenbrock, **call).x.tolist()


def test_the_command_solves_a_problem(tmp_path):
    words = ["minimize", "rotated-ellipsoid", "--dim", "8", "--seed", "1", "--target", "1e-8", "--json"]
    answer = json.loads(lmma_command(*words, folder=tmp_path))
    assert answer["success"]
    assert answer["fun"] <= 1e-8
    assert lmma.__version__ in lmma_command("--version", folder=tmp_path)
