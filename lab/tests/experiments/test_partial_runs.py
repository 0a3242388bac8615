"""A run in progress survives its process: killed and moved, it gives the record of the unbroken run."""

from __future__ import annotations

import io
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from lmma.run.checkpoint import CheckpointError
from lmma_lab.schedule import partial_runs as module
from lmma_lab.schedule.execute import perform, timeless
from lmma_lab.schedule.objective import WatchedObjective
from lmma_lab.schedule.partial_runs import FOLDER, PartialRun, PartialRuns
from lmma_lab.schedule.runner import Runner
from lmma_lab.store import Store
from lmma_lab.tasks import Solve, record_fault
from repository import SOURCES

METHODS = ("lm-ma-es", "ma-es", "cma-es", "acma-es", "vd-cma-es", "lm-cma-es", "lm-ma-es-archive")
CUT = 50  # generations after which a run is cut short here


class Cut(BaseException):
    """Ends a run as a kill would: nothing is tidied up."""


@pytest.fixture
def saved_and_cut(monkeypatch):
    """Save after ``CUT`` generations, whatever the clock says, and end the run there."""
    real = PartialRun.save_if_due
    count = [0]

    def save_if_due(self, run):
        count[0] += 1
        if count[0] % CUT == 0:
            self._due = 0.0
            real(self, run)
            raise Cut

    monkeypatch.setattr(PartialRun, "save_if_due", save_if_due)
    return lambda: monkeypatch.setattr(PartialRun, "save_if_due", real)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_cut_short_comes_to_the_record_of_an_unbroken_one(tmp_path, saved_and_cut, method):
    task = Solve("rotated-cigar", method, 10, 1, 20_000)
    runs = PartialRuns(tmp_path / FOLDER)
    behind = []
    for _ in range(3):
        with pytest.raises(Cut):
            perform(task, None, runs)
        behind.append(runs.evaluations(task.key))
    assert behind[0] > 0
    assert behind == [behind[0] * k for k in (1, 2, 3)]  # each goes on where the one before was
    saved_and_cut()  # from here on it runs through
    record = perform(task, None, runs)
    assert timeless(record) == timeless(perform(task))
    runs.forget(task.key)
    assert list(runs.folder.iterdir()) == []


def test_a_short_run_writes_no_file(tmp_path):
    perform(Solve("sphere", "ma-es", 4, 1, 2000), None, PartialRuns(tmp_path / FOLDER))
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_seconds_of_all_parts_are_added_up(tmp_path, saved_and_cut):
    task = Solve("sphere", "ma-es", 6, 1, 50_000)
    runs = PartialRuns(tmp_path)
    with pytest.raises(Cut):
        perform(task, None, runs)
    saved_and_cut()
    kept = runs.keep(task.key, WatchedObjective(lambda X: X[:, 0], (0.0,)))
    kept.watch.before = (100.0, 50.0)
    assert kept.watch.read()[0] >= 100.0
    assert kept.watch.read()[1] >= 50.0


@pytest.mark.parametrize("damage", ["cut", "flipped", "another"])
def test_an_unusable_checkpoint_is_set_aside_and_the_run_starts_again(tmp_path, saved_and_cut, damage):
    task, other = (Solve("cigar", "lm-ma-es", 8, seed, 100_000) for seed in (1, 2))
    runs = PartialRuns(tmp_path)
    for each in (task, other):
        with pytest.raises(Cut):
            perform(each, None, runs)
    saved_and_cut()
    path = runs.path(task.key)
    if damage == "another":
        shutil.copy(runs.path(other.key), path)
    else:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content if damage == "flipped" else content[:-100])
    assert timeless(perform(task, None, runs)) == timeless(perform(task))
    assert path.with_name(f"{path.name}.refused").exists()


def test_a_run_in_use_by_another_process_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.3)
    task = Solve("sphere", "ma-es", 4, 1, 2000)
    runs = PartialRuns(tmp_path)
    kept = runs.keep(task.key, WatchedObjective(lambda X: X[:, 0], (0.0,)))
    kept.lock.acquire()
    with pytest.raises(CheckpointError, match="in use"):
        perform(task, None, runs)
    kept.lock.release()


