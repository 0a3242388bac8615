"""``python -m lmma``."""

import sys

from lmma.cli import main

if __name__ == "__main__":  # workers of MPI import this too, under another name
    sys.exit(main())
