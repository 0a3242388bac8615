"""``lmma attack``."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from lmma.cli import arguments, status
from lmma.cli.common import attack_records, sigterm_as_ctrl_c
from lmma.cli.status import UsageError
from lmma.cli.target import named_object
from lmma.output.progress import StatusLine, bar

if TYPE_CHECKING:
    from lmma.output.report import Table

EPILOG = """\
Without --data the 1,797 digits of 8 x 8 pixels that come with scikit-learn are attacked: no download, done
in less than a minute. For MNIST give the folder with its four files, plain or .gz, or --download.

A classifier and images of your own: --model module:predict_proba, which maps rows to class probabilities, and
--data with an .npz file or module:function that gives X, one image a row, and y, the columns of their classes
(also high, the brightest value, and shape). Modules in the current directory are found.

The folder --out receives store.sqlite (every finished image; the same command goes on where it was
interrupted), one .csv for each method, gallery.png, progress.png, success.png, table.md and index.html; for
MNIST also ledger.md, in which the paper's claims are judged from all attacks in the store.

exit status:
    0  done, and every adversarial confirmed
    1  done, but an adversarial was not confirmed
    2  the arguments are wrong
  130  interrupted; run the same command again to go on

examples:
  lmma attack
  lmma attack --method lm-ma-es,ma-es,csa-es --images 200 --clip --round
  lmma attack --model mymodule:predict_proba --data mymodule:images --images 20 --sigma0 0.1
  lmma attack --data mnist/ --model forest.npz --images 1000 --threads -1
  lmma attack --data mnist/ --model forest.npz --images all --clip --round --out out/8-bit
"""


def _images(text: str) -> int | None:
    return None if text == "all" else arguments.count(text)


def _threads(text: str) -> int:
    return -1 if text == "-1" else arguments.count(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    what = parser.add_argument_group("what to attack")
    add = what.add_argument
    add("--data", metavar="WHERE",
        help="folder with the MNIST files, an .npz file with X and y, or module:function that returns them "
        "(default: scikit-learn's digits)")  # fmt: skip
    add("--download", action="store_true", help="MNIST from the cache, or from OpenML")
    add("--model", metavar="WHICH",
        help="forest to load, or to train and save here (.npz, no pickle); or module:predict_proba, a "
        "function from rows to class probabilities")  # fmt: skip
    add("--trees", metavar="N", type=arguments.count,
        help="size of a forest to be trained (default: 1000; 200 for the digits)")  # fmt: skip
    add("--images", metavar="N|all", type=_images, default=50,
        help="how many correctly classified test images, drawn at random (default: 50)")  # fmt: skip

    how = parser.add_argument_group("how to attack")
    add = how.add_argument
    add("--method", metavar="NAME[,NAME...]", default="lm-ma-es",
        help="see lmma methods; several are compared on the same images (default: lm-ma-es)")  # fmt: skip
    add("--budget", metavar="N", type=arguments.count, default=1000,
        help="queries per image; the last generation is completed (default: 1000)")  # fmt: skip
    add("--sigma0", metavar="STEP", type=arguments.positive,
        help="initial step size in grey values (default: 1; 0.2 for the digits)")  # fmt: skip
    add("--clip", action="store_true", help="clip candidates to valid grey values before each query")
    add("--round", action="store_true", help="round candidates to whole grey values before each query")
    add("--target-class", metavar="CLASS", type=arguments.whole, help="class to reach (default: any wrong)")
    add("--seed", metavar="N", type=arguments.whole, default=0,
        help="seed of training, choice of images and search (default: 0)")  # fmt: skip

    output = parser.add_argument_group("where and how to show it")
    add = output.add_argument
    add(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("out/attack"),
        help="folder for all results (default: out/attack)",
    )
    add("--threads", metavar="N", type=_threads, default=1, help="images share N threads; -1: all processors")
    add("--no-figures", action="store_true", help="draw nothing (figures need matplotlib)")
    add("--json", action="store_true", help="print the numbers as JSON, and nothing else, on standard output")
    add("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Attack, publish, print the table, and return the exit status."""
    try:
        from lmma.attack import pipeline, publish
        from lmma.strategies.registry import strategy_class

        if args.data is not None and args.download:
            raise UsageError("--download puts MNIST into the cache and takes it from there: leave out --data")
        if args.seed < 0:
            raise UsageError(f"--seed: choose a number that is not negative, got {args.seed}")
        methods = tuple(dict.fromkeys(name.strip() for name in args.method.split(",")))
        for name in methods:
            strategy_class(name)
        settings = pipeline.Settings(
            data=_data(args.data), download=args.download, model=_model(args.model), trees=args.trees,
            seed=args.seed, images=args.images, methods=methods, sigma0=args.sigma0, budget=args.budget,
            clip=args.clip, round=args.round, target=args.target_class, threads=args.threads,
        )  # fmt: skip
        shown = None if args.quiet else Bar()
        try:
            with sigterm_as_ctrl_c():
                report = pipeline.run_attack(settings, args.out, shown)
        finally:
            if shown is not None:
                shown.line.close()
        ledger = _ledger(args.out) if report.dataset.name == "mnist" else None
        command = shlex.join(["lmma", *args.words])
        files = publish.publish(report, args.out, command, figures=not args.no_figures, ledger=ledger)
    except KeyboardInterrupt:
        print(f"lmma: interrupted; the same command goes on from {args.out}", file=sys.stderr)
        return status.INTERRUPTED
    except ImportError as error:
        from lmma.kernels.install import how_to_install

        needed = (error.name or "sklearn").partition(".")[0]
        command = how_to_install({"sklearn": "attack", "matplotlib": "plot"}.get(needed, needed))
        raise UsageError(f"attack needs {needed}, which is not installed: {command}") from None
    except (ValueError, TypeError, OSError) as error:
        raise UsageError(str(error)) from None
    for words in report.words:
        print(f"lmma: {words}", file=sys.stderr)
    if args.json:
        print(json.dumps(report.numbers() | {"files": [str(path) for path in files]}))
    else:
        print(publish.markdown(report))
        if ledger is not None:
            print(f"Section 4.2 of the paper: {ledger.lead.partition('.')[0]}; see ledger.md.")
        print(f"page: {args.out / 'index.html'}")
    sound = all(report.confirmed[m] == s.successes for m, s in report.summaries.items())
    return status.OK if sound else status.UNSOLVED


