"""Each task is finished once despite interruptions; failed tasks are reported and repeated."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lmma._text import readable_time
from lmma_lab.schedule.display import Display, RunningTask
from lmma_lab.schedule.eta import Clock, expected_evaluations, time_left
from lmma_lab.schedule.execute import timeless
from lmma_lab.schedule.processes import TaskWorker
from lmma_lab.schedule.runner import Runner
from lmma_lab.store import Store
from lmma_lab.tasks import Grid, Invariance, Memory, Solve, record_fault
from repository import SOURCES

STRATEGIES = '''
import os
import time
from pathlib import Path

from lmma import CSAES

STARTED = Path(__file__).with_name("started.txt")


class Raises(CSAES):
    def __init__(self, *args, **options):
        raise RuntimeError("no such luck")


class Dies(CSAES):
    def __init__(self, *args, **options):
        os._exit(7)


class Patient(CSAES):
    """Notes that a run was started, and takes a while, so that it can be killed in the middle."""

    seconds = 0.3

    def __init__(self, *args, **options):
        with STARTED.open("a") as file:
            file.write("a run\\n")
        time.sleep(self.seconds)
        super().__init__(*args, **options)


class Endless(Patient):
    seconds = 600
'''
CLOCK = Clock({("lm-ma-es", 128): 1e-4, ("lm-ma-es", 2048): 1e-3, ("ma-es", 128): 1e-4, ("ma-es", 512): 1e-3})


@pytest.fixture
def strategies(tmp_path, monkeypatch):
    (tmp_path / "their_strategies.py").write_text(STRATEGIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "their_strategies"


def carried_out(tasks, path, workers=2, stream=None):
    with Store(path, record_fault) as store:
        runner = Runner(tasks, store, workers, stream=stream or io.StringIO(), clock=CLOCK)
        summary = runner.run()
        return summary, {r["spec"].get("seed", 0): r for r in store.records()}


def test_all_tasks_get_a_record_and_are_not_done_again(tmp_path, monkeypatch):
    tasks = [
        *Grid(("sphere",), ("ma-es",), (4,), 3).tasks(),
        Memory("ma-es", 16),
        Invariance("ma-es", "update", 4, 9),
    ]
    lines = io.StringIO()
    summary, _ = carried_out(tasks, tmp_path / "s.sqlite", stream=lines)
    assert summary.complete
    assert not summary.failed
    assert "[5/5]" in lines.getvalue()
    assert "evaluations" in lines.getvalue()
    started = []
    monkeypatch.setattr(TaskWorker, "give", lambda self, task: started.append(task))
    with Store(tmp_path / "s.sqlite", record_fault) as store:
        again = Runner(tasks, store, clock=CLOCK, stream=io.StringIO())
        assert "nothing left" in again.announce()
        assert again.run().complete
    assert started == []


def test_workers_give_the_records_of_this_process(tmp_path):
    from lmma_lab.schedule.execute import perform

    task = Solve("rotated-cigar", "ma-es", 6, 1, 50_000)
    _, records = carried_out([task], tmp_path / "s.sqlite")
    assert timeless(records[1]) == timeless(perform(task))


def test_failing_tasks_are_reported_and_the_others_are_completed(tmp_path, strategies):
    methods = ("ma-es", f"{strategies}:Raises", f"{strategies}:Dies")
    tasks = list(Grid(("sphere",), methods, (4,), 1).tasks())
    lines = io.StringIO()
    summary, records = carried_out(tasks, tmp_path / "s.sqlite", stream=lines)
    assert not summary.complete
    assert summary.done == len(records) == 1
    causes = " ".join(summary.failed.values())
    assert "no such luck" in causes
    assert "code 7" in causes
    assert "FAILED" in lines.getvalue()
    summary, _ = carried_out(tasks, tmp_path / "s.sqlite")
    assert len(summary.failed) == 2  # tried again


def test_unknown_names_are_rejected_before_the_first_run(tmp_path):
    tasks = [Solve("sphere", "ma-es", 4, 1, 1000), Solve("sphere", "nope", 4, 1, 1000)]
    with Store(tmp_path / "s.sqlite") as store, pytest.raises(ValueError, match="nope"):
        Runner(tasks, store, clock=CLOCK)


MAIN = """
import sys
from lmma_lab.schedule.runner import Runner
from lmma_lab.tasks import Grid, record_fault
from lmma_lab.store import Store
from lmma_lab.schedule.eta import Clock

if __name__ == "__main__":
    probes = {"lm-ma-es": (128, 2048), "ma-es": (128, 512)}
    clock = Clock({(method, n): 1e-6 * n for method, dims in probes.items() for n in dims})
    tasks = list(Grid(("sphere",), (f"their_strategies:{sys.argv[3]}",), (5,), int(sys.argv[2])).tasks())
    with Store(sys.argv[1], record_fault) as store:
        summary = Runner(tasks, store, 2, clock=clock).run()
    sys.exit(130 if summary.interrupted else not summary.complete)
