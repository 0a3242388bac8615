"""The command ``lmma minimize``: run one search and print its result."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from lmma.cli import arguments, status
from lmma.cli.completion import problem_names, set_completer
from lmma.cli.start import DEFAULT_DIM, add_start, initial_step, start, start_in_space, with_space_file
from lmma.cli.status import UsageError
from lmma.cli.target import Target, find_target, import_methods_here, pickle_by_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lmma.cli.summary import Summary
    from lmma.run.checkpoint import Checkpoint
    from lmma.run.run import Run

DEFAULT_TARGET = 1e-10  # for built-in problems, as in the paper
PLOT_FILES = (".png", ".svg", ".pdf")

EPILOG = f"""\
TARGET
  A built-in problem (see lmma problems) starts uniformly in [-5, 5]^n with step size 3 and stops at
  {DEFAULT_TARGET:g}, as in the paper, unless options override this; the default --dim is {DEFAULT_DIM}.

  module:function is imported with the current directory on the path. The function takes a NumPy vector
  and returns a number. An exception or NaN is a failed evaluation: it is counted and ranked last. An
  exception before the first value ends the run: a programming error immediately, any other if the whole
  first generation raises it.

  --command runs a program for each candidate. The candidate is written to a temporary file, one number
  per line, and its path replaces {{file}}; without {{file}} it is sent to standard input. The last line of
  the output must be the value, optionally followed by constraint values (g <= 0), separated by spaces. A
  non-zero exit status, a signal or other output is a failed evaluation. The program is started without a
  shell; for pipes and variables, use sh -c '...'.

CONSTRAINTS
  --constraints takes module:name of a function g(x) whose values must be <= 0, or of any object that
  lmma.minimize accepts as constraints=. Alternatively, the objective can return (f, g).