def _is_named(text: str | None) -> bool:
    """Return whether it reads as module:name rather than as a file, C:\\data included."""
    return text is not None and re.fullmatch(r"[A-Za-z_][\w.]+:[A-Za-z_][\w.]*", text) is not None


def _data(given: str | None) -> Any:
    """Return what --data means: a path as it is, or the images that module:function returns."""
    if given is None or not _is_named(given):
        return given
    from lmma.attack.own import dataset_of

    found = named_object(given, "--data")
    if callable(found):
        try:
            found = found()
        except Exception as error:
            raise UsageError(f"--data: {given} failed: {type(error).__name__}: {error}") from None
    return dataset_of(found, given)


def _model(given: str | None) -> Any:
    """Return what --model means: a path as it is, or the function module:predict_proba."""
    if given is None or not _is_named(given):
        return given
    found = named_object(given, "--model")
    found = getattr(found, "predict_proba", found)  # of a fitted model of scikit-learn's kind
    if not callable(found):
        raise UsageError(f"--model: {given} is {found!r:.60}, not a function from rows to probabilities")
    return found


def _ledger(out: Path) -> Table:
    """Judge section 4.2 of the paper from all attacks in the store."""
    from lmma.experiments.claims import attacks, judge
    from lmma.experiments.publish import write_ledger

    return write_ledger(judge(attack_records(out), where=attacks.SECTION), out)


class Bar:
    """Shows how far work is: a bar renewed in place on a terminal, a line now and then elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.line = StatusLine(stream)

    def __call__(self, what: str, done: int, total: int, word: str) -> None:
        """Show the state if it is time to, or if a piece is complete."""
        if not self.line.due() and done < total:
            return
        shown = f"{bar(done / max(1, total))} " if self.line.live else ""
        self.line.show(f"{what:<10} {shown}{done:,} of {total:,} {word}")
        if done >= total:
            self.line.close()
