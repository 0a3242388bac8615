"""Damaged logs are rejected with a message or read correctly."""

import json
import math

import pytest
from test_fuzz_command_line import run

from fuzzing import damaged, deep, one_of, within_memory


def test_a_bad_log_is_rejected_in_a_line_or_drawn(fuzz, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    line = ["minimize", "sphere", "--dim", "3", "--max-evaluations", "400", "--quiet", "--seed", "1"]
    run([*line, "--log", "run.jsonl"])
    content = (tmp_path / "run.jsonl").read_bytes()
    record = json.loads(content.splitlines()[0])

    def case(rng):
        kind = one_of(rng, ["damaged", "damaged", "value", "value", "missing", "extra", "deep"])
        altered = dict(record)
        name = one_of(rng, sorted(altered))
        if kind == "missing":
            del altered[name]
        elif kind == "extra":
            altered["odd"] = [1, 2]
        else:
            altered[name] = one_of(
                rng, [None, "text", [], {}, -1, 10**400, math.nan, math.inf, True, [1, 2], -(10**9)]
            )
        lines = [json.dumps(record).encode(), json.dumps(altered).encode(), json.dumps(record).encode()]
        if kind == "deep":
            lines.insert(1, deep())
        rng.shuffle(lines)
        (tmp_path / "run.jsonl").write_bytes(
            damaged(rng, content) if kind == "damaged" else b"\n".join(lines) + b"\n"
        )
        told = f"{kind} {name} {altered.get(name)!r:.60}"
        try:
            status, _, err = within_memory(run, ["plot", "run.jsonl", "--output", "run.svg"])
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error!s:.200}: {told}") from error
        if status == 0:
            return "drawn"
        assert status == 2, f"exit status {status}: {told}"
        assert len(err.strip().splitlines()) == 1, f"{err!r}: {told}"
        return "refused"

    fuzz(case, short=15, long=1_000, at_least=["refused", "drawn"])
