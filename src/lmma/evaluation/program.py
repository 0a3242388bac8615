"""An external program as an objective: one candidate in, one number out, nothing left behind.

A program is the leader of a group of its own. When it ends, or is given up, the group is ended with it; if
this process is killed, its watcher (``watcher.py``) ends the group and removes the candidate's file.
"""

from __future__ import annotations

import contextlib
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
from typing import IO, final

from lmma.evaluation.base import Array
from lmma.evaluation.watcher import TOKEN, watcher

PLACEHOLDER = "{file}"
SEPARATOR = os.sep
Printed = float | tuple[float, list[float]]  # a value, or a value and constraints
TAIL = 500  # characters of standard error kept with a failure
KEPT = 65_536  # bytes kept of what a program prints: the last ones
GRACE = 1.0  # seconds an interrupted program has to end by itself, and a pipe that its children hold to close
LOOK = 0.05  # seconds between two looks at a program, where the system does not tell when it ends


class ProgramError(RuntimeError):
    """A program that gave no number; the message holds the end of its standard error."""


@final
class Program:
    """A callable that runs ``command`` for a candidate and returns the number it prints last.

    Parameters
    ----------
    command : str
        Split as a shell would, but no shell runs it: no pipes, no variables. On Windows a backslash
        separates folders and nothing else. Where it contains
        ``{file}`` the candidate is written to a temporary file, one number a line, and the file's path
        stands there; otherwise the candidate goes to standard input in the same form.

    Raises
    ------
    ProgramError
        On a call: the program cannot be started, exits with a status other than 0, is ended by a
        signal, or the last line it prints is not one number.
    """

    def __init__(self, command: str) -> None:
        try:
            self.words = shlex.split(command.replace("\\", "\\\\") if SEPARATOR == "\\" else command)
        except ValueError as error:
            raise ValueError(f"command {command!r} cannot be split into words: {error}") from None
        if not self.words:
            raise ValueError("command must name a program, got an empty string")
        self.command = command
        self.takes_file = any(PLACEHOLDER in word for word in self.words)

    def __call__(self, x: Array) -> Printed:
        """Return the value of one candidate, and constraints if the program prints them after it."""
        # repr of a Python float is the shortest text that reads back as the same number
        text = "".join(f"{float(number)!r}\n" for number in x)
        if not self.takes_file:
            return self.run_with_text(text)
        return self.run_with_file(text, ".txt", [PLACEHOLDER])

    def run_with_text(self, text: str, replaced: Mapping[str, str] | None = None) -> Printed:
        """Return what the program prints if it is given ``text``; keys of ``replaced`` stand for words."""
        return self._run(_with(self.words, replaced or {}), text, secrets.token_hex(8), None)

    def run_with_file(
        self, text: str, suffix: str, places: Sequence[str], replaced: Mapping[str, str] | None = None
    ) -> Printed:
        """Return what the program prints; the path of a file with ``text`` stands at ``places``."""
        token = secrets.token_hex(8)
        name = os.path.join(tempfile.gettempdir(), f"lmma-{token}{suffix}")
        watcher.tell(token, name)  # before there is a file: this process may be killed at any moment
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL  # never somebody else's file, nor through a link
            with open(os.open(name, flags, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
            words = _with(self.words, {**(replaced or {}), **dict.fromkeys(places, name)})
            return self._run(words, None, token, name)
        finally:
            Path(name).unlink(missing_ok=True)
            watcher.tell(token, gone=True)

    def _run(self, words: list[str], text: str | None, token: str, name: str | None) -> Printed:
        process = None
        watcher.tell(token, name)
        try:
            with postponed_interrupts():
                process = _start(words, subprocess.DEVNULL if text is None else subprocess.PIPE, token)
            watcher.tell(token, name, process.pid)
            output, complaints = _conversation(process, (text or "").encode("utf-8"))
        except BaseException:
            if process is not None:
                end(process)
            raise
        finally:
            if name is None:
                watcher.tell(token, gone=True)
            else:
                watcher.tell(token, name)
        return _number(output, complaints, process.returncode, words[0])


def _with(words: list[str], replaced: Mapping[str, str]) -> list[str]:
    """Return words in which each key of ``replaced`` is its value; what was put in is not looked at again."""
    if not replaced:
        return words
    anything = re.compile("|".join(map(re.escape, replaced)))
    return [anything.sub(lambda match: replaced[match[0]], word) for word in words]


def _start(words: list[str], stdin: int, token: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            words,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a group of its own, so that nothing it started outlives it
            env={**os.environ, TOKEN: token},
        )
    except OSError as error:
        raise ProgramError(f"{words[0]} cannot be started: {error.strerror or error}") from None


@final
class Tail:
    """The end of what a pipe brought; what came before is dropped as it comes."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.cut = False

    def add(self, chunk: bytes) -> None:
        """Take in what was read."""
        self.kept += chunk
        if len(self.kept) > KEPT:
            del self.kept[:-KEPT]
            self.cut = True

    def __str__(self) -> str:
        return self.kept.decode("utf-8", "replace")


def _conversation(process: subprocess.Popen[bytes], text: bytes) -> tuple[Tail, Tail]:
    """Return the ends of standard output and standard error of a program that is given ``text`` and ends.

    Children of it that hold its pipes open are waited for ``GRACE`` seconds, then ended.
    """
    output, complaints = Tail(), Tail()
    assert process.stdout is not None
    assert process.stderr is not None
    if os.name != "posix":
        for tail, data in zip((output, complaints), process.communicate(text), strict=True):
            tail.add(data)
        return output, complaints
    tails: dict[IO[bytes], Tail] = {process.stdout: output, process.stderr: complaints}
    left = memoryview(text)
    ended: float | None = None  # when the program was seen to have ended
    with selectors.DefaultSelector() as selector, _end_of(process) as descriptor:
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
            if ended is not None and time.monotonic() - ended > GRACE:
                break
            wait = GRACE if ended is not None or descriptor is not None else LOOK
            for key, _ in selector.select(wait if open_pipes else LOOK):
                source: IO[bytes] | None = key.data
                if source is None:  # the program has ended
                    selector.unregister(key.fileobj)
                elif source is process.stdin:
                    left = _written(source, left)
                    if not left:
                        selector.unregister(source)
                        with contextlib.suppress(BrokenPipeError):
                            source.close()
                elif chunk := _read(source):
                    tails[source].add(chunk)
                elif chunk is not None:
                    selector.unregister(source)
                    open_pipes.discard(source)
            if ended is None and _has_ended(process):
                ended = time.monotonic()
    _kill_group(process, getattr(signal, "SIGKILL", signal.SIGTERM))  # before its number is free again
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None and not stream.closed:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    return output, complaints


def _written(pipe: IO[bytes], left: memoryview) -> memoryview:
    """Write what the pipe takes; return what is left, nothing if nobody reads."""
    try:
        return left[os.write(pipe.fileno(), left[:KEPT]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[len(left) :]


def _read(pipe: IO[bytes]) -> bytes | None:
    """Return what has come, nothing at the end, None if it was a false alarm."""
    try:
        return os.read(pipe.fileno(), KEPT)
    except BlockingIOError:
        return None


@contextlib.contextmanager
def _end_of(process: subprocess.Popen[bytes]) -> Iterator[int | None]:
    """Give a descriptor that becomes readable when the program ends, where the system has such a thing."""
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
    """Return whether the program has ended; where that can be, its number stays taken."""
    if hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


def _kill_group(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # all of the group has gone already
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.kill()


@contextlib.contextmanager
def postponed_interrupts() -> Iterator[None]:
    """Hold back what Ctrl-C and SIGTERM raise until the block is done.

    Between the birth of a process, or of a file, and the moment its name is known, an exception would
    leave it behind.
    """
    waiting: list[Callable[[], object]] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():  # no other is ever interrupted
        for number in (signal.SIGINT, signal.SIGTERM):
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


def _number(output: Tail, complaints: Tail, status: int, program: str) -> Printed:
    """Return the number on the last line of ``output``, constraints after it, or say why there is none."""
    tail = str(complaints).strip()[-TAIL:]
    because = f"; standard error ends: {tail}" if tail else "; nothing on standard error"
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        raise ProgramError(f"{program} was ended by {name}{because}")
    if status > 0:
        raise ProgramError(f"{program} exited with status {status}{because}")
    lines = str(output).split("\n")
    if output.cut:
        lines[0] = ""  # a part of a line, whose other part is not known
    last = next((line.strip() for line in reversed(lines) if line.strip()), None)
    if last is None and output.cut:
        raise ProgramError(f"{program} printed no number in a line of the last {KEPT:,} bytes{because}")
    if last is None:
        raise ProgramError(f"{program} printed nothing, expected one number{because}")
    try:
        value, *constraints = map(float, last.split())
        return (value, constraints) if constraints else value
    except ValueError:
        raise ProgramError(
            f"{program} printed {last[:80]!r} last, expected a line with one number{because}"
        ) from None


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program and whatever it started: politely, then, after ``GRACE`` seconds, not."""
    _kill_group(process, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while not _has_ended(process) and time.monotonic() < deadline:
        time.sleep(LOOK / 5)
    _kill_group(process, getattr(signal, "SIGKILL", signal.SIGTERM))  # children that did not listen
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


__all__ = ["Program", "ProgramError"]
