"""Large-scale black-box optimisation by limited-memory matrix adaptation."""

__version__ = "0.1.0"

from lmma.minimize import minimize
from lmma.scipy_method import scipy_method
from lmma.strategies import (
    ACMAES,
    CMAES,
    CSAES,
    DDMAES,
    DLMMAES,
    DLRES,
    LMCMAES,
    LMMAES,
    MAES,
    VDCMAES,
    LMMAESArchive,
    SepCMAES,
    Strategy,
    methods,
    strategy,
)

__all__ = [
    "ACMAES",
    "CMAES",
    "CSAES",
    "DDMAES",
    "DLMMAES",
    "DLRES",
    "LMCMAES",
    "LMMAES",
    "MAES",
    "VDCMAES",
    "LMMAESArchive",
    "SepCMAES",
    "Strategy",
    "methods",
    "minimize",
    "scipy_method",
    "strategy",
]