{status.EXPLAINED}
examples:
  lmma minimize rotated-ellipsoid --dim 50 --seed 1 --plot ellipsoid.png
  lmma minimize mymodule:loss --x0 0 --dim 1000 --max-evaluations 1e5 --save-x best.npy
  lmma minimize mymodule:loss --x0 best.npy --sigma0 0.01 --method lm-ma-es --set m=30
  lmma minimize mymodule:loss --dim 50 --bounds 0,1 --workers -1 --checkpoint run.npz --log run.jsonl
  lmma minimize mymodule:loss --dim 1000000 --cluster dask://head:8786 --replicate --timeout 60
  lmma minimize --command './simulate --input {{file}}' --x0 1,-2,0.5 --sigma0 0.3 --json > result.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command: the run options and those specific to the command line."""
    from lmma.cli.options import add_run_options

    parser.epilog = EPILOG
    target = parser.add_argument(
        "target", metavar="TARGET", nargs="?", help="built-in problem, or module:function; see below"
    )
    set_completer(target, problem_names)
    parser.add_argument("--command", metavar="'PROGRAM ...'", help="external program to use as the objective")

    add_start(parser)
    add_run_options(parser, {"ftarget": f"{DEFAULT_TARGET:g} for a built-in problem, otherwise none"})

    from lmma.evaluation.cluster import ADDRESSES

    add = parser.add_argument_group("cluster options").add_argument
    add(
        "--cluster", metavar="ADDRESS",
        help=f"cluster to evaluate on: {ADDRESSES}",
    )  # fmt: skip
    add(
        "--replicate", action="store_true",
        help="generate candidates on the cluster's workers, so that only values are transferred",
    )  # fmt: skip

    add = parser.add_argument_group("output options").add_argument
    add("--json", action="store_true", help="print only the result, as JSON, on standard output")
    add(
        "--plot",
        metavar="FILE",
        help="plot best value and step size (and noise, if any) to a .png, .svg or .pdf file",
    )
    add(
        "--save-x",
        metavar="FILE",
        help="write the best x to a .npy, .txt or .csv file; with --space, names, values and units to a "
        ".csv, .json or .toml file, or the encoded vector to a .npy file",
    )
    add("--quiet", action="store_true", help="do not show progress")


def run(args: argparse.Namespace) -> int:
    """Minimise, print the result and return the exit status."""
    if hasattr(args, "space"):
        args = with_space_file(args)
    space = getattr(args, "space", None)
    target = find_target(args.target, args.command, getattr(args, "vectorized", False), space)
    plot, save_x = _output_files(args)
    with same_folder(), contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext():
        summary = _search(args, target)
    # x first, so that a failing plot cannot lose it
    written = write_outputs(
        ("--save-x", save_x, lambda path: _save_x(path, summary)),
        ("--plot", plot, lambda path: _plot(path, summary)),
    )
    print(summary.as_json() if args.json else summary.as_text(plot, save_x))
    return summary.status if written else status.UNWRITTEN


@contextlib.contextmanager
def same_folder() -> Iterator[None]:
    """Return to the current folder afterwards: an objective may leave it, and output files belong here."""
    here = None
    with contextlib.suppress(OSError):  # it may have been removed
        here = os.getcwd()
    try:
        yield
    finally:
        if here is not None:
            with contextlib.suppress(OSError):
                os.chdir(here)


def write_outputs(*outputs: tuple[str, Path | None, Callable[[Path], None]]) -> bool:
    """Write the requested files, reporting each failure; return whether all were written."""
    all_written = True
    for flag, path, write in outputs:
        if path is not None:
            try:
                write(path)
            except Exception as error:
                cause = error.__cause__ or error
                print(f"lmma: {flag}: cannot write {path}: {cause}", file=sys.stderr)
                all_written = False
    return all_written


def _search(args: argparse.Namespace, target: Target) -> Summary:
    """Run the search with safe interruption; return a summary."""
    from lmma.archive import ArchiveError
    from lmma.cli.options import with_flags
    from lmma.cli.summary import Summary
    from lmma.evaluation.failures import WorkersError, WorksInPlace, WrongType
    from lmma.run.checkpoint import CheckpointError
    from lmma.run.interrupts import Interrupts, ending_signals

    import_methods_here([getattr(args, "method", "")])
    try:
        search, seed = _prepare_run(args, target)
    except (CheckpointError, ArchiveError) as error:
        raise UsageError(str(error)) from None
    except (ValueError, TypeError, MemoryError, OSError) as error:
        raise UsageError(with_flags(error)) from None
    for warning in search.warnings:  # before the run, so that it can be stopped and corrected
        print(f"lmma: {warning}", file=sys.stderr)
    begun = (search.state.counters.evaluations, search.state.counters.seconds)  # of earlier processes
    started = time.perf_counter()
    try:
        result = search.execute(interrupts=Interrupts(*ending_signals()))
    except (WrongType, WorksInPlace) as error:  # wrong use of the interface, not a failed evaluation
        raise UsageError(f"{target.name}: {with_flags(error)}") from None
    except WorkersError as error:
        raise UsageError(f"{target.name}: {error}", status.ALL_FAILED) from None
    except BaseException as error:
        if error is not search.evaluate.raised:
            raise
        ours = [
            note.removeprefix("lmma: ") for note in getattr(error, "__notes__", []) if note[:6] == "lmma: "
        ]
        why = with_flags("; ".join(ours)) if ours else "--on-error raise"
        text = f"{target.name}: {_describe_exception(error)} ({why})"
        raise UsageError(text, status.ALL_FAILED) from error
    return Summary(target.name, search, result, seed, time.perf_counter() - started, begun)


def _describe_exception(error: BaseException) -> str:
    """Return an objective's exception on one line, with its location in the user's code."""
    import re
    import sysconfig
    import traceback
    from pathlib import Path

    from lmma._text import one_line
    from lmma.evaluation.failures import message_of

    text = one_line(f"{type(error).__name__}: {message_of(error)}", 500)
    places = [(frame.filename, str(frame.lineno)) for frame in traceback.extract_tb(error.__traceback__)]
    for note in getattr(error, "__notes__", []):  # the traceback in a worker process
        places += re.findall(r'^  File "(.+)", line (\d+)', note, re.MULTILINE)
    package = str(Path(__file__).parents[1])
    outside = [place for place in places if not place[0].startswith(package)]
    libraries = tuple(sysconfig.get_paths().values())
    own = [place for place in outside if not place[0].startswith(libraries)] or outside
    return f"{text} at {own[-1][0]}:{own[-1][1]}" if own else text


def _prepare_run(args: argparse.Namespace, target: Target) -> tuple[Run, int]:
    """Create the run that the arguments describe; return it with its seed."""
    from lmma.cli.options import given_options
    from lmma.run.checkpoint import Checkpoint
    from lmma.run.options import RunOptions
    from lmma.run.run import Run

    path = getattr(args, "checkpoint", None)
    saved = None if path is None else Checkpoint(path)
    seed = run_seed(args, saved)
    if saved is not None:
        saved.extra = {"words": args.words, "directory": os.getcwd(), "seed": seed}
    space = getattr(args, "space", None)
    x0 = start(args, target, seed) if space is None else start_in_space(space, args)
    given = given_options(args, len(x0))
    if "bounds" in given and args.x0 is None:
        x0 = x0.clip(given["bounds"].lb, given["bounds"].ub)
    if target.problem is not None and space is None:
        given.setdefault("ftarget", DEFAULT_TARGET)
    given |= {
        "rng": seed, "checkpoint": saved, "history": True, "progress": not args.quiet,
        "vectorized": target.vectorized, "workers": _workers(args, target),
    }  # fmt: skip
    search = Run(target.function, x0, initial_step(args, target), RunOptions(**given))
    return search, seed


def _workers(args: argparse.Namespace, target: Target) -> Any:
    """Return the value for ``workers=``: a number of processes, a cluster's address, or replicas on it."""
    if args.cluster is None:
        if args.replicate:
            raise UsageError("--replicate requires a cluster: specify it with --cluster")
        return getattr(args, "workers", 1)
    if getattr(args, "workers", 1) != 1:
        raise UsageError(
            "--workers cannot be combined with --cluster: the cluster determines the number of workers"
        )
    from lmma.evaluation.cluster import ADDRESSES, is_address

    if not is_address(args.cluster):
        raise UsageError(f"--cluster must be {ADDRESSES}, got {args.cluster!r}")
    pickle_by_value(target.function)
    if not args.replicate:
        return args.cluster
    from lmma.evaluation.replicas import Replicated

    return Replicated(args.cluster)


