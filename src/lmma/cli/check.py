"""``lmma check``: what kind of function is this?"""

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
from lmma.cli.completion import offer, problem_names
from lmma.cli.options import FLAGS, add_run_options, given_options, in_shell, respelled
from lmma.cli.start import add_start, first_step, start, start_in
from lmma.cli.status import UsageError
from lmma.cli.target import Target, find_target

if TYPE_CHECKING:
    from lmma.checking.report import CheckResult

# Options of lmma minimize that say what is called, and how
SHARED = ("bounds", "integrality", "space", "vectorized", "timeout", "rng", "maxtime")
REPEATED = ("bounds", "integrality", "space", "vectorized", "timeout")  # in the command that is suggested
LONGEST = 300.0  # seconds, unless told otherwise

EPILOG = """\
Some 100 calls along lines through the start tell how long a call takes, how many fail, whether values differ
from call to call, how many digits they have, whether there are kinks, jumps or plateaus, and how much each
variable matters. What follows from it is printed: the command to type, or that lmma is not the best choice.
TARGET, --command and the start are those of lmma minimize. A call that may hang needs --timeout.

exit status:
    0  looked at, whatever was found
    2  the arguments are wrong
    3  no call gave a number

examples:
  lmma check mymodule:loss --dim 30
  lmma check mymodule:loss --x0 start.npy --bounds 0,1 --timeout 60
  lmma check --command './simulate {file}' --x0 1,-2,0.5 --json
  lmma check mymodule:cost --space knobs.toml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    offer(
        parser.add_argument(
            "target", metavar="TARGET", nargs="?", help="a built-in problem, or module:function"
        ),
        problem_names,
    )
    parser.add_argument("--command", metavar="'PROGRAM ...'", help="an external program as the objective")
    add_start(parser)
    add_run_options(parser, {"maxtime": f"{LONGEST:g}"}, SHARED)
    add = parser.add_argument_group("what to show").add_argument
    add("--calls", metavar="N", type=arguments.count, default=100, help="calls at most, 20 or more (100)")
    add("--json", action="store_true", help="print the report as JSON, and nothing else, on standard output")


def run(args: argparse.Namespace) -> int:
    """Look at the function, print what was found, and return the exit status."""
    path = getattr(args, "space", None)
    args.start = None
    if path is not None:
        _read_space_file(args, path)
    target = find_target(
        args.target, args.command, getattr(args, "vectorized", False), getattr(args, "space", None)
    )
    with contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext():
        report = _checked(args, target)
    command = _command(args, report, path)
    if args.json:
        print(json.dumps(report.as_dict() | {"command": command}, allow_nan=False))
    else:
        print(_page(report, command))
    return status.ALL_FAILED if report.kind == "failing" else status.OK


def _checked(args: argparse.Namespace, target: Target) -> CheckResult:
    from lmma.checking.check import check
    from lmma.evaluation.failures import WorkersError, WorksInPlace

    seed = int(getattr(args, "rng", 0))
    space = getattr(args, "space", None)
    x0 = start(args, target, seed) if space is None else start_in(space, args)
    given = given_options(args, len(x0))
    if "bounds" in given and args.x0 is None:
        x0 = x0.clip(given["bounds"].lb, given["bounds"].ub)
    given |= {"rng": seed, "vectorized": target.vectorized, "maxtime": given.get("maxtime", LONGEST)}
    try:
        return check(
            target.function, x0, first_step(args, target), calls=args.calls, name=target.name, **given
        )
    except (TypeError, WorksInPlace) as error:
        raise UsageError(f"{target.name}: {respelled(error)}") from None
    except WorkersError as error:
        raise UsageError(f"{target.name}: {error}", status.ALL_FAILED) from None
    except (ValueError, MemoryError, OSError) as error:
        raise UsageError(respelled(error)) from None


def _read_space_file(args: argparse.Namespace, path: str) -> None:
    """Take the space from its file, and the objective and the start from there where none was typed."""
    from lmma.cli import Parser, minimize
    from lmma.cli.space import as_words
    from lmma.space.toml_file import read_space

    for option, flag in (("bounds", "--bounds"), ("integrality", "--integers"), ("dim", "--dim")):
        if getattr(args, option, None) is not None:
            raise UsageError(
                f"{flag} and --space contradict one another: the file says what variables there are"
            )
    try:
        file = read_space(path)
    except ValueError as error:
        raise UsageError(f"--space: {error}") from None
    options = dict(file.run)
    objective, args.start = options.pop("objective", None), options.pop("x0", None)
    parser = Parser(prog="lmma minimize", allow_abbrev=False, add_help=False)
    minimize.add_arguments(parser)
    there = parser.parse_args(as_words(options, path))
    if args.target is None and args.command is None:
        args.target, args.command = (None, there.command) if objective is None else (str(objective), None)
    if args.sigma0 is None:
        args.sigma0 = there.sigma0
    for name in ("timeout", "vectorized"):
        if hasattr(there, name) and not hasattr(args, name):
            setattr(args, name, getattr(there, name))
    args.space = file.space


def _command(args: argparse.Namespace, report: CheckResult, path: str | None) -> str:
    """Return the command that minimises as suggested; nothing where neither lmma nor SciPy is any good."""
    if report.use == "neither":
        return ""
    words = ["lmma", "minimize"]
    words += [args.target] if args.target is not None else ["--command", args.command]
    raw = {"dim": args.dim, "x0": args.x0, "sigma0": args.sigma0}
    words += [f"--{name}={value}" for name, value in raw.items() if value is not None]
    for name in REPEATED:
        if hasattr(args, name):
            value = path if name == "space" else getattr(args, name)
            words += [FLAGS[name]] if value is True else [f"{FLAGS[name]}={value}"]
    for name, value in report.suggest.items():
        if name in FLAGS and name not in (*REPEATED, "method") and raw.get(name) is None:
            words += [FLAGS[name]] if value is True else [f"{FLAGS[name]}={_word(value)}"]
    return shlex.join(words)


def _word(value: Any) -> str:
    return ",".join(f"{v:g}" for v in np.ravel(value)) if isinstance(value, list | np.ndarray) else str(value)


def _page(report: CheckResult, command: str) -> str:
    """Return the report for people, with arguments as the command line spells them."""
    from dataclasses import replace

    commands = report.calls_in_python()
    if "lmma" in commands:
        commands["lmma"] = command
    spelled = replace(report, advice=[_spelled(sentence) for sentence in report.advice])
    return spelled.page(commands)


def _spelled(text: str) -> str:
    names = "|".join(name for name in FLAGS if name != "seed")
    pattern = rf"\b({names})=('[^']*'|True|-?\d+)?"
    return re.sub(pattern, lambda match: in_shell(match[1], match[2] or "") + _number(match[2]), text)


def _number(value: str | None) -> str:
    return f" {value}" if value is not None and value.lstrip("-").isdigit() else ""
