"""Large-scale black-box optimisation by limited-memory matrix adaptation."""

from lmma.minimize import minimize
from lmma.scipy_method import scipy_method
from lmma.strategies import CMAES, CSAES, LMMAES, MAES, Strategy, methods, strategy
from lmma.version import __version__ as __version__

__all__ = [
    "CMAES",
    "CSAES",
    "LMMAES",
    "MAES",
    "Strategy",
    "methods",
    "minimize",
    "scipy_method",
    "strategy",
]
