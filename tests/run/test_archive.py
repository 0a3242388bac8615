"""Archives: every evaluation is stored, none is repeated, and none is lost if a run is killed."""

import csv
import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import lmma
from lmma.archive import Archive, ArchiveError
from lmma.evaluation.cluster.driver import VectorDriver
from lmma.evaluation.replicas.replica_driver import ReplicatedDriver
from lmma.run.archive.identity import code_of
from lmma.run.archive.reader import copy_readable
from local_transport import LocalTransport, OnTransport

X0 = np.ones(4)
SPACE = lmma.Space(
    flow=lmma.Real(1e-4, 1e-1, log=True, unit="kg/s"),
    length=lmma.Real(0.5, 3.0, unit="m"),
    teeth=lmma.Integer(10, 40),
    oil=lmma.Choice(["A", "B", "C"]),
    pads=lmma.Real(0, 1, shape=2),
    g=lmma.Fixed(9.81),
)


def sphere(x):
    return float(x @ x)


def machine(flow, length, teeth, oil, pads, g):
    return (
        math.log10(flow) ** 2 + (length - 1) ** 2 + (teeth - 17) ** 2 + "ABC".index(oil) + float(pads.sum())
    )


def table(file):
    """Return the rows of an archive as SQLite gives them to any program."""
    with sqlite3.connect(file) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute("select * from evaluations order by id")]


def point(row):
    """Return the point of a row, a key that does not depend on the order of evaluation."""
    return tuple(row[f"x{j}"] for j in range(len(X0)))


def same(one, other):
    """Return whether two results are the same in every bit that does not depend on the clock."""
    x, y = (np.asarray(result.get("vector", result.x)) for result in (one, other))
    names = ("nfev", "nit", "failures", "success", "message", "reason", "sigma")
    assert x.tobytes() == y.tobytes()
    assert np.asarray(one.mean).tobytes() == np.asarray(other.mean).tobytes()
    assert np.float64(one.fun).tobytes() == np.float64(other.fun).tobytes()
    assert {name: one[name] for name in names} == {name: other[name] for name in names}
    assert dict(one.failed) == dict(other.failed)
    assert [str(error) for error in one.errors] == [str(error) for error in other.errors]
    return True


# Rows


def test_every_evaluation_is_a_row_with_names_and_values_in_the_users_units(tmp_path):
    seen = []

    def fun(**values):
        seen.append(values)
        return machine(**values)

    result = lmma.minimize(fun, SPACE, rng=1, maxfevals=60, archive=tmp_path / "runs.db")
    rows = table(tmp_path / "runs.db")
    assert len(rows) == len(seen) == result.calls == len(result.archive)
    for row, values in zip(rows, seen, strict=True):
        assert row["flow"] == values["flow"]
        assert (row["length"], row["teeth"], row["oil"]) == (values["length"], values["teeth"], values["oil"])
        assert [row["pads[0]"], row["pads[1]"]] == values["pads"].tolist()
        assert row["value"] == machine(**values)
        assert row["status"] == "ok"
        assert row["seconds"] >= 0
        assert row["time"].endswith("Z")
    assert rows[-1]["generation"] == result.nit
    assert result.archive.units == {"flow": "kg/s", "length": "m"}


def test_failures_are_kept_with_their_reason(tmp_path):
    def fun(x):
        if x[0] > 1.3:
            raise RuntimeError("the solver diverged")
        return math.nan if x[1] > 1.3 else math.inf if x[2] > 1.5 else sphere(x)

    result = lmma.minimize(fun, X0, 0.5, values="ranks", rng=1, maxfevals=120, archive=tmp_path / "runs.db")
    rows = table(tmp_path / "runs.db")
    found = {row["reason"] for row in rows}
    assert {"RuntimeError: the solver diverged", "nan: fun returned NaN", None} <= found
    assert sum(row["status"] == "failed" for row in rows) == result.failures
    assert all((row["status"] == "ok") == (row["reason"] is None) for row in rows)
    plain = lmma.minimize(fun, X0, 0.5, values="ranks", rng=1, maxfevals=120)
    again = lmma.minimize(fun, X0, 0.5, values="ranks", rng=1, maxfevals=120, archive=tmp_path / "runs.db")
    assert same(plain, result)
    assert same(again, result)
    assert again.calls == 0


def test_constraint_values_are_kept_and_the_best_points_are_feasible(tmp_path):
    def fun(x):
        return sphere(x), [1.0 - x[0], 2.0 - x[1]]

    result = lmma.minimize(fun, X0, 0.5, rng=1, maxfevals=200, archive=tmp_path / "a.db")
    rows = table(tmp_path / "a.db")
    assert json.loads(rows[0]["constraints"]) == [1.0 - rows[0]["x0"], 2.0 - rows[0]["x1"]]
    assert rows[0]["violation"] == max(0.0, 1.0 - rows[0]["x0"], 2.0 - rows[0]["x1"])
    best = result.archive.best()[0]
    assert [best[f"x{i}"] for i in range(4)] == result.x.tolist()
    assert same(result, lmma.minimize(fun, X0, 0.5, rng=1, noise=None, maxfevals=200))
    declared = [{"type": "ineq", "fun": lambda x: x[0] - 1.0}, lambda x: [0.5 - x[1], x[2] - 3]]
    call = partial(lmma.minimize, sphere, X0, 0.5, rng=1, maxfevals=200, constraints=declared)
    first, again = (call(archive=tmp_path / "b.db") for _ in range(2))
    assert same(first, call(noise=None))
    assert same(first, again)
    assert (first.calls, again.calls) == (first.nfev, 0)
    row = table(tmp_path / "b.db")[0]
    assert json.loads(row["constraints"]) == [[], [row["x0"] - 1.0], [0.5 - row["x1"], row["x2"] - 3]]
    assert row["violation"] == max(0.0, 1.0 - row["x0"], 0.5 - row["x1"], row["x2"] - 3)


