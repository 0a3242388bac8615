"""Modules in the current directory that shadow others and must not be imported."""

import sys

NAMES = ("json", "random", "numpy", "struct", "dataclasses")
MINE = "import math\ndef loss(x):\n    return math.fsum(x * x)\n"


def lay_out(folder):
    """Write such modules, and ``mine.py``; return a function that lists those that were imported."""
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(folder / name)!r} + '.ran', 'a').write('x')\n")
    (folder / "mine.py").write_text(MINE)
    return lambda: sorted(file.name for file in folder.glob("*.ran"))


def command(*words):
    """Return ``lmma ...`` as the console script runs it: the current directory is not on the path."""
    code = "import sys; from lmma.cli import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-P", "-c", code, *map(str, words)]
