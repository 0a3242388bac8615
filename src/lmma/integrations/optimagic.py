"""Algorithm for optimagic: ``om.minimize(fun, params, algorithm=Lmma(sigma0=0.5))``.

Requires optimagic, the extra ``optimagic``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.minimize import minimize

try:
    from optimagic import mark
    from optimagic.optimization.algorithm import Algorithm, InternalOptimizeResult
    from optimagic.typing import AggregationLevel
except ImportError as error:
    from lmma._text import how_to_install

    raise ImportError(f"Lmma needs optimagic: {how_to_install('optimagic')}") from error

if TYPE_CHECKING:
    import numpy.typing as npt
    from optimagic.optimization.internal_optimization_problem import InternalOptimizationProblem

__all__ = ["Lmma"]


@mark.minimizer(  # type: ignore[untyped-decorator, unused-ignore]  # optimagic may be absent
    name="lmma",
    solver_type=AggregationLevel.SCALAR,
    is_available=True,
    is_global=True,
    needs_jac=False,
    needs_hess=False,
    needs_bounds=False,
    supports_parallelism=True,
    supports_bounds=True,
    supports_infinite_bounds=True,
    supports_linear_constraints=False,
    supports_nonlinear_constraints=False,
    disable_history=False,
)
@dataclass(frozen=True)
class Lmma(Algorithm):  # type: ignore[misc]  # optimagic may be absent
    """A strategy of lmma for ten to many thousands of parameters.

    Attributes
    ----------
    sigma0 : float, optional
        Initial step size, about a third of the distance to the optimum; by default derived from the bounds.
    method : str
        One of :func:`lmma.methods`, or ``"auto"``.
    population_size : int, optional
        Candidates per generation.
    restarts : int
        Number of restarts after convergence, each with twice the population.
    n_cores : int
        Number of parallel evaluations by optimagic's batch evaluator.
    seed : int, optional
        Seed of the random numbers.
    stopping_maxfun, stopping_maxiter : int, optional
        Maximum numbers of evaluations and generations.
    stopping_target : float, optional
        Value at which to stop.
    convergence_xtol_abs, convergence_ftol_abs : float
        Step sizes and differences of values below which the search has converged.
    """

    sigma0: float | None = None
    method: str = "auto"
    population_size: int | None = None
    restarts: int = 0
    n_cores: int = 1
    seed: int | None = None
    stopping_maxfun: int | None = None
    stopping_maxiter: int | None = None
    stopping_target: float | None = None
    convergence_xtol_abs: float = 1e-11
    convergence_ftol_abs: float = 1e-11

    def _solve_internal_problem(
        self, problem: InternalOptimizationProblem, x0: npt.NDArray[np.float64]
    ) -> InternalOptimizeResult:
        n = len(x0)
        lower = np.full(n, -np.inf) if problem.bounds.lower is None else problem.bounds.lower
        upper = np.full(n, np.inf) if problem.bounds.upper is None else problem.bounds.upper

        def values(X: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
            return np.array(problem.batch_fun(list(X), n_cores=self.n_cores), dtype=np.float64)

        given: dict[str, Any] = {
            "popsize": self.population_size, "ftarget": self.stopping_target,
            "maxfevals": self.stopping_maxfun, "maxiter": self.stopping_maxiter,
        }  # fmt: skip
        if np.isfinite(lower).any() or np.isfinite(upper).any():
            given["bounds"] = list(zip(lower, upper, strict=True))
        result = minimize(
            values, x0, self.sigma0, method=self.method, vectorized=True, rng=self.seed,
            restarts=self.restarts, tolx=self.convergence_xtol_abs, tolfun=self.convergence_ftol_abs, **given,
        )  # fmt: skip
        return InternalOptimizeResult(
            x=result.x,
            fun=float(result.fun),
            success=bool(result.success),
            message=result.message,
            status=int(result.status),
            n_fun_evals=result.nfev,
            n_iterations=result.nit,
            info={"reason": result.reason, "sigma": result.sigma, "method": result.method},
        )