def test_names_that_sqlite_cannot_tell_apart_stay_apart(tmp_path):
    space = lmma.Space(time=lmma.Real(0, 1), a=lmma.Real(0, 1), A=lmma.Real(0, 1), value=lmma.Real(0, 1))
    result = lmma.minimize(
        lambda time, a, A, value: time + a + A + value, space, rng=1, maxfevals=20, archive=tmp_path / "r.db"
    )
    assert result.archive.variables == ["time_", "a", "A_", "value_"]
    best = result.archive.best()[0]
    assert [best[name] for name in result.archive.variables] == list(result.x.values())


def test_choices_of_any_kind_are_cells(tmp_path):
    space = lmma.Space(c=lmma.Choice([1, 2.5, None, True, "x", (1, 2)]), k=lmma.Real(0, 1))
    result = lmma.minimize(lambda c, k: abs(k - 0.3), space, rng=1, maxfevals=200, archive=tmp_path / "r.db")
    assert {row["c"] for row in table(tmp_path / "r.db")} == {1, 2.5, "null", "x", "[1, 2]"}
    assert result.calls == result.nfev


@pytest.mark.parametrize("n", [30, 1500])
def test_vectors_of_any_length_are_kept(tmp_path, n):
    file = tmp_path / "runs.db"
    call = partial(lmma.minimize, sphere, np.ones(n), 0.5, rng=1, maxfevals=100, archive=file)
    first, again = call(), call()
    assert same(first, again)
    assert again.calls == 0
    assert np.array_equal(first.archive.best_vectors(1)[0], first.x)
    best = first.archive.best()[0]
    assert [best[f"x{i}"] for i in range(n)] == first.x.tolist()


def test_structures_and_float32_are_kept(tmp_path):
    start = {"w": np.ones((2, 2), np.float32), "b": np.zeros(2, np.float32)}

    def loss(tree):
        return float((tree["w"] ** 2).sum() + (tree["b"] - 1).sum() ** 2)

    call = partial(
        lmma.minimize, loss, start, 0.5, values="ranks", rng=1, maxfevals=60, archive=tmp_path / "r.db"
    )
    first, again = call(), call()
    assert (first.calls, again.calls) == (first.nfev, 0)
    assert np.array_equal(first.vector, again.vector)
    assert first.archive.variables == ["w[0,0]", "w[0,1]", "w[1,0]", "w[1,1]", "b[0]", "b[1]"]


def test_noisy_and_seeded_evaluations_are_kept_but_not_used_again(tmp_path):
    rng = np.random.default_rng(1)

    def noisy(x):
        return sphere(x) + rng.normal()

    for fun, noise in ((noisy, "mix"), (lambda x, seed: sphere(x) + seed % 7, None)):
        file = tmp_path / f"{noise}.db"
        call = partial(
            lmma.minimize, fun, X0, 0.5, values="ranks", rng=1, maxfevals=80, archive=file, noise=noise
        )
        first, again = call(), call()
        assert first.calls == again.calls == 80
        assert len(again.archive) == 160


def test_a_changing_folder_does_not_move_the_archive(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)

    def fun(x):
        os.chdir(tmp_path / "other")
        return sphere(x)

    result = lmma.minimize(fun, X0, 0.5, values="ranks", rng=1, maxfevals=40, archive="runs.db")
    assert result.archive.path == tmp_path / "runs.db"
    assert len(Archive(tmp_path / "runs.db")) == 40
    assert sorted(os.listdir(tmp_path)) == ["other", "runs.db"]


# The cache


def test_a_repeated_run_calls_nothing_and_a_longer_one_only_what_is_new(tmp_path):
    file = tmp_path / "runs.db"
    call = partial(lmma.minimize, sphere, X0, 0.5, rng=1, popsize=10)
    first = call(maxfevals=100, archive=file)
    longer = call(maxfevals=300, archive=file)
    assert (first.calls, longer.calls, longer.nfev) == (100, 200, 300)
    assert same(longer, call(maxfevals=300, noise=None))


