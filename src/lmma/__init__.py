"""Large-scale black-box optimisation by limited-memory matrix adaptation.

:func:`minimize` is the whole of it for most; :func:`strategy` and the classes give the loop of ask and tell
to who wants it. What is listed here is public; it is imported when it is first asked for.

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

# These two at once: a module of the same name would otherwise take the function's place when it is imported.
from lmma.minimize import minimize
from lmma.scipy_method import scipy_method

if TYPE_CHECKING:
    from lmma import (
        attack,
        bounds,
        checkpoint,
        cluster,
        constraints,
        plotting,
        problems,
        restarts,
        space,
        testing,
    )
    from lmma.checkpoint import Checkpoint, CheckpointError
    from lmma.cluster import ClusterError, Replicated
    from lmma.evaluation import EvaluationError
    from lmma.restarts import BIPOP, IPOP
    from lmma.run.result_file import load
    from lmma.space import Choice, Fixed, Integer, Real, Space, Tree
    from lmma.strategies import (
        ACMAES,
        CMAES,
        CSAES,
        DLMMAES,
        LMCMAES,
        LMMAES,
        MAES,
        VDCMAES,
        LMMAESArchive,
        OpenES,
        Pulse,
        PulseFull,
        SepCMAES,
        Strategy,
        methods,
        register,
        strategy,
    )
    from lmma.strategies.es import ES

__all__ = [
    "ACMAES",
    "BIPOP",
    "CMAES",
    "CSAES",
    "DLMMAES",
    "ES",
    "IPOP",
    "LMCMAES",
    "LMMAES",
    "MAES",
    "VDCMAES",
    "Checkpoint",
    "CheckpointError",
    "Choice",
    "ClusterError",
    "EvaluationError",
    "Fixed",
    "Integer",
    "LMMAESArchive",
    "OpenES",
    "Pulse",
    "PulseFull",
    "Real",
    "Replicated",
    "SepCMAES",
    "Space",
    "Strategy",
    "Tree",
    "__version__",
    "attack",
    "bounds",
    "checkpoint",
    "cluster",
    "constraints",
    "load",
    "methods",
    "minimize",
    "plotting",
    "problems",
    "register",
    "restarts",
    "scipy_method",
    "space",
    "strategy",
    "testing",
]

# Where a public name is at home, if not in lmma.strategies; None for a module
_HOMES: dict[str, str | None] = {
    **dict.fromkeys(
        (
            "attack",
            "bounds",
            "checkpoint",
            "cluster",
            "constraints",
            "plotting",
            "problems",
            "restarts",
            "space",
            "testing",
        )
    ),
    **dict.fromkeys(("Checkpoint", "CheckpointError"), "lmma.checkpoint"),
    **dict.fromkeys(("ClusterError", "Replicated"), "lmma.cluster"),
    **dict.fromkeys(("BIPOP", "IPOP"), "lmma.restarts"),
    **dict.fromkeys(("Choice", "Fixed", "Integer", "Real", "Space", "Tree"), "lmma.space"),
    "ES": "lmma.strategies.es",
    "EvaluationError": "lmma.evaluation",
    "load": "lmma.run.result_file",
}

if not TYPE_CHECKING:  # or a type checker would take any name for public

    def __getattr__(name: str) -> Any:
        """Import what is public when it is first asked for."""
        if name not in __all__:
            raise AttributeError(f"module 'lmma' has no attribute {name!r}")
        home = _HOMES.get(name, "lmma.strategies")
        value = import_module(f"lmma.{name}") if home is None else getattr(import_module(home), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Return what is public."""
        return sorted(__all__)