def run_seed(args: argparse.Namespace, saved: Checkpoint | None) -> int:
    """Return the seed: from ``--seed``, else from the checkpoint, else a random 32-bit number."""
    import numpy as np

    if hasattr(args, "rng"):
        return int(args.rng)
    if saved is not None and saved.file.exists():
        from lmma.run.checkpoint import CheckpointError, read

        extra = read(saved.file)[0].get("extra")
        seed = extra.get("seed", 0) if isinstance(extra, dict) else None
        if type(seed) is not int or seed < 0:
            raise CheckpointError(f"cannot use checkpoint {saved.file}: its seed is {seed!r:.40}")
        return seed
    return int(np.random.SeedSequence().generate_state(1)[0])


def _output_files(args: argparse.Namespace) -> tuple[Path | None, Path | None]:
    """Return the paths for the plot and for x, checked before the run."""
    plot = plot_file(args)
    save_x = None
    if args.save_x is not None:
        from lmma.space.point import POINT_FILES

        suffixes = POINT_FILES if hasattr(args, "space") else arguments.VECTOR_FILES
        save_x = arguments.writable(args.save_x, "--save-x", suffixes)
    check_distinct_files(args, ("checkpoint", "log", "archive", "plot", "save_x"))
    return plot, save_x


def plot_file(args: argparse.Namespace) -> Path | None:
    """Return the path for the plot, or None without ``--plot``; raise UsageError if it cannot be written."""
    if args.plot is None:
        return None
    plot = arguments.writable(args.plot, "--plot", PLOT_FILES)
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        from lmma._text import how_to_install

        raise UsageError(f"--plot requires matplotlib: {how_to_install('plot')}")
    return plot


def _save_x(path: Path, summary: Summary) -> None:
    from lmma.run.result import point_of
    from lmma.space.point import write_vector

    point = point_of(summary.result)
    if point is None:
        write_vector(path, summary.vector)
    else:
        point.write(path)


def check_distinct_files(args: argparse.Namespace, writing: tuple[str, ...]) -> None:
    """Raise UsageError if two options name the same output file."""
    options: dict[str, str] = {}  # by file
    for option in writing:
        if (file := getattr(args, option, None)) is not None:
            flag = "--" + option.replace("_", "-")
            other = options.setdefault(os.path.realpath(file), flag)
            if other != flag:
                raise UsageError(f"{other} and {flag} both name {file}: one would overwrite the other")


def _plot(path: Path, summary: Summary) -> None:
    from lmma.output.plotting.convergence import convergence
    from lmma.output.plotting.style import save
    from lmma.run.result import answer_of

    result, target = summary.result, summary.run.options.ftarget
    figure = convergence(
        result.history,
        target=target,
        title=summary.title,
        variables=summary.variables,
        answer=answer_of(result),
    )
    save(figure, path)
