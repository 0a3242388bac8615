"""Stores in ``lmma show``."""

import sqlite3

from lmma_lab.store import Store


def test_a_store_is_read_and_not_touched(shown, tmp_path):
    file = tmp_path / "store.sqlite"
    with Store(file) as store:
        for number in range(3):
            record = {"kind": "run", "spec": {"method": "ma-es", "n": 10 + number}}
            store.put(f"key{number}", "run", record)
        store.claim(["another"])
        said = shown(file)  # while somebody has it open
        assert said["in progress"] == "1"
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    said = shown(file)
    assert said["store"].endswith("3 records")
    assert said["records"] == "3 of run"
    assert said["methods"] == "ma-es (3)"
    assert said["n"] == "10, 11, 12"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_other_databases_and_views_are_rejected(refused, tmp_path):
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("create table people (name text)")
    db.close()
    assert "not an lmma store" in refused(other)
    Store(tmp_path / "store.sqlite").close()
    db = sqlite3.connect(tmp_path / "store.sqlite")
    db.execute(
        "create view forever as with recursive c(x) as (select 1 union all select x from c) select x from c"
    )
    db.commit()
    db.close()
    assert "not an lmma store" in refused(tmp_path / "store.sqlite")
    (tmp_path / "store.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    assert "cannot be read" in refused(tmp_path / "store.sqlite")
