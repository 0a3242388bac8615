"""``lmma bench cost``."""

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
R is the time of one ask + tell divided by the time in which NumPy draws as many standard normal numbers in
float64. All take turns in one process and the best of many turns counts. Unless said otherwise a contender
has one thread; evosax has those of XLA. Packages that are not installed are left out with a word:
pip install 'lmma[bench]' brings them.

OUT then holds cost.json and cost.png, the paper's Figure 1 with the others added.

examples:
  lmma bench cost
  lmma bench cost --dims 1000,10000,100000,1000000 --no-peers
"""
ONE_THREAD = dict.fromkeys(THREAD_VARIABLES, "1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the benchmark."""
    parser.epilog = EPILOG
    parser.add_argument(
        "--dims", metavar="N,N", default="128,1024,8192,65536", help="variables (128,1024,8192,65536)"
    )
    parser.add_argument(
        "--repeat", metavar="N", type=arguments.count, default=30, help="turns each contender gets (30)"
    )
    parser.add_argument(
        "--patience", metavar="S", type=arguments.positive, default=6.0,
        help="seconds after which a slow contender gets no more turns (6)",
    )  # fmt: skip
    parser.add_argument("--no-peers", action="store_true", help="leave other packages out")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("lmma-bench"), help="(lmma-bench)")


def run(args: argparse.Namespace) -> int:
    """Time everything; print a table, write JSON and a plot."""
    dims = arguments.numbers(args.dims, "--dims")
    if not dims or min(dims) < 2:
        raise UsageError(f"--dims must be numbers of variables, 2 or more, got {args.dims!r}")
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        # NumPy reads these when it is imported: too late for this process.
        import lmma

        # -P: modules of the current directory are not meant, unless lmma itself is there
        safe = [] if Path(lmma.__file__).resolve().parents[1] == Path.cwd() else ["-P"]
        return subprocess.run(
            [sys.executable, *safe, "-m", "lmma", *args.words], env={**os.environ, **ONE_THREAD}
        ).returncode
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {args.out} cannot be made: {error.strerror or error}") from None

    from lmma import kernels
    from lmma.experiments.timing.cost import measure

    print(f"kernels: {kernels.backend()}\n", flush=True)
    record = measure(
        dims, repeat=args.repeat, patience=args.patience, peers=not args.no_peers,
        say=lambda text: print(text, flush=True),
    )  # fmt: skip
    if record["exponent"] is not None:
        print(f"From n = 1,000 on the time per sample of lm-ma-es grows like n^{record['exponent']:.2f}.")
    (args.out / "cost.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{args.out / 'cost.json'}: all times, in seconds")
    try:
        from lmma.output.plotting import save, time_per_sample

        save(time_per_sample(record), args.out / "cost.png")
        print(f"{args.out / 'cost.png'}: time per sample over n")
    except ImportError:
        from lmma.kernels.install import how_to_install

        print(f"no plot: matplotlib is not installed ({how_to_install('plot')})")
    return status.OK
