"""The strategies of the paper, one file each; ``es.py`` holds what they share."""

from typing import TYPE_CHECKING, Any

from lmma.strategies.base import Strategy
from lmma.strategies.registry import CLASSES, methods, register, strategy, strategy_class

if TYPE_CHECKING:  # imported when asked for
    from lmma.strategies.acma import ACMAES
    from lmma.strategies.cma import CMAES
    from lmma.strategies.csa import CSAES
    from lmma.strategies.dlmma import DLMMAES
    from lmma.strategies.es import ES
    from lmma.strategies.lmcma import LMCMAES
    from lmma.strategies.lmma import LMMAES
    from lmma.strategies.lmma_archive import LMMAESArchive
    from lmma.strategies.ma import MAES
    from lmma.strategies.openes import OpenES
    from lmma.strategies.pulse import Pulse, PulseFull
    from lmma.strategies.sepcma import SepCMAES
    from lmma.strategies.vdcma import VDCMAES

__all__ = [
    "ACMAES",
    "CMAES",
    "CSAES",
    "DLMMAES",
    "ES",
    "LMCMAES",
    "LMMAES",
    "MAES",
    "VDCMAES",
    "LMMAESArchive",
    "OpenES",
    "Pulse",
    "PulseFull",
    "SepCMAES",
    "Strategy",
    "methods",
    "register",
    "strategy",
    "strategy_class",
]


def __getattr__(name: str) -> Any:
    if name in CLASSES:
        return strategy_class(CLASSES[name])
    if name == "ES":
        from lmma.strategies.es import ES

        return ES
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
