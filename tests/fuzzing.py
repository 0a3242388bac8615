"""Many hostile cases, each made from one seed, so that a failing case can be repeated alone.

A case is a function of a random generator. It raises where a promise is broken and otherwise returns one word
for what happened, such as "refused"; the words are counted and printed.

    LMMA_FUZZ_SEED=17 pytest tests/hostile/test_fuzz_bounds.py      case 17 alone
    LMMA_FUZZ_CASES=50000 pytest tests/hostile/test_fuzz_bounds.py  so many of them
    LMMA_FUZZ_SECONDS=600 pytest tests/hostile/test_fuzz_bounds.py  as many as fit
    LMMA_FUZZ_FROM=400 pytest tests/hostile/test_fuzz_bounds.py     from case 400 on, so many as without
"""

import contextlib
import faulthandler
import os
import resource
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np

SHOWN = int(os.environ.get("LMMA_FUZZ_SHOWN", 20))  # failures told
PATIENCE = 400  # seconds after which a case hangs; the longest, with many workers to start, takes a minute
SMALL_FILE = 96 << 20  # bytes of memory that reading any of these small files may ask for
ROOM = 3 << 30  # bytes of address space that a case may ask for


class Hangs(BaseException):
    """A case has not come to its end; no handler of the library's may take it for a failed evaluation."""


class Fuzzer:
    """Runs cases and keeps count; see the fixture ``fuzz``."""

    def __init__(self, node, slow, record_property):
        self.node, self.slow, self.record_property = node, slow, record_property

    def __call__(self, case, *, short, long, at_least=()):
        """Run ``case`` for the seeds 0, 1, 2, ...; return how often each word was returned.

        Every word in ``at_least`` must come up, or the fuzzer has ceased to try what it is there for.
        """
        if (alone := os.environ.get("LMMA_FUZZ_SEED")) is not None:
            self._attempt(case, int(alone))
            return Counter()
        count = int(os.environ.get("LMMA_FUZZ_CASES", long if self.slow else short))
        first = int(os.environ.get("LMMA_FUZZ_FROM", 0))
        words, failures, told_at = Counter(), [], time.monotonic()
        end = time.monotonic() + float(os.environ.get("LMMA_FUZZ_SECONDS", "inf"))
        for seed in range(first, first + count):
            if time.monotonic() > end:
                count = seed - first
                break
            if time.monotonic() > told_at + 60 and os.environ.get("LMMA_FUZZ_SHOW"):
                told_at = time.monotonic()
                print(f"{self.node.name}: at seed {seed}, {len(failures)} failed", file=sys.__stderr__)
            try:
                words[self._attempt(case, seed)] += 1
            except (Exception, Hangs) as error:
                told = f"{type(error).__name__}: {error}".partition("\nassert ")[0]
                failures.append((seed, told))
        self._report(words, failures, count)
        assert sum(words.values()) == count > 0
        missing = [word for word in at_least if not words[word]]
        assert not missing, f"never tried: {', '.join(missing)}; came up: {dict(words)}"
        return words

    def _attempt(self, case, seed):
        with watched(), limited():
            word = case(np.random.default_rng([2017, seed]))
        assert isinstance(word, str), f"a case says what happened, not {word!r}"
        return word

    def _report(self, words, failures, count):
        line = ", ".join(f"{number:,} {word}" for word, number in words.most_common())
        summary = f"{self.node.name}: {count:,} cases: {line}, {len(failures):,} failed"
        self.record_property("cases", count)
        self.record_property("outcomes", line)
        print(summary, file=sys.__stderr__ if os.environ.get("LMMA_FUZZ_SHOW") else sys.stdout)
        if failures:
            told = [f"seed {seed}: {words}" for seed, words in failures[:SHOWN]]
            raise AssertionError(
                f"{summary}\nLMMA_FUZZ_SEED=... pytest {self.node.nodeid} runs one alone\n" + "\n".join(told)
            )


@contextlib.contextmanager
def watched():
    """Raise where the block hangs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def alarm(*_):
        faulthandler.dump_traceback(sys.__stderr__)
        raise Hangs(f"no end after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, alarm)
    signal.alarm(PATIENCE)
    faulthandler.dump_traceback_later(
        2 * PATIENCE, exit=True, file=sys.__stderr__
    )  # if nobody hears the alarm
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def limited(room=ROOM):
    """Let the block ask for so much more memory: a bomb raises MemoryError and hurts nobody."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:  # not on this system
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (min(used + room, soft) if soft >= 0 else used + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def processes_marked(variable, patience):
    """Return processes in whose environment ``variable`` ("NAME=value") is; they may take a while to go."""
    deadline = time.monotonic() + patience
    while True:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # another user's, or it has just ended
                if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def one_of(rng, pool):
    """Return one element of a sequence as it is: NumPy's choice would make arrays of them."""
    return pool[int(rng.integers(len(pool)))]


def damaged(rng, content):
    """Return bytes with something wrong: flipped bits, lost, doubled, overwritten or appended parts."""
    data = bytearray(content)
    kind = one_of(rng, ["flip", "flip", "byte", "cut", "lose", "append", "zeros", "noise", "double", "empty"])
    at = int(rng.integers(len(data)))
    span = int(rng.integers(1, 1 + min(512, len(data) - at)))
    if kind == "flip":
        for where in rng.integers(len(data), size=int(rng.integers(1, 4))):
            data[where] ^= 1 << int(rng.integers(8))
    elif kind == "byte":
        data[at] = (data[at] + int(rng.integers(1, 256))) % 256
    elif kind == "cut":
        del data[at:]
    elif kind == "lose":
        del data[at : at + span]
    elif kind == "append":
        data += rng.bytes(span)
    elif kind == "zeros":
        data[at : at + span] = bytes(span)
    elif kind == "noise":
        data[at : at + span] = rng.bytes(span)
    elif kind == "double":
        data[at:at] = data[at : at + span]
    else:
        data.clear()
    return bytes(data)


def within_memory(read, *words):
    """Return what ``read`` returns if it needs little memory."""
    with limited(SMALL_FILE):
        return read(*words)


def deep(depth=100_000):
    return b"[" * depth + b"]" * depth
