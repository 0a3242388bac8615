"""The command ``lmma attack``: search for adversarial images of a classifier."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from lmma.cli import arguments, status
from lmma.cli.status import UsageError
from lmma.cli.target import import_object
from lmma.output.progress import StatusLine, bar
from lmma_lab.cli.common import attack_records, sigterm_as_ctrl_c

if TYPE_CHECKING:
    from lmma_lab.report import Table

EPILOG = """\
By default the images are scikit-learn's 1,797 digits of 8 x 8 pixels, which need no download and take less
than a minute. For MNIST, pass --download, or --data with the folder of its four files (plain or .gz).

To attack your own classifier, pass --model module:predict_proba, a function from rows to class probabilities,
and --data with an .npz file or module:function. The data are X, one image per row, and y, the column of each
image's class; optionally high, the brightest value, and shape. Modules are also imported from the current
directory.

The folder --out receives store.sqlite with every finished image, one .csv per method, gallery.png,
progress.png, success.png, table.md and index.html. For MNIST it also receives ledger.md, which checks the
paper's claims against all attacks in the store. To resume after an interruption, repeat the command.

exit status:
    0  finished; every adversarial image was confirmed
    1  finished; some adversarial image was not confirmed
    2  invalid arguments
  130  interrupted; repeat the command to resume

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
    what = parser.add_argument_group("classifier and images")
    add = what.add_argument
    add("--data", metavar="WHERE",
        help="folder with the MNIST files, an .npz file with X and y, or module:function that returns them "
        "(default: scikit-learn's digits)")  # fmt: skip
    add(
        "--download", action="store_true", help="use MNIST from the cache; download it from OpenML if missing"
    )
    add("--model", metavar="WHICH",
        help="forest file to load, or to write after training (.npz, no pickle); or module:predict_proba, a "
        "function from rows to class probabilities")  # fmt: skip
    add("--trees", metavar="N", type=arguments.count,
        help="number of trees if a forest is trained (default: 1000; 200 for the digits)")  # fmt: skip
    add("--images", metavar="N|all", type=_images, default=50,
        help="number of correctly classified test images, drawn at random (default: 50)")  # fmt: skip

    how = parser.add_argument_group("search")
    add = how.add_argument
    add("--method", metavar="NAME[,NAME...]", default="lm-ma-es",
        help="methods from `lmma methods`, compared on the same images (default: lm-ma-es)")  # fmt: skip
    add("--budget", metavar="N", type=arguments.count, default=1000,
        help="queries per image; the last generation is completed (default: 1000)")  # fmt: skip
    add("--sigma0", metavar="STEP", type=arguments.positive,
        help="initial step size in grey values (default: 1; 0.2 for the digits)")  # fmt: skip
    add("--clip", action="store_true", help="clip candidates to valid grey values before each query")
    add("--round", action="store_true", help="round candidates to whole grey values before each query")
    add(
        "--target-class",
        metavar="CLASS",
        type=arguments.whole_number,
        help="class to reach (default: any wrong class)",
    )
    add("--seed", metavar="N", type=arguments.whole_number, default=0,
        help="seed for training, choice of images and search (default: 0)")  # fmt: skip

    output = parser.add_argument_group("output")
    add = output.add_argument
    add(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("out/attack"),
        help="folder for all results (default: out/attack)",
    )
    add("--threads", metavar="N", type=_threads, default=1,
        help="number of threads (default: 1; -1: one per processor)")  # fmt: skip
    add("--no-figures", action="store_true", help="write no figures (figures need matplotlib)")
    add("--json", action="store_true", help="print only the results, as JSON, on standard output")
    add("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Run the attacks, publish the results, print the table, and return the exit status."""
    try:
        from lmma.methods.registry import strategy_class
        from lmma_lab.attack import pipeline, publish

        if args.data is not None and args.download:
            raise UsageError("--download cannot be combined with --data: it uses MNIST from the cache")
        if args.seed < 0:
            raise UsageError(f"--seed must not be negative, got {args.seed}")
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
        print(f"lmma: interrupted; repeat the command to resume from {args.out}", file=sys.stderr)
        return status.INTERRUPTED
    except ImportError as error:
        from lmma_lab.install import how_to_install

        needed = (error.name or "sklearn").partition(".")[0]
        command = how_to_install({"sklearn": "attack", "matplotlib": "plot"}.get(needed, needed))
        raise UsageError(f"attack needs {needed}, which is not installed: {command}") from None
    except (ValueError, TypeError, OSError) as error:
        raise UsageError(str(error)) from None
    for warning in report.words:
        print(f"lmma: {warning}", file=sys.stderr)
    if args.json:
        print(json.dumps(report.numbers() | {"files": [str(path) for path in files]}))
    else:
        print(publish.markdown(report))
        if ledger is not None:
            print(f"Section 4.2 of the paper: {ledger.lead.partition('.')[0]}; see ledger.md.")
        print(f"page: {args.out / 'index.html'}")
    confirmed = all(report.confirmed[m] == s.successes for m, s in report.summaries.items())
    return status.OK if confirmed else status.UNSOLVED


def _is_named(text: str | None) -> bool:
    """Return True if ``text`` has the form module:name and is not a file such as C:\\data."""
    return text is not None and re.fullmatch(r"[A-Za-z_][\w.]+:[A-Za-z_][\w.]*", text) is not None


def _data(given: str | None) -> Any:
    """Return the value of --data: an unchanged path, or the images that module:function returns."""
    if given is None or not _is_named(given):
        return given
    from lmma_lab.attack.user_model import dataset_of

    found = import_object(given, "--data")
    if callable(found):
        try:
            found = found()
        except Exception as error:
            raise UsageError(f"--data: {given} failed: {type(error).__name__}: {error}") from None
    return dataset_of(found, given)


def _model(given: str | None) -> Any:
    """Return the value of --model: an unchanged path, or the function module:predict_proba."""
    if given is None or not _is_named(given):
        return given
    found = import_object(given, "--model")
    found = getattr(
        found, "predict_proba", found
    )  # found may be a fitted model with scikit-learn's interface
    if not callable(found):
        raise UsageError(f"--model: {given} is {found!r:.60}, not a function from rows to probabilities")
    return found


def _ledger(out: Path) -> Table:
    """Check the claims of section 4.2 of the paper against all attacks in the store."""
    from lmma_lab.claims import attacks, judge
    from lmma_lab.publish import write_ledger

    return write_ledger(judge(attack_records(out), where=attacks.SECTION), out)


class Bar:
    """A progress bar: updated in place on a terminal, printed as occasional lines elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.line = StatusLine(stream)

    def __call__(self, what: str, done: int, total: int, word: str) -> None:
        """Show the progress if an update is due or the stage is complete."""
        if not self.line.due() and done < total:
            return
        shown = f"{bar(done / max(1, total))} " if self.line.live else ""
        self.line.show(f"{what:<10} {shown}{done:,} of {total:,} {word}")
        if done >= total:
            self.line.close()
