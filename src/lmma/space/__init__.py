"""Search spaces of named variables, and trees of numbers, encoded as vectors."""

from lmma.space.space import Space
from lmma.space.tree import Tree
from lmma.space.variables import Choice, Fixed, Integer, Real, Variable

__all__ = ["Choice", "Fixed", "Integer", "Real", "Space", "Tree", "Variable"]
