"""Runs killed at random times: resumed runs equal unbroken ones and leave no files or processes."""

import json
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections import Counter
from multiprocessing import forkserver
from pathlib import Path

import numpy as np
import pytest
from killed_run import EVALUATORS, IN_USE, child, configuration, execute, outcome

from fuzzing import one_of, processes_marked
from lmma.run.checkpoint import read

MARK = "LMMA_KILLED_RUN"  # a variable of the environment by which processes that are left are known
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="processes are found in /proc"
)


@pytest.fixture(scope="module")
def template():
    """Processes forked from one that has imported everything, and does nothing else."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["killed_run"])
    with pytest.MonkeyPatch.context() as patch:  # what it imports, it finds by its environment alone
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        forkserver.ensure_running()
    return context


class Deaths:
    """Kills a run again and again, and lets it end."""

    def __init__(self, rng, template, folder, chosen):
        self.rng, self.template, self.folder, self.chosen = rng, template, folder, chosen
        self.file = folder / "run.npz"
        pause = rng.uniform(0.0005, 0.002) if chosen["evaluator"] != "rows" else rng.uniform(0.002, 0.01)
        self.pause = float(pause)
        self.kills = self.refusals = self.starts = 0

    def start(self):
        self.starts += 1
        answer = self.folder.with_name(f"answer {self.starts}")
        mark = {MARK: str(self.folder)}
        process = self.template.Process(
            target=child, args=(self.chosen, self.pause, str(self.file), mark, str(answer))
        )
        process.start()
        return process, answer

    def saved(self):
        return self.file.stat().st_mtime_ns if self.file.exists() else 0

    def wait(self, process):
        """Wait for the moment to kill: any, soon after a checkpoint, or while one is written."""
        when = one_of(self.rng, ["any", "saved", "saved", "writing"])
        before, begun, share = self.saved(), time.monotonic(), float(self.rng.random())
        patience = 0.5 * share if when == "any" else 1.5
        while process.is_alive() and time.monotonic() - begun < patience:
            if when == "saved" and self.saved() != before:
                time.sleep(0.05 * share)
                return
            if when == "writing" and any(name.endswith(".tmp") for name in os.listdir(self.folder)):
                return
            time.sleep(0.0005)

    def end(self, process, answer):
        """Take in how a process ended; return what its run came to, or None."""
        process.join()
        status = process.exitcode
        words = answer.read_text() if answer.exists() else ""
        for path in (answer, answer.with_name(f"{answer.name}.part")):
            path.unlink(missing_ok=True)
        process.close()
        self.kills += status == -signal.SIGKILL
        self.refusals += status == IN_USE
        assert status in (0, IN_USE, -signal.SIGKILL), f"exit status {status}: {words}"
        return json.loads(words) if status == 0 else None

    def until_the_end(self, kills, double):
        """Return what the run came to after so many kills; ``double`` starts two processes at a time."""
        while self.kills < kills:
            started = [self.start() for _ in range(2 if double else 1)]
            for process, _ in started:
                self.wait(process)
                process.kill()
            ended = [self.end(process, answer) for process, answer in started]
            if any(ended):
                return next(filter(None, ended))
        return self.end(*self.start())


def state_of(path):
    """Return all that a checkpoint holds except times."""
    header, arrays = read(path)
    header["counters"].pop("seconds")
    for error in header["errors"]:
        error.pop("traceback", None)  # names the process's own files and lines
    return header, {name: array for name, array in arrays.items() if name != "history.seconds"}


def assert_same(whole, parts):
    (header, arrays), (other, others) = whole, parts
    unlike = [name for name in header | other if header.get(name) != other.get(name)]
    assert not unlike, f"the header differs in {[(n, header.get(n), other.get(n)) for n in unlike]}"
    unlike = [
        name
        for name in arrays | others
        if name not in arrays or name not in others or arrays[name].tobytes() != others[name].tobytes()
    ]
    assert not unlike, f"arrays differ: {unlike}"


def assert_sound(found, chosen, file):
    """Check a run with a quorum, which depends on time: every count is right nevertheless."""
    header, _ = read(file)
    counts = header["counters"]
    assert (found["reason"], found["nit"]) == ("maxiter", chosen["options"]["maxiter"]), found
    assert found["nfev"] == counts["evaluations"] == found["nit"] * header["identity"]["popsize"], found
    assert found["failures"] == counts["failures"] == 0, found
    x = np.array(found["x"])
    assert found["fun"] == float(np.sum((x - 0.3) ** 2 * 10.0 ** np.arange(len(x)))), found


def test_a_killed_run_ends_as_the_unbroken_one(fuzz, template, tmp_path):
    total, features = Counter(), Counter()

    def case(rng):
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        chosen, words = configuration(rng)
        double = bool(rng.random() < 0.3)
        told = f"{'two processes, ' if double else ''}{chosen}"
        try:
            whole = outcome(execute(chosen, tmp_path / "whole.npz", alone=True))
            expected = state_of(tmp_path / "whole.npz")
        finally:
            for path in tmp_path.glob("whole.npz*"):
                path.unlink()
        deaths = Deaths(rng, template, folder, chosen)
        try:
            found = deaths.until_the_end(int(rng.integers(3, 10)) * (2 if fuzz.slow else 1), double)
            if chosen["evaluator"] == "quorum":
                assert_sound(found, chosen, deaths.file)
            else:
                assert_same(expected, state_of(deaths.file))
                assert found == whole, f"{found} instead of {whole}"
        except AssertionError as error:
            raise AssertionError(f"{error}: after {deaths.kills} kills: {told}") from error
        finally:
            left = processes_marked(f"{MARK}={folder}", patience=10.0)
        assert not left, f"processes are left: {left}: {told}"
        log = folder / "run.npz.jsonl"
        allowed = {"run.npz", "run.npz.prev", *([log.name] if chosen["log"] else [])}
        files = {path.name for path in folder.iterdir()}
        assert files <= allowed, f"files are left: {files - allowed}: {told}"
        if chosen["log"]:
            counts = [json.loads(line)["evaluations"] for line in log.read_text().splitlines()]
            assert counts == sorted(set(counts)), f"records twice or out of order: {told}"
        total.update(kills=deaths.kills, refusals=deaths.refusals)
        features.update(dict.fromkeys([*words, *(["two processes"] if double else [])], deaths.kills))
        return "resumed to the same end" if deaths.kills else "too quick to be killed"

    count = sum(fuzz(case, short=2, long=100, at_least=["resumed to the same end"]).values())
    told = ", ".join(f"{number:,} {word}" for word, number in features.most_common())
    print(f"{total['kills']:,} kills ({told}); {total['refusals']:,} second processes refused",
          file=sys.__stderr__ if os.environ.get("LMMA_FUZZ_SHOW") else sys.stdout)  # fmt: skip
    if count >= 100:
        assert total["kills"] >= 1000
        missing = {*EVALUATORS, "two processes", "warm", "inject", "restarts", "bounds"} - set(features)
        assert not missing, f"never killed: {missing}"