@pytest.mark.parametrize("options", [
    {"workers": 2}, {"workers": 2, "vectorized": True}, {"vectorized": True}, {"workers": map},
    {"workers": "threads"}, {"workers": 2, "timeout": 20},
])  # fmt: skip
def test_all_evaluators_use_and_fill_the_archive(tmp_path, options):
    def fun(x):
        if x.ndim == 2:
            return np.where(x[:, 0] > 1.2, np.nan, (x**2).sum(axis=1))
        if x[1] > 1.2:
            raise ValueError("too far")
        return math.nan if x[0] > 1.2 else sphere(x)

    with ThreadPoolExecutor(2) as threads:
        if options.get("workers") == "threads":
            options = {"workers": threads}
        call = partial(lmma.minimize, fun, X0, 0.5, rng=1, popsize=15, **options)
        plain = call(maxfevals=150)
        first = call(maxfevals=75, archive=tmp_path / "runs.db")
        longer = call(maxfevals=150, archive=tmp_path / "runs.db")
    assert first.calls + longer.calls == 150
    assert same(longer, plain)
    rows = table(tmp_path / "runs.db")
    assert len(rows) == 150
    assert all(row["seconds"] is not None for row in rows)
    assert "vectorized" in options or options["workers"] == 1 or all(row["worker"] for row in rows)


@pytest.mark.parametrize("driver", [VectorDriver, ReplicatedDriver])
def test_clusters_use_and_fill_the_archive_through_the_driver(tmp_path, driver):
    def fun(x):
        if x[1] > 1.2:
            raise ValueError("too far")
        return sphere(x), [1.0 - x[0]]

    call = partial(lmma.minimize, fun, X0, 0.5, rng=1, popsize=15)
    results = [
        call(
            maxfevals=budget, workers=OnTransport(LocalTransport("a", "b"), driver), archive=tmp_path / "r.db"
        )
        for budget in (75, 150)
    ]
    assert [result.calls for result in results] == [75, 75]
    assert same(results[1], call(maxfevals=150))
    rows = table(tmp_path / "r.db")
    assert {row["worker"] for row in rows} == {"a", "b"}
    assert {row["status"] for row in rows} == {"ok", "failed"}
    assert all((row["constraints"] is None) == (row["status"] == "failed") for row in rows)


def test_an_archive_replaces_the_rows_of_an_unfinished_generation(tmp_path):
    class Killed(BaseException):
        pass

    calls = []

    def fun(x):
        calls.append(1)
        if len(calls) == 45:
            raise Killed
        return sphere(x)

    call = partial(
        lmma.minimize, fun, X0, 0.5, rng=1, maxfevals=210, popsize=30, archive=tmp_path / "runs.db",
        checkpoint=lmma.Checkpoint(tmp_path / "run.npz", every=0),
    )  # fmt: skip
    with pytest.raises(Killed):
        call()
    assert len(Archive(tmp_path / "runs.db")) == 44
    resumed = call()
    assert resumed.calls == 210 - 44
    assert same(resumed, lmma.minimize(sphere, X0, 0.5, rng=1, maxfevals=210, popsize=30))


def test_discrete_designs_are_evaluated_once_without_a_file():
    calls = []

    def fun(a, b):
        calls.append((a, b))
        return (a - 7) ** 2 + (b == "p")

    space = lmma.Space(a=lmma.Integer(0, 12), b=lmma.Choice(["p", "q"]))
    for options in ({}, {"workers": map}):
        calls.clear()
        result = lmma.minimize(
            fun, space, rng=0, maxfevals=150, stagnation=False, tolx=0, tolfun=0, **options
        )
        assert result.calls == len(calls) == len(set(calls)) <= 26
        assert result.nfev > len(calls)
    calls.clear()
    result = lmma.minimize(lambda x: fun(*x), [3.0, 3.0], 2.0, rng=0, integrality=True, maxfevals=100)
    assert result.calls == len(set(calls)) == len(calls) < result.nfev


def test_26_designs_cost_26_calls():
    calls = []

    def fun(a, b):
        calls.append((a, b))
        return (a - 7) ** 2 + (b == "p")

    space = lmma.Space(a=lmma.Integer(0, 12), b=lmma.Choice(["p", "q"]))
    lmma.minimize(fun, space, rng=0, restarts=20, maxfevals=5000)
    assert len(calls) == len(set(calls)) == 26


def test_failed_designs_are_not_repeated_either():
    calls = []

    def fun(a):
        calls.append(a)
        if a % 2:
            raise RuntimeError("odd")
        return abs(a - 7)

    result = lmma.minimize(fun, lmma.Space(a=lmma.Integer(0, 20)), rng=0, maxfevals=200)
    assert len(calls) == len(set(calls)) == result.calls
    assert result.failures > len([a for a in calls if a % 2])


def test_a_cache_changes_no_bit_of_a_discrete_search():
    space = lmma.Space(a=lmma.Integer(0, 50), b=lmma.Choice(list("abcde")), c=lmma.Integer(-9, 9))

    def fun(a, b, c):
        return (a - 33) ** 2 + "abcde".index(b) + abs(c)

    def rows(a, b, c):
        return np.array([fun(*row) for row in zip(a, b, c, strict=True)], float)

    with_cache = lmma.minimize(fun, space, rng=3, maxfevals=800, restarts=3)
    without = lmma.minimize(rows, space, rng=3, maxfevals=800, restarts=3, vectorized=True)
    assert "calls" not in without
    assert same(with_cache, without)


