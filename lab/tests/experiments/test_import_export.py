"""Records as text files: imports equal exports, and imported records are validated."""

from __future__ import annotations

import io
import json

import pytest
from made_up import run_record

from lmma.cli import main
from lmma_lab.import_export import RecordsError, export_records, import_records
from lmma_lab.schedule.eta import Clock
from lmma_lab.schedule.runner import Runner
from lmma_lab.store import Store
from lmma_lab.tasks import Grid, Invariance, Memory, Solve, Timing, record_fault, task_from
from lmma_lab.validation import fault_of

TASKS = [*Grid(("sphere",), ("ma-es", "lm-ma-es"), (4, 12), 2).tasks(), Memory("ma-es", 16),
         Invariance("ma-es", "update", 4, 9)]  # fmt: skip
CLOCK = Clock({("lm-ma-es", 128): 1e-4, ("lm-ma-es", 2048): 1e-3, ("ma-es", 128): 1e-4, ("ma-es", 512): 1e-3})


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exchange")
    with Store(folder / "s.sqlite", record_fault) as store:
        assert Runner(TASKS, store, stream=io.StringIO(), clock=CLOCK).run().complete
        assert export_records(store, folder / "records") == len(TASKS)
        return folder / "records", store.records()


def test_exported_records_are_imported_unchanged(tmp_path, exported):
    folder, records = exported
    with Store(tmp_path / "s.sqlite", record_fault) as store:
        outcome = import_records(store, folder)
        assert (outcome.new, outcome.known, outcome.conflicting, outcome.rejected) == (len(TASKS), 0, [], [])
        assert store.records() == records
        again = import_records(store, folder)
        assert (again.new, again.known) == (0, len(TASKS))
        export_records(store, tmp_path / "again")
    for path in folder.iterdir():
        assert (tmp_path / "again" / path.name).read_text() == path.read_text()


def test_files_are_sorted_and_named_by_method(exported):
    folder, _ = exported
    assert sorted(path.name for path in folder.iterdir()) == [
        "invariance.jsonl", "memory.jsonl", "run-lm-ma-es.jsonl", "run-ma-es.jsonl",
    ]  # fmt: skip
    lines = [json.loads(line) for line in (folder / "run-ma-es.jsonl").read_text().splitlines()]
    assert [(r["spec"]["n"], r["spec"]["seed"]) for r in lines] == [(4, 1), (4, 2), (12, 1), (12, 2)]
    assert list(lines[0])[:3] == ["kind", "spec", "success"]
    assert list(lines[0])[-1] == "curve"


def test_a_duplicate_with_another_outcome_is_reported_and_the_existing_record_is_kept(tmp_path, exported):
    folder, records = exported
    changed = (folder / "run-ma-es.jsonl").read_text().splitlines()
    record = json.loads(changed[0])
    record["evaluations_to_target"] -= 1
    record["seconds"] += 1.0
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "run.jsonl").write_text(json.dumps(record) + "\n" + changed[1] + "\n")
    with Store(tmp_path / "s.sqlite", record_fault) as store:
        import_records(store, folder)
        outcome = import_records(store, tmp_path / "theirs")
        assert (outcome.new, outcome.known, outcome.rejected) == (0, 1, [])
        assert len(outcome.conflicting) == 1
        assert "ma-es on sphere, n=4, seed 1" in outcome.conflicting[0]
        assert "another outcome" in outcome.summary()
        assert store.records() == records


def test_lines_that_contradict_one_another_are_rejected(tmp_path, exported):
    line = (exported[0] / "run-ma-es.jsonl").read_text().splitlines()[0]
    other = json.loads(line)
    other["evaluations_to_target"] -= 1
    (tmp_path / "a.jsonl").write_text(f"{line}\n{json.dumps(other)}\nnonsense\n[1]\n{{}}\n")
    with Store(tmp_path / "s.sqlite", record_fault) as store:
        outcome = import_records(store, tmp_path)
    assert outcome.new == 1
    assert [words.partition(": ")[0] for words in outcome.rejected] == [
        f"a.jsonl, line {k}" for k in (2, 3, 4, 5)
    ]


