"""The examples about watching and leaving alone, run as they stand."""

import importlib.util
import runpy
from pathlib import Path

import numpy as np

import lmma

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_long_run_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script = str(EXAMPLES / "long_run.py")
    first = runpy.run_path(script)["result"]
    again = runpy.run_path(script)["result"]
    assert first.success
    assert first.failed.keys() <= {"RuntimeError"}
    assert np.array_equal(first.x, again.x)
    assert "evaluations" in capsys.readouterr().out


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
