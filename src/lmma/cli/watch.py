"""``lmma watch``."""

from __future__ import annotations

import argparse
import secrets
import time
from pathlib import Path

from lmma.cli import arguments, status
from lmma.cli.status import UsageError
from lmma.output.watch.follow import LOGS, Logs

EPILOG = """\
The page is for this machine alone (127.0.0.1), renews itself while runs write their logs, and shows nothing
but what is in them. Ctrl-C ends it. A folder stands for the .jsonl files in it, the newest seven, also those
that come later.

examples:
  lmma watch run.jsonl
  lmma watch runs/ --port 8123
  lmma watch run.jsonl --once run.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="logs of lmma minimize --log, or a folder of them"
    )
    parser.add_argument(
        "--port", type=arguments.whole, default=0, help="where to serve the page (a free one)"
    )
    parser.add_argument(
        "--once", metavar="FILE.html", help="write the page into a file instead, to be mailed"
    )


def run(args: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C, or write it."""
    logs = logs_of(args.files)
    title = Path(args.files[0]).name or "logs" if len(args.files) == 1 else f"{len(args.files)} logs"
    if args.once:
        return _write(args.once, title, logs)
    from lmma.output.watch.server import WatchServer

    try:
        server = WatchServer(logs, title, args.port)
    except (OSError, OverflowError) as error:
        raise UsageError(f"--port {args.port} cannot be used: {error}") from None
    try:
        with server:
            print(f"{server.address} shows {title}; Ctrl-C ends it", flush=True)
            server.serve_forever()
    except KeyboardInterrupt:
        pass
    return status.OK


def logs_of(files: list[str]) -> Logs:
    """Return the logs that are meant; a file may be missing yet, its folder not."""
    for name in files:
        path = Path(name)
        if path.is_dir():
            if not any(path.glob("*.jsonl")):
                raise UsageError(f"there is no .jsonl file in {path}")
        elif not path.absolute().parent.is_dir():
            raise UsageError(f"there is no folder {path.parent}")
    if len(files) > LOGS:
        raise UsageError(f"a page shows {LOGS} logs at most, got {len(files)}: name fewer, or their folder")
    return Logs(files)


def _write(once: str, title: str, logs: Logs) -> int:
    from lmma.output.files import OutputError, write_text
    from lmma.output.watch.page import page

    output = arguments.writable(once, "--once", (".html", ".htm"))
    data = logs.data() | {"written": round(time.time())}
    for follower in logs.followers:
        if follower.problem:
            raise UsageError(f"{follower.path} cannot be read: {follower.problem}")
    try:
        write_text(output, page(title, secrets.token_urlsafe(16), data))
    except OutputError as error:
        raise UsageError(f"--once: {error.__cause__ or error}", status.UNWRITTEN) from None
    print(f"{output}: {sum(follower.records for follower in logs.followers):,} records")
    return status.OK
