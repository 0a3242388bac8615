"""External programs as objectives.

Each program runs in its own process group. When it exits or is abandoned, the whole group is killed. If this
process is killed, its watcher (``watcher.py``) kills the group and removes the candidate's file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import selectors
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any, final

import numpy as np

from lmma._text import nearest
from lmma.evaluation.base import Array
from lmma.evaluation.watcher import TOKEN, watcher

PLACEHOLDER = "{file}"
SEPARATOR = os.sep
Printed = float | tuple[float, list[float]]  # a value, or a value and constraints
STDERR_TAIL = 500  # characters of standard error kept with a failure
MAX_OUTPUT = 65_536  # bytes of output kept, from the end
GRACE_PERIOD = 1.0  # seconds for a program to exit after SIGTERM, and for its children to close its pipes
POLL_INTERVAL = 0.05  # seconds between checks for exit, without pidfd_open


class ProgramError(RuntimeError):
    """A program failed to print a number; the message includes the end of its standard error."""


@final
class Program:
    """A callable that runs ``command`` for a candidate and returns the number on its last line of output.

    Parameters
    ----------
    command : str
        Split like a shell command, but run without a shell: no pipes, no variables. On Windows a backslash
        is only a path separator. If it contains ``{file}``, the candidate is written to a temporary file, one
        number per line, whose path replaces ``{file}``. Otherwise the same text goes to standard input.

    Raises
    ------
    ProgramError
        When called, if the program cannot be started, exits with a non-zero status, is killed by a signal,
        or its last line is not a number.
    """

    def __init__(self, command: str) -> None:
        try:
            self.argv = shlex.split(command.replace("\\", "\\\\") if SEPARATOR == "\\" else command)
        except ValueError as error:
            raise ValueError(f"command {command!r} cannot be split into arguments: {error}") from None
        if not self.argv:
            raise ValueError("command must name a program, got an empty string")
        self.command = command
        self.takes_file = any(PLACEHOLDER in argument for argument in self.argv)

    def __call__(self, x: Array) -> Printed:
        """Return the value of one candidate, and constraints if the program prints them after it."""
        # repr of a float round-trips exactly
        text = "".join(f"{float(number)!r}\n" for number in x)
        if not self.takes_file:
            return self.run_with_text(text)
        return self.run_with_file(text, ".txt", [PLACEHOLDER])

    def run_with_text(self, text: str, replaced: Mapping[str, str] | None = None) -> Printed:
        """Run the program with ``text`` on standard input; ``replaced`` maps placeholders to their values."""
        return self._run(_substitute(self.argv, replaced or {}), text, secrets.token_hex(8), None)

    def run_with_file(
        self, text: str, suffix: str, places: Sequence[str], replaced: Mapping[str, str] | None = None
    ) -> Printed:
        """Run the program with ``text`` in a file whose path replaces the placeholders ``places``."""
        token = secrets.token_hex(8)
        name = os.path.join(tempfile.gettempdir(), f"lmma-{token}{suffix}")
        watcher.update(token, name)  # before the file exists: this process may be killed at any time
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL  # never an existing file, never through a symlink
            with open(os.open(name, flags, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
            argv = _substitute(self.argv, {**(replaced or {}), **dict.fromkeys(places, name)})
            return self._run(argv, None, token, name)
        finally:
            Path(name).unlink(missing_ok=True)
            watcher.update(token, gone=True)

    def _run(self, argv: list[str], text: str | None, token: str, name: str | None) -> Printed:
        process = None
        watcher.update(token, name)
        try:
            with postponed_interrupts():
                process = _start_process(argv, subprocess.DEVNULL if text is None else subprocess.PIPE, token)
            watcher.update(token, name, process.pid)
            output, errors = _communicate(process, (text or "").encode("utf-8"))
        except BaseException:
            if process is not None:
                terminate(process)
            raise
        finally:
            if name is None:
                watcher.update(token, gone=True)
            else:
                watcher.update(token, name)
        return _parse_output(output, errors, process.returncode, argv[0])


def _substitute(argv: list[str], replaced: Mapping[str, str]) -> list[str]:
    """Return ``argv`` with each key of ``replaced`` replaced once; inserted text is not scanned again."""
    if not replaced:
        return argv
    pattern = re.compile("|".join(map(re.escape, replaced)))
    return [pattern.sub(lambda match: replaced[match[0]], argument) for argument in argv]


def _start_process(argv: list[str], stdin: int, token: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a new group, so that its children can be killed with it
            env={**os.environ, TOKEN: token},
        )
    except OSError as error:
        raise ProgramError(f"cannot start {argv[0]}: {error.strerror or error}") from None


@final
class Tail:
    """The last bytes read from a pipe; earlier ones are dropped."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.cut = False

    def add(self, chunk: bytes) -> None:
        """Append ``chunk``; drop bytes beyond the limit."""
        self.kept += chunk
        if len(self.kept) > MAX_OUTPUT:
            del self.kept[:-MAX_OUTPUT]
            self.cut = True

    def __str__(self) -> str:
        return self.kept.decode("utf-8", "replace")


