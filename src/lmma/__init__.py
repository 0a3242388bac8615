"""Large-scale black-box optimisation by limited-memory matrix adaptation."""

from lmma.minimize import minimize
from lmma.scipy_method import scipy_method
from lmma.strategies import CMAES, CSAES, DDMAES, DLMMAES, DLRES, LMMAES, MAES, Strategy, methods, strategy

__version__ = "0.1.0"

__all__ = [
    "CMAES",
    "CSAES",
    "DDMAES",
    "DLMMAES",
    "DLRES",
    "LMMAES",
    "MAES",
    "Strategy",
    "methods",
    "minimize",
    "scipy_method",
    "strategy",
]
