"""Checkpoints: when a run is saved, what is saved, how it is checked and continued.

The bytes of the file are in ``checkpoint_file.py``.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import time
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma import kernels
from lmma.evaluation import Failure
from lmma.kernels.words import one_line
from lmma.run.checkpoint_check import check_content
from lmma.run.checkpoint_file import (
    UNREADABLE,
    Arrays,
    CheckpointError,
    Header,
    header_of,
    previous,
    read,
    write,
)
from lmma.run.checkpoint_lock import Lock
from lmma.run.counters import Counters, SingleRun
from lmma.run.restarts import Plan
from lmma.run.result import message
from lmma.strategies.parts.checks import shown
from lmma.strategies.registry import methods

if TYPE_CHECKING:
    from lmma.run.run import Run

__all__ = ["Checkpoint", "CheckpointError", "previous", "read", "write"]


@dataclass
class Checkpoint:
    """Where and how often a run is saved.

    Parameters
    ----------
    path : str or Path
        The file. The one before is kept beside it, with ``.prev`` added to its name. One run at a time may
        use it: another one is refused, also on another machine.
    every : float
        Least number of seconds between two checkpoints. Writing never takes more than about a twentieth
        of the run, however large the state is.
    extra : dict
        Anything JSON can say, kept in the header; the command line keeps its arguments here.
    """

    path: str | os.PathLike[str]
    every: float = 30.0
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.file = Path(self.path)
        if not self.every >= 0:
            raise ValueError(f"every must be a number of seconds, 0 or more; got {shown(self.every)}")
        if self.file.is_symlink():
            raise ValueError(
                f"checkpoint={str(self.file)!r} is a symbolic link, which a new file would replace: "
                f"name the file itself, {os.path.realpath(self.file)}"
            )
        folder = self.file.absolute().parent
        if self.file.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
            raise ValueError(
                f"checkpoint={str(self.file)!r} cannot be written: it must be a file in an existing folder "
                "that you may write to"
            )
        self.lock = Lock(self.file)
        self.warnings: list[str] = []
        self._due = time.monotonic() + self.every

    def __repr__(self) -> str:
        extra = f", extra={one_line(shown(self.extra), 60)}" if self.extra else ""
        return f"Checkpoint({one_line(repr(os.fspath(self.path)), 80)}, every={self.every:g}{extra})"

    def continued(self, method: Any) -> Any:
        """Return ``method``, for ``"auto"`` that of the run saved here: more budget must not change it."""
        if method != "auto" or not self.file.exists():
            return method
        try:
            saved = str(header_of(self.file)["identity"]["method"])
        except (OSError, *UNREADABLE):
            return method  # whoever reads the file in earnest refuses it and says why
        return saved if saved in methods() else method  # module:Class would import what the file names

    def save_if_due(self, run: Run) -> None:
        """Write ``run`` if the last checkpoint is old enough."""
        if time.monotonic() >= self._due:
            self.save(run)

    def save(self, run: Run) -> None:
        """Write ``run``, which goes on if that fails, and says so once."""
        began = time.monotonic()
        header, arrays = state_of(run)
        header |= {"extra": self.extra, "ended": None if run.stop is None else message(run, run.stop)}
        try:
            write(self.file, header, arrays)
        except OSError as error:
            if not self.warnings:
                words = f"checkpoint {self.file} could not be written, the run goes on without: {error}"
                self.warnings.append(words)
                # a warning turned into an error must not end the run
                with contextlib.suppress(RuntimeWarning):
                    warnings.warn(words, RuntimeWarning, stacklevel=2)
        took = time.monotonic() - began
        self._due = time.monotonic() + max(self.every, 20 * took)

    def restore(self, run: Run) -> bool:
        """Put ``run`` where its checkpoint left off; return False if there is none to go on from."""
        if not self.file.exists():
            return False
        try:
            header, arrays = read(self.file)
            check_content(header, arrays)
            continue_from(run, header, arrays)
        except CheckpointError as error:
            if str(self.file) in str(error):
                raise
            raise CheckpointError(f"checkpoint {self.file} is refused: {error}") from None
        except Exception as error:  # what a strategy makes of a state that is not its own
            raise CheckpointError(f"checkpoint {self.file} is refused: {error!r}") from None
        return True


# What is saved and how it is continued

COUNTS = (
    "evaluations", "generation", "failures", "late", "failing", "best_fun", "violation", "fun_at_best",
    "seconds",
)  # fmt: skip


def state_of(run: Run) -> tuple[Header, Arrays]:
    """Return a run as a header for JSON and named arrays."""
    counters, evaluate = run.counters, run.evaluate
    arrays: Arrays = {}
    for prefix, part in _parts(run).items():
        arrays |= {f"{prefix}{name}": np.asarray(value) for name, value in part.get_state().items()}
    if counters.best_x is not None:
        arrays["best_x"] = counters.best_x
    if counters.raw_at_best is not None:
        arrays["raw_at_best"] = counters.raw_at_best
    header = {
        "identity": identity(run),
        "kernels": kernels.name(),
        "key": [str(word) for word in run.key],  # 64 bits: more than a number of JSON can hold
        "plan": asdict(run.plan),
        "counters": {name: getattr(counters, name) for name in COUNTS},
        "finished": [asdict(single) for single in counters.finished],
        "failures": dict(evaluate.failures),
        "errors": [asdict(error) for error in evaluate.errors],
        "constraints": run.constraints.sizes,
        "dropped": evaluate.dropped,
        "deaths": evaluate.deaths,
    }
    return header, arrays


def continue_from(run: Run, header: Header, arrays: Arrays) -> None:
    """Put ``run`` where the state of :func:`state_of` was taken, unless that is of another run.

    Without a seed of its own, a run takes that of the state.
    """
    key = (int(header["key"][0]), int(header["key"][1]))
    unlike = differences(header["identity"], identity(run))
    if run.options.rng is not None and key != run.key:
        unlike.append("rng (the seed) differs")
    if unlike:
        raise CheckpointError(
            f"it is of another run: {'; '.join(unlike)}. Remove the file to start anew, or name another"
        )
    if header["kernels"] != kernels.name():
        run.warnings.append(
            f"the checkpoint was written with {header['kernels']} kernels and goes on with "
            f"{kernels.name()}: the last bits of numbers may differ from an unbroken run"
        )
    run.key = key
    run.counters = Counters(
        **header["counters"],
        best_x=arrays.get("best_x"),
        raw_at_best=arrays.get("raw_at_best"),
        finished=[SingleRun(**single) for single in header["finished"]],
    )
    if header.get("constraints"):
        run.constraints.lay_out(header["constraints"])
        run.constraints.prepare(run.strategy)
    if header["plan"]["number"] != 0:
        run.begin(Plan(**header["plan"]), run.counters.finished)
    for prefix, part in _parts(run).items():
        state = {k.removeprefix(prefix): array for k, array in arrays.items() if k.startswith(prefix)}
        if state or prefix == "strategy.":
            part.set_state(state)
    evaluate = run.evaluate
    evaluate.failures = Counter(header["failures"])
    evaluate.errors = [Failure(**error) for error in header["errors"]]
    evaluate.dropped, evaluate.deaths = header["dropped"], header["deaths"]


def _parts(run: Run) -> dict[str, Any]:
    """Return the parts of a run that carry state of their own, by the prefix of their arrays' names."""
    parts: dict[str, Any] = {"strategy.": run.strategy}
    if run.options.noise is not None:
        parts["centre."] = run.centre
    parts |= {f"rule.{type(rule).__name__}.": rule for rule in run.rules if rule.STATE}
    if run.recorder is not None:
        parts["history."] = run.recorder
    if run.companion is not None:
        parts["companion."] = run.companion
    return parts


