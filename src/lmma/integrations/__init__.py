"""Integrations with other frameworks; each framework is imported only when its integration is used."""

from lmma.integrations.trackers import mlflow, tensorboard, wandb

__all__ = ["mlflow", "tensorboard", "wandb"]