"""


def start(folder: Path, seeds: int, strategy: str = "Patient") -> subprocess.Popen[str]:
    (folder / "their_strategies.py").write_text(STRATEGIES)
    (folder / "main.py").write_text(MAIN)
    return subprocess.Popen(
        [sys.executable, str(folder / "main.py"), str(folder / "s.sqlite"), str(seeds), strategy],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([SOURCES, str(folder)])},
    )


def finished(folder: Path) -> int:
    if not (folder / "s.sqlite").exists():
        return 0
    with Store(folder / "s.sqlite") as store:
        return len(store.records())


def started(folder: Path) -> int:
    note = folder / "started.txt"
    return len(note.read_text().splitlines()) if note.exists() else 0


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def killed_again_and_again(folder: Path, kills: int, seeds: int) -> None:
    rng = random.Random(1)
    for _ in range(kills):
        process = start(folder, seeds)
        before = finished(folder)
        until(lambda before=before, process=process: finished(folder) > before or process.poll() is not None)
        time.sleep(rng.uniform(0, 0.3))
        process.kill()
        process.communicate()
    process = start(folder, seeds)
    assert process.wait(120) == 0
    process.communicate()


def check_kills(tmp_path: Path, kills: int, seeds: int) -> None:
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    for folder in (broken, whole):
        folder.mkdir()
    killed_again_and_again(broken, kills, seeds)
    process = start(whole, seeds)
    assert process.wait(120) == 0
    process.communicate()
    with Store(broken / "s.sqlite") as one, Store(whole / "s.sqlite") as two:
        assert len(one.records()) == seeds
        assert [timeless(r) for r in one.records()] == [timeless(r) for r in two.records()]


def test_killed_at_random_and_finished_equals_unbroken(tmp_path):
    check_kills(tmp_path, kills=2, seeds=8)


@pytest.mark.slow
def test_killed_ten_times_at_random_and_finished_equals_unbroken(tmp_path):
    check_kills(tmp_path, kills=10, seeds=40)


def test_two_processes_on_one_store_do_no_run_twice(tmp_path):
    pair = [start(tmp_path, 8) for _ in range(2)]
    said = [process.communicate(timeout=120)[1] for process in pair]
    assert [process.returncode for process in pair] == [0, 0]
    assert finished(tmp_path) == 8
    # The store keeps one record of a task however often it is done: what counts is how many were started.
    assert started(tmp_path) == 8
    assert all("[8/8]" in text for text in said)


def test_ctrl_c_keeps_what_is_finished_and_gives_up_its_claims(tmp_path):
    process = start(tmp_path, 50)
    until(lambda: finished(tmp_path) >= 1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert 1 <= finished(tmp_path) < 50
    with Store(tmp_path / "s.sqlite") as store:
        assert store._db.execute("select count(*) from claims").fetchone()[0] == 0


CHILDREN = "/proc/{0}/task/{0}/children"


@pytest.mark.skipif(
    not Path(CHILDREN.format(os.getpid())).exists(), reason="the system does not tell a process's children"
)
def test_workers_end_when_their_parent_is_killed(tmp_path):
    process = start(tmp_path, 50, "Endless")
    until(lambda: started(tmp_path) == 2)
    children = [int(child) for child in Path(CHILDREN.format(process.pid)).read_text().split()]
    process.kill()
    process.wait()
    try:
        assert len(children) >= 2  # two workers
        until(lambda: not any(_alive(child) for child in children), 10)
    finally:
        for child in filter(_alive, children):
            os.kill(child, signal.SIGKILL)
        process.communicate()


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# Estimates and display


def test_the_estimate_learns_from_what_is_done():
    clock = Clock(CLOCK._probe)
    task, sibling = Solve("cigar", "ma-es", 128, 1, 10**8), Solve("sphere", "ma-es", 128, 1, 10**8)
    first, other = clock.expected(task), clock.expected(sibling)
    clock.learn(task, {"cpu_seconds": 100 * first})
    assert clock.expected(task) == pytest.approx(100 * first)
    assert clock.expected(sibling) > 2 * other


def test_the_estimate_learns_from_what_is_under_way():
    clock = Clock(CLOCK._probe)
    task, sibling = Solve("cigar", "ma-es", 128, 1, 10**8), Solve("cigar", "ma-es", 128, 2, 10**8)
    first = clock.expected(sibling)
    clock.watch(task, 50 * clock.guess(task), round(expected_evaluations(task) / 2))
    assert clock.expected(task) == pytest.approx(100 * first)
    assert clock.expected(sibling) > 2 * first
    clock.forget(task)
    assert clock.expected(sibling) == pytest.approx(first)


def test_a_budget_bounds_the_estimate():
    assert expected_evaluations(Solve("discus", "lm-ma-es", 128, 1, 1000)) == 1000
    assert expected_evaluations(Solve("rotated-discus", "vd-cma-es", 128, 1, 10**6)) == 10**6
    assert expected_evaluations(Solve("rotated-cigar", "vd-cma-es", 128, 1, 10**6)) < 10**6


def test_time_is_shared_among_workers():
    assert time_left([], 2) == 0
    assert time_left([4, 1, 1, 1, 1], 2) == 4
    assert time_left([4, 1, 1, 1, 1], 1) == 8


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (75, "75 s"), (600, "10 min"), (7200, "2.0 h"), (400000, "5 days")]
)
def test_durations_are_readable(seconds, text):
    assert readable_time(seconds) == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_one_line_renewed_within_its_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    display = Display(10, 3, stream)
    display.show([RunningTask(Solve("discus", "lm-ma-es", 128, 1, 10**8), 3.0, 1_234_567, 1e-3)], 100.0)
    text = stream.getvalue()
    assert "\n" not in text
    assert "3/10" in text
    assert "2 min left" in text
    assert len(text.replace("\r\x1b[K", "")) < 60
