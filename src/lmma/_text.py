"""Formatting shared by all messages: values, names, sizes, times, and errors that name arguments.

An error about an argument is built from a template. In it, ``{tolx}`` is the name of an argument,
``{restarts[=]}`` an argument to pass, and ``{stagnation[False]}`` an argument with its value. The library and
the command line spell these differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Spell = Callable[[str, str], str]  # of an argument's name and value; "" for the name alone
Rows = Sequence[Sequence[str]]  # of a table; the first row is the heading

# Values in messages


def shown(value: object) -> str:
    """Return ``repr(value)``, cut at 200 characters; also for values whose ``repr`` fails."""
    try:
        text = repr(value)
    except Exception:
        text = object.__repr__(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def one_line(text: object, width: int = 200) -> str:
    """Return ``text`` as one line of at most ``width`` characters, with control characters escaped."""
    line = " ".join(str(text)[: 4 * width].split())
    line = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)
    return line if len(line) <= width else f"{line[: width - 3]}..."


def nearest(word: object, words: Iterable[str]) -> str:
    """Return a hint such as `` (did you mean 'ma-es'?)``, or an empty text if no word is similar."""
    import difflib  # only needed for errors

    letters = _letters(str(word))
    known = {_letters(other): other for other in words}
    begun = [other for other in known if len(letters) > 2 and other.startswith(letters)]
    found = begun or difflib.get_close_matches(letters, known, n=1)
    return f" (did you mean {known[min(found, key=len)]!r}?)" if found else ""


def _letters(word: str) -> str:
    """Return the letters and digits of a word in lower case, to compare CMA-ES and cmaes."""
    return "".join(filter(str.isalnum, word.lower()))


def plural(count: int, noun: str) -> str:
    """Return a number with its noun, such as ``'1 restart'`` or ``'2,000 restarts'``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def text_table(rows: Rows, right: Iterable[int] = ()) -> str:
    """Return ``rows`` as a table with a heading; columns with an index in ``right`` are right-aligned."""
    right = set(right)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (rows[0], ["-" * width for width in widths], *rows[1:])
    ]
    return "\n".join(line.rstrip() for line in lines)


def readable_size(size: float) -> str:
    """Return a number of bytes in a readable unit, such as ``'3.2 GB'``."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def readable_time(seconds: float) -> str:
    """Return a duration in a readable unit, such as ``'4 min'``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.0f} days"


# Arguments in messages


def in_python(name: str, value: str = "") -> str:
    """Spell an argument as in a call of :func:`lmma.minimize`."""
    return name if not value else f"{name}=" if value == "=" else f"{name}={value}"


def escape_braces(text: str) -> str:
    """Escape ``{`` and ``}`` in a text for use in a template."""
    return text.replace("{", "{{").replace("}", "}}")


def filled(template: str, values: Mapping[str, Any], spell: Spell = in_python) -> str:
    """Return a template filled with ``values``; every other name in it is an argument to spell."""
    return template.format_map(_Names(values, spell))


class _Names(dict[str, Any]):
    """Template lookup: the entry of ``values``, or an :class:`_Argument` for a name without one."""

    def __init__(self, values: Mapping[str, Any], spell: Spell) -> None:
        super().__init__(values)
        self.spell = spell

    def __missing__(self, name: str) -> _Argument:
        return _Argument(name, self.spell)


class _Argument:
    """An argument in a template, optionally with ``[=]`` or ``[value]``."""

    def __init__(self, name: str, spell: Spell) -> None:
        self.name, self.spell = name, spell

    def __str__(self) -> str:
        return self.spell(self.name, "")

    def __getitem__(self, value: str) -> str:
        return self.spell(self.name, value)


class ArgumentError(Exception):
    """An invalid argument; :meth:`message` spells argument names for Python or the command line.

    Parameters
    ----------
    template : str
        Template of the message, see :func:`filled`.
    **values
        Values in the template.
    """

    def __init__(self, template: str, **values: Any) -> None:
        super().__init__(filled(template, values))
        self.template, self.values = template, values

    def message(self, spell: Spell) -> str:
        """Return the message; ``spell`` writes the names of arguments."""
        return filled(self.template, self.values, spell)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.template, self.values)


class InvalidValue(ArgumentError, ValueError):
    """An argument has an invalid value."""


class InvalidType(ArgumentError, TypeError):
    """An argument has the wrong type."""


def _rebuild(cls: type[ArgumentError], template: str, values: dict[str, Any]) -> ArgumentError:
    return cls(template, **values)