def _communicate(process: subprocess.Popen[bytes], text: bytes) -> tuple[Tail, Tail]:
    """Send ``text`` to a program and wait for its exit; return the ends of its output and error streams.

    Children that keep its pipes open get ``GRACE_PERIOD`` seconds to exit and are then killed.
    """
    output, errors = Tail(), Tail()
    assert process.stdout is not None
    assert process.stderr is not None
    if os.name != "posix":
        for tail, data in zip((output, errors), process.communicate(text), strict=True):
            tail.add(data)
        return output, errors
    tails: dict[IO[bytes], Tail] = {process.stdout: output, process.stderr: errors}
    left = memoryview(text)
    ended: float | None = None  # when the exit was noticed
    with selectors.DefaultSelector() as selector, _exit_descriptor(process) as descriptor:
        for pipe in tails:
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, pipe)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE, process.stdin)
        if descriptor is not None:
            selector.register(descriptor, selectors.EVENT_READ)
        open_pipes = set(tails)
        while open_pipes or ended is None:
            if ended is not None and time.monotonic() - ended > GRACE_PERIOD:
                break
            wait = GRACE_PERIOD if ended is not None or descriptor is not None else POLL_INTERVAL
            for key, _ in selector.select(wait if open_pipes else POLL_INTERVAL):
                source: IO[bytes] | None = key.data
                if source is None:  # the program has exited
                    selector.unregister(key.fileobj)
                elif source is process.stdin:
                    left = _write_some(source, left)
                    if not left:
                        selector.unregister(source)
                        with contextlib.suppress(BrokenPipeError):
                            source.close()
                elif chunk := _read_some(source):
                    tails[source].add(chunk)
                elif chunk is not None:
                    selector.unregister(source)
                    open_pipes.discard(source)
            if ended is None and _has_ended(process):
                ended = time.monotonic()
    _kill_group(process, getattr(signal, "SIGKILL", signal.SIGTERM))  # before its process ID can be reused
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None and not stream.closed:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    return output, errors