def test_a_resumed_discrete_search_remembers_its_designs(tmp_path):
    calls = []

    def fun(a):
        calls.append(a)
        return abs(a - 700)

    space = lmma.Space(a=lmma.Integer(0, 1000))
    call = partial(lmma.minimize, fun, space, rng=3, tolx=0, tolfun=0, checkpoint=tmp_path / "run.npz")
    call(maxfevals=60)
    resumed = call(maxfevals=120)
    assert len(calls) == len(set(calls))
    assert same(resumed, lmma.minimize(fun, space, rng=3, tolx=0, tolfun=0, maxfevals=120))


def test_continuous_runs_have_no_cache():
    assert "calls" not in lmma.minimize(sphere, X0, 0.5, rng=1, maxfevals=30)
    mixed = lmma.Space(a=lmma.Integer(0, 9), b=lmma.Real(0, 1))
    assert "calls" not in lmma.minimize(lambda a, b: a + b, mixed, rng=1, maxfevals=30)


def test_a_timeout_is_tried_again_only_with_more_time(tmp_path):
    def fun(x):
        if x[0] > 1.4:
            time.sleep(60)
        return sphere(x)

    def call(timeout):
        return lmma.minimize(
            fun,
            X0,
            0.5,
            values="ranks",
            rng=1,
            maxfevals=24,
            workers=2,
            timeout=timeout,
            archive=tmp_path / "runs.db",
        )

    first, again, longer = call(0.3), call(0.3), call(0.6)
    slow = sum(row["status"] == "timeout" for row in table(tmp_path / "runs.db")[:24])
    assert slow > 0
    assert (first.calls, again.calls, longer.calls) == (24, 0, slow)
    assert same(first, again)


def test_failures_are_tried_again_if_they_end_the_run(tmp_path):
    broken = [True]

    def fun(x):
        if broken[0] and x[0] > 1.2:
            raise RuntimeError("no licence")
        return sphere(x)

    call = partial(
        lmma.minimize,
        fun,
        X0,
        0.5,
        values="ranks",
        rng=1,
        maxfevals=60,
        on_error="raise",
        archive=tmp_path / "r.db",
    )
    with pytest.raises(RuntimeError, match="no licence"):
        call()
    broken[0] = False
    assert call().failures == 0


# Identity


@pytest.mark.parametrize("workers", [1, 2])
def test_failures_of_a_run_without_any_value_are_tried_again(tmp_path, workers):
    file, marker = tmp_path / "runs.db", tmp_path / "server"

    def fun(x):
        if not marker.exists():
            raise OSError("licence server is down")
        return float(x @ x)

    def run():
        return lmma.minimize(fun, np.ones(4), 1.0, rng=1, maxiter=5, archive=file, workers=workers)

    with pytest.raises(OSError, match="licence"):
        run()
    marker.touch()
    assert run().failures == 0
    marker.unlink()
    assert run().failures == 0  # all values are known
    result = lmma.minimize(fun, np.ones(4), 1.0, rng=1, maxiter=6, archive=file, workers=workers)
    failed = result.failures
    marker.touch()
    again = lmma.minimize(fun, np.ones(4), 1.0, rng=1, maxiter=6, archive=file, workers=workers)
    assert again.failures == failed > 0  # later failures are data, and known


def test_a_corrected_typing_error_does_not_need_a_new_archive(tmp_path):
    with pytest.raises(AttributeError):
        lmma.minimize(
            lambda x: float(np.summ(x)),
            X0,
            0.5,
            values="ranks",
            rng=1,
            maxfevals=20,
            archive=tmp_path / "r.db",
        )
    result = lmma.minimize(
        lambda x: float(np.sum(x)), X0, 0.5, values="ranks", rng=1, maxfevals=20, archive=tmp_path / "r.db"
    )
    assert result.calls == result.nfev == 16
    assert "r-1.db" in result.warnings[0]


def test_another_objective_or_space_is_rejected_or_starts_a_new_archive(tmp_path):
    file = tmp_path / "runs.db"
    lmma.minimize(sphere, X0, 0.5, values="ranks", rng=1, maxfevals=24, archive=file)

    def other(x):
        return 2 * float(x @ x)

    with pytest.raises(
        ArchiveError, match=r"fun is 'sphere' in the file.*archive_new=True \(--archive-new\)"
    ):
        lmma.minimize(other, X0, 0.5, values="ranks", rng=1, maxfevals=30, archive=file)
    with pytest.raises(ArchiveError, match="n is 4 in the file and 5 here"):
        lmma.minimize(sphere, np.ones(5), 0.5, values="ranks", rng=1, maxfevals=30, archive=file)
    with pytest.raises(ArchiveError, match="no space in the file and a space here"):
        lmma.minimize(machine, SPACE, values="ranks", rng=1, maxfevals=30, archive=file)
    result = lmma.minimize(
        other, X0, 0.5, values="ranks", rng=1, maxfevals=24, archive=file, archive_new=True
    )
    assert result.calls == 24
    assert len(Archive(tmp_path / "runs-1.db")) == 24
    assert str(tmp_path / "runs-1.db") in result.warnings[0]
    assert not list(tmp_path.glob("*-wal"))


