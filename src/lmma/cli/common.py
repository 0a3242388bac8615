"""What ``reproduce`` and ``compare`` share: a store, workers, Ctrl-C, and words about them."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from lmma.cli import arguments
from lmma.cli.status import INTERRUPTED, OK, UNSOLVED, UsageError

if TYPE_CHECKING:
    from lmma.experiments.schedule.runner import Runner
    from lmma.experiments.tasks import Task
    from lmma.store import Store


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str
) -> argparse.ArgumentParser:
    """Return the parser of a command that ``summary`` describes in half a sentence."""
    return commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_campaign_arguments(parser: argparse.ArgumentParser, out: str) -> None:
    """Add the arguments that say where records go and how many workers there are."""
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path(out), help=f"where everything goes ({out})"
    )
    parser.add_argument(
        "--workers", metavar="N", type=arguments.count, default=1, help="runs side by side, a thread each (1)"
    )
    parser.add_argument("--dry-run", action="store_true", help="say how much there is to do and stop")
    parser.add_argument(
        "--report-only", action="store_true", help="run nothing, write the report from the records there are"
    )


def carry_out(args: argparse.Namespace, tasks: Sequence[Task]) -> tuple[int, list[dict[str, Any]] | None]:
    """Do the tasks; return the exit status and, if there is something to report, all records."""
    from lmma.experiments.exchange import ExchangeError, export_records
    from lmma.experiments.schedule.runner import Runner
    from lmma.experiments.tasks import KINDS, record_fault
    from lmma.store import FILE, Store, StoreError

    try:
        with Store(args.out / FILE, record_fault) as store:
            status = _take_in(store, getattr(args, "imports", None) or [])
            try:
                runner = Runner(tasks, store, args.workers)
            except (ValueError, TypeError) as error:
                raise UsageError(str(error)) from None
            for words in store.words:
                print(f"lmma: {words}", file=sys.stderr)
            print(runner.announce(), flush=True)
            if hours := getattr(args, "hours", None):
                print(_planned(runner, store, 3600.0 * hours), flush=True)
            if args.dry_run:
                return status, None
            if not args.report_only:
                with sigterm_as_ctrl_c():
                    summary = runner.run()
                if summary.interrupted:
                    again = getattr(args, "command", "") or command_line(args.name, args)
                    print(
                        f"Interrupted: {summary.done} of {summary.total} tasks are done and kept, those in "
                        f"progress as well. To go on:\n  {again}",
                        file=sys.stderr,
                    )
                    return INTERRUPTED, None
                if summary.out_of_time:
                    print(
                        f"The time is over: {summary.done} of {summary.total} tasks are done, those in "
                        "progress are kept; the same command goes on"
                    )
                if summary.failed:
                    print(
                        f"{len(summary.failed)} tasks failed; the same command tries them again",
                        file=sys.stderr,
                    )
                    status = UNSOLVED
            if (folder := getattr(args, "export", None)) is not None:
                with in_words():
                    print(f"{export_records(store, folder)} records are in {folder}")
            return status, [record for kind in KINDS for record in store.records(kind)]
    except ExchangeError as error:
        raise UsageError(f"--import: {error}") from None
    except StoreError as error:
        print(f"lmma: {error}", file=sys.stderr)
        return UNSOLVED, None


def _take_in(store: Store, folders: Sequence[Path]) -> int:
    """Import the records of ``folders``, say what became of them, and return the exit status."""
    from lmma.experiments.exchange import import_records

    status = OK
    for folder in folders:
        outcome = import_records(store, folder)
        print(f"{folder}: {outcome.words()}")
        for words in (*outcome.unlike, *outcome.refused):
            print(f"lmma: {words}", file=sys.stderr)
            status = UNSOLVED
    return status


def _planned(runner: Runner, store: Store, seconds: float) -> str:
    """Put the tasks of ``runner`` in the order of what they decide; return what fits and what does not."""
    from lmma.experiments.plan import plan

    chosen = plan(
        list(runner.left.values()), store.records(), runner.clock.expected, seconds * runner.workers
    )
    runner.follow([task.key for task in chosen.tasks], seconds)
    return chosen.words()


def attack_records(folder: Path) -> list[dict[str, Any]]:
    """Return what the store in ``folder``, if there is one, knows of attacks."""
    from lmma.attack.records import record_fault
    from lmma.experiments.analysis.samples import KINDS_OF_ATTACKS
    from lmma.store import FILE, Store

    if not (folder / FILE).exists():
        return []
    with Store(folder / FILE, record_fault) as store:
        return [record for kind in KINDS_OF_ATTACKS for record in store.records(kind)]


@contextmanager
def in_words() -> Iterator[None]:
    """Turn a file that cannot be written into a line on standard error and exit status 1."""
    from lmma.output.files import OutputError

    try:
        yield
    except OutputError as error:
        print(f"lmma: {error}", file=sys.stderr)
        raise SystemExit(UNSOLVED) from None


def command_line(name: str, args: argparse.Namespace) -> str:
    """Return the command that does the same again."""
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
    """Let SIGTERM end the work as Ctrl-C does: workers ended, claims given up, words said."""
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
