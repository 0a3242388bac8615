"""The command ``lmma show``: describe a file without running any code that it names."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lmma._text import one_line, plural
from lmma.cli import arguments, status
from lmma.cli.extensions import Reader, registered
from lmma.cli.status import UsageError
from lmma.cli.summary import named_rows
from lmma.space.point import POINT_FILES, Point, write_vector

if TYPE_CHECKING:
    from lmma.run.importance import Importance

EPILOG = """\
FILE is a checkpoint (minimize --checkpoint), a log (minimize --log), an archive of evaluations (minimize
--archive), a result (result.save in Python) or, if lmma-lab is installed, a store (store.sqlite of compare,
reproduce and attack). The file is only read: no user code is imported, nothing is run, and only --save-x
writes a file.

examples:
  lmma show run.npz
  lmma show run.npz --save-x best.csv
  lmma show run.npz --importance
  lmma show results/store.sqlite
"""
MAX_WIDTH = 400  # characters per row

Row = tuple[str, str]


class Description(NamedTuple):
    """The contents of a file: rows to print, the best point, and the importance of its variables."""

    rows: list[Row]
    x: Any = None  # a vector, or a Point if its coordinates have names
    importance: Importance | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("file", metavar="FILE", help="checkpoint, log, archive, store or result")
    parser.add_argument(
        "--save-x",
        metavar="FILE",
        help="write the best x to a .npy, .txt or .csv file; for a space, names, values and units to a .csv, "
        ".json or .toml file, or the encoded vector to a .npy file",
    )
    parser.add_argument(
        "--importance", action="store_true", help="print the importance of each variable as a bar chart"
    )


def run(args: argparse.Namespace) -> int:
    """Print a description of the file."""
    file = Path(args.file)
    every = dict.fromkeys((*arguments.VECTOR_FILES, *POINT_FILES))
    save_x = args.save_x and arguments.writable(args.save_x, "--save-x", tuple(every))
    if save_x and save_x.exists() and file.exists() and save_x.samefile(file):
        raise UsageError(f"--save-x: {save_x} is the input file: choose another name")
    found = describe(file)
    rows = found.rows
    if args.importance and found.importance is None:
        raise UsageError(f"--importance: {file} contains no importance of real variables")
    if save_x:
        _save_x(args.save_x, save_x, found.x, file)
        rows.append(("x saved", str(save_x)))
    for label, text in rows:
        print(f"{label:<12}  {one_line(text, MAX_WIDTH)}")
    if args.importance and found.importance is not None:
        for k, line in enumerate(found.importance.lines()):
            print(f"{'' if k else 'importance':<12}  {line}")
    return status.OK


def _save_x(text: str, path: Path, x: Any, file: Path) -> None:
    """Write the best point of ``file`` to ``path``, given as ``text``."""
    if isinstance(x, Point):
        arguments.writable(text, "--save-x", POINT_FILES)
        x.write(path)
    elif x is None or x.ndim != 1:
        raise UsageError(f"--save-x: {file} contains no x")
    else:
        arguments.writable(text, "--save-x", arguments.VECTOR_FILES)
        write_vector(path, x)


def describe(file: Path) -> Description:
    """Describe a file of any supported type."""
    from lmma._archive import CHECKPOINT, POLICY, RESULT

    head = arguments.first_bytes(file)
    if head.startswith(b"PK"):
        kind = _format(file)
        if kind == RESULT.format:
            return _result(file)
        if kind == CHECKPOINT.format:
            return _checkpoint(file)
        if kind == POLICY.format:
            return _policy(file)
        raise UsageError(f"{file} is a ZIP archive, but not a checkpoint, result or policy of lmma")
    from lmma.run.archive.database import is_archive

    if is_archive(head):
        return _archive(file)
    if b"\0" in head:  # not text
        return Description(_extension_rows(file, head))
    if head.strip() and not head.lstrip().startswith(b"{"):
        raise UsageError(f"{file} is not a checkpoint, log, archive or result of lmma")
    return _log(file)


def _archive(file: Path) -> Description:
    from lmma.run.archive import Archive, ArchiveError

    try:
        archive = Archive(file)
        count, best = archive.summary(), archive.best()
        vectors = archive.best_vectors(1)
    except ArchiveError as error:
        raise UsageError(str(error)) from None
    failed = count["failed"] + count["timeout"]
    rows = [
        (
            "archive",
            f"{file}: {plural(count['evaluations'], 'evaluation')} in {plural(count['runs'], 'run')}",
        ),
        ("objective", f"{archive.info.get('fun')}, n = {archive.info.get('n')}"),
        ("best value", _value(best[0]["value"] if best else None)),
    ]
    point = None
    if best:
        point = Point(vectors[0], {name: best[0][name] for name in archive.variables}, archive.units)
        rows += named_rows(point, "use lmma export")
        if best[0]["violation"] is not None:
            rows.append(("violation", f"{best[0]['violation']:.3g}"))
    if failed:
        timeouts = f", {count['timeout']:,} of them timeouts" if count["timeout"] else ""
        rows.append(("failed", f"{failed:,} evaluations{timeouts}; first: {count['reason']}"))
    if count["last"] is not None:
        rows.append(
            ("time", f"{count['seconds'] or 0:.3g} s in fun, from {count['first']} to {count['last']}")
        )
    rows += [
        ("to export", f"lmma export {shlex.quote(str(file))} best.csv --best 20"),
        (
            "to continue",
            f"lmma minimize ... --archive {shlex.quote(str(file))}, or --inject for its best points",
        ),
    ]
    return Description(rows, point)


def _extension_rows(file: Path, head: bytes) -> list[Row]:
    """Describe a file type that another distribution reads."""
    for reader in registered("lmma.readers", Reader).values():
        if head.startswith(reader.magic):
            rows: list[Row] = import_module(reader.module).rows_of(file)
            return rows
    if head.startswith(b"SQLite format 3"):
        from lmma._text import how_to_install

        raise UsageError(
            f"{file} is a database; showing a store of compare, reproduce or attack requires lmma-lab: "
            f"{how_to_install('lmma-lab')}"
        )
    raise UsageError(f"{file} is not a checkpoint, log, archive, store or result of lmma")


def _policy(file: Path) -> Description:
    """Describe a policy of lmma train; this does not need Gymnasium."""
    from lmma._archive import POLICY, CheckpointError, read

    try:
        header, arrays = read(file, POLICY)
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    layers = [header.get("inputs"), *(header.get("hidden") or ()), header.get("outputs")]
    rows = [
        ("policy", f"{file}"),
        ("environment", str(header.get("env"))),
        ("layers", " - ".join(map(str, layers))),
        ("actions", "numbers" if header.get("first") is None else "one of several"),
        ("to play", f"lmma train ENV --play {shlex.quote(str(file))}"),
    ]
    return Description(rows, arrays.get("weights"))


def _format(file: Path) -> Any:
    from lmma._archive import CHECKPOINT, UNREADABLE, header_of

    try:
        return header_of(file).get("format")
    except (OSError, *UNREADABLE):
        return CHECKPOINT.format  # its reader reports the error


def _checkpoint(file: Path) -> Description:
    from lmma.run.checkpoint import CheckpointError, check_header, read
    from lmma.run.importance import named
    from lmma.run.state import Saved, SavedRun
    from lmma.space.description import from_description

    importance = None
    try:
        header, arrays = read(file)
        check_header(header)
        saved = SavedRun.of(Saved(header, arrays))
        best, shares = saved.counters.best_x, arrays.get("importance")
        if best is not None:
            names = from_description(header.get("space"), arrays, len(best))
            x: Any = best if names is None else Point.of(names, best)
            if shares is not None and not np.all(np.isnan(shares)):
                if shares.shape != best.shape or not np.all(np.isnan(shares) | (abs(shares - 0.5) <= 0.5)):
                    raise ValueError("importance")
                importance = named(shares, names)
        else:
            x = None
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"cannot use checkpoint {file}: invalid content: {one_line(error)}") from None
    about, counters = header["identity"], saved.counters
    sigma = arrays.get("strategy.sigma")
    quantities = {"quality": "quality", "rate": "rate", "repeats": "repeats"}
    if counters.raw_at_best is None and _scalar(arrays.get("strategy.noise.found")):
        quantities["average_fun"] = "level"
    noise = {name: _scalar(arrays.get(f"strategy.noise.{key}")) for name, key in quantities.items()}
    rows = [
        ("checkpoint", f"{file}"),
        (
            "method",
            f"{about.get('method')}, n = {about.get('n')}, {saved.plan.popsize:,} candidates per generation",
        ),
        ("objective", str(about.get("fun"))),
        ("best value", _value(counters.best_fun)),
        *_point_rows(x),
        *_noise(noise),
        ("evaluations", _count(counters.evaluations, counters.generation)),
        ("time", f"{counters.seconds:.3g} s"),
        *([("step size", f"{sigma.item():.3g}")] if sigma is not None and sigma.size == 1 else []),
        *_failed(counters.failures, header["errors"]),
        *_restarts(header["finished"]),
        ("stopped", header.get("ended") or "not when this was saved: still running, or killed"),
    ]
    words = header.get("extra", {}).get("words")
    if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
        rows.append(("command", f"lmma {shlex.join(words)}"))
        resume = "repeat the command" if words[0] == "train" else f"lmma resume {shlex.quote(str(file))}"
        rows.append(("to continue", resume + _larger_budget(header.get("ended"))))
    else:
        rows.append(("to continue", f"repeat the call: lmma.minimize(..., checkpoint={str(file)!r})"))
    return Description(rows, x, importance)


def _larger_budget(ended: str | None) -> str:
    """Return the option to raise if the run used up a budget; otherwise it would end immediately."""
    flags = {"Evaluation": "--max-evaluations", "Generation": "--max-generations", "Time": "--max-time"}
    used = next((flag for word, flag in flags.items() if (ended or "").startswith(f"{word} limit")), "")
    return f" with a larger {used}" if used else ""


def _point_rows(x: Any) -> list[Row]:
    """Describe the best point: by name, as a vector, or not at all."""
    from lmma.cli.summary import named_rows
    from lmma.run.result import vector

    if isinstance(x, Point):
        return named_rows(x, "use --save-x")
    return [] if x is None else [("x", vector(x))]


def _result(file: Path) -> Description:
    from lmma.run.result import point_of
    from lmma.run.result_file import load

    try:
        result = load(file)
    except ValueError as error:
        raise UsageError(str(error)) from None
    x: Any = point_of(result) or result.get("vector", result.get("x"))
    rows = [
        ("result", f"{file}"),
        ("method", f"{result.get('method', 'unknown')}, n = {len(result.get('vector', x)):,}"),
        ("best value", _value(result.fun)),
        *_point_rows(x),
        ("evaluations", _count(result.get("nfev"), result.get("nit"))),
        *([("step size", f"{result.sigma:.3g}")] if "sigma" in result else []),
        *_failed(result.get("failures"), [vars(error) for error in result.get("errors", [])]),
        *_restarts([vars(single) for single in result.get("runs", [])[:-1]]),
        ("stopped", result.get("message", "unknown")),
        *(("warning", text) for text in result.get("warnings", [])[:3]),
        (
            "to continue",
            f"lmma.minimize(fun, lmma.load({str(file)!r})), which starts from its state",
        ),
    ]
    try:
        importance = result.importance
    except ValueError:  # nothing was learned, or there are no real variables
        importance = None
    return Description(rows, x, importance)


def _log(file: Path) -> Description:
    from lmma.cli.plot import read_log

    columns = read_log(file)
    last = {name: values[-1] for name, values in columns.items()}
    best = [value for value in columns["best_fun"] if value is not None]
    rows = [
        ("log", f"{file}: {len(columns['evaluations']):,} records"),
        ("best value", _value(min(best, default=math.inf))),
        *_noise(last),
        ("evaluations", _count(last["evaluations"], last.get("generation"))),
        *([("time", f"{last['seconds']:.3g} s")] if last["seconds"] is not None else []),
        *([("step size", f"{last['sigma']:.3g}")] if last["sigma"] is not None else []),
        *_failed(last.get("failures"), []),
        *([("restarts", f"{last['restarts']:,}")] if last.get("restarts") else []),
        ("stopped", _stop_reason(last.get("reason"))),
        ("to plot", f"lmma plot {shlex.quote(str(file))}, or lmma watch"),
    ]
    return Description(rows)


def _scalar(array: Any) -> float | None:
    """Return the element of an array of size 1, else None."""
    return float(array.item()) if array is not None and array.size == 1 else None


def _noise(last: dict[str, Any]) -> list[Row]:
    """Describe the noise at the last record; return no rows if there is none."""
    quality, average = last.get("quality"), last.get("average_fun")
    if not isinstance(quality, int | float) or quality >= 1:
        return []
    rows = [] if average is None else [("average", f"{average:.6g} of recent candidates")]
    rate, repeats = last.get("rate") or 1, last.get("repeats") or 1
    treatment = (
        f", learning rate {rate:.2g}" if rate < 1 else f", repeats {repeats:.3g}" if repeats > 1 else ""
    )
    return [*rows, ("noise", f"rank quality {max(0.0, quality):.2f}{treatment}")]


def _stop_reason(reason: object) -> str:
    """Describe the end of a log; a run that is still going or was killed has recorded no reason."""
    if not isinstance(reason, str):
        return "still running, or killed; method and x are in the checkpoint or result of the run"
    return f"{reason[:40]}; method and x are in the checkpoint or result of the run"


def _value(value: Any) -> str:
    return f"{value:.10g}" if value is not None and math.isfinite(value) else "none yet"


def _count(evaluations: Any, generations: Any) -> str:
    return f"{evaluations or 0:,} in {generations or 0:,} generations"


def _failed(count: Any, errors: Iterable[dict[str, Any]]) -> list[Row]:
    if not count:
        return []
    first = next(iter(errors), None)
    example = f"; first: {first.get('kind')}: {first.get('message')}" if first else ""
    return [("failed", f"{count:,} evaluations{example}")]


def _restarts(finished: list[dict[str, Any]]) -> list[Row]:
    if not finished:
        return []
    runs = "; ".join(
        f"{run['best_fun']:.4g} with popsize {run['popsize']} ({run['reason']})" for run in finished[-5:]
    )
    return [("restarts", f"{len(finished):,} so far: {runs}")]
