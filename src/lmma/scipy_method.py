"""``scipy.optimize.minimize(fun, x0, method=lmma.scipy_method("lm-ma-es"), options={...})``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lmma.minimize import minimize

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

DERIVATIVES = ("jac", "hess", "hessp")  # SciPy passes them along; a black-box method has no use for them


def scipy_method(name: str = "auto") -> Callable[..., OptimizeResult]:
    """Return a ``method=`` for :func:`scipy.optimize.minimize`.

    Parameters
    ----------
    name : str
        A method as :func:`lmma.minimize` takes it.

    Returns
    -------
    callable
        To be passed as ``method=``. Its ``options`` are the keyword arguments of :func:`lmma.minimize`;
        SciPy's own ``maxfev``, ``tol`` and ``disp`` are understood as well, and ``jac``, ``hess`` and
        ``hessp`` are left unused. Constraints reach it as functions, as SciPy makes them: call
        :func:`lmma.minimize` for linear equalities that every candidate keeps.

    Raises
    ------
    ValueError
        If there is no method of that name.

    See Also
    --------
    lmma.minimize : The same without SciPy's detour.

    References
    ----------
    "Custom minimizers" in SciPy's documentation of :func:`scipy.optimize.minimize`.

    Examples
    --------
    >>> import lmma
    >>> from scipy.optimize import minimize, rosen
    >>> options = {"sigma0": 0.5, "rng": 1}
    >>> result = minimize(rosen, [0.0] * 5, method=lmma.scipy_method("ma-es"), options=options)
    >>> result.x.round(3).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    if name != "auto":
        from lmma.strategies import strategy_class  # imported here, as `import lmma` is to cost little

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
        if constraints is not None and len(constraints):
            options["constraints"] = constraints
        return minimize(fun, x0, args=args, method=name, callback=callback, **options)

    return method
