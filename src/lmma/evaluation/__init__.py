"""How candidates become values."""

from lmma.evaluation.base import Evaluator, Failure
from lmma.evaluation.local import Serial, Vectorized

__all__ = ["Evaluator", "Failure", "Serial", "Vectorized"]
