"""Where and how often a run is saved: ``checkpoint=Checkpoint("run.npz", every=60)``."""

from lmma.run.checkpoint import Checkpoint, CheckpointError

__all__ = ["Checkpoint", "CheckpointError"]
