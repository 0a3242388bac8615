"""Figures of runs. Only this package imports matplotlib, and only when a figure is made.

===================  ===============================================================================
function             figure
===================  ===============================================================================
``convergence``      best value and step size over evaluations; for noisy runs also the rank quality
``panels``           a log in four panels: value, step size, step length, speed; two more for noise
``save``             writes a figure to a .png, .svg or .pdf file
===================  ===============================================================================

The first two return a ``matplotlib.figure.Figure``; pyplot and its global state are not used.
"""

from lmma.output.plotting.convergence import convergence
from lmma.output.plotting.log import panels
from lmma.output.plotting.style import save

__all__ = ["convergence", "panels", "save"]
