"""Curves in TensorBoard or MLflow with a callback of a few lines."""

import numpy as np

import lmma


def to_tensorboard(writer):
    """Return a callback that draws a run; ``writer`` is a ``torch.utils.tensorboard.SummaryWriter``."""

    def callback(intermediate_result):
        now = intermediate_result
        writer.add_scalar("best value", now.fun, now.nfev)
        writer.add_scalar("step size", now.sigma, now.nfev)
        writer.add_scalar("failures", now.failures, now.nfev)

    return callback


def to_mlflow(mlflow):
    """Return a callback that logs a run to the active run of the module ``mlflow``."""

    def callback(intermediate_result):
        now = intermediate_result
        mlflow.log_metrics({"best": now.fun, "sigma": now.sigma, "failures": now.failures}, step=now.nfev)

    return callback


class Printed:
    """Stands in for a writer where TensorBoard is not installed."""

    def add_scalar(self, name, value, step):
        if name == "best value":
            print(f"{step:>6} evaluations: {value:.3e}")


if __name__ == "__main__":
    try:
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter()
    except ImportError:
        writer = Printed()
    lmma.minimize(
        lambda x: float(x @ x), np.ones(20), 1.0, rng=1, ftarget=1e-8, callback=to_tensorboard(writer)
    )