# What tells one run from another


def identity(run: Run) -> dict[str, Any]:
    """Return what must be the same for a checkpoint to be continued."""
    strategy, start = run.strategy, run.setup
    box = start.box
    space, integrality = run.options.space, run.options.integrality
    return {
        "variables": None if space is None else [list(pair) for pair in space.described().items()],
        "fun": name_of(run.fun),
        "method": strategy.name,
        "n": strategy.n,
        "popsize": run.first_popsize,
        "dtype": strategy.dtype.name,
        "options": repr(sorted(run.options.constants.items())),
        "boundary": None if box is None else box.name,
        "bounds (digest)": None if box is None else digest_of(box.lower, box.upper),
        "integrality (digest)": None if integrality is None else digest_of(integrality),
        "x0 or sigma0 (digest)": digest_of(start.x0, start.sigma0),
        "noise": run.options.noise,
        "common_random_numbers": bool(run.seeds),
        **_identity_of_constraints(run),
    }


def _identity_of_constraints(run: Run) -> dict[str, Any]:
    """Return what must be the same of constraints: nothing where there are none."""
    found = run.constraints
    if not found.given:
        return {"constraints": None}
    names = [None if part.function is None else name_of(part.function) for part in found.parts]
    return {
        "constraints": repr([name for name in names if name is not None]),
        "constraints' limits (digest)": digest_of(
            *(array for part in found.parts for array in (part.lb, part.ub, part.full_matrix))
        ),
        "constraint_handling": found.handling,
        "feasibility_tol": found.feasibility_tol,
    }


