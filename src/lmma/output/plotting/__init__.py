"""Records -> figures: the only package that knows matplotlib, imported when a figure is made.

===================  ===============================================================================
function             what it draws
===================  ===============================================================================
``convergence``      best value and step size of runs over evaluations; under noise its quality
``panels``           a log in four panels: value, step size, step length, speed; two more under noise
``draw``             panels of medians with quartile bands, as in the paper, from :class:`FigureData`
``time_per_sample``  internal cost over n, from the record of ``lmma bench cost``
``attack_gallery``   originals, differences and adversarial images
``attack_progress``  medians of an attack's objective over queries, by difficulty
``attack_success``   the share of images with an adversarial within each distance
``save``             writes a figure as .png, .svg or .pdf
===================  ===============================================================================

All but ``save`` return a ``matplotlib.figure.Figure``; pyplot and its global state are left alone.
"""

from lmma.output.plotting.attack import Bands, attack_gallery, attack_progress, attack_success
from lmma.output.plotting.convergence import convergence
from lmma.output.plotting.data import FigureData, Panel, Series
from lmma.output.plotting.log import panels
from lmma.output.plotting.paper import draw
from lmma.output.plotting.style import save
from lmma.output.plotting.timings import time_per_sample

__all__ = [
    "Bands", "FigureData", "Panel", "Series", "attack_gallery", "attack_progress", "attack_success",
    "convergence", "draw", "panels", "save", "time_per_sample",
]  # fmt: skip
