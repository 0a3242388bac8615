"""Large-scale black-box optimisation by limited-memory matrix adaptation.

Most users only need :func:`minimize`; :func:`strategy` and the classes expose the ask/tell loop. The names
listed here are public; each is imported on first use.

Examples
--------
>>> import lmma
>>> result = lmma.minimize(lambda x: sum((x - 1) ** 2), x0=[0.0] * 10, sigma0=0.5, rng=1)
>>> result.success
True
>>> result.x.round(3).tolist()
[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
"""

__version__ = "0.1.0"

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Imported now: otherwise a later import of the module of the same name would replace the function.
from lmma.methods import METHODS as _METHODS, methods as methods
from lmma.minimize import minimize as minimize
from lmma.scipy_method import scipy_method as scipy_method

if TYPE_CHECKING:  # the names in _PUBLIC, for type checkers; a test compares the two
    from lmma import (
        archive as archive,
        bounds as bounds,
        checkpoint as checkpoint,
        cluster as cluster,
        constraints as constraints,
        integrations as integrations,
        plotting as plotting,
        problems as problems,
        restarts as restarts,
        space as space,
        testing as testing,
    )
    from lmma.archive import Archive as Archive, ArchiveError as ArchiveError
    from lmma.checking.check import check as check
    from lmma.checking.report import CheckResult as CheckResult
    from lmma.checkpoint import Checkpoint as Checkpoint, CheckpointError as CheckpointError
    from lmma.cluster import ClusterError as ClusterError, Replicated as Replicated
    from lmma.evaluation import EvaluationError as EvaluationError
    from lmma.methods import Strategy as Strategy, register as register, strategy as strategy
    from lmma.methods.acma import ACMAES as ACMAES
    from lmma.methods.cma import CMAES as CMAES
    from lmma.methods.coordinates import Coordinates as Coordinates
    from lmma.methods.csa import CSAES as CSAES
    from lmma.methods.dlmma import DLMMAES as DLMMAES
    from lmma.methods.es import ES as ES
    from lmma.methods.interpolation import Interpolation as Interpolation
    from lmma.methods.lmcma import LMCMAES as LMCMAES
    from lmma.methods.lmma import LMMAES as LMMAES
    from lmma.methods.lmma_archive import LMMAESArchive as LMMAESArchive
    from lmma.methods.ma import MAES as MAES
    from lmma.methods.openes import OpenES as OpenES
    from lmma.methods.portfolio import Portfolio as Portfolio
    from lmma.methods.pulse.method import Pulse as Pulse, PulseFull as PulseFull
    from lmma.methods.quasi_newton import QuasiNewton as QuasiNewton
    from lmma.methods.sepcma import SepCMAES as SepCMAES
    from lmma.methods.vdcma import VDCMAES as VDCMAES
    from lmma.restarts import BIPOP as BIPOP, IPOP as IPOP
    from lmma.run.result import RunResult as RunResult
    from lmma.run.result_file import load as load
    from lmma.space import (
        Choice as Choice,
        Fixed as Fixed,
        Integer as Integer,
        Real as Real,
        Space as Space,
        Tree as Tree,
    )

# Public names by the module that defines each ("lmma": submodules). Names of methods are added below.
_NAMES = {
    "lmma": (
        "archive", "bounds", "checkpoint", "cluster", "constraints", "integrations", "plotting", "problems",
        "restarts", "space", "testing",
    ),
    "lmma.archive": ("Archive", "ArchiveError"),
    "lmma.checking.check": ("check",),
    "lmma.checking.report": ("CheckResult",),
    "lmma.checkpoint": ("Checkpoint", "CheckpointError"),
    "lmma.cluster": ("ClusterError", "Replicated"),
    "lmma.evaluation": ("EvaluationError",),
    "lmma.methods": ("Strategy", "methods", "register", "strategy"),
    "lmma.methods.es": ("ES",),
    "lmma.minimize": ("minimize",),
    "lmma.restarts": ("BIPOP", "IPOP"),
    "lmma.run.result": ("RunResult",),
    "lmma.run.result_file": ("load",),
    "lmma.scipy_method": ("scipy_method",),
    "lmma.space": ("Choice", "Fixed", "Integer", "Real", "Space", "Tree"),
}  # fmt: skip
_PUBLIC = {name: module for module, names in _NAMES.items() for name in names}
_PUBLIC |= {name: module for module, name in (place.split(":") for place in _METHODS.values())}
__all__ = sorted(["__version__", *_PUBLIC])

if not TYPE_CHECKING:  # with __getattr__, a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Import a public name on first use."""
        if name not in _PUBLIC:
            from lmma._text import nearest

            hint = "" if name.startswith("_") else nearest(name, _PUBLIC)
            raise AttributeError(f"module 'lmma' has no attribute {name!r}{hint}")
        home = _PUBLIC[name]
        value = import_module(f"lmma.{name}") if home == "lmma" else getattr(import_module(home), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Return the public names."""
        return __all__
