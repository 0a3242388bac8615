"""Where and how often a run is saved, for ``checkpoint=``.

A path alone is enough; a :class:`Checkpoint` says more. A run that finds its file goes on from it, to the
same end as without the interruption; a file that is damaged or of another run raises
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
(80, 800)
"""

from lmma.run.checkpoint import Checkpoint, CheckpointError

__all__ = ["Checkpoint", "CheckpointError"]
