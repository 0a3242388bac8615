"""``lmma watch``."""

from __future__ import annotations

import argparse
import secrets
from pathlib import Path

from lmma.cli import arguments, status
from lmma.cli.status import UsageError
from lmma.output.watch.follow import Follower

EPILOG = """\
The page is for this machine alone (127.0.0.1), renews itself while runs write their logs, and shows nothing
but what is in them. Ctrl-C ends it. A folder stands for the .jsonl files in it.

examples:
  lmma watch run.jsonl
  lmma watch runs/ --port 8123
  lmma watch run.jsonl --once run.html
"""
MOST = 7  # logs on one page: one for each colour


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
    followers = [Follower(path) for path in logs_of(args.files)]
    title = followers[0].path.name if len(followers) == 1 else f"{len(followers)} logs"
    if args.once:
        return _write(args.once, title, followers)
    from lmma.output.watch.server import WatchServer

    try:
        server = WatchServer(followers, title, args.port)
    except (OSError, OverflowError) as error:
        raise UsageError(f"--port {args.port} cannot be used: {error}") from None
    with server:
        print(f"{server.address} shows {title}; Ctrl-C ends it", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return status.OK
    return status.OK


def logs_of(files: list[str]) -> list[Path]:
    """Return the logs that are meant; a file may be missing yet, its folder not."""
    found: list[Path] = []
    for name in files:
        path = Path(name)
        if path.is_dir():
            inside = sorted(path.glob("*.jsonl"))
            if not inside:
                raise UsageError(f"there is no .jsonl file in {path}")
            found += inside
        elif not path.absolute().parent.is_dir():
            raise UsageError(f"there is no folder {path.parent}")
        else:
            found.append(path)
    if len(found) > MOST:
        raise UsageError(f"a page shows {MOST} logs at most, got {len(found)}: name fewer")
    return found


def _write(once: str, title: str, followers: list[Follower]) -> int:
    from lmma.output.files import OutputError, write_text
    from lmma.output.watch.page import page

    output = arguments.writable(once, "--once", (".html", ".htm"))
    for follower in followers:
        follower.update()
        if follower.problem:
            raise UsageError(f"{follower.path} cannot be read: {follower.problem}")
    logs = [follower.data() for follower in followers]
    try:
        write_text(output, page(title, secrets.token_urlsafe(16), logs))
    except OutputError as error:
        raise UsageError(f"--once: {error.__cause__ or error}", status.UNWRITTEN) from None
    print(f"{output}: {sum(log['records'] for log in logs):,} records")
    return status.OK
