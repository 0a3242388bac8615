"""Callbacks for TensorBoard, MLflow and W&B: ``minimize(..., callback=tensorboard("runs/first"))``.

Each tool is imported when its callback is created. The callbacks send best and median value, sigma, axis
ratio, scales, coordinates of the mean, failures, restarts, speed, noise and constraint violation.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, final

from lmma.run.observers.callback import Tracker

__all__ = ["mlflow", "tensorboard", "wandb"]


def tensorboard(writer: Any, *, every: float = 1.0, prefix: str = "") -> Tracker:
    """Return a ``callback=`` that logs a run to TensorBoard.

    Parameters
    ----------
    writer : str, path or SummaryWriter
        A folder, in which TensorBoard's own writer is opened (requires the extra ``tensorboard``); or a
        writer with ``add_scalar(name, value, step)``, such as those of torch and tensorboardX.
    every : float
        Minimum seconds between two points; the end of a run is always logged.
    prefix : str
        Prefix of all names.

    Raises
    ------
    ImportError
        If a folder is given and TensorBoard is not installed.
    """
    if not hasattr(writer, "add_scalar"):
        if not isinstance(writer, str | os.PathLike):
            raise TypeError(
                f"writer must be a folder or have a method add_scalar(name, value, step), got {writer!r:.80}"
            )
        try:
            from tensorboard.summary import Writer
        except ImportError as error:
            raise _missing("tensorboard", "TensorBoard") from error
        writer = Writer(os.fspath(writer))
    return TensorBoardTracker(writer, every, prefix)


def mlflow(run: Any = None, *, every: float = 1.0, prefix: str = "") -> Tracker:
    """Return a ``callback=`` that logs a run's metrics to MLflow.

    Parameters
    ----------
    run : str or mlflow.ActiveRun, optional
        The MLflow run or its id; by default the run that is active while lmma runs.
    every, prefix
        As in :func:`tensorboard`.

    Raises
    ------
    ImportError
        If MLflow is not installed.
    """
    try:
        import mlflow as module
    except ImportError as error:
        raise _missing("mlflow", "MLflow") from error
    run_id = run if run is None or isinstance(run, str) else run.info.run_id
    return MlflowTracker(module, run_id, every, prefix)


def wandb(run: Any = None, *, every: float = 1.0, prefix: str = "") -> Tracker:
    """Return a ``callback=`` that logs a run to Weights & Biases.

    Parameters
    ----------
    run : wandb.Run, optional
        The run returned by ``wandb.init(...)``; by default the active one.
    every, prefix
        As in :func:`tensorboard`.

    Raises
    ------
    ImportError
        If wandb is not installed.
    ValueError
        If no run is given and none is active.
    """
    if run is None:
        try:
            import wandb as module
        except ImportError as error:
            raise _missing("wandb", "Weights & Biases") from error
        run = module.run
        if run is None:
            raise ValueError("no wandb run is active; call wandb.init(...) first, or pass run=")
    return WandbTracker(run, every, prefix)


@final
class TensorBoardTracker(Tracker):
    """Tracker that writes scalars with a summary writer."""

    def __init__(self, writer: Any, every: float, prefix: str) -> None:
        super().__init__(every, prefix)
        self.writer = writer

    def send(self, values: Mapping[str, float], step: int) -> None:
        """Write each value."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def finish(self) -> None:
        """Flush the writer."""
        self.writer.flush()


@final
class MlflowTracker(Tracker):
    """Tracker that logs metrics with the module ``mlflow``."""

    def __init__(self, module: Any, run_id: str | None, every: float, prefix: str) -> None:
        super().__init__(every, prefix)
        self.module, self.run_id = module, run_id

    def send(self, values: Mapping[str, float], step: int) -> None:
        """Log all values in one request."""
        allowed = {_allowed(name): value for name, value in values.items()}
        if self.run_id is None:
            self.module.log_metrics(allowed, step=step)
        else:
            self.module.log_metrics(allowed, step=step, run_id=self.run_id)


@final
class WandbTracker(Tracker):
    """Tracker that logs to a wandb run."""

    def __init__(self, run: Any, every: float, prefix: str) -> None:
        super().__init__(every, prefix)
        self.run = run

    def send(self, values: Mapping[str, float], step: int) -> None:
        """Log all values in one call; wandb's own step counter is left to the user."""
        self.run.log({**values, f"{self.prefix}evaluations": step})


def _allowed(name: str) -> str:
    """Return a name that MLflow accepts, such as ``x.3`` for ``x[3]``."""
    return re.sub(r"[^\w\-./ ]", "_", re.sub(r"\[(\d+)\]", r".\1", name))


def _missing(extra: str, name: str) -> ImportError:
    from lmma._text import how_to_install

    return ImportError(f"lmma.integrations.{extra} needs {name}: {how_to_install(extra)}")
