"""What kind of function is this? Some calls, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmma.checking import advice, words
from lmma.checking.measure import measure
from lmma.checking.probe import Probe
from lmma.checking.report import CheckResult

if TYPE_CHECKING:
    from lmma.space import Space
    from lmma.strategies.parts.bounds import Bounds
    from lmma.strategies.parts.checks import Seed

LEAST = 20  # calls below which nothing can be told
# Arguments of a run that say what is called, and how: they belong to the suggestion
OF_THE_CALL = ("args", "bounds", "integrality", "space", "vectorized", "common_random_numbers")


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
    calls: int = 100,
    maxtime: float | None = 300.0,
    rng: Seed = None,
    name: str | None = None,
) -> CheckResult:
    """Say what kind of function this is, and how to minimise it, with lmma or without.

    Up to a hundred calls tell how long one takes, how many fail, how much values scatter, how many digits
    they have, whether there are kinks, jumps or plateaus along lines, and how much each variable matters.

    Parameters
    ----------
    fun, x0, sigma0, args, bounds, integrality, space, vectorized, common_random_numbers
        As :func:`lmma.minimize` takes them. Lines through x0 are three ``sigma0`` long, both ways.
    timeout : float, optional
        Seconds after which a call is given up; it then runs in a process of its own. Without it, a call that
        hangs hangs this one.
    calls : int
        How often ``fun`` may be called, 20 or more.
    maxtime : float or None
        Seconds after which no further call is made.
    rng : None, int, SeedSequence or Generator
        Source of the directions; the same seed looks at the same points.
    name : str, optional
        What to call the function in the report.

    Returns
    -------
    CheckResult
        ``kind``, ``use`` ("scipy", "lmma" or "neither"), ``suggest`` for ``lmma.minimize(fun, x0,
        **suggest)``, ``scipy`` for SciPy's, ``findings`` and ``advice`` in words; ``print`` shows it all.

    Raises
    ------
    ValueError, TypeError
        For arguments that cannot be meant, and for a ``fun`` that returns no number but something else. A
        ``fun`` that fails, always or often, is no error: the report says so.

    Notes
    -----
    What was not seen is not known: a function may jump where no line went. The noise of neighbours is that of
    a difference table (More and Wild, 2011).

    Examples
    --------
    >>> import lmma
    >>> def rosenbrock(x):
    ...     return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()
    >>> report = lmma.check(rosenbrock, [0.0] * 10, rng=1, name="rosenbrock")
    >>> report
    <check of rosenbrock: smooth, n=10, 100 calls, use scipy>
    >>> report.scipy
    {'method': 'BFGS', 'jac': '3-point'}
    """
    from lmma.run.options import RunOptions
    from lmma.run.run import Run

    _checked(calls, maxtime)
    options = RunOptions(
        args=args, bounds=bounds, integrality=integrality, space=space, vectorized=vectorized,
        common_random_numbers=common_random_numbers, timeout=timeout, rng=rng,
    )  # fmt: skip
    run = Run(fun, x0, sigma0, options)
    probe = Probe(run, int(calls), maxtime)
    try:
        found = measure(probe, np.random.default_rng(list(run.key)))
    finally:
        probe.close()
    kind = advice.kind_of(found, probe)
    use = _use(kind, found, probe)
    given = {name: getattr(options, name) for name in OF_THE_CALL}
    suggest = {
        name: value
        for name, value in given.items()
        if value is not None and value is not False and value != ()
    }
    if sigma0 is not None:
        suggest["sigma0"] = sigma0
    suggest = advice.suggestions(kind, found, probe) | suggest
    return CheckResult(
        kind=kind,
        use=use,
        suggest=suggest,
        scipy=advice.scipys_arguments(found, probe) if use == "scipy" else {},
        findings=words.findings(kind, found, probe),
        advice=words.sentences(kind, use, found, probe),
        n=found.n,
        calls=probe.calls,
        failures=probe.failed,
        seconds=advice.seconds_a_call(probe),
        noise=found.level,
        noise_share=words.noise_share(found),
        digits=found.digits.significant if found.digits.rounded else 7 if found.digits.single else 16,
        smoothness=found.order,
        effects={
            words.label(probe, i) if run.options.space else i: e for i, e in advice.effects(found).items()
        },
        errors=list(probe.evaluate.errors),
        name=name or str(getattr(fun, "__name__", type(fun).__name__)),
    )


def _use(kind: str, found: Any, probe: Probe) -> str:
    if kind in ("failing", "structureless", "constant"):
        return "neither"
    return "scipy" if advice.use_scipy(kind, found, probe) else "lmma"


def _checked(calls: Any, maxtime: Any) -> None:
    from lmma.strategies.parts.checks import checked_number, shown

    if isinstance(calls, bool) or not isinstance(calls, int | np.integer) or calls < LEAST:
        raise ValueError(f"calls must be a whole number of at least {LEAST}, got {shown(calls)}")
    if maxtime is not None and not checked_number("maxtime", maxtime, ", or None for no limit") > 0:
        raise ValueError(f"maxtime must be positive, or None for no limit; got {shown(maxtime)}")