def _write_some(pipe: IO[bytes], left: memoryview) -> memoryview:
    """Write as much as the pipe accepts; return the rest, empty if the reading end is closed."""
    try:
        return left[os.write(pipe.fileno(), left[:MAX_OUTPUT]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[len(left) :]


def _read_some(pipe: IO[bytes]) -> bytes | None:
    """Return the available bytes, b"" at end of file, None if there are none yet."""
    try:
        return os.read(pipe.fileno(), MAX_OUTPUT)
    except BlockingIOError:
        return None


@contextlib.contextmanager
def _exit_descriptor(process: subprocess.Popen[bytes]) -> Iterator[int | None]:
    """Yield a descriptor that becomes readable when the program exits, or None if unsupported."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the program has exited; with ``waitid``, its process ID stays reserved."""
    if hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


def _kill_group(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the whole group has exited
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.kill()


@contextlib.contextmanager
def postponed_interrupts() -> Iterator[None]:
    """Postpone Ctrl-C, SIGTERM and SIGHUP until the end of the block.

    An exception between the creation of a process and the assignment of its handle would leak it.
    """
    waiting: list[Callable[[], object]] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():  # signal handlers only run in the main thread
        hangup = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []  # Windows has none
        for number in (signal.SIGINT, signal.SIGTERM, *hangup):
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler

    def wait(number: int, frame: FrameType | None) -> None:
        waiting.append(lambda: handlers[signal.Signals(number)](number, frame))

    try:
        for number in handlers:
            signal.signal(number, wait)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for call in waiting:
        call()


def _parse_output(output: Tail, errors: Tail, status: int, program: str) -> Printed:
    """Return the value, and any constraints, on the last line of ``output``; raise ProgramError if absent."""
    tail = str(errors).strip()[-STDERR_TAIL:]
    detail = f"; standard error ends: {tail}" if tail else "; nothing on standard error"
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        raise ProgramError(f"{program} was killed by {name}{detail}")
    if status > 0:
        raise ProgramError(f"{program} exited with status {status}{detail}")
    lines = str(output).split("\n")
    if output.cut:
        lines[0] = ""  # an incomplete line
    last = next((line.strip() for line in reversed(lines) if line.strip()), None)
    if last is None and output.cut:
        raise ProgramError(
            f"{program} printed no complete line with a number in the last {MAX_OUTPUT:,} bytes{detail}"
        )
    if last is None:
        raise ProgramError(f"{program} printed nothing, expected one number{detail}")
    try:
        value, *constraints = map(float, last.split())
        return (value, constraints) if constraints else value
    except ValueError:
        raise ProgramError(
            f"last line printed by {program} must be a number, got {last[:80]!r}{detail}"
        ) from None


def terminate(process: subprocess.Popen[bytes]) -> None:
    """Terminate a program and its children: SIGTERM, then SIGKILL after ``GRACE_PERIOD`` seconds."""
    _kill_group(process, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_PERIOD
    while not _has_ended(process) and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL / 5)
    _kill_group(process, getattr(signal, "SIGKILL", signal.SIGTERM))  # children that ignored SIGTERM
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


# Named values, in the command line or in a JSON or TOML file

NAMED_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
FILES = {"file": "json", "json": "json", "toml": "toml"}  # placeholder -> file format


@final
class NamedProgram:
    """A callable that runs ``command`` with named values and returns the number on its last line of output.

    Parameters
    ----------
    command : str
        As for :class:`Program`. ``{speed}`` is replaced by the value of the variable speed, ``{json}`` (or
        ``{file}``) and ``{toml}`` by the path of a temporary file with all values. If there is no
        placeholder, the values go to standard input as JSON.
    names : iterable of str
        The names of the variables.
    """

    takes_values = True  # tells takes_keywords() to pass one dict

    def __init__(self, command: str, names: Any) -> None:
        self.program = Program(command)
        self.argv = self.program.argv
        self.name = command
        used = {match for argument in self.argv for match in NAMED_PLACEHOLDER.findall(argument)}
        forms = sorted({FILES[name] for name in used if name in FILES})
        if len(forms) > 1:
            raise ValueError("the command asks for both a JSON and a TOML file: use only one")
        known = set(names)
        for name in sorted(used - known - set(FILES)):
            if hint := nearest(name, sorted(known)):
                raise ValueError(f"{{{name}}} in the command is not a variable{hint}")
        self.form = forms[0] if forms else ""
        self.named = used & known

    def __call__(self, values: Mapping[str, Any]) -> Printed:
        """Return the value of one candidate, and constraints if the program prints them after it."""
        replaced = {f"{{{name}}}": as_argument(values[name]) for name in self.named}
        text = as_toml(values) if self.form == "toml" else as_json(values) + "\n"
        if self.form:
            places = [f"{{{name}}}" for name, form in FILES.items() if form == self.form]
            return self.program.run_with_file(text, f".{self.form}", places, replaced)
        return self.program.run_with_text("" if self.named else text, replaced)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def as_argument(value: Any) -> str:
    """Return a value as a command-line argument; floats round-trip exactly, arrays become JSON."""
    plain = _plain(value)
    if isinstance(plain, str):
        return plain
    return repr(plain) if isinstance(plain, float) else json.dumps(plain)


def as_json(values: Mapping[str, Any]) -> str:
    """Return values as a JSON object."""
    return json.dumps(_plain(values))


def as_toml(values: Mapping[str, Any]) -> str:
    """Return values as TOML, one per line."""
    return "".join(f"{name} = {_toml(_plain(value))}\n" for name, value in values.items())


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(name)} = {_toml(entry)}' for name, entry in value.items())} }}"
    return '""' if value is None else repr(value) if isinstance(value, float) else json.dumps(value)


__all__ = ["NamedProgram", "Program", "ProgramError"]
