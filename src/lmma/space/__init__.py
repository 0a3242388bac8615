"""Spaces: named variables of all kinds, or the numbers of a structure, in place of a vector of reals."""

from lmma.space.space import Space
from lmma.space.tree import Tree
from lmma.space.variables import Choice, Fixed, Integer, Real, Variable

__all__ = ["Choice", "Fixed", "Integer", "Real", "Space", "Tree", "Variable"]
