"""Command line: ``python -m lmma``."""

import sys

from lmma.cli import main

if __name__ == "__main__":  # MPI workers import this module under another name
    sys.exit(main())
