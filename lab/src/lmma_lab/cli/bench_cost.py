"""The command ``lmma bench cost``: time per generation of lmma and other packages."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from lmma.cli import arguments, status
from lmma.cli.status import UsageError
from lmma.kernels.blas import THREAD_VARIABLES

EPILOG = """\
R is the time of one ask + tell divided by the time NumPy needs to draw the same number of standard normal
float64 numbers. All methods alternate in one process; the best of many rounds counts. Each method has one
thread unless its name says otherwise; evosax uses the threads of XLA. Packages that are not installed are
skipped with a message; install them with pip install 'lmma-lab[bench]'.

OUT receives cost.json and cost.png, the paper's Figure 1 with the other packages added.

examples:
  lmma bench cost
  lmma bench cost --dims 1000,10000,100000,1000000 --no-peers
"""
ONE_THREAD = dict.fromkeys(THREAD_VARIABLES, "1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the benchmark."""
    parser.epilog = EPILOG
    parser.add_argument(
        "--dims",
        metavar="N,N",
        default="128,1024,8192,65536",
        help="numbers of variables (default: 128,1024,8192,65536)",
    )
    parser.add_argument(
        "--repeat", metavar="N", type=arguments.count, default=30, help="rounds per method (default: 30)"
    )
    parser.add_argument(
        "--patience", metavar="S", type=arguments.positive, default=6.0,
        help="time limit per method and dimension in seconds, after three rounds (default: 6)",
    )  # fmt: skip
    parser.add_argument("--no-peers", action="store_true", help="skip other packages")
    parser.add_argument(
        "--out",
        metavar="OUT",
        type=Path,
        default=Path("lmma-bench"),
        help="output folder (default: lmma-bench)",
    )


def run(args: argparse.Namespace) -> int:
    """Time all methods, print a table, and write JSON and a plot."""
    dims = arguments.numbers(args.dims, "--dims")
    if not dims or min(dims) < 2:
        raise UsageError(f"--dims must be numbers of variables of at least 2, got {args.dims!r}")
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        # NumPy reads these variables on import, which is too late in this process.
        import lmma

        # -P: do not import modules from the current directory, unless lmma itself is there
        safe = [] if Path(lmma.__file__).resolve().parents[1] == Path.cwd() else ["-P"]
        return subprocess.run(
            [sys.executable, *safe, "-m", "lmma", *args.words], env={**os.environ, **ONE_THREAD}
        ).returncode
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {args.out} cannot be created: {error.strerror or error}") from None

    from lmma import kernels
    from lmma_lab.timing.cost import measure

    print(f"kernels: {kernels.backend()}\n", flush=True)
    record = measure(
        dims, repeat=args.repeat, patience=args.patience, peers=not args.no_peers,
        say=lambda text: print(text, flush=True),
    )  # fmt: skip
    if record["exponent"] is not None:
        print(f"For n >= 1,000 the time per sample of lm-ma-es grows like n^{record['exponent']:.2f}.")
    (args.out / "cost.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{args.out / 'cost.json'}: all times, in seconds")
    try:
        from lmma.plotting import save
        from lmma_lab.plotting import time_per_sample

        save(time_per_sample(record), args.out / "cost.png")
        print(f"{args.out / 'cost.png'}: time per sample over n")
    except ImportError:
        from lmma_lab.install import how_to_install

        print(f"no plot: matplotlib is not installed ({how_to_install('plot')})")
    return status.OK
