"""An external program as an objective: one candidate in, one number out."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import final

from lmma.evaluation.base import Array

PLACEHOLDER = "{file}"
TAIL = 500  # characters of standard error kept with a failure
GRACE = 1.0  # seconds an interrupted program has to end by itself


class ProgramError(RuntimeError):
    """A program that gave no number; the message holds the end of its standard error."""


@final
class Program:
    """A callable that runs ``command`` for a candidate and returns the number it prints last.

    Parameters
    ----------
    command : str
        Split as a shell would, but no shell runs it: no pipes, no variables. Where it contains
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
            self.words = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"command {command!r} cannot be split into words: {error}") from None
        if not self.words:
            raise ValueError("command must name a program, got an empty string")
        self.command = command
        self.takes_file = any(PLACEHOLDER in word for word in self.words)

    def __call__(self, x: Array) -> float:
        """Return the value of one candidate."""
        # repr of a Python float is the shortest text that reads back as the same number
        text = "".join(f"{float(number)!r}\n" for number in x)
        if not self.takes_file:
            return self._run(self.words, text)
        name = None
        try:
            with postponed_interrupts():
                handle, name = tempfile.mkstemp(prefix="lmma-", suffix=".txt", text=True)
            with open(handle, "w", encoding="ascii") as file:
                file.write(text)
            return self._run([word.replace(PLACEHOLDER, name) for word in self.words], None)
        finally:
            if name is not None:
                Path(name).unlink(missing_ok=True)

    def _run(self, words: list[str], text: str | None) -> float:
        process = None
        try:
            with postponed_interrupts():
                process = _start(words, subprocess.DEVNULL if text is None else subprocess.PIPE)
            output, complaints = process.communicate(text)
        except BaseException:
            if process is not None:
                end(process)
            raise
        return _number(output, complaints, process.returncode, words[0])


def _start(words: list[str], stdin: int) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            words,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # a group of its own, so that nothing it started outlives it
        )
    except OSError as error:
        raise ProgramError(f"{words[0]} cannot be started: {error.strerror or error}") from None


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


def _number(output: str, complaints: str, status: int, program: str) -> float:
    """Return the number on the last line of ``output``, or say why there is none."""
    tail = complaints.strip()[-TAIL:]
    because = f"; standard error ends: {tail}" if tail else "; nothing on standard error"
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        raise ProgramError(f"{program} was ended by {name}{because}")
    if status > 0:
        raise ProgramError(f"{program} exited with status {status}{because}")
    lines = output.split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), None)
    if last is None:
        raise ProgramError(f"{program} printed nothing, expected one number{because}")
    try:
        return float(last)
    except ValueError:
        raise ProgramError(
            f"{program} printed {last[:80]!r} last, expected a line with one number{because}"
        ) from None


def end(process: subprocess.Popen[str]) -> None:
    """End a program and whatever it started: politely, then, after ``GRACE`` seconds, not."""
    for kill in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        with contextlib.suppress(ProcessLookupError):  # all of the group has gone already
            if hasattr(os, "killpg"):
                os.killpg(process.pid, kill)
            else:
                process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
            break
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


__all__ = ["Program", "ProgramError"]
