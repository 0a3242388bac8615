"""Bring lmma into other frameworks; each is imported by who uses it, and by nobody else."""

from lmma.integrations.trackers import mlflow, tensorboard, wandb

__all__ = ["mlflow", "tensorboard", "wandb"]
