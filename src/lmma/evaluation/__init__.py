"""How candidates become values."""

from lmma.evaluation.base import EvaluationError, Evaluator, Failure
from lmma.evaluation.choose import evaluator
from lmma.evaluation.serial import Serial, Vectorized

__all__ = ["EvaluationError", "Evaluator", "Failure", "Serial", "Vectorized", "evaluator"]
