"""``scipy.optimize.minimize(fun, x0, method=lmma.scipy_method("lm-ma-es"), options={...})``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lmma.minimize import minimize
from lmma.strategies import strategy_class

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

DERIVATIVES = ("jac", "hess", "hessp")  # SciPy passes them along; a black-box method has no use for them


def scipy_method(name: str = "auto") -> Callable[..., OptimizeResult]:
    """Return a ``method=`` for :func:`scipy.optimize.minimize`.

    ``options`` are the keyword arguments of :func:`lmma.minimize`; SciPy's own names ``maxfev``, ``tol``
    and ``disp`` are understood as well.
    """
    if name != "auto":
        strategy_class(name)

    def method(
        fun: Callable[..., Any],
        x0: Any,
        args: tuple[Any, ...] = (),
        bounds: Any = None,
        constraints: Any = (),
        callback: Callable[..., Any] | None = None,
        tol: float | None = None,
        maxfev: int | None = None,
        disp: bool = False,
        **options: Any,
    ) -> OptimizeResult:
        if constraints is not None and constraints != () and constraints != []:
            raise ValueError(f"{name} handles bounds but no constraints: add a penalty to fun instead")
        for derivative in DERIVATIVES:
            options.pop(derivative, None)
        if tol is not None:
            options.setdefault("tolx", tol)
            options.setdefault("tolfun", tol)
        if maxfev is not None:
            options.setdefault("maxfevals", maxfev)
        options.setdefault("progress", disp)
        if bounds is not None:
            options["bounds"] = bounds
        return minimize(fun, x0, args=args, method=name, callback=callback, **options)

    return method
