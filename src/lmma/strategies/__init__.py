"""The strategies of the paper, one file each; ``es.py`` holds what they share."""

# ruff: noqa: I001  (strategies register in the order of the paper)
from lmma.strategies.base import Strategy
from lmma.strategies.csa import CSAES
from lmma.strategies.cma import CMAES
from lmma.strategies.ma import MAES
from lmma.strategies.lmma import LMMAES
from lmma.strategies.lmma_archive import LMMAESArchive
from lmma.strategies.acma import ACMAES
from lmma.strategies.lmcma import LMCMAES
from lmma.strategies.vdcma import VDCMAES
from lmma.strategies.sepcma import SepCMAES
from lmma.strategies.dlmma import DLMMAES
from lmma.strategies.ddma import DDMAES, DLRES
from lmma.strategies.registry import methods, register, strategy, strategy_class

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
    "register",
    "strategy",
    "strategy_class",
]
