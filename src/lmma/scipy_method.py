"""Adapter for ``scipy.optimize.minimize(fun, x0, method=lmma.scipy_method("lm-ma-es"), ...)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from lmma.minimize import minimize

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

DERIVATIVES = ("jac", "hess", "hessp")  # passed by SciPy, ignored here


@overload
def scipy_method(name: str = "auto") -> Callable[..., OptimizeResult]: ...


@overload
def scipy_method(name: Callable[..., Any], *x0: Any, **options: Any) -> OptimizeResult: ...


def scipy_method(name: Any = "auto", *x0: Any, **options: Any) -> Any:
    """Return a ``method=`` for :func:`scipy.optimize.minimize`.

    ``method=lmma.scipy_method``, without calling it, also works and means ``"auto"``.

    Parameters
    ----------
    name : str
        A method name, as for :func:`lmma.minimize`.

    Returns
    -------
    callable
        The value for ``method=``. ``options`` accepts the keyword arguments of :func:`lmma.minimize`, and
        SciPy's ``maxfev``, ``tol`` and ``disp``; ``jac``, ``hess`` and ``hessp`` are ignored. SciPy passes
        all constraints as functions. To keep linear equalities exactly, call :func:`lmma.minimize`.

    Raises
    ------
    ValueError
        If the method is unknown.

    See Also
    --------
    lmma.minimize : The same, called directly.

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
    if x0:  # called by SciPy: name is the objective
        return scipy_method()(name, *x0, **options)
    if options:
        raise TypeError(f"scipy_method() takes a name alone; pass {', '.join(options)} in SciPy's options=")
    if name != "auto":
        from lmma.methods import strategy_class  # imported here to keep `import lmma` fast

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
