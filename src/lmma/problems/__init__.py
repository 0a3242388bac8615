"""Test functions for optimisers: Table 1 of the paper, optionally shifted and rotated.

>>> from lmma import problems
>>> cigar = problems.get("rotated-cigar")
>>> cigar(cigar.x_opt(10)) < 1e-20
True
"""

from lmma.problems.base import Problem
from lmma.problems.registry import get, names
from lmma.problems.wrappers import rotated, shifted

__all__ = ["Problem", "get", "names", "rotated", "shifted"]
