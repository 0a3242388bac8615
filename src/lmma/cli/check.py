"""The command ``lmma check``: examine an objective and recommend a solver."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shlex
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.cli import arguments, status
from lmma.cli.completion import problem_names, set_completer
from lmma.cli.options import FLAGS, add_run_options, as_flag, given_options, with_flags
from lmma.cli.start import add_start, initial_step, start, start_in_space
from lmma.cli.status import UsageError
from lmma.cli.target import Target, find_target

if TYPE_CHECKING:
    from lmma.checking.report import CheckResult

# Options shared with lmma minimize: they define the objective and how it is called
SHARED = ("bounds", "integrality", "space", "vectorized", "timeout", "rng", "maxtime", "maxfevals")
# copied to the suggested command
REPEATED = ("bounds", "integrality", "space", "vectorized", "timeout", "maxfevals")
# help texts that differ from those of lmma minimize
HELPS = {
    "maxfevals": "number of evaluations planned for the run; also limits the calls of the check (at least "
    "20)",
    "maxtime": "time in seconds after which the check makes no further call",
    "rng": "random seed; the same seed tries the same points",
}
DEFAULT_MAXTIME = 300.0  # seconds
DEFAULT_SEED = 0  # the same report each time

EPILOG = """\
About 120 calls along lines through the start measure the time per call, the failure rate, the noise, the
number of digits, kinks, jumps and plateaus, and the effect of each variable. The report says what the
default method will do and prints the command to run. TARGET, --command and the start are the same as for
lmma minimize. If a call may hang, set --timeout.

exit status:
    0  the check completed, whatever it found
    2  invalid arguments
    3  no call returned a number

examples:
  lmma check mymodule:loss --dim 30
  lmma check mymodule:loss --x0 start.npy --bounds 0,1 --timeout 60
  lmma check --command './simulate {file}' --x0 1,-2,0.5 --json
  lmma check mymodule:cost --space knobs.toml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    set_completer(
        parser.add_argument(
            "target", metavar="TARGET", nargs="?", help="built-in problem, or module:function"
        ),
        problem_names,
    )
    parser.add_argument("--command", metavar="'PROGRAM ...'", help="external program to use as the objective")
    add_start(parser)
    add_run_options(
        parser, {"maxtime": f"{DEFAULT_MAXTIME:g}", "rng": str(DEFAULT_SEED)}, SHARED, helps=HELPS
    )
    stopping = next(group for group in parser._action_groups if group.title == "stopping options")
    stopping.add_argument(
        "--calls", metavar="N", type=arguments.count, default=120,
        help="maximum number of calls, at least 20 (default: 120)",
    )  # fmt: skip
    add = parser.add_argument_group("output options").add_argument
    add("--json", action="store_true", help="print only the report, as JSON, on standard output")


def run(args: argparse.Namespace) -> int:
    """Check the function, print the report and return the exit status."""
    path = getattr(args, "space", None)
    args.start, args.from_file = None, frozenset()
    if path is not None:
        _read_space_file(args, path)
    target = find_target(
        args.target, args.command, getattr(args, "vectorized", False), getattr(args, "space", None)
    )
    with contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext():
        report = _check(args, target)
    command = _command(args, report, path)
    if args.json:
        print(json.dumps(report.as_dict() | {"command": command}, allow_nan=False))
    else:
        print(_page(report, command))
    return status.ALL_FAILED if report.kind == "failing" else status.OK


def _check(args: argparse.Namespace, target: Target) -> CheckResult:
    from lmma.checking.check import check
    from lmma.evaluation.failures import WorkersError, WorksInPlace

    seed = int(getattr(args, "rng", DEFAULT_SEED))
    space = getattr(args, "space", None)
    x0 = start(args, target, seed) if space is None else start_in_space(space, args)
    given = given_options(args, len(x0))
    if "bounds" in given and args.x0 is None:
        x0 = x0.clip(given["bounds"].lb, given["bounds"].ub)
    given |= {"rng": seed, "vectorized": target.vectorized, "maxtime": given.get("maxtime", DEFAULT_MAXTIME)}
    try:
        return check(
            target.function, x0, initial_step(args, target), calls=args.calls, name=target.name, **given
        )
    except (TypeError, WorksInPlace) as error:
        raise UsageError(f"{target.name}: {with_flags(error)}") from None
    except WorkersError as error:
        raise UsageError(f"{target.name}: {error}", status.ALL_FAILED) from None
    except (ValueError, MemoryError, OSError) as error:
        raise UsageError(re.sub("^calls", "--calls", with_flags(error))) from None


