"""A status line updated in place on a terminal, plain lines elsewhere."""

import io
import os
import pty
import struct
from fcntl import ioctl
from termios import TIOCSWINSZ

import pytest

from lmma.output import progress
from lmma.output.progress import StatusLine, bar, truncate


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_one_line_renewed_in_place():
    stream = Terminal()
    line = StatusLine(stream)
    line.show("one")
    line.show("two")
    line.close()
    line.close()
    assert stream.getvalue() == "\r\x1b[Kone\r\x1b[Ktwo\n"


def test_a_pipe_gets_plain_lines():
    stream = io.StringIO()
    line = StatusLine(stream)
    line.show("one")
    line.print_line("two")
    line.close(erase=True)
    assert stream.getvalue() == "one\ntwo\n"


def test_permanent_lines_stay_above_the_status_line():
    stream = Terminal()
    line = StatusLine(stream)
    line.show("working")
    line.print_line("a result")
    line.show("working")
    line.close(erase=True)
    assert stream.getvalue() == "\r\x1b[Kworking\r\x1b[Ka result\n\r\x1b[Kworking\r\x1b[K"


@pytest.mark.parametrize(("stream", "wait"), [(Terminal(), 0.1), (io.StringIO(), 7.0)])
def test_a_line_is_due_again_after_its_interval(stream, wait, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    line = StatusLine(stream, every=7.0)
    assert line.due()
    line.show("one")
    now[0] += 0.99 * wait
    assert not line.due()
    now[0] += 0.02 * wait
    assert line.due()


def test_a_line_is_cut_where_the_terminal_ends(monkeypatch):
    monkeypatch.setenv("COLUMNS", "33")
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
    with os.fdopen(theirs, "w") as stream, os.fdopen(ours, "rb", buffering=0) as screen:
        StatusLine(stream).show("x" * 50)
        assert screen.read(100) == b"\r\x1b[K" + b"x" * 16 + b"..."
    assert truncate("x" * 50, Terminal()) == "x" * 29 + "..."  # from COLUMNS
    monkeypatch.delenv("COLUMNS")
    assert truncate("x" * 50, Terminal()) == "x" * 50


class Full(Terminal):
    calls = 0

    def write(self, text):
        self.calls += 1
        raise OSError(28, "No space left on device")


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [Full(), closed(), None])
def test_a_stream_that_fails_is_left_alone(stream, monkeypatch):
    monkeypatch.setattr(progress.sys, "stderr", stream)
    line = StatusLine()
    for _ in range(3):
        line.show("one")
        line.print_line("two")
        line.close()
    assert not line.due()
    assert stream is None or stream.closed or stream.calls == 1


def test_a_bar_shows_a_share():
    assert [bar(share, 4) for share in (-1, 0, 0.5, 1, 2)] == [
        "[....]",
        "[....]",
        "[##..]",
        "[####]",
        "[####]",
    ]
