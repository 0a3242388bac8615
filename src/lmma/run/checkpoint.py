"""Checkpoints: saving at intervals, and checks that a saved run may be resumed.

``state.py`` defines the saved state, ``_archive.py`` the file format.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma import kernels
from lmma._archive import UNREADABLE, CheckpointError, Header, header_of, previous, read, write
from lmma._files import Lock
from lmma._text import one_line, shown
from lmma.methods.registry import methods
from lmma.run.state import RunState, Saved

if TYPE_CHECKING:
    from lmma.kernels import Key
    from lmma.methods import Strategy
    from lmma.run.setup import Setup
    from lmma.run.user_constraints import Constraints
    from lmma.space import Space, Tree

__all__ = ["Checkpoint", "CheckpointError", "previous", "read", "write"]


@dataclass
class Checkpoint:
    """The file that a run is saved to, and how often.

    Parameters
    ----------
    path : str or Path
        The file. The previous checkpoint is kept next to it, with ``.prev`` appended to its name. Only one
        run at a time may use it, also across machines.
    every : float
        Minimum number of seconds between two checkpoints. Writing takes at most about 5% of the run time,
        however large the state is.
    extra : dict
        JSON values to store in the header; the command line stores its arguments here.
    """

    path: str | os.PathLike[str]
    every: float = 30.0
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike):
            raise TypeError(f"path must be the name of a file, got {shown(self.path)}")
        self.file = Path(self.path)
        if not self.every >= 0:
            raise ValueError(f"every must be a number of seconds >= 0, got {shown(self.every)}")
        if self.file.is_symlink():
            raise ValueError(
                f"checkpoint={str(self.file)!r} is a symbolic link, which saving would replace: "
                f"pass the file itself, {os.path.realpath(self.file)}"
            )
        folder = self.file.absolute().parent
        if self.file.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
            raise ValueError(
                f"checkpoint={str(self.file)!r} cannot be written: it must be a file in an existing, "
                "writable folder"
            )
        self.file = self.file.absolute()  # fun may change the current folder
        self.lock = Lock(self.file, "checkpoint", CheckpointError)
        self.identity: dict[str, Any] = {}  # properties that must match to resume
        self.space: Space | Tree | None = None  # names of the coordinates, for lmma show
        self.warnings: list[str] = []
        self._failed = False  # whether writing has failed before
        self._due = time.monotonic() + self.every

    def __repr__(self) -> str:
        extra = f", extra={one_line(shown(self.extra), 60)}" if self.extra else ""
        return f"Checkpoint({one_line(repr(os.fspath(self.path)), 80)}, every={self.every:g}{extra})"

    def method_to_continue(self, method: Any) -> Any:
        """Return ``method``; for ``"auto"``, that of the saved run, which a new budget must not change."""
        if method != "auto" or not self.file.exists():
            return method
        try:
            saved = str(header_of(self.file)["identity"]["method"])
        except (OSError, *UNREADABLE):
            return method  # restore() reports the error
        return saved if saved in methods() else method  # never import a module:Class named by a file

    def save_if_due(self, state: RunState) -> None:
        """Save the run if the last checkpoint is old enough."""
        if time.monotonic() >= self._due:
            self.save(state)

    def save(self, state: RunState, ended: str | None = None) -> None:
        """Save the run; on failure, warn once and continue. ``ended`` is the message of a finished run."""
        began = time.monotonic()
        header, arrays = state.get_state()
        about = {"identity": self.identity, "kernels": kernels.name(), "extra": self.extra, "ended": ended}
        arrays = arrays | _importance(state)
        if self.space is not None:
            from lmma.space.description import describe

            about["space"] = describe(self.space, arrays, [])
        try:
            write(self.file, {**about, **header}, arrays)
        except OSError as error:
            if not self._failed:
                self._failed = True
                message = f"checkpoint not saved, the run continues: {error}"
                self.warnings.append(message)
                # a warning turned into an error must not end the run
                with contextlib.suppress(RuntimeWarning):
                    warnings.warn(message, RuntimeWarning, stacklevel=2)
        took = time.monotonic() - began
        self._due = time.monotonic() + max(self.every, 20 * took)

    def restore(self, state: RunState, *, seeded: bool) -> list[str] | None:
        """Restore the state of the saved run; return warnings, or None if there is no checkpoint.

        ``seeded`` is whether the user passed a seed, which must then match that of the checkpoint.
        """
        if not self.file.exists():
            return None
        try:
            header, arrays = read(self.file)
            check_header(header)
            self._check_same_run(header, state.key if seeded else None)
            written_with = one_line(header["kernels"], 40)
            state.set_state(Saved(header, arrays))
        except CheckpointError as error:
            if str(self.file) in str(error):
                raise
            raise CheckpointError(f"cannot use checkpoint {self.file}: {error}") from None
        except Exception as error:  # a file with a matching checksum may still contain anything
            raise CheckpointError(
                f"cannot use checkpoint {self.file}: invalid content: {one_line(error)}"
            ) from None
        if written_with == kernels.name():
            return []
        return [
            f"the checkpoint was written with {written_with} kernels and is resumed with {kernels.name()} "
            "kernels: results may differ from an uninterrupted run in the last bits"
        ]

    def _check_same_run(self, header: Header, key: Key | None) -> None:
        """Raise if the checkpoint belongs to another run."""
        unlike = differences(header["identity"], self.identity)
        if key is not None and list(map(str, key)) != header["key"]:
            unlike.append("rng (the seed) differs")
        if unlike:
            raise CheckpointError(
                f"it belongs to another run: {'; '.join(unlike)}. To start a new run, remove the file or use "
                "another file"
            )


def _importance(state: RunState) -> dict[str, Any]:
    """Return the importance of the coordinates as an array, for lmma show; nothing if it is unknown."""
    from lmma.run.importance import shares_of
    from lmma.run.result import Learned

    try:
        strategy = state.strategy
        shares = shares_of(Learned(strategy, state.start), strategy.mean, strategy.method.hess_inv())
    except Exception:  # of a user's method; the checkpoint matters more
        return {}
    return {"importance": shares}


def check_header(header: Header) -> None:
    """Raise ValueError if the header of a checkpoint is invalid; each component checks its own state."""
    for name, kinds in (("identity", dict), ("kernels", str), ("extra", dict), ("ended", str | None)):
        if not isinstance(header.get(name), kinds):
            raise ValueError(name)


# The identity of a run


def identity(
    fun: Any, setup: Setup, strategy: Strategy, popsize: int, seeds: tuple[str, ...]
) -> dict[str, Any]:
    """Return the properties that must match for a checkpoint to be resumed."""
    options, box = setup.options, setup.box
    space, integrality = options.space, options.integrality
    return {
        "variables": None if space is None else [list(pair) for pair in space.described().items()],
        "fun": name_of(fun),
        "method": strategy.name,
        "n": strategy.n,
        "popsize": popsize,
        "dtype": strategy.dtype.name,
        "options": repr(sorted(options.constants.items())),
        "boundary": None if box is None else box.boundary,
        "bounds (digest)": None if box is None else digest_of(box.lower, box.upper),
        "integrality (digest)": None if integrality is None else digest_of(integrality),
        "x0 or sigma0 (digest)": digest_of(setup.x0, setup.sigma0),
        "noise": options.noise,
        "common_random_numbers": bool(seeds),
        **_identity_of_constraints(setup.constraints),
    }


def _identity_of_constraints(found: Constraints | None) -> dict[str, Any]:
    """Return the properties of declared constraints that must match."""
    if found is None or not found.given:
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
    """Return a short hash of arrays of numbers."""
    state = hashlib.sha256()
    for array in arrays:
        values = np.asarray(np.nan if array is None else array, dtype=np.float64)
        state.update(f"{values.shape}".encode())
        state.update(np.ascontiguousarray(values).tobytes())
    return state.hexdigest()[:16]


def name_of(fun: Any) -> str:
    """Return the name of an objective without its module.

    The module of a script is ``__main__`` when it is run, and its own name when it is imported. Lambdas are
    identified by their code.
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
    """Return one phrase for each difference between two identities."""
    found = []
    for label in here:
        old, new = there.get(label), here[label]
        if old != new and label == "variables":
            return _changed_variables(old, new)  # the other differences follow from it
        if old != new:
            if label.endswith("(digest)"):
                what = label.removesuffix(" (digest)")
                found.append(f"{what} {'differ' if what.endswith('s') else 'differs'}")
            else:
                found.append(f"{label} is {shown(old)} in the file and {shown(new)} here")
    return found


def _changed_variables(there: Any, here: Any) -> list[str]:
    """Return one phrase for each difference between the variables of two spaces."""
    if there is None or here is None:
        old, new = ("no space" if variables is None else "a space" for variables in (there, here))
        return [f"it has {old} in the file and {new} here"]
    there, here = dict(there), dict(here)
    found = []
    for name in {**there, **here}:
        old, new = there.get(name), here.get(name)
        if old is None or new is None:
            found.append(f"variable {name!r} is only {'here' if old is None else 'in the file'}")
        elif old != new:
            found.append(f"variable {name!r} is {shown(old)} in the file and {shown(new)} here")
    return found or ["the order of the variables differs"]
