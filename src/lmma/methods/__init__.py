"""Methods, one file each; ``es.py`` is shared by those of the paper, ``ask_tell.py`` has the interface."""

from lmma.methods.ask_tell import Strategy
from lmma.methods.registry import METHODS, methods, register, strategy, strategy_class

__all__ = ["METHODS", "Strategy", "methods", "register", "strategy", "strategy_class"]
