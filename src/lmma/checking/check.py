"""The public function :func:`check`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmma.checking import advice, report
from lmma.checking.measure import measure
from lmma.checking.probe import Probe
from lmma.checking.report import CheckResult

if TYPE_CHECKING:
    from lmma.layers.bounds import Bounds
    from lmma.numerics.checks import Seed
    from lmma.space import Space

MIN_CALLS = 20
# Arguments that define the objective and how it is called: they are copied to the suggestion
CALL_ARGUMENTS = (
    "args", "bounds", "integrality", "space", "vectorized", "common_random_numbers", "maxfevals",
)  # fmt: skip


def check(
    fun: Callable[..., Any],
    x0: npt.ArrayLike | Space | Mapping[str, Any] | None,
    sigma0: float | npt.ArrayLike | Mapping[str, float] | None = None,
    *,
    args: tuple[Any, ...] = (),
    bounds: Bounds | None = None,
    integrality: npt.ArrayLike | None = None,
    space: Space | None = None,
    vectorized: bool = False,
    common_random_numbers: bool | None = None,
    timeout: float | None = None,
    maxfevals: int | None = None,
    calls: int = 120,
    maxtime: float | None = 300.0,
    rng: Seed = None,
    name: str | None = None,
) -> CheckResult:
    """Examine a function and recommend how to minimise it.

    Up to 120 calls measure the time per call, the failure rate, the noise, the number of digits, kinks, jumps
    and plateaus along lines, and the effect of each variable.

    Parameters
    ----------
    fun, x0, sigma0, args, bounds, integrality, space, vectorized, common_random_numbers
        As in :func:`lmma.minimize`. Lines through x0 extend three ``sigma0`` in both directions.
    timeout : float, optional
        Time limit per call in seconds; calls then run in a separate process. Without it, a call that hangs
        blocks ``check``.
    maxfevals : int, optional
        Evaluations planned for the run. The check makes no more calls than that, but at least 20, and reports
        the time that they take.
    calls : int
        Maximum number of calls, at least 20.
    maxtime : float or None
        Time in seconds after which no further call is made.
    rng : None, int, SeedSequence or Generator
        Random source of the directions; the same seed tries the same points.
    name : str, optional
        Name of the function in the report.

    Returns
    -------
    CheckResult
        ``kind``, ``use`` ("lmma" or "neither"), ``suggest`` for ``lmma.minimize(fun, x0, **suggest)``,
        ``begins_with`` ("slopes" or "ranks"), and ``findings`` and ``advice`` as text. ``print`` shows the
        complete report.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments, and if ``fun`` returns something other than a number. Failed calls are not an
        error: the report counts them.

    Notes
    -----
    The check only sees the points it tries: it misses a jump that no line crosses. The noise between nearby
    points is estimated by a difference table (More and Wild, 2011).

    Examples
    --------
    >>> import lmma
    >>> def rosenbrock(x):
    ...     return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()
    >>> report = lmma.check(rosenbrock, [0.0] * 10, rng=1, name="rosenbrock")
    >>> report
    <check of rosenbrock: smooth, n=10, 116 calls, use lmma>
    >>> report.begins_with
    'slopes'
    """
    from lmma.run.options import RunOptions
    from lmma.run.run import Run

    _check_limits(calls, maxtime)
    options = RunOptions(
        args=args, bounds=bounds, integrality=integrality, space=space, vectorized=vectorized,
        common_random_numbers=common_random_numbers, timeout=timeout, maxfevals=maxfevals, rng=rng,
    )  # fmt: skip
    run = Run(fun, x0, sigma0, options)
    budget = calls if options.maxfevals is None else max(MIN_CALLS, min(calls, options.maxfevals))
    probe = Probe(run, int(budget), maxtime)
    try:
        found = measure(probe, np.random.default_rng(list(run.state.key)))
    finally:
        probe.close()
    kind = advice.kind_of(found, probe)
    use = "neither" if kind in ("failing", "structureless", "constant") else "lmma"
    given = {name: getattr(options, name) for name in CALL_ARGUMENTS}
    unset = {name: getattr(RunOptions(), name) for name in CALL_ARGUMENTS}
    suggest = {name: value for name, value in given.items() if value is not unset[name]}
    if sigma0 is not None:
        suggest["sigma0"] = sigma0
    suggest = advice.suggestions(kind, found, probe) | suggest
    return CheckResult(
        kind=kind,
        use=use,
        suggest=suggest,
        begins_with="slopes" if advice.uses_slopes(found, probe) else "ranks",
        findings=report.findings(kind, found, probe),
        advice=report.sentences(kind, found, probe),
        n=found.n,
        calls=probe.calls,
        failures=probe.failed,
        seconds=advice.seconds_per_call(probe),
        noise=found.level,
        noise_share=report.noise_share(found),
        digits=found.digits.significant if found.digits.rounded else 7 if found.digits.single else 16,
        smoothness=found.order,
        effects={
            report.label(probe, i) if run.options.space else i: e for i, e in advice.effects(found).items()
        },
        errors=list(probe.evaluate.record.errors),
        name=name or str(getattr(fun, "__name__", type(fun).__name__)),
    )


def _check_limits(calls: Any, maxtime: Any) -> None:
    from lmma._text import shown
    from lmma.numerics.checks import checked_number

    if isinstance(calls, bool) or not isinstance(calls, int | np.integer) or calls < MIN_CALLS:
        raise ValueError(f"calls must be a whole number of at least {MIN_CALLS}, got {shown(calls)}")
    if maxtime is not None and not checked_number("maxtime", maxtime, ", or None for no limit") > 0:
        raise ValueError(f"maxtime must be positive, or None for no limit; got {shown(maxtime)}")