def test_changed_code_under_the_same_name_is_noticed(tmp_path):
    def make(factor):
        scope = {}
        exec(f"def helper(x): return {factor} * float(x @ x)\ndef fun(x): return helper(x)", scope)
        return scope["fun"]

    file = tmp_path / "runs.db"
    lmma.minimize(make(1), X0, 0.5, rng=1, maxfevals=30, archive=file)
    assert lmma.minimize(make(1), X0, 0.5, rng=1, maxfevals=30, archive=file).calls == 0
    with pytest.raises(ArchiveError, match="code of fun"):
        lmma.minimize(make(2), X0, 0.5, rng=1, maxfevals=30, archive=file)
    with sqlite3.connect(file) as db:  # the documented way to say that values are the same
        db.execute("delete from info where name = 'code'")
    db.close()
    assert lmma.minimize(make(2), X0, 0.5, rng=1, maxfevals=30, archive=file).calls == 0
    with pytest.raises(ArchiveError, match="code of fun"):
        lmma.minimize(make(1), X0, 0.5, rng=1, maxfevals=30, archive=file)


def test_the_digest_of_code_is_that_of_what_is_computed():
    count = 0

    def counting(x):
        nonlocal count
        count += 1
        return x

    before = code_of(counting)
    counting(1)
    assert code_of(counting) == before
    assert code_of(partial(sphere, 1)) != code_of(partial(sphere, 2))
    assert code_of(sphere, np.ones(3)) != code_of(sphere, np.zeros(3))
    documented, bare = {}, {}
    exec("def f(x):\n    'Return x.'\n    return x", documented)
    exec("def f(x):\n    'Return it.'\n    return x", bare)
    assert code_of(documented["f"]) == code_of(bare["f"])


def test_the_digest_of_code_is_the_same_in_another_process():
    program = (
        "from lmma.run.archive.identity import code_of\n"
        "def f(x, names=frozenset('abc')):\n    return x in {'a', 'bc', 'def'} or sorted(names)\n"
        "print(code_of(f))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in range(4)
    }  # fmt: skip
    assert len(texts) == 1


def test_one_run_at_a_time_writes_to_an_archive(tmp_path):
    def fun(x):
        with pytest.raises(ArchiveError, match="in use by another run of this process"):
            lmma.minimize(sphere, X0, 0.5, archive=tmp_path / "runs.db")
        return sphere(x)

    result = lmma.minimize(fun, X0, 0.5, rng=1, maxfevals=20, archive=tmp_path / "runs.db")
    assert result.failures == 0


@pytest.mark.parametrize(("options", "words"), [
    ({"archive": 3}, "archive must be the path"),
    ({"archive_new": True}, "archive_new=True needs archive="),
    ({"archive": "nowhere/runs.db"}, "existing folder"),
    ({"archive": "a.npz", "checkpoint": "a.npz"}, "checkpoint and archive must be different files"),
    ({"inject": "none.db"}, "does not exist"),
])  # fmt: skip
def test_invalid_arguments_are_answered_by_name(tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, TypeError), match=words):
        lmma.minimize(sphere, X0, 0.5, **options)


def test_other_files_are_rejected_and_left_alone(tmp_path):
    text, database = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("my notes")
    with sqlite3.connect(database) as db:
        db.execute("create table people (name text)")
    db.close()
    for file in (text, database):
        before = file.read_bytes()
        for new in (False, True):
            with pytest.raises(ArchiveError, match=r"is not an lmma archive|another program"):
                lmma.minimize(sphere, X0, 0.5, archive=file, archive_new=new)
        assert file.read_bytes() == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "other.db"]


# Starting from an archive


def test_injected_archives_give_their_best_points(tmp_path):
    file = tmp_path / "runs.db"
    first = lmma.minimize(machine, SPACE, rng=1, maxfevals=300, archive=file)
    seen = []

    def fun(**values):
        seen.append(values)
        return 2 * machine(**values)

    second = lmma.minimize(fun, SPACE, rng=2, maxfevals=30, inject=file)
    assert any(values["flow"] == first.x["flow"] and values["oil"] == first.x["oil"] for values in seen[:20])
    assert second.fun <= 2 * first.fun
    with pytest.raises(ValueError, match="archive with different variables"):
        lmma.minimize(sphere, X0, 0.5, inject=str(file))


def test_points_outside_new_bounds_are_not_injected(tmp_path):
    lmma.minimize(sphere, X0, 0.5, rng=1, maxfevals=100, archive=tmp_path / "r.db")
    inside = lmma.minimize(sphere, X0, 0.1, rng=1, maxfevals=30, bounds=(0.1, 2), inject=tmp_path / "r.db")
    assert np.all(inside.x >= 0.1)
    with pytest.raises(ValueError, match="no successful evaluation within the bounds"):
        lmma.minimize(sphere, X0 * 50, 0.1, bounds=(40, 60), inject=tmp_path / "r.db")


# Export


@pytest.fixture
def archive(tmp_path):
    return lmma.minimize(machine, SPACE, rng=1, maxfevals=60, archive=tmp_path / "runs.db").archive


