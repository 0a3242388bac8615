"""``python -m lmma.cli``."""

import sys

from lmma.cli import main

sys.exit(main())
