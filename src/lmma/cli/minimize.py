"""``lmma minimize``."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from lmma.cli import arguments, status
from lmma.cli.completion import offer, problem_names
from lmma.cli.space import with_space_file
from lmma.cli.start import DEFAULT_DIM, add_start, first_step, start, start_in
from lmma.cli.status import UsageError
from lmma.cli.target import Target, find_target, import_methods_here, travel_by_value

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lmma.cli.summary import Summary
    from lmma.run.checkpoint import Checkpoint
    from lmma.run.run import Run

DEFAULT_TARGET = 1e-10  # of a built-in problem, as in the paper
PLOT_FILES = (".png", ".svg", ".pdf")

EPILOG = f"""\
TARGET
  A built-in problem (see lmma problems) starts uniformly in [-5, 5]^n with step size 3 and stops at
  {DEFAULT_TARGET:g}, as in the paper, unless you say otherwise; --dim is {DEFAULT_DIM} by default.
  module:function is imported with the current directory on the path; the function takes a NumPy vector
  and returns a number. An exception or NaN is a failed evaluation: it is counted and ranks last.
  --command runs a program for each candidate: the candidate is written to a temporary file, one number a
  line, whose path replaces {{file}}; without {{file}} it goes to standard input. The last line the program
  prints is its value, or its value and constraints g <= 0 with blanks between. A non-zero exit status, a
  signal or anything but numbers is a failed evaluation.
  No shell is involved: for pipes and variables write sh -c '...' yourself.

