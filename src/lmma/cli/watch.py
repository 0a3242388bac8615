"""The command ``lmma watch``: serve a live page of logs and archives."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from pathlib import Path

from lmma.cli import arguments, status
from lmma.cli.status import UsageError
from lmma.output.watch.follow import LOGS, Follower, Logs, Source

EPILOG = """\
The page is served on this machine only (127.0.0.1), shows only the contents of the files, and updates as the
runs write them. The printed address contains a random token, without which requests are rejected: other users
of the machine cannot read the page. Press Ctrl-C to stop. A folder shows its seven newest .jsonl files,
including files added later.

examples:
  lmma watch run.jsonl
  lmma watch runs.db
  lmma watch runs/ --port 8123
  lmma watch run.jsonl --once run.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="log of lmma minimize --log, archive of lmma minimize --archive, or a folder of logs",
    )
    parser.add_argument(
        "--port",
        type=arguments.whole_number,
        default=0,
        help="port to serve the page on (default: any free port)",
    )
    parser.add_argument(
        "--once", metavar="FILE.html", help="write the page to a self-contained file instead of serving it"
    )


def run(args: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C, or write it to a file."""
    logs = logs_of(args.files)
    title = Path(args.files[0]).name or "logs" if len(args.files) == 1 else f"{len(args.files)} logs"
    if args.once:
        return _write(args.once, title, logs)
    from lmma.output.watch.server import WatchServer

    for follower in logs.update():
        _check_is_log(follower)
    try:
        server = WatchServer(logs, title, args.port)
    except (OSError, OverflowError) as error:
        raise UsageError(f"--port {args.port} cannot be used: {error}") from None
    try:
        with server:
            for follower in logs.followers:
                if not follower.path.exists():
                    print(f"lmma: {follower.path} does not exist yet; waiting for it", file=sys.stderr)
            print(f"{server.address} shows {title}; press Ctrl-C to stop", flush=True)
            server.serve_forever()
    except KeyboardInterrupt:
        pass
    return status.OK


def logs_of(files: list[str]) -> Logs:
    """Return the logs named by files and folders; a file need not exist yet, but its folder must."""
    for name in files:
        path = Path(name)
        if path.is_dir():
            if not any(path.glob("*.jsonl")):
                raise UsageError(f"no .jsonl file in {path}")
        elif not path.absolute().parent.is_dir():
            raise UsageError(f"no such folder: {path.parent}")
    if len(files) > LOGS:
        raise UsageError(
            f"a page shows at most {LOGS} logs, got {len(files)}: name fewer files, or their folder"
        )
    return Logs(files, follower_of)


def follower_of(path: Path) -> Source:
    """Return the follower of an archive or a log; one that does not exist yet is known by its suffix."""
    from lmma.run.archive.database import is_archive

    if path.is_file() and path.stat().st_size:
        archive = is_archive(arguments.first_bytes(path))
    else:
        archive = path.suffix == ".db"
    if not archive:
        return Follower(path)
    from lmma.run.archive.follower import ArchiveFollower

    return ArchiveFollower(path)


def _check_is_log(follower: Source) -> None:
    if follower.is_foreign:
        raise UsageError(f"{follower.path} is not a log written by lmma minimize --log")


def _write(once: str, title: str, logs: Logs) -> int:
    from lmma._files import OutputError, write_text
    from lmma.output.watch.server import page

    output = arguments.writable(once, "--once", (".html", ".htm"))
    data = logs.data() | {"written": round(time.time())}
    for follower in logs.followers:
        if follower.problem:
            raise UsageError(f"{follower.path} cannot be read: {follower.problem}")
        _check_is_log(follower)
    try:
        write_text(output, page(title, secrets.token_urlsafe(16), data))
    except OutputError as error:
        raise UsageError(f"--once: {error.__cause__ or error}", status.UNWRITTEN) from None
    print(f"{output}: {sum(follower.records for follower in logs.followers):,} records")
    return status.OK
