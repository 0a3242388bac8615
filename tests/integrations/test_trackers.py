"""Runs logged to TensorBoard, MLflow and Weights & Biases, if installed; their failures do not end a run."""

import importlib
import logging
import math
import sys
import warnings
from collections import defaultdict

import numpy as np
import pytest

import lmma
from lmma.integrations.trackers import mlflow, tensorboard, wandb

EXPECTED = {
    "value/best", "value/median", "search/sigma", "search/axis_ratio", "scales/shortest", "scales/longest",
    "scales/median", "run/failures", "run/restarts", "noise/quality", "run/evaluations_per_second",
}  # fmt: skip


def sphere(x):
    return math.nan if x[0] > 2.5 else float(x @ x)


def minimised(callback, **options):
    given = {"rng": 1, "maxiter": 40, "values": "ranks", "noise": None, **options}
    return lmma.minimize(sphere, np.full(4, 2.0), 0.5, callback=callback, **given)


def real(module):
    """Return a module, or skip; what it warns of when it is imported is not ours to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(module, reason=f"{module} is not installed: pip install 'lmma[{module}]'")


class Writer:
    """Stands in for a summary writer."""

    def __init__(self):
        self.scalars = defaultdict(list)
        self.flushed = 0

    def add_scalar(self, name, value, step):
        self.scalars[name].append((step, value))

    def flush(self):
        self.flushed += 1


def test_every_generation_is_sent_when_asked_for():
    writer = Writer()
    tracker = tensorboard(writer, every=0)
    result = minimised(tracker)
    assert writer.scalars.keys() >= EXPECTED | {"mean/x[0]", "scales/x[3]"}
    assert len(writer.scalars["value/best"]) == 40 == tracker.sent
    assert writer.scalars["value/best"][-1] == (result.nfev, result.fun)
    assert writer.scalars["search/sigma"][-1][1] == result.sigma
    assert writer.scalars["run/failures"][-1][1] == result.failures > 0
    assert writer.flushed == 1
    assert tracker.problem == ""


def test_the_end_of_a_run_is_sent_however_seldom_points_are():
    writer = Writer()
    result = minimised(tensorboard(writer, every=1e9, prefix="a/"))
    assert [step for step, _ in writer.scalars["a/value/best"]] == [result.nfev // 40, result.nfev]


def test_tracking_changes_nothing_of_a_run():
    plain = minimised(None)
    tracked = minimised(tensorboard(Writer(), every=0))
    assert np.array_equal(plain.x, tracked.x)
    assert (plain.nfev, plain.message) == (tracked.nfev, tracked.message)


def test_names_of_a_space_noise_and_constraints_are_sent():
    writer = Writer()
    space = lmma.Space(rate=lmma.Real(0.0, 5.0), width=lmma.Real(0.0, 5.0))
    lmma.minimize(lambda rate, width: (rate - 1) ** 2 + width, space, rng=1, maxiter=5,
                  callback=tensorboard(writer, every=0))  # fmt: skip
    assert {"mean/rate", "scales/width"} <= writer.scalars.keys()
    assert "constraints/violation" not in writer.scalars
    limit = {"type": "ineq", "fun": lambda x: x[0] - 1}
    lmma.minimize(lambda x: float(x @ x), np.full(3, 2.0), 0.5, rng=1, maxiter=5, constraints=limit,
                  noise="auto", callback=tensorboard(writer, every=0))  # fmt: skip
    assert "constraints/violation" in writer.scalars


class Failing(Writer):
    def add_scalar(self, name, value, step):
        raise OSError("No space left on device")

    flush = None


def test_a_tracker_that_fails_ends_no_run_and_is_said_once(caplog):
    tracker = tensorboard(Failing(), every=0)
    with caplog.at_level(logging.WARNING, "lmma"):
        result = minimised(tracker)
    assert result.nit == 40
    assert np.array_equal(result.x, minimised(None).x)
    assert [record.message for record in caplog.records] == [
        "TensorBoardTracker failed; the run continues without it: OSError: No space left on device"
    ]
    assert 1 < tracker.failed < 5  # it waits after a failure; the end of the run is tried again
    assert tracker.sent == 0


def test_ctrl_c_in_a_tracker_is_the_users():
    class Interrupted(Writer):
        def add_scalar(self, name, value, step):
            raise KeyboardInterrupt

    assert minimised(tensorboard(Interrupted(), every=0)).reason == "interrupted"


def test_a_tracker_is_a_callback_for_scipy_too():
    from scipy.optimize import minimize

    writer = Writer()
    options = {"sigma0": 0.5, "rng": 1, "maxiter": 5}
    callback = tensorboard(writer, every=0)
    minimize(sphere, np.full(4, 2.0), method=lmma.scipy_method("ma-es"), callback=callback, options=options)
    assert len(writer.scalars["value/best"]) == 5


@pytest.mark.parametrize(
    ("make", "module", "name"),
    [(lambda: tensorboard("runs"), "tensorboard.summary", "TensorBoard"), (mlflow, "mlflow", "MLflow"),
     (wandb, "wandb", "Weights & Biases")],
    ids=["tensorboard", "mlflow", "wandb"],
)  # fmt: skip
def test_a_missing_tool_is_named_with_its_extra(make, module, name, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs {name}: pip install .*\[{module.partition('.')[0]}\]"):
        make()


def test_an_invalid_writer_or_interval_is_rejected():
    with pytest.raises(TypeError, match="writer must be"):
        tensorboard(3)
    with pytest.raises(ValueError, match="every must be"):
        tensorboard(Writer(), every=-1)


def test_no_tool_is_imported_before_it_is_asked_for(python):
    said = python("-c", "import sys, lmma.integrations as i; i.tensorboard; print(sorted(sys.modules))")
    assert not any(f"'{name}'" in said for name in ("tensorboard", "mlflow", "wandb", "optuna", "optimagic"))


def test_tensorboard_reads_what_was_written(tmp_path):
    real("tensorboard")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = minimised(tensorboard(tmp_path / "runs", every=0))
        reader = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
        events = reader.EventAccumulator(str(tmp_path / "runs"), size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()
        tags = events.Tags()["tensors"]
        last = events.Tensors("value/best")[-1]
        value = importlib.import_module("tensorboard.util.tensor_util").make_ndarray(last.tensor_proto)
    assert set(tags) >= EXPECTED
    assert last.step == result.nfev
    assert float(value) == pytest.approx(result.fun, rel=1e-6)


@pytest.mark.parametrize("store", ["sqlite", "file"])
def test_mlflow_keeps_what_was_logged(store, tmp_path, monkeypatch):
    module = real("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module.set_tracking_uri(
            f"sqlite:///{tmp_path}/m.db" if store == "sqlite" else (tmp_path / "s").as_uri()
        )
        with module.start_run() as run:
            result = minimised(mlflow(every=0))
        client = module.MlflowClient()
        kept = client.get_run(run.info.run_id).data.metrics
        curve = client.get_metric_history(run.info.run_id, "value/best")
        other = client.create_run("0").info.run_id
        minimised(mlflow(other, every=1e9))
        again = client.get_run(other).data.metrics
    assert kept.keys() >= EXPECTED | {"mean/x.0"}
    assert kept["value/best"] == again["value/best"] == pytest.approx(result.fun)
    assert len(curve) == 40
    assert max(point.step for point in curve) == result.nfev


def test_wandb_keeps_what_was_logged_offline(tmp_path, monkeypatch):
    module = real("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    with pytest.raises(ValueError, match=r"wandb\.init"):
        wandb()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = module.init(project="test", dir=tmp_path, settings=module.Settings(console="off"))
        try:
            result = minimised(wandb(every=0))
            kept = dict(run.summary)
        finally:
            run.finish()
    assert kept.keys() >= EXPECTED
    assert kept["value/best"] == pytest.approx(result.fun)
    assert kept["evaluations"] == result.nfev
    assert list(tmp_path.glob("wandb/offline-run-*"))
