"""Starting point and step size on the command line: ``--dim``, ``--x0``, ``--sigma0``, ``--space FILE``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lmma.cli import arguments
from lmma.cli.options import FLAGS
from lmma.cli.status import UsageError

if TYPE_CHECKING:
    from lmma.cli.arguments import Vector
    from lmma.cli.target import Target
    from lmma.space import Space


DEFAULT_DIM = 100  # for built-in problems


def add_start(parser: argparse.ArgumentParser) -> None:
    """Add the options for the starting point and the initial step size."""
    add = parser.add_argument_group("start options").add_argument
    add("--dim", metavar="N", type=arguments.count, help="number of variables")
    add(
        "--x0", metavar="START",
        help="starting point: comma-separated numbers, a .npy, .txt or .csv file, or one number for all N "
        "variables (default: 0; random for a built-in problem); with --space, NAME=VALUE,... or a file "
        "written by --save-x",
    )  # fmt: skip
    add(
        "--sigma0", metavar="STEP",
        help="initial step size, about a third of the expected distance to the optimum: one number, or one "
        "per variable as in --x0 (default: 0.3 times the scale of x0; 3 for a built-in problem)",
    )  # fmt: skip


def initial_step(args: argparse.Namespace, target: Target) -> Any:
    """Return the step size from ``--sigma0`` or the built-in problem; None to derive it from x0 or bounds."""
    if args.sigma0 is not None and hasattr(args, "space") and "=" in args.sigma0:
        return arguments.values(args.sigma0, "--sigma0")
    if args.sigma0 is not None:
        sigma0 = arguments.vector(args.sigma0, None, "--sigma0")
        return float(sigma0[0]) if sigma0.size == 1 else sigma0
    bounded = hasattr(args, "bounds") or hasattr(args, "space")
    return target.problem.sigma0 if target.problem is not None and not bounded else None


def start(args: argparse.Namespace, target: Target, seed: int) -> Vector:
    """Return the starting point: ``--x0``, else that of the built-in problem, else the origin."""
    import numpy as np

    n = args.dim
    if n is None and target.problem is not None and (args.x0 is None or _is_number(args.x0)):
        n = DEFAULT_DIM
    if args.x0 is not None:
        if n is None and _is_number(args.x0):
            raise UsageError(f"--x0 {args.x0} applies to all variables: set their number with --dim")
        return arguments.vector(args.x0, n, "--x0")
    if target.problem is not None:
        return np.asarray(target.problem.start(n, seed), dtype=np.float64)
    if n is None:
        raise UsageError(f"the number of variables of {target.name} is unknown: set --dim or --x0")
    return np.zeros(n)


def start_in_space(space: Space, args: argparse.Namespace) -> Vector:
    """Return the starting point in a space: ``--x0``, else that of the file, else the middle."""
    from pathlib import Path

    from lmma.space.point import is_named, read_values

    if args.x0 is None:
        return space.start(args.start)
    try:
        if is_named(Path(args.x0)):
            return space.start((args.start or {}) | read_values(Path(args.x0), space))
        if "=" in args.x0:
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


# Options of the command that are not arguments of a run but are allowed in the file
COMMAND_OPTIONS = ("command", "cluster", "replicate", "json", "plot", "save-x", "quiet", "sigma0")
SWITCHES = (
    "--quiet",
    "--json",
    "--replicate",
    "--vectorized",
    "--polish",
    "--archive-new",
)  # without a --no- form
SPACE_CONFLICTS = ("dim", "bounds", "integers", "integrality", "space")


def with_space_file(args: argparse.Namespace) -> argparse.Namespace:
    """Read the space file; return arguments with its space, and its options where the user gave none."""
    from lmma.cli import Parser, minimize
    from lmma.space.toml_file import read_space

    for option, flag in (("bounds", "--bounds"), ("integrality", "--integers"), ("dim", "--dim")):
        if getattr(args, option, None) is not None:
            raise UsageError(f"{flag} cannot be combined with --space: the file defines the variables")
    try:
        file = read_space(args.space)
    except ValueError as error:
        raise UsageError(f"--space: {error}") from None
    options = dict(file.run)
    objective, start = options.pop("objective", None), options.pop("x0", None)
    typed = args.words[args.words.index("minimize") + 1 :]
    words = as_arguments(options, args.space)
    parser = Parser(prog="lmma minimize", allow_abbrev=False, add_help=False)
    minimize.add_arguments(parser)
    try:
        merged = parser.parse_args([*words, *typed])
    except UsageError as error:
        raise UsageError(f"--space: {args.space}, [run]: {error}") from None
    if merged.target is None and args.command is None and objective is not None:
        if not isinstance(objective, str):
            raise UsageError(f"--space: {args.space}: objective must be a string, got {objective!r:.60}")
        merged.target, merged.command = objective, None
    elif args.target is not None:
        merged.command = None  # TARGET on the command line overrides a command in the file
    if start is not None and not isinstance(start, Mapping):
        raise UsageError(f"--space: {args.space}: x0 must be a table of values by name, got {start!r:.60}")
    merged.space, merged.words, merged.start = file.space, args.words, start
    return merged


def as_arguments(options: Mapping[str, Any], place: str) -> list[str]:
    """Return the options of a file as command-line arguments; raise UsageError for an unknown one."""
    flags = {flag.removeprefix("--"): flag for flag in FLAGS.values()} | FLAGS
    flags |= {name: f"--{name}" for name in COMMAND_OPTIONS}
    flags = {name.replace("_", "-"): flag for name, flag in flags.items() if name not in SPACE_CONFLICTS}
    flags.pop("x0", None)
    words: list[str] = []
    for name, value in options.items():
        flag = flags.get(name.replace("_", "-"))
        if flag is None:
            from lmma._text import nearest

            hint = nearest(name, ["objective", "x0", *flags])
            raise UsageError(f"--space: {place}, [run]: unknown option {name!r}{hint}")
        words += _option_arguments(flag, value)
    return words


def _option_arguments(flag: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [flag] if value else [] if flag in SWITCHES else [flag.replace("--", "--no-", 1)]
    if isinstance(value, Mapping):  # constants
        return [f"{flag}={name}={entry}" for name, entry in value.items()]
    return [f"{flag}={value}"]
