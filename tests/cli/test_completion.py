"""What a shell is offered after a Tab."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("argcomplete", reason="argcomplete is not installed")


def offered(line):
    """Ask as a shell does: the answer is written to file descriptor 8."""
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
    return done.stdout.decode().split("\n")


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX")
@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("lmma ", "minimize"),
        ("lmma ch", "check"),
        ("lmma minimize --max", "--maxfevals"),
        ("lmma minimize --method lm-", "lm-ma-es"),
        ("lmma minimize rotated-c", "rotated-cigar"),
        ("lmma compare --methods lm-ma-es,pu", "lm-ma-es,pulse-full"),
        ("lmma minimize --boundary ", "reflect"),
    ],
)
def test_commands_options_and_names_are_offered(line, word):
    assert word in [text.strip() for text in offered(line)]


def test_nothing_is_asked_of_argcomplete_otherwise():
    code = "import sys; from lmma.cli import main; main(['problems']); sys.exit('argcomplete' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120).returncode == 0