def test_a_folder_without_records_is_rejected_with_a_message(tmp_path):
    with Store(tmp_path / "s.sqlite") as store, pytest.raises(RecordsError, match="--export"):
        import_records(store, tmp_path / "nowhere")


def sound() -> dict:
    record = run_record("sphere", "ma-es", 128, 1, 1000)
    record["curve"] = {"evaluations": [10, 1000], "best_fun": [1.0, 1e-11]}
    return record


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"success": False}, "contradict each other"),
        ({"evaluations": 10**10, "generations": 10**9}, "used"),
        ({"generations": 3}, "generations"),
        ({"evaluations_to_target": 2000}, "exceeds its evaluations"),
        ({"best_fun": 1.0}, "above"),
        ({"seconds": float("inf")}, "times"),
        ({"cpu_seconds": "1"}, "times"),
        ({"curve": {"evaluations": [1, 2], "best_fun": [1.0, 2.0]}}, "not increase in best_fun"),
        ({"curve": {"evaluations": [2, 1], "best_fun": [2.0, 1.0]}}, "increase in evaluations"),
        ({"curve": {"evaluations": [5000], "best_fun": [2.0]}}, "beyond its last evaluation"),
        ({"curve": None}, "not a valid record of kind 'run'"),
        ({"versions": {}, "machine": 3}, "versions"),
        ({"kind": "memory"}, "its kind is"),
        ({"popsize": 0}, "counts"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_numbers_that_cannot_be_true_are_rejected(change, words):
    record = sound()
    key = task_from("run", record["spec"]).key
    assert fault_of(key, "run", record) is None
    assert words in (fault_of(key, "run", record | change) or "")


def test_a_time_or_memory_that_cannot_be_true_is_rejected():
    timing = {"kind": "timing", "spec": {"method": "ma-es", "n": 8}, "versions": {}, "machine": {},
              "seconds": {"best": 1.0, "lower": 1.0, "median": 2.0, "upper": 3.0, "rounds": 5}}  # fmt: skip
    key = Timing("ma-es", 8).key
    assert fault_of(key, "timing", timing) is None
    assert fault_of(key, "timing", timing | {"seconds": timing["seconds"] | {"best": 9.0}})
    memory = timing | {"kind": "memory", "peak_bytes": 0}
    assert fault_of(Memory("ma-es", 8).key, "memory", memory)
    assert "cannot be imported" in (fault_of("k", "attack", {}) or "")


def test_the_command_takes_in_and_writes_records(tmp_path, exported, capsys):
    folder, _ = exported
    out = ["--out", str(tmp_path / "out"), "--report-only"]
    assert main(["reproduce", *out, "--import", str(folder), "--export", str(tmp_path / "records")]) == 0
    assert "10 records are new" in capsys.readouterr().out
    for path in folder.iterdir():
        assert (tmp_path / "records" / path.name).read_text() == path.read_text()


def test_the_command_names_what_it_cannot_import(tmp_path, capsys):
    arguments = ["reproduce", "--out", str(tmp_path / "out"), "--import", str(tmp_path / "no")]
    assert main(arguments) == 2
    assert "--import" in capsys.readouterr().err


def test_a_key_is_computed_not_read(tmp_path, exported):
    """A record under a spec that is not its own finds another key, and is taken for that task or none."""
    record = json.loads((exported[0] / "memory.jsonl").read_text())
    record["spec"]["n"] = -3.5
    record["spec"].pop("method")
    (tmp_path / "m.jsonl").write_text(json.dumps(record))
    with Store(tmp_path / "s.sqlite", record_fault) as store:
        outcome = import_records(store, tmp_path)
    assert outcome.new == 0
    assert "kind or spec is invalid" in outcome.rejected[0]


def test_runs_of_a_strategy_of_ones_own_get_a_file_that_can_be_written(tmp_path):
    record = sound()
    record["spec"]["method"] = "my/module:Class"
    task = Solve(**record["spec"])
    with Store(tmp_path / "s.sqlite", record_fault) as store:
        store.put(task.key, "run", record)
        export_records(store, tmp_path / "records")
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["run-my_module_Class.jsonl"]
