"""Spaces: named variables of all kinds in place of a vector of reals."""

from lmma.space.space import Space
from lmma.space.variables import Choice, Fixed, Integer, Real, Variable

__all__ = ["Choice", "Fixed", "Integer", "Real", "Space", "Variable"]
