"""Figures of experiments; matplotlib is imported when a figure is drawn.

===================  ===============================================================================
function             figure
===================  ===============================================================================
``draw``             panels of medians with quartile bands, as in the paper, from :class:`FigureData`
``time_per_sample``  internal cost over n, from the record of ``lmma bench cost``
``attack_gallery``   originals, differences and adversarial images
``attack_progress``  medians of an attack's objective over queries, by difficulty
``attack_success``   the share of images with an adversarial within each distance
===================  ===============================================================================

Each returns a ``matplotlib.figure.Figure``, which :func:`lmma.plotting.save` writes.
"""

from lmma_lab.plotting.attack import Bands, attack_gallery, attack_progress, attack_success
from lmma_lab.plotting.data import FigureData, Panel, Series
from lmma_lab.plotting.paper import draw
from lmma_lab.plotting.timings import time_per_sample

__all__ = [
    "Bands", "FigureData", "Panel", "Series", "attack_gallery", "attack_progress", "attack_success", "draw",
    "time_per_sample",
]  # fmt: skip