def digest_of(*arrays: Any) -> str:
    """Return a short text that is different for different arrays of numbers."""
    state = hashlib.sha256()
    for array in arrays:
        values = np.asarray(np.nan if array is None else array, dtype=np.float64)
        state.update(f"{values.shape}".encode())
        state.update(np.ascontiguousarray(values).tobytes())
    return state.hexdigest()[:16]


def name_of(fun: Any) -> str:
    """Return what an objective is called, as far as one can tell; the module does not count.

    A script is ``__main__`` when it is run and has its own name when it is imported. Lambdas are told apart
    by their code.
    """
    if isinstance(fun, functools.partial):
        return f"partial({name_of(fun.func)})"
    inner = getattr(fun, "__self__", None)
    if inner is not None and not hasattr(inner, "__path__") and hasattr(fun, "__func__"):
        return f"{type(inner).__qualname__}.{fun.__name__}"
    name = getattr(fun, "__qualname__", None)
    if name is None:
        label = getattr(fun, "name", "")
        return f"{type(fun).__qualname__} {label}".strip()
    code = getattr(fun, "__code__", None)
    if code is not None and "<lambda>" in name:
        constants = [c for c in code.co_consts if isinstance(c, int | float | str | bool | None)]
        text = repr((code.co_names, constants, code.co_code))
        return f"{name} {hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return str(name)


def differences(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """Return in words how two fingerprints differ."""
    words = []
    for label in here:
        old, new = there.get(label), here[label]
        if old != new and label == "variables":
            return _changed_variables(old, new)  # from which the rest follows
        if old != new:
            if label.endswith("(digest)"):
                words.append(f"{label.removesuffix(' (digest)')} differs")
            else:
                words.append(f"{label} is {shown(old)} there and {shown(new)} here")
    return words


def _changed_variables(there: Any, here: Any) -> list[str]:
    """Return in words how the variables of two spaces differ."""
    if there is None or here is None:
        old, new = ("no space" if variables is None else "a space" for variables in (there, here))
        return [f"it has {old} there and {new} here"]
    there, here = dict(there), dict(here)
    words = []
    for name in {**there, **here}:
        old, new = there.get(name), here.get(name)
        if old is None or new is None:
            words.append(f"variable {name!r} is {'not there' if old is None else 'only there'}")
        elif old != new:
            words.append(f"variable {name!r} is {shown(old)} there and {shown(new)} here")
    return words or ["the variables stand in another order"]