CONSTRAINTS
  --constraints takes module:name of a function g, of which each number is to become 0 or less, or of
  anything that lmma.minimize takes as constraints=. Your function may also return (f, g) itself.

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
    """Add the arguments of the command: those of a run, and what a shell needs besides."""
    from lmma.cli.options import add_run_options

    parser.epilog = EPILOG
    target = parser.add_argument(
        "target", metavar="TARGET", nargs="?", help="a built-in problem, or module:function; see below"
    )
    offer(target, problem_names)
    parser.add_argument("--command", metavar="'PROGRAM ...'", help="an external program as the objective")

    add_start(parser)
    add_run_options(parser, {"ftarget": f"{DEFAULT_TARGET:g} for a built-in problem, else none"})

    add = parser.add_argument_group("where to evaluate").add_argument
    add(
        "--cluster", metavar="ADDRESS",
        help="evaluate on a cluster: dask://HOST:PORT, ray://HOST:PORT, ray://auto, or mpi under mpiexec",
    )  # fmt: skip
    add(
        "--replicate", action="store_true",
        help="have the cluster's workers make their candidates themselves, so that only values travel",
    )  # fmt: skip

    add = parser.add_argument_group("what to show").add_argument
    add("--json", action="store_true", help="print the result as JSON, and nothing else, on standard output")
    add(
        "--plot",
        metavar="FILE",
        help="draw best value and step size, with noise its quality too, into a .png, .svg or .pdf file",
    )
    add("--save-x", metavar="FILE", help="write the best x to a .npy, .txt or .csv file")
    add("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Minimise, print what came out, and return the exit status."""
    if hasattr(args, "space"):
        args = with_space_file(args)
    space = getattr(args, "space", None)
    target = find_target(args.target, args.command, getattr(args, "vectorized", False), space)
    plot, save_x = _output_files(args)
    with contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext():
        summary = _search(args, target)
    # x first: a picture or a page that fails must not cost it
    written = write_outputs(
        ("--save-x", save_x, lambda path: _save_x(path, summary)),
        ("--plot", plot, lambda path: _plot(path, summary)),
    )
    print(summary.as_json() if args.json else summary.as_text(plot, save_x))
    return summary.status if written else status.UNWRITTEN


def write_outputs(*outputs: tuple[str, Path | None, Callable[[Path], None]]) -> bool:
    """Write each file that was asked for, and say so of one that cannot be; return whether all were."""
    all_written = True
    for flag, path, write in outputs:
        if path is not None:
            try:
                write(path)
            except Exception as error:
                print(f"lmma: {flag} {path} could not be written: {error}", file=sys.stderr)
                all_written = False
    return all_written


def _search(args: argparse.Namespace, target: Target) -> Summary:
    """Run the search, interrupted where nothing is lost; return what came out."""
    from lmma.cli.options import respelled
    from lmma.cli.summary import Summary
    from lmma.evaluation.failures import WorkersError, WorksInPlace, is_failure
    from lmma.run.checkpoint import CheckpointError
    from lmma.run.interrupts import Interrupts

    import_methods_here([getattr(args, "method", "")])
    try:
        search, seed = _prepared(args, target)
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    except (ValueError, TypeError, MemoryError, OSError) as error:
        raise UsageError(respelled(error)) from None
    for words in search.warnings:  # now, when there is still time to start otherwise
        print(f"lmma: {words}", file=sys.stderr)
    begin = time.perf_counter()
    try:
        result = search.execute(interrupts=Interrupts(signal.SIGINT, signal.SIGTERM))
    except (TypeError, WorksInPlace) as error:  # an objective's mistake, not a failure
        raise UsageError(f"{target.name}: {respelled(error)}") from None
    except WorkersError as error:
        raise UsageError(f"{target.name}: {error}", status.ALL_FAILED) from None
    except BaseException as error:
        if search.options.on_error != "raise" or not is_failure(error):
            raise
        raise UsageError(f"{target.name}: {_told(error)} (--on-error raise)", status.ALL_FAILED) from error
    return Summary(target.name, search, result, seed, time.perf_counter() - begin)


def _told(error: BaseException) -> str:
    """Return what an objective raised in one line, and where, if that was in this process."""
    import traceback
    from pathlib import Path

    from lmma.evaluation.failures import words_of

    words = " ".join(f"{type(error).__name__}: {words_of(error)}".split())
    package = str(Path(__file__).parents[1])
    own = [at for at in traceback.extract_tb(error.__traceback__) if not at.filename.startswith(package)]
    return f"{words} at {own[-1].filename}:{own[-1].lineno}" if own else words


def _prepared(args: argparse.Namespace, target: Target) -> tuple[Run, int]:
    """Return the run the arguments ask for, and its seed."""
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
    x0 = start(args, target, seed) if space is None else start_in(space, args)
    given = given_options(args, len(x0))
    if "bounds" in given and args.x0 is None:
        x0 = x0.clip(given["bounds"].lb, given["bounds"].ub)
    if target.problem is not None and space is None:
        given.setdefault("ftarget", DEFAULT_TARGET)
    given |= {
        "rng": seed, "checkpoint": saved, "history": True, "progress": not args.quiet,
        "vectorized": target.vectorized, "workers": _workers(args, target),
    }  # fmt: skip
    search = Run(target.function, x0, first_step(args, target), RunOptions(**given))
    return search, seed


def _workers(args: argparse.Namespace, target: Target) -> Any:
    """Return what ``workers=`` takes: a number of processes, a cluster's address, or replicas there."""
    if args.cluster is None:
        if args.replicate:
            raise UsageError("--replicate is about a cluster's workers: name the cluster with --cluster")
        return getattr(args, "workers", 1)
    if getattr(args, "workers", 1) != 1:
        raise UsageError("give --workers or --cluster, not both: a cluster knows how many workers it has")
    from lmma.evaluation.cluster.address import WAYS, is_address

    if not is_address(args.cluster):
        raise UsageError(f"--cluster must be {WAYS}, got {args.cluster!r}")
    travel_by_value(target.function)
    if not args.replicate:
        return args.cluster
    from lmma.run.replicas.replicated import Replicated

    return Replicated(args.cluster)


def run_seed(args: argparse.Namespace, saved: Checkpoint | None) -> int:
    """Return the seed: as told, that of the checkpoint, or drawn, small enough to be typed in again."""
    import numpy as np

    if hasattr(args, "rng"):
        return int(args.rng)
    if saved is not None and saved.file.exists():
        from lmma.run.checkpoint import CheckpointError, read

        extra = read(saved.file)[0].get("extra")
        seed = extra.get("seed", 0) if isinstance(extra, dict) else None
        if type(seed) is not int or seed < 0:
            raise CheckpointError(f"checkpoint {saved.file} is refused: its seed is {seed!r:.40}")
        return seed
    return int(np.random.SeedSequence().generate_state(1)[0])


def _output_files(args: argparse.Namespace) -> tuple[Path | None, Path | None]:
    """Return where to plot and to save x, refused now rather than after a long run."""
    plot = plot_file(args)
    save_x = None
    if args.save_x is not None:
        named = (".json",) if hasattr(args, "space") else ()
        save_x = arguments.writable(args.save_x, "--save-x", (*arguments.VECTOR_FILES, *named))
    refuse_one_file_for_two(args, ("checkpoint", "log", "plot", "save_x"))
    return plot, save_x


def plot_file(args: argparse.Namespace) -> Path | None:
    """Return where to plot, None if nobody asked for it; refused where it cannot be drawn or written."""
    if args.plot is None:
        return None
    plot = arguments.writable(args.plot, "--plot", PLOT_FILES)
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        from lmma.kernels.install import how_to_install

        raise UsageError(f"--plot needs matplotlib: {how_to_install('plot')}")
    return plot


def _save_x(path: Path, summary: Summary) -> None:
    if path.suffix.lower() == ".json":
        arguments.write_text(path, json.dumps(summary.x, indent=1) + "\n")
    else:
        arguments.write_vector(path, summary.vector)


def refuse_one_file_for_two(args: argparse.Namespace, writing: tuple[str, ...]) -> None:
    """Raise UsageError where two of the options that write a file would write the same one."""
    options: dict[str, str] = {}  # by file
    for option in writing:
        if (file := getattr(args, option, None)) is not None:
            flag = "--" + option.replace("_", "-")
            other = options.setdefault(os.path.realpath(file), flag)
            if other != flag:
                raise UsageError(f"{other} and {flag} both name {file}: one would destroy the other")


def _plot(path: Path, summary: Summary) -> None:
    from lmma.output.plotting.convergence import convergence
    from lmma.output.plotting.style import save
    from lmma.run.run_result import answer_of

    result, target = summary.result, summary.run.options.ftarget
    figure = convergence(
        result.history,
        target=target,
        title=summary.title,
        variables=summary.variables,
        answer=answer_of(result),
    )
    save(figure, path)
