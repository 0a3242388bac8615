"""Shell completion."""

import os
import subprocess
import sys

import pytest

from completing import offered

pytest.importorskip("argcomplete", reason="argcomplete is not installed")


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX")
@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("lmma ", "minimize"),
        ("lmma ch", "check"),
        ("lmma minimize --max", "--maxfevals"),
        ("lmma minimize --method lm-", "lm-ma-es"),
        ("lmma minimize rotated-c", "rotated-cigar"),
        ("lmma minimize --boundary ", "reflect"),
    ],
)
def test_commands_options_and_names_are_offered(line, word):
    assert word in offered(line)


def test_nothing_is_asked_of_argcomplete_otherwise():
    code = "import sys; from lmma.cli import main; main(['problems']); sys.exit('argcomplete' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120).returncode == 0