def test_the_worker_of_a_killed_process_is_waited_for(tmp_path):
    task = Solve("sphere", "ma-es", 4, 1, 2000)
    runs = PartialRuns(tmp_path)
    kept = runs.keep(task.key, WatchedObjective(lambda X: X[:, 0], (0.0,)))
    kept.lock.acquire()
    threading.Timer(0.5, kept.lock.release).start()
    assert perform(task, None, runs)["success"]


def test_the_state_of_the_objective_is_that_of_the_generation_before(tmp_path):
    """Cut between evaluating and learning, the objective is one generation ahead of the run."""
    values = iter(np.array([[4.0, 3.0], [1.0, 2.0]]))
    objective = WatchedObjective(lambda X: next(values), (3.5, 1.5))
    for _ in range(2):
        objective([[0.0], [0.0]])
    assert objective.hits == [2, 3]
    state = objective.state(2, 3.0)
    again = WatchedObjective(lambda X: X, (3.5, 1.5))
    again.restore(state)
    assert (again.evaluations, again.best, again.hits) == (2, 3.0, [2])
    assert again.curve() == {"evaluations": [2], "best_fun": [3.0]}


MAIN = """
import sys
from lmma_lab.schedule.eta import Clock
from lmma_lab.schedule.runner import Runner
from lmma_lab.tasks import Solve, record_fault
from lmma_lab.store import Store

if __name__ == "__main__":
    clock = Clock({(method, n): 1e-6 * n for method, n in (
        ("lm-ma-es", 128), ("lm-ma-es", 2048), ("ma-es", 128), ("ma-es", 512))})
    tasks = [Solve(problem, "lm-ma-es", 32, 1, 32 * 200_000) for problem in ("cigar", "rotated-discus")]
    with Store(sys.argv[1], record_fault) as store:
        sys.exit(not Runner(tasks, store, 1, clock=clock, checkpoint_every=0.05).run().complete)
"""


@pytest.mark.slow
def test_killed_ten_times_in_the_middle_and_moved_the_records_are_those_of_unbroken_runs(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(MAIN)
    rng = random.Random(1)
    folder = tmp_path / "place-0"
    folder.mkdir()
    environment = {"PYTHONPATH": SOURCES, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(script)]
    progress = []
    for kill in range(1, 11):
        process = subprocess.Popen(
            [*command, str(folder / "s.sqlite")], env=environment, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        before = newest(folder)
        while process.poll() is None and newest(folder) <= before + rng.randrange(1, 4):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        progress.append(newest(folder))
        moved = tmp_path / f"place-{kill}"
        time.sleep(0.5)  # the worker ends with its parent
        folder.rename(moved)
        folder = moved
    assert len(set(progress)) > 5  # it was cut in the middle of runs, and went on from there
    subprocess.run([*command, str(folder / "s.sqlite")], env=environment, check=True, capture_output=True)
    assert list((folder / FOLDER).iterdir()) == []
    with Store(folder / "s.sqlite", record_fault) as store:
        records = store.records("run")
    assert len(records) == 2
    for record in records:
        assert timeless(record) == timeless(perform(Solve(**record["spec"])))


def newest(folder: Path) -> int:
    """Return when a checkpoint in ``folder`` was last written, in milliseconds."""
    try:
        times = [path.stat().st_mtime_ns for path in (folder / FOLDER).glob("*.npz")]
    except OSError:  # replaced between looking and asking
        return 0
    return max(times, default=0) // 1_000_000


def test_the_runner_keeps_runs_next_to_its_store(tmp_path):
    with Store(tmp_path / "a" / "s.sqlite", record_fault) as store:
        runner = Runner([Solve("sphere", "ma-es", 4, 1, 2000)], store, stream=io.StringIO())
        assert runner.partial_runs.folder == tmp_path / "a" / FOLDER
        assert runner.run().complete
    assert list((tmp_path / "a" / FOLDER).iterdir()) == []