def _read_space_file(args: argparse.Namespace, path: str) -> None:
    """Read the space from its file; use the file's objective and start if the command line has none."""
    from lmma.cli import Parser, minimize
    from lmma.cli.start import as_arguments
    from lmma.space.toml_file import read_space

    for option, flag in (("bounds", "--bounds"), ("integrality", "--integers"), ("dim", "--dim")):
        if getattr(args, option, None) is not None:
            raise UsageError(f"{flag} cannot be combined with --space: the file defines the variables")
    try:
        file = read_space(path)
    except ValueError as error:
        raise UsageError(f"--space: {error}") from None
    options = dict(file.run)
    objective, args.start = options.pop("objective", None), options.pop("x0", None)
    parser = Parser(prog="lmma minimize", allow_abbrev=False, add_help=False)
    minimize.add_arguments(parser)
    words = as_arguments(options, path)
    try:
        file_args = parser.parse_args(words)
    except UsageError as error:
        raise UsageError(f"--space: {path}, [run]: {error}") from None
    if args.target is None and args.command is None:
        args.target, args.command = (None, file_args.command) if objective is None else (str(objective), None)
    if args.sigma0 is None:
        args.sigma0 = file_args.sigma0
    args.from_file = frozenset(vars(file_args)) - frozenset(vars(args))  # --space repeats them
    for name in args.from_file.intersection(SHARED):
        value = getattr(file_args, name)
        setattr(args, name, min(value, DEFAULT_MAXTIME) if name == "maxtime" else value)
    args.space = file.space


def _command(args: argparse.Namespace, report: CheckResult, path: str | None) -> str:
    """Return the suggested lmma minimize command; empty if neither lmma nor SciPy is recommended."""
    if report.use == "neither":
        return ""
    words = ["lmma", "minimize"]
    words += [args.target] if args.target is not None else ["--command", args.command]
    raw = {"dim": args.dim, "x0": args.x0, "sigma0": args.sigma0}
    words += [f"--{name}={value}" for name, value in raw.items() if value is not None]
    for name in REPEATED:
        if hasattr(args, name) and name not in args.from_file:
            value = path if name == "space" else getattr(args, name)
            words += [FLAGS[name]] if value is True else [f"{FLAGS[name]}={value}"]
    for name, value in report.suggest.items():
        known = name in FLAGS and name not in (*REPEATED, "method") and name not in args.from_file
        if known and raw.get(name) is None:
            words += [FLAGS[name]] if value is True else [f"{FLAGS[name]}={_value_text(value)}"]
    return shlex.join(words)


def _value_text(value: Any) -> str:
    return ",".join(f"{v:g}" for v in np.ravel(value)) if isinstance(value, list | np.ndarray) else str(value)


def _page(report: CheckResult, command: str) -> str:
    """Return the report as text, with Python arguments replaced by command-line options."""
    from dataclasses import replace

    commands = report.calls_in_python()
    if "lmma" in commands:
        commands["lmma"] = command
    with_options = replace(report, advice=[_with_options(sentence) for sentence in report.advice])
    return with_options.page(commands)


def _with_options(text: str) -> str:
    names = "|".join(name for name in FLAGS if name != "seed")
    pattern = rf"\b({names})=('[^']*'|True|-?\d+)?"
    return re.sub(pattern, lambda match: as_flag(match[1], match[2] or "") + _number(match[2]), text)


def _number(value: str | None) -> str:
    return f" {value}" if value is not None and value.lstrip("-").isdigit() else ""