def test_csv_and_json_have_names_units_and_all_digits(archive, tmp_path):
    archive.to_csv(tmp_path / "all.csv")
    archive.export(tmp_path / "best.json", best=5)
    with open(tmp_path / "all.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["flow [kg/s]"]) for row in rows] == [row["flow"] for row in table(archive.path)]
    best = json.loads((tmp_path / "best.json").read_text(encoding="utf-8"))
    assert best["units"] == {"flow": "kg/s", "length": "m"}
    values = [row["value"] for row in best["evaluations"]]
    assert values == sorted(row["value"] for row in table(archive.path))[:5]
    assert best["evaluations"][0]["oil"] in "ABC"


def test_pandas_reads_an_archive(archive):
    pandas = pytest.importorskip("pandas")
    frame = archive.to_frame()
    with sqlite3.connect(archive.path) as db:
        read = pandas.read_sql("select * from evaluations", db)
    db.close()
    assert frame["value"].tolist() == read["value"].tolist()
    assert frame["flow"].tolist() == read["flow"].tolist()
    assert frame.attrs["units"]["flow"] == "kg/s"
    assert archive.to_frame(best=3)["value"].tolist() == sorted(frame["value"])[:3]


def test_parquet_files_have_types_and_units(archive, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    archive.to_parquet(tmp_path / "all.parquet")
    found = parquet.read_table(tmp_path / "all.parquet")
    assert found["flow"].to_pylist() == [row["flow"] for row in table(archive.path)]
    assert found.schema.field("flow").metadata == {b"unit": b"kg/s"}
    assert str(found.schema.field("teeth").type) == "int64"


@pytest.mark.parametrize(("call", "package"), [("to_frame", "pandas"), ("to_parquet", "pyarrow")])
def test_missing_packages_are_named_with_their_remedy(archive, tmp_path, monkeypatch, call, package):
    monkeypatch.setitem(sys.modules, package, None)
    arguments = [] if call == "to_frame" else [tmp_path / "a.parquet"]
    with pytest.raises(ImportError, match=rf"requires {package}: pip install {package}"):
        getattr(archive, call)(*arguments)


def test_a_saved_result_does_not_lose_anything_but_the_table(archive, tmp_path):
    result = lmma.minimize(sphere, X0, 0.5, values="ranks", rng=1, maxfevals=40, archive=tmp_path / "r.db")
    result.save(tmp_path / "result.npz")
    again = lmma.load(tmp_path / "result.npz")
    assert (again.calls, again.fun) == (40, result.fun)


# Damage


def damaged_copies(file, count):
    """Yield the bytes of a file with a flipped bit, a zeroed page, a lost end or a lost beginning."""
    data, rng = file.read_bytes(), np.random.default_rng(1)
    for k in range(count):
        broken = bytearray(data)
        place = int(rng.integers(len(data)))
        if k % 4 == 0:
            broken[place] ^= 1 << int(rng.integers(8))
        elif k % 4 == 1:
            page = place // 4096 * 4096
            broken[page : page + 4096] = bytes(4096)
        elif k % 4 == 2:
            del broken[max(1, place) :]
        else:
            broken[: place // 8] = bytes(place // 8)
        yield bytes(broken)


def test_damaged_archives_are_rejected_with_a_message_or_read_correctly(tmp_path):
    file = tmp_path / "runs.db"
    call = partial(lmma.minimize, sphere, X0, 0.5, values="ranks", noise=None, rng=1, maxfevals=300)
    whole, outcomes = call(archive=file), []
    values = {point(row): row["value"] for row in table(file)}
    for number, data in enumerate(damaged_copies(file, 120)):
        broken = tmp_path / f"broken-{number}.db"
        broken.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                result = call(archive=broken)
            except ArchiveError as error:
                outcomes.append("refused" if str(broken) in str(error) else str(error))
                continue
        outcomes.append("used")
        assert same(result, whole)  # never a wrong value
    assert {"refused", "used"} == set(outcomes)
    rescued = []
    for number in range(120):
        broken, copy = tmp_path / f"broken-{number}.db", tmp_path / f"copy-{number}.db"
        try:
            rescued.append(copy_readable(broken, copy))
        except ArchiveError:
            rescued.append(0)
            continue
        assert len(Archive(copy)) == rescued[-1]
        for row in table(copy):
            assert row["value"] == values[point(row)]  # no checksum protects the number of a row
    assert sum(count > 100 for count in rescued) > 60


def test_a_damaged_page_loses_only_its_own_rows(tmp_path):
    file = tmp_path / "runs.db"
    lmma.minimize(sphere, X0, 0.5, values="ranks", rng=1, maxfevals=1000, archive=file)
    data = bytearray(file.read_bytes())
    data[:100] = bytes(100)  # the header
    data[20 * 4096 : 21 * 4096] = b"\xff" * 4096
    file.write_bytes(data)
    file.with_name("runs.db-wal").touch()  # as after a kill: it was a database
    with pytest.raises(ArchiveError, match=r"is damaged.*lmma export .*runs-rescued\.db"):
        Archive(file)
    assert copy_readable(file, tmp_path / "runs-rescued.db") > 900
    result = lmma.minimize(
        sphere, X0, 0.5, values="ranks", rng=1, maxfevals=1000, archive=tmp_path / "runs-rescued.db"
    )
    assert result.calls < 100
    whole = lmma.minimize(sphere, X0, 0.5, values="ranks", noise=None, rng=1, maxfevals=1000)
    assert same(result, whole)


def test_a_row_with_a_damaged_number_does_not_replace_another(tmp_path):
    file, copy = tmp_path / "runs.db", tmp_path / "copy.db"
    lmma.minimize(sphere, X0, 0.5, rng=1, maxfevals=60, archive=file)
    values = [row["value"] for row in table(file)]
    data = bytearray(file.read_bytes())
    leaves = [page for page in range(0, len(data), 4096) if data[page] == 0x0D]
    cells = [page + int.from_bytes(data[page + 5 : page + 7], "big") for page in leaves]  # the newest
    (cell,) = (cell for cell in cells if data[cell] < 0x80 and data[cell + 1] == len(values))
    data[cell + 1] = 1  # its number, after its length
    file.write_bytes(data)
    assert copy_readable(file, copy) == len(values)
    assert [row["value"] for row in table(copy)] == values


def test_long_rows_are_rescued_from_overflow_pages(tmp_path):
    file = tmp_path / "runs.db"
    first = lmma.minimize(sphere, np.ones(1500), 0.5, rng=1, maxfevals=60, archive=file)
    data = bytearray(file.read_bytes())
    data[20:24] = b"\xff" * 4  # the header says what no database says
    file.write_bytes(data)
    assert copy_readable(file, tmp_path / "copy.db") == first.nfev
    assert np.array_equal(Archive(tmp_path / "copy.db").best_vectors(1)[0], first.x)


@pytest.mark.parametrize("interval", [0.0, 0.003])
def test_a_full_disk_does_not_end_the_run(tmp_path, monkeypatch, interval):
    from lmma.run.archive import writer

    full = [False]
    monkeypatch.setattr(writer, "RETRY", 0.0)
    monkeypatch.setattr(writer, "INTERVAL", interval)
    original = writer.ArchiveWriter._write

    class Full:
        def __init__(self, db):
            self.db = db

        def execute(self, *args):
            if full[0] and "insert" in args[0]:
                raise sqlite3.OperationalError("database or disk is full")
            return self.db.execute(*args)

        def executemany(self, *args):
            if full[0]:
                raise sqlite3.OperationalError("database or disk is full")
            return self.db.executemany(*args)

        def __getattr__(self, name):
            return getattr(self.db, name)

    def write(self, evaluated):
        if not isinstance(self._database.db, Full):
            self._database.db = Full(self._database.db)
        original(self, evaluated)

    monkeypatch.setattr(writer.ArchiveWriter, "_write", write)

    def fun(x):
        calls.append(1)
        full[0] = 20 < len(calls) < 40
        time.sleep(0.001)
        return sphere(x)

    calls = []
    with pytest.warns(RuntimeWarning, match="evaluations were not written to the archive; the run continues"):
        result = lmma.minimize(
            fun, X0, 0.5, values="ranks", rng=1, maxfevals=64, archive=tmp_path / "runs.db"
        )
    assert len(result.archive) == 64
    assert any("not written" in text for text in result.warnings)


# Kills

PROGRAM = """
import os, sys, time
import numpy as np
import lmma

def fun(x):
    time.sleep(0.002)
    if x[1] > 1.35:
        raise RuntimeError("too far")
    value = float(x @ x) if x[0] < 1.4 else float("nan")
    with open(os.environ["FOLDER"] + "/calls", "ab", 0) as file:  # a line per finished evaluation
        file.write(b"%r\\n" % (x.tolist(),))
    return value

if __name__ == "__main__":
    folder, workers, saves = os.environ["FOLDER"], int(sys.argv[1]), sys.argv[2] == "checkpoint"
    checkpoint = lmma.Checkpoint(folder + "/run.npz", every=0.05) if saves else None
    result = lmma.minimize(
        fun, np.ones(6), 0.5, rng=5, maxfevals=360, popsize=24, workers=workers,
        archive=folder + "/runs.db", checkpoint=checkpoint,
    )
    result.pop("archive")
    result.save(folder + "/result.npz")
"""


@pytest.mark.parametrize(("workers", "saves"), [(1, "checkpoint"), (1, "no"), (2, "checkpoint"), (2, "no")])
def test_kills_lose_no_finished_evaluation_and_change_no_bit(tmp_path, workers, saves):
    # benchmarks/archive.py does this 200 times
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    rng = np.random.default_rng(workers)
    kills = 0
    for folder in (unbroken, broken):
        folder.mkdir()
        while True:
            process = subprocess.Popen(
                [sys.executable, str(program), str(workers), saves], env={**os.environ, "FOLDER": str(folder)}
            )
            try:
                process.wait(None if folder is unbroken or kills >= 4 else 0.4 + float(rng.uniform(0, 0.5)))
                assert process.returncode == 0
                break
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
    made = (broken / "calls").read_text().splitlines()
    repeated = len(made) - len(set(made))
    assert repeated <= workers * kills  # those that had not yet returned when their process was killed
    one, other = (lmma.load(folder / "result.npz") for folder in (unbroken, broken))
    assert same(one, other)


def test_values_that_workers_had_computed_are_taken_from_their_files(tmp_path):
    from lmma.evaluation.base import packed
    from lmma.evaluation.pool.spool import SpoolWriter
    from lmma.run.archive.writer import spool_of

    file = tmp_path / "runs.db"
    whole = lmma.minimize(sphere, X0, 0.5, values="ranks", rng=1, maxfevals=80)
    first = lmma.minimize(sphere, X0, 0.5, values="ranks", rng=1, maxfevals=40, archive=file)
    lost = []

    def watched(x):
        lost.append(x.copy())
        return sphere(x)

    lmma.minimize(watched, X0, 0.5, values="ranks", rng=1, maxfevals=80)
    for slot, x in enumerate(lost[40:46]):
        SpoolWriter(spool_of(file), slot % 2).add(x[np.newaxis], packed((np.array([sphere(x)]), None)), 0.5)
    with open(f"{spool_of(file)}-1", "ab") as torn:
        torn.write(b"\x01\0\0\0\x04\0\0\0 killed while it wrote")
    longer = lmma.minimize(sphere, X0, 0.5, values="ranks", rng=1, maxfevals=80, archive=file)
    assert (first.calls, longer.calls) == (40, 34)
    assert same(longer, whole)
    rows = table(file)
    assert len(rows) == 80
    assert [row["worker"] for row in rows[40:46]] == ["0", "0", "0", "1", "1", "1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs.db"]


def test_rows_of_short_calls_are_in_a_file_before_the_next_call(tmp_path, monkeypatch):
    from lmma.evaluation.pool import spool
    from lmma.run.archive import writer

    monkeypatch.setattr(writer, "INTERVAL", 3600.0)  # one transaction for the first row, one at the end
    file, counts = tmp_path / "runs.db", []
    space = lmma.Space(a=lmma.Integer(-9, 9), b=lmma.Real(-1, 1))

    def fun(a, b):
        in_spool = sum(1 for _ in spool.read(writer.spool_of(file), 2))
        counts.append((in_spool, len(Archive(file))))
        return a**2 + b**2

    result = lmma.minimize(fun, space, rng=1, maxfevals=30, archive=file)
    assert [waiting + written for waiting, written in counts] == list(range(len(counts)))
    assert max(waiting for waiting, _ in counts) > 1
    assert len(result.archive) == len(counts) == result.calls
    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]


def test_evaluations_are_in_the_spool_while_those_that_waited_are_written(tmp_path, monkeypatch):
    from lmma.evaluation.pool import spool
    from lmma.run.archive import writer

    file, calls, kept = tmp_path / "runs.db", [], []
    original = writer.ArchiveWriter._write

    def write(self, entries):
        if len(entries) > 1:
            kept.append((len(calls), len(Archive(file)) + sum(1 for _ in spool.read(self.spool, 4))))
        return original(self, entries)

    def fun(x):
        calls.append(1)
        time.sleep(0.001)
        return sphere(x)

    monkeypatch.setattr(writer, "INTERVAL", 0.01)
    monkeypatch.setattr(writer.ArchiveWriter, "_write", write)
    result = lmma.minimize(fun, X0, 0.5, values="ranks", rng=1, maxfevals=80, archive=file)
    assert len(kept) > 2
    assert all(made == held for made, held in kept)
    assert [row["id"] for row in table(file)] == list(range(1, result.nfev + 1))


@pytest.mark.parametrize("torn", [0, 5])
def test_a_spool_that_cannot_be_written_is_not_used(tmp_path, monkeypatch, torn):
    from lmma.evaluation.pool import spool

    count, original = [], spool.SpoolWriter.add

    def add(self, *args):
        count.append(1)
        return original(self, *args) and len(count) <= torn

    monkeypatch.setattr(spool.SpoolWriter, "add", add)
    rows = []

    def fun(x):
        rows.append(len(Archive(tmp_path / "runs.db")))
        return sphere(x)

    result = lmma.minimize(fun, X0, 0.5, values="ranks", rng=1, maxfevals=40, archive=tmp_path / "runs.db")
    assert len(result.archive) == 40
    if not torn:
        assert rows == list(range(40))


def test_points_that_wait_to_be_written_are_known(tmp_path, monkeypatch):
    from lmma.run.archive import writer

    monkeypatch.setattr(writer, "INTERVAL", 3600.0)
    calls = []

    def fun(a):
        calls.append(a)
        return abs(a - 7)

    result = lmma.minimize(fun, lmma.Space(a=lmma.Integer(0, 12)), rng=0, archive=tmp_path / "runs.db")
    assert len(calls) == len(set(calls)) == len(result.archive) < result.nfev


def test_workers_write_values_to_their_files_before_they_report(tmp_path):
    seen = tmp_path / "seen"

    def fun(x):
        files = sorted(tmp_path.glob(".runs.db.spool-[0-9]"))
        with open(seen, "a") as file:
            file.write(f"{len(files)} {sum(path.stat().st_size for path in files)}\n")
        return sphere(x)

    lmma.minimize(fun, X0, 0.5, rng=1, popsize=10, maxfevals=30, workers=2, archive=tmp_path / "runs.db")
    counts = [tuple(map(int, line.split())) for line in seen.read_text().splitlines()]
    assert max(size for _, size in counts) > 0
    assert sum(size == 0 for _, size in counts) >= 2  # emptied with each generation
    assert not list(tmp_path.glob(".runs.db*"))