# Arguments of other packages

_ARGUMENTS_ELSEWHERE = {  # template of the advice -> names in SciPy, pycma, Optuna, scikit-learn and others
    "to maximise, return -fun(x)": "maximize maximise direction",
    "{progress[True]} shows progress": "verbose disp verb_disp iprint verbosity",
    "use {maxfevals[=]}": "maxfev maxfun max_nfev max_evals max_evaluations n_trials n_calls budget",
    "use {maxiter[=]}": "max_iter n_iter niter generations iterations max_generations max_iterations",
    "use {maxtime[=]}": "max_time time_limit timelimit",
    "use {ftarget[=]}": "target f_target target_value",
    "use {workers[=]}": "n_jobs n_workers num_workers processes parallel",
    "use {rng[=]}": "random_state random_seed",
    "use {popsize[=]}": "population_size pop_size population lam lambda_ CMA_popsize",
    "use {sigma0[=]}": "sigma step_size init_sigma sigma_init stdev_init CMA_stds",
    "use {bounds[=]}": "lb ub lower upper bound limits",
    "use {tolx[=]} and {tolfun[=]}": "tol ftol xtol fatol xatol gtol",
    "use {callback[=]}": "callbacks cb",
    "remove it, because lmma uses no derivatives": "jac hess hessp grad gradient",
    "pass each option as an argument, such as {maxfevals[1000]}": "options opts inopts settings",
}


def used_elsewhere(name: str, spell: Spell = in_python) -> str:
    """Return the replacement for an argument of another package; an empty text if it is not known."""
    for advice, names in _ARGUMENTS_ELSEWHERE.items():
        if name in names.split():
            return filled(advice, {}, spell)
    return ""


# Packages to install

# modules whose package has a different name
PACKAGES = {
    "sklearn": "scikit-learn", "cocoex": "coco-experiment", "mpi4py.futures": "mpi4py", "dask": "distributed",
}  # fmt: skip


class Distribution(NamedTuple):
    """A distribution with extras: its name, a module in it, and its optional dependencies."""

    name: str
    module: str  # path of a file such as src/lmma/_text.py, two folders below the root of a checkout
    extras: tuple[str, ...]


LMMA = Distribution(
    "lmma",
    __file__,
    (
        "plot", "dask", "ray", "mpi", "optuna", "optimagic", "tensorboard", "mlflow", "wandb", "torch", "jax",
        "rl",
    ),
)  # fmt: skip


def how_to_install(what: str, of: Distribution = LMMA) -> str:
    """Return the command that installs an extra, such as ``"plot"``, or the package of a module."""
    if what not in of.extras:
        top = what.partition(".")[0]
        return f"pip install {PACKAGES.get(what, PACKAGES.get(top, top))}"
    where = _checkout(of) or _installed_from(of) or of.name
    return f"pip install {_quoted(f'{where}[{what}]')}"


def how_to_rebuild(of: Distribution = LMMA) -> str:
    """Return the command that rebuilds the compiled module of a distribution verbosely."""
    if (place := _checkout(of)) is not None:
        return f"pip install --verbose --editable {_quoted(place)}"
    where = _quoted(_installed_from(of) or of.name)
    return f"pip install --verbose --force-reinstall --no-deps --no-cache-dir {where}"


def _checkout(of: Distribution) -> str | None:
    """Return the root folder of a checkout of the distribution; None if it was installed."""
    import os
    from pathlib import Path  # late: `import lmma` must be fast

    folder = Path(of.module).resolve().parents[2]
    if not (folder / "pyproject.toml").is_file():
        return None
    return "." if folder == Path(os.getcwd()).resolve() else str(folder)


def _installed_from(of: Distribution) -> str | None:
    """Return the source folder that pip installed a distribution from; None if it came from an index.

    pip records it in direct_url.json (PEP 610).
    """
    import json
    from importlib import metadata
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    try:
        recorded = json.loads(metadata.distribution(of.name).read_text("direct_url.json") or "{}")
        address = urlsplit(str(recorded.get("url", "")))
    except (metadata.PackageNotFoundError, OSError, ValueError, AttributeError):
        return None
    folder = Path(unquote(address.path))
    return str(folder) if address.scheme == "file" and (folder / "pyproject.toml").is_file() else None


def _quoted(word: str) -> str:
    """Return a word quoted for the system's shell."""
    import os
    import shlex

    return shlex.quote(word) if os.name == "posix" else f'"{word}"'
