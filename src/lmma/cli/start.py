"""Where a search starts, as the command line says it: ``--dim``, ``--x0`` and ``--sigma0``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from lmma.cli import arguments
from lmma.cli.status import UsageError

if TYPE_CHECKING:
    from lmma.cli.arguments import Vector
    from lmma.cli.target import Target
    from lmma.space import Space

DEFAULT_DIM = 100  # of a built-in problem


def add_start(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where to start."""
    add = parser.add_argument_group("where to start").add_argument
    add("--dim", metavar="N", type=arguments.count, help="number of variables")
    add(
        "--x0", metavar="START",
        help="numbers between commas, a .npy, .txt or .csv file, or one number for all N variables "
        "(default: 0 for your own objective, random for a built-in problem)",
    )  # fmt: skip
    add(
        "--sigma0", metavar="STEP",
        help="initial step size, about a third of the distance to the optimum you expect; one number, or "
        "one for each variable as in --x0 (default: 0.3 times the scale of x0; 3 for a built-in problem)",
    )  # fmt: skip


def first_step(args: argparse.Namespace, target: Target) -> Any:
    """Return the step size: as told, that of the problem, or None for what fits the start or the box."""
    if args.sigma0 is not None and hasattr(args, "space") and "=" in args.sigma0:
        return arguments.values(args.sigma0, "--sigma0")
    if args.sigma0 is not None:
        sigma0 = arguments.vector(args.sigma0, None, "--sigma0")
        return float(sigma0[0]) if sigma0.size == 1 else sigma0
    bounded = hasattr(args, "bounds") or hasattr(args, "space")
    return target.problem.sigma0 if target.problem is not None and not bounded else None


def start(args: argparse.Namespace, target: Target, seed: int) -> Vector:
    """Return where to start: as told, as the paper does on its problems, or at the origin."""
    import numpy as np

    n = args.dim
    if n is None and target.problem is not None and (args.x0 is None or _is_number(args.x0)):
        n = DEFAULT_DIM
    if args.x0 is not None:
        if n is None and _is_number(args.x0):
            raise UsageError(f"--x0 {args.x0} is used for every variable: say how many there are with --dim")
        return arguments.vector(args.x0, n, "--x0")
    if target.problem is not None:
        from lmma.problems import suites

        return np.asarray(suites.start(target.problem, n, seed), dtype=np.float64)
    if n is None:
        raise UsageError(f"how many variables has {target.name}? Say so with --dim or --x0")
    return np.zeros(n)


def start_in(space: Space, args: argparse.Namespace) -> Vector:
    """Return where to start in a space: as told, by name or as a vector; as its file says; in the middle."""
    from pathlib import Path

    if args.x0 is None:
        return space.start(args.start)
    try:
        if "=" in args.x0 or Path(args.x0).suffix.lower() == ".json":
            return space.start((args.start or {}) | arguments.values(args.x0, "--x0"))
        return space.start(arguments.vector(args.x0, None, "--x0"))
    except ValueError as error:
        raise UsageError(f"--x0: {error}") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
