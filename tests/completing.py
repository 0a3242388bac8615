"""Completions as a shell requests them."""

import os
import subprocess
import sys


def offered(line):
    """Return what is offered after ``line``; argcomplete writes the answer to file descriptor 8."""
    script = 'exec 8>&1 9>/dev/null; exec "$@"'
    environment = os.environ | {
        "_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }  # fmt: skip
    done = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "lmma"],
        env=environment,
        capture_output=True,
        timeout=120,
    )
    return [text.strip() for text in done.stdout.decode().split("\n")]
