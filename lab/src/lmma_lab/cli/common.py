"""Code shared by ``reproduce``, ``compare`` and ``bench``: store, workers, interruption and messages."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from lmma.cli import arguments
from lmma.cli.status import INTERRUPTED, OK, UNSOLVED, UsageError

if TYPE_CHECKING:
    from lmma_lab.schedule.runner import Runner
    from lmma_lab.store import Store
    from lmma_lab.tasks import Task


def add_campaign_arguments(parser: argparse.ArgumentParser, out: str) -> None:
    """Add the arguments for the output folder, the workers and dry runs."""
    parser.add_argument(
        "--out", metavar="OUT", type=Path, default=Path(out), help=f"output folder (default: {out})"
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=arguments.count,
        default=1,
        help="worker processes, one thread each (default: 1)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the amount of work and exit")
    parser.add_argument(
        "--report-only",
        action="store_true",
        help="write the report from existing records without running anything",
    )


def run_tasks(args: argparse.Namespace, tasks: Sequence[Task]) -> tuple[int, list[dict[str, Any]] | None]:
    """Run the tasks; return the exit status and all records, or None if no report is to be written."""
    from lmma_lab.import_export import RecordsError, export_records
    from lmma_lab.schedule.runner import Runner
    from lmma_lab.store import FILE, Store, StoreError
    from lmma_lab.tasks import KINDS, record_fault

    try:
        with Store(args.out / FILE, record_fault) as store:
            status = _import_all(store, getattr(args, "imports", None) or [])
            try:
                runner = Runner(tasks, store, args.workers)
            except (ValueError, TypeError) as error:
                raise UsageError(str(error)) from None
            for warning in store.warnings:
                print(f"lmma: {warning}", file=sys.stderr)
            print(runner.announce(), flush=True)
            if hours := getattr(args, "hours", None):
                print(_planned(runner, store, 3600.0 * hours), flush=True)
            if args.dry_run:
                return status, None
            if not args.report_only:
                with sigterm_as_ctrl_c():
                    summary = runner.run()
                if summary.interrupted:
                    command = shlex.join(["lmma", *args.words])
                    print(
                        f"Interrupted: {summary.done} of {summary.total} tasks are finished. They and "
                        f"those in progress are saved. To resume:\n  {command}",
                        file=sys.stderr,
                    )
                    return INTERRUPTED, None
                if summary.out_of_time:
                    print(
                        f"Time limit reached: {summary.done} of {summary.total} tasks are finished, those in "
                        "progress are saved; repeat the command to resume"
                    )
                if summary.failed:
                    print(
                        f"{len(summary.failed)} tasks failed; repeat the command to retry them",
                        file=sys.stderr,
                    )
                    status = UNSOLVED
            if (folder := getattr(args, "export", None)) is not None:
                with report_write_errors():
                    print(f"{export_records(store, folder)} records written to {folder}")
            return status, [record for kind in KINDS for record in store.records(kind)]
    except RecordsError as error:
        raise UsageError(f"--import: {error}") from None
    except StoreError as error:
        print(f"lmma: {error}", file=sys.stderr)
        return UNSOLVED, None


def _import_all(store: Store, folders: Sequence[Path]) -> int:
    """Import the records of ``folders``, print the outcome, and return the exit status."""
    from lmma_lab.import_export import import_records

    status = OK
    for folder in folders:
        outcome = import_records(store, folder)
        print(f"{folder}: {outcome.summary()}")
        for problem in (*outcome.conflicting, *outcome.rejected):
            print(f"lmma: {problem}", file=sys.stderr)
            status = UNSOLVED
    return status


def _planned(runner: Runner, store: Store, seconds: float) -> str:
    """Sort the tasks of ``runner`` by priority; return a description of the plan."""
    from lmma_lab.plan import plan

    chosen = plan(
        list(runner.left.values()), store.records(), runner.clock.expected, seconds * runner.workers
    )
    runner.set_order([task.key for task in chosen.tasks], seconds)
    return chosen.summary()


def attack_records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of attacks in the store of ``folder``, if there is one."""
    from lmma_lab.analysis.samples import KINDS_OF_ATTACKS
    from lmma_lab.attack.records import record_fault
    from lmma_lab.store import FILE, Store

    if not (folder / FILE).exists():
        return []
    with Store(folder / FILE, record_fault) as store:
        return [record for kind in KINDS_OF_ATTACKS for record in store.records(kind)]


@contextmanager
def report_write_errors() -> Iterator[None]:
    """Report a file that cannot be written on standard error and exit with status 1."""
    from lmma._files import OutputError

    try:
        yield
    except OutputError as error:
        advice = "free some space or choose another --out. Finished runs are saved in the store"
        print(f"lmma: {error}; {advice}", file=sys.stderr)
        raise SystemExit(UNSOLVED) from None


def options_of(args: argparse.Namespace, *names: str) -> str:
    """Return the options with their values as command-line text."""
    return " ".join(f"--{name} {getattr(args, name)}" for name in names)


def print_report(records: Sequence[Any], out: Path, publish: Callable[[], str]) -> None:
    """Print the text that ``publish`` returns and its output folder; raise UsageError without records."""
    if not records:
        raise UsageError(f"no records found in {out}")
    with report_write_errors():
        print(publish())
    print(f"\nFigures, tables and README.md are in {out}")


def command_line(name: str, args: argparse.Namespace) -> str:
    """Return the command line that repeats this run."""
    words = ["lmma", name, *getattr(args, "figures", [])]
    for option in (
        "preset",
        "problems",
        "methods",
        "dims",
        "seeds",
        "budget",
        "target",
        "sigma0",
        "attacks",
        "hours",
        "workers",
        "out",
    ):
        value = getattr(args, option, None)
        if value is not None:
            words += [f"--{option}", f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join(words)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C: stop the workers, release their claims and print a message."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
