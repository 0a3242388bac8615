"""``lmma show``: what is in a file, without running anything that it names."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lmma.cli import arguments, status
from lmma.cli.status import UsageError
from lmma.kernels.words import one_line

EPILOG = """\
FILE is a checkpoint (minimize --checkpoint), a log (minimize --log), a store (store.sqlite of compare,
reproduce and attack) or a result (result.save in Python). It is read and nothing else: no code is imported,
nothing is run, nothing is written but what --save-x asks for.

examples:
  lmma show run.npz
  lmma show run.npz --save-x best.npy
  lmma show results/store.sqlite
"""
WIDE = 400  # characters of a row

Row = tuple[str, str]
Found = tuple[list[Row], Any]  # what to say, and the best point where there is one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("file", metavar="FILE", help="a checkpoint, log, store or result")
    parser.add_argument("--save-x", metavar="FILE", help="write the best x to a .npy, .txt or .csv file")


def run(args: argparse.Namespace) -> int:
    """Say what is in the file."""
    file = Path(args.file)
    save_x = args.save_x and arguments.writable(args.save_x, "--save-x", arguments.VECTOR_FILES)
    if save_x and save_x.exists() and file.exists() and save_x.samefile(file):
        raise UsageError(f"--save-x: {save_x} is the file to be shown: name another")
    rows, x = found(file)
    if save_x:
        if x is None or x.ndim != 1:
            raise UsageError(f"--save-x: there is no x in {file}")
        arguments.write_vector(save_x, x)
        rows.append(("x saved", str(save_x)))
    for label, text in rows:
        print(f"{label:<12}  {one_line(text, WIDE)}")
    return status.OK


def found(file: Path) -> Found:
    """Return what is in a file of any kind."""
    from lmma.run.checkpoint_file import CHECKPOINT, POLICY, RESULT

    try:
        with open(file, "rb") as opened:
            head = opened.read(16)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
    if head.startswith(b"SQLite format 3"):
        return _store(file)
    if head.startswith(b"PK"):
        kind = _format(file)
        if kind == RESULT.format:
            return _result(file)
        if kind == CHECKPOINT.format:
            return _checkpoint(file)
        if kind == POLICY.format:
            return _policy(file)
        raise UsageError(f"{file} is an archive, but neither a checkpoint nor a result nor a policy of lmma")
    return _log(file)


def _policy(file: Path) -> Found:
    """Return what a policy of lmma train says of itself; Gymnasium is not needed for it."""
    from lmma.run.checkpoint_file import POLICY, CheckpointError, read

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
    return rows, arrays.get("weights")


def _format(file: Path) -> Any:
    from lmma.run.checkpoint_file import CHECKPOINT, UNREADABLE, header_of

    try:
        return header_of(file).get("format")
    except (OSError, *UNREADABLE):
        return CHECKPOINT.format  # whose reader says what is wrong with it


def _checkpoint(file: Path) -> Found:
    from lmma.run.checkpoint import CheckpointError, read
    from lmma.run.checkpoint_check import check_content
    from lmma.run.run_result import vector

    try:
        header, arrays = read(file)
        check_content(header, arrays)
    except CheckpointError as error:
        words = str(error)
        raise UsageError(words if str(file) in words else f"checkpoint {file} is refused: {words}") from None
    about, counters, best = header["identity"], header["counters"], arrays.get("best_x")
    sigma = arrays.get("strategy.sigma")
    names = {"quality": "quality", "rate": "rate", "repeats": "repeats"}
    if "raw_at_best" not in arrays and _one(arrays.get("strategy.noise.found")):
        names["average_fun"] = "level"
    noise = {name: _one(arrays.get(f"strategy.noise.{inside}")) for name, inside in names.items()}
    rows = [
        ("checkpoint", f"{file}"),
        (
            "method",
            f"{about.get('method')}, n = {about.get('n')}, {header['plan']['popsize']:,} a generation",
        ),
        ("objective", str(about.get("fun"))),
        ("best value", _value(counters.get("best_fun"))),
        *([("x", vector(best))] if best is not None else []),
        *_noise(noise),
        ("evaluations", _count(counters.get("evaluations"), counters.get("generation"))),
        ("time", f"{counters.get('seconds', 0.0):.3g} s"),
        *([("step size", f"{sigma.item():.3g}")] if sigma is not None and sigma.size == 1 else []),
        *_failed(counters.get("failures"), header["errors"]),
        *_restarts(header["finished"]),
        ("stopped", header.get("ended") or "not when this was saved: the run goes on, or was killed"),
    ]
    words = header.get("extra", {}).get("words")
    if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
        rows.append(("begun by", f"lmma {shlex.join(words)}"))
        again = "the same command again" if words[0] == "train" else f"lmma resume {shlex.quote(str(file))}"
        rows.append(("to go on", again))
    else:
        rows.append(("to go on", f"the same call again: lmma.minimize(..., checkpoint={str(file)!r})"))
    return rows, best


def _result(file: Path) -> Found:
    from lmma.run.result_file import load
    from lmma.run.run_result import vector

    try:
        result = load(file)
    except ValueError as error:
        raise UsageError(str(error)) from None
    rows = [
        ("result", f"{file}"),
        ("method", f"{result.get('method', 'unknown')}, n = {len(result.x):,}"),
        ("best value", _value(result.fun)),
        ("x", vector(result.x)),
        ("evaluations", _count(result.get("nfev"), result.get("nit"))),
        *([("step size", f"{result.sigma:.3g}")] if "sigma" in result else []),
        *_failed(result.get("failures"), [vars(error) for error in result.get("errors", [])]),
        *_restarts([vars(single) for single in result.get("runs", [])[:-1]]),
        ("stopped", result.get("message", "it does not say")),
        *(("warning", text) for text in result.get("warnings", [])[:3]),
        (
            "to go on",
            f"lmma.minimize(fun, lmma.load({str(file)!r})), from where it is and with what it learned",
        ),
    ]
    return rows, result.x


def _log(file: Path) -> Found:
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
        ("stopped", _ending(last.get("reason"))),
        ("to see it", f"lmma plot {shlex.quote(str(file))}, or lmma watch"),
    ]
    return rows, None


def _one(array: Any) -> float | None:
    """Return the number of an array that holds one."""
    return float(array.item()) if array is not None and array.size == 1 else None


def _noise(last: dict[str, Any]) -> list[Row]:
    """Return what the last record says of noise: without it, nothing."""
    quality, average = last.get("quality"), last.get("average_fun")
    if not isinstance(quality, int | float) or quality >= 1:
        return []
    rows = [] if average is None else [("average", f"{average:.6g} of recent candidates")]
    rate, repeats = last.get("rate") or 1, last.get("repeats") or 1
    done = f", learning rate {rate:.2g}" if rate < 1 else f", repeats {repeats:.3g}" if repeats > 1 else ""
    return [*rows, ("noise", f"quality of ranks {max(0.0, quality):.2f}{done}")]


def _ending(reason: object) -> str:
    """Return what a log says of its end: nothing while a run goes on, or where it was killed."""
    if not isinstance(reason, str):
        return "not yet, or killed; method and x are in the checkpoint or the result of the run"
    return f"{reason[:40]}; method and x are in the checkpoint or the result of the run"


def _store(file: Path) -> Found:
    from lmma.store import StoreError
    from lmma.store.contents import contents

    try:
        inside = contents(file)
    except StoreError as error:
        raise UsageError(str(error)) from None
    records = ", ".join(f"{count:,} of {kind}" for kind, count in sorted(inside.records.items()))
    rows = [
        ("store", f"{file}: {sum(inside.records.values()):,} records"),
        ("records", records or "none yet"),
        *([("methods", _listed(inside.methods))] if inside.methods else []),
        *([("n", ", ".join(f"{n:,}" for n in inside.sizes[:20]))] if inside.sizes else []),
        ("in flight", f"{inside.claims:,}"),
        *([("set aside", f"{inside.set_aside:,} rows that were no records")] if inside.set_aside else []),
        (
            "to go on",
            f"the same command again, with --out {shlex.quote(str(file.parent))}: what is done is kept",
        ),
    ]
    return rows, None


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(
        f"{name} ({count:,})" for name, count in sorted(counts.items(), key=lambda pair: -pair[1])[:20]
    )


def _value(value: Any) -> str:
    return f"{value:.10g}" if value is not None and math.isfinite(value) else "none yet"


def _count(evaluations: Any, generations: Any) -> str:
    return f"{evaluations or 0:,} in {generations or 0:,} generations"


def _failed(count: Any, errors: Iterable[dict[str, Any]]) -> list[Row]:
    if not count:
        return []
    first = next(iter(errors), None)
    words = f"; the first: {first.get('kind')}: {first.get('message')}" if first else ""
    return [("failed", f"{count:,} evaluations{words}")]


def _restarts(finished: list[dict[str, Any]]) -> list[Row]:
    if not finished:
        return []
    runs = "; ".join(f"{run['best_fun']:.4g} of {run['popsize']} ({run['reason']})" for run in finished[-5:])
    return [("restarts", f"{len(finished):,} so far: {runs}")]
