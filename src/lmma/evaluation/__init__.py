"""How candidates become values."""

from lmma.evaluation.base import EvaluationOptions, Evaluator
from lmma.evaluation.choose import evaluator
from lmma.evaluation.failures import EvaluationError, Failure
from lmma.evaluation.serial import Serial, Vectorized

__all__ = [
    "EvaluationError", "EvaluationOptions", "Evaluator", "Failure", "Serial", "Vectorized", "evaluator",
]  # fmt: skip
