"""Figures of runs; :mod:`lmma.output.plotting` lists them."""

from lmma.output.plotting import *  # noqa: F403 (its __all__ is the list)
from lmma.output.plotting import __all__ as __all__
