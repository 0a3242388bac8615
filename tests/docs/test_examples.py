"""The examples on monitoring and unattended runs work unchanged."""

import importlib.util
import runpy
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest

import lmma

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_long_run_continues_where_it_was_interrupted(tmp_path):
    text = (EXAMPLES / "long_run.py").read_text(encoding="utf-8")
    folders = [tmp_path / "whole", tmp_path / "parts"]
    results = []
    for folder in folders:
        folder.mkdir()
    with chdir(folders[0]):
        results.append(runpy.run_path(str(EXAMPLES / "long_run.py"))["result"])
    with chdir(folders[1]):
        assert "ftarget=1e-8" in text
        Path("short.py").write_text(text.replace("ftarget=1e-8", "ftarget=1e-8, maxiter=3"))
        assert runpy.run_path("short.py")["result"].nit == 3
        begun = Path("run.jsonl").read_text()
        results.append(runpy.run_path(str(EXAMPLES / "long_run.py"))["result"])
        assert Path("run.jsonl").read_text().startswith(begun)  # times and all: they were not made again
    whole, parts = results
    assert whole.success
    assert whole.failed == parts.failed == {"RuntimeError": whole.failures}
    assert np.array_equal(whole.x, parts.x)


def test_callbacks_for_other_tools_see_the_run():
    spec = importlib.util.spec_from_file_location("callbacks", EXAMPLES / "tensorboard_mlflow.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    scalars, metrics = [], []

    class Writer:
        def add_scalar(self, name, value, step):
            scalars.append((name, value, step))

    class Mlflow:
        @staticmethod
        def log_metrics(values, step):
            metrics.append((step, values))

    fun = lambda x: float(x @ x)  # noqa: E731
    for callback in (module.to_tensorboard(Writer()), module.to_mlflow(Mlflow)):
        result = lmma.minimize(fun, np.ones(3), 1.0, rng=1, maxiter=5, callback=callback)
    assert len(scalars) == 15
    assert metrics[-1] == (result.nfev, {"best": result.fun, "sigma": result.sigma, "failures": 0})


def test_a_network_learns_to_read_digits():
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'lmma[torch]'")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install scikit-learn")
    ran = runpy.run_path(str(EXAMPLES / "digits_network.py"))
    assert ran["result"].vector.shape == (9610,)
    assert ran["accuracy"] > 0.8
