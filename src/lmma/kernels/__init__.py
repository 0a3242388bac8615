"""Hot loops: drawing, transforming and recombining candidates.

The same few functions exist twice: in plain NumPy (``twin.py``, always available) and compiled.
"""

from lmma.kernels.twin import Key, fold, lm_sample, lm_update, normals, recombine

__all__ = ["Key", "fold", "lm_sample", "lm_update", "normals", "recombine"]
