"""Figures of runs and campaigns."""

from lmma.output.plotting.convergence import convergence
from lmma.output.plotting.log import panels
from lmma.output.plotting.style import save

__all__ = ["convergence", "panels", "save"]
