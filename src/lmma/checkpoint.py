"""Checkpoints, for ``checkpoint=``.

Pass a path, or a :class:`Checkpoint` to set how often the run is saved. If the file exists, the run resumes
from it and gives the same result as without the interruption. A damaged file, or one of another run, raises
:class:`CheckpointError`.

Examples
--------
>>> import tempfile, lmma
>>> from pathlib import Path
>>> from lmma.checkpoint import Checkpoint
>>> def sphere(x):
...     return float(x @ x)
>>> with tempfile.TemporaryDirectory() as folder:
...     saved = Checkpoint(Path(folder) / "run.npz", every=60)
...     first = lmma.minimize(sphere, [1.0] * 5, 0.5, rng=1, maxfevals=80, checkpoint=saved)
...     longer = lmma.minimize(sphere, [1.0] * 5, 0.5, rng=1, maxfevals=800, checkpoint=saved)
>>> first.nfev, longer.nfev
(75, 95)
"""

from lmma.run.checkpoint import Checkpoint, CheckpointError

__all__ = ["Checkpoint", "CheckpointError"]
