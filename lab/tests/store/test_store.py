"""The store keeps finished records if processes are killed, and shares work without repeating it."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lmma_lab.store import Store, StoreError, key_of, owner, rescue as rescue_module, sqlite as sqlite_module
from lmma_lab.store.sqlite import LEASE
from repository import SOURCES


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCES},
    )


def test_a_record_comes_back_as_it_was_put(tmp_path):
    record = {"numbers": [1, 2.5, None], "text": "ä"}
    with Store(tmp_path / "s.sqlite") as store:
        store.put("a", "any", record)
    with Store(tmp_path / "s.sqlite") as store:
        assert store.records("any") == [record]
        assert store.records("other") == []
        assert store.done(["a", "b"]) == {"a"}


def test_the_first_record_of_a_key_stays(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        store.put("a", "any", {"value": 1})
        store.put("a", "any", {"value": 2})
        assert store.records() == [{"value": 1}]


def test_several_records_are_kept_together_or_not_at_all(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        store.put_all("any", {"a": {"value": 1}, "b": {"value": 2}})
        with pytest.raises(ValueError, match="JSON"):
            store.put_all("any", {"c": {"value": 3}, "d": {"value": float("nan")}})
        assert store.done(["a", "b", "c", "d"]) == {"a", "b"}


def test_any_thread_may_use_a_store(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        other = threading.Thread(target=store.put, args=("a", "any", {}))
        other.start()
        other.join()
        assert store.done(["a"]) == {"a"}


def test_keys_depend_on_kind_and_content_not_on_order():
    assert key_of("run", {"a": 1, "b": 2}) == key_of("run", {"b": 2, "a": 1})
    assert len({key_of("run", {"a": 1}), key_of("attack", {"a": 1}), key_of("run", {"a": 2})}) == 3


def test_many_keys_are_looked_up_at_once(tmp_path):
    keys = [f"k{i}" for i in range(2100)]
    with Store(tmp_path / "s.sqlite") as store:
        store.put("k2050", "any", {})
        assert store.done(keys) == {"k2050"}
        assert store.claim(keys, 3) == ["k0", "k1", "k2"]


def test_work_is_claimed_once(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        store.put("a", "any", {})
        assert store.claim(["a", "b", "c"], 1) == ["b"]
        assert store.claim(["a", "b", "c"], 2) == ["c"]
        store.release(["b"])
        assert store.claim(["a", "b", "c"], 2) == ["b"]
        store.put("b", "any", {})
        store.release()
        assert store.claim(["a", "b", "c"], 9) == ["c"]


CLAIM_AND_WAIT = """
    import sys, time
    from lmma_lab.store import Store
    store = Store(sys.argv[1])
    print(",".join(store.claim(["a", "b"], 1)), flush=True)
    time.sleep(60)
"""


def test_a_claim_lives_as_long_as_its_process(tmp_path):
    path = tmp_path / "s.sqlite"
    other = python(CLAIM_AND_WAIT, str(path))
    try:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "a"
        with Store(path) as store:
            assert store.claim(["a", "b"], 2) == ["b"]
            other.send_signal(signal.SIGKILL)
            other.wait()
            assert store.claim(["a", "b"], 2) == ["a"]
    finally:
        other.kill()
        other.wait()
        other.stdout.close()


def test_a_claim_of_another_machine_ends_when_it_is_silent(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.claim(["a"])
    far = owner.Owner("elsewhere", "boot", 1, "1").text()
    database = sqlite3.connect(path)
    database.execute("update claims set owner = ?", (far,))
    database.commit()
    with Store(path) as store:
        assert store.claim(["a"]) == []
        database.execute("update claims set seen = seen - ?", (LEASE + 1,))
        database.commit()
        assert store.claim(["a"]) == ["a"]
    database.close()


def test_an_owner_comes_back_from_its_text():
    me = owner.this_process()
    assert owner.Owner.parse(me.text()) == me
    assert owner.Owner.parse("nonsense") is None
    assert owner.is_dead(me) is False


@pytest.mark.skipif(not owner.this_process().start, reason="the system does not tell when a process began")
def test_a_process_number_used_again_is_another_process():
    me = owner.this_process()
    assert owner.is_dead(owner.Owner(me.host, me.boot, me.pid, me.start + "0")) is True


@pytest.mark.skipif(not owner.this_process().boot, reason="the system does not tell its boots apart")
def test_a_process_of_an_earlier_boot_is_dead():
    me = owner.this_process()
    assert owner.is_dead(owner.Owner(me.host, "other", me.pid, me.start)) is True


COUNT = """
    import sys
    from lmma_lab.store import Store
    mine = 0
    with Store(sys.argv[1]) as store:
        keys = [f"k{i}" for i in range(60)]
        while claimed := store.claim(keys, 1):
            store.put(claimed[0], "any", {"by": sys.argv[2]})
            mine += 1
    print(mine)
"""


def test_two_processes_share_the_work(tmp_path):
    path = tmp_path / "s.sqlite"
    Store(path).close()
    pair = [python(COUNT, str(path), name) for name in "ab"]
    counts = [int(process.communicate(timeout=60)[0]) for process in pair]
    assert sum(counts) == 60
    with Store(path) as store:
        assert len(store.records()) == 60


def test_a_damaged_record_is_set_aside_with_a_word(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.put("good", "any", {"value": 1})
        store.put("bad", "any", {"value": 2})
    database = sqlite3.connect(path)
    database.execute("update records set record = replace(record, '2', '3') where key = 'bad'")
    database.commit()
    database.close()
    with Store(path) as store:
        assert store.records() == [{"value": 1}]
        assert "checksum" in store.warnings[0]
        assert store.set_aside()[0][0] == "bad"
        assert store.done(["bad"]) == set()
        assert store.claim(["bad"]) == ["bad"]


def test_a_foreign_record_is_set_aside_with_the_reason(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.put("a", "any", {"value": 1})
    with Store(path, lambda key, kind, record: "it is not ours") as store:
        assert store.records() == []
        assert store.set_aside() == [("a", "it is not ours")]


def test_a_file_that_is_not_a_database_is_renamed(tmp_path):
    path = tmp_path / "s.sqlite"
    path.write_text("my diary, not a database at all")
    with Store(path) as store:
        store.put("a", "any", {})
        assert "damaged-1" in store.warnings[0]
    assert (tmp_path / "s.sqlite.damaged-1").read_text().startswith("my diary")


def test_another_programs_database_is_rejected_and_left_alone(tmp_path):
    path = tmp_path / "s.sqlite"
    database = sqlite3.connect(path)
    database.execute("create table theirs (x)")
    database.commit()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Store(path)
    assert path.read_bytes() == before
    database.close()


@pytest.mark.parametrize(("sound", "least"), [(0.0, 0), (0.5, 80), (0.9, 160)])
def test_of_a_torn_database_whole_records_are_rescued(sound, least, tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.put_all("any", {key_of("any", {"i": i}): {"text": "x" * 500, "i": i} for i in range(200)})
    whole = path.read_bytes()
    cut = max(4096, int(sound * len(whole)))
    path.write_bytes(whole[:cut] + b"\xff" * (len(whole) - cut))
    with Store(path) as store:
        assert len(store.records()) >= least
        assert "damaged" in store.warnings[0]
    assert (tmp_path / "s.sqlite.damaged-1").stat().st_size == len(whole)


def test_a_newer_schema_is_rejected(tmp_path):
    path = tmp_path / "s.sqlite"
    Store(path).close()
    database = sqlite3.connect(path)
    database.execute("pragma user_version = 99")
    database.commit()
    database.close()
    with pytest.raises(StoreError, match="newer lmma"):
        Store(path)


def test_a_full_disk_is_reported_and_loses_nothing(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.put("kept", "any", {"value": 1})
        pages = store._db.execute("pragma page_count").fetchone()[0]
        store._db.execute(f"pragma max_page_count = {pages}")
        with pytest.raises(StoreError, match="no space left"):
            store.put("lost", "any", {"text": "x" * 100_000})
        assert store.records() == [{"value": 1}]


def test_a_place_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot create the folder"):
        Store(tmp_path / "file" / "s.sqlite")
    with pytest.raises(StoreError):
        Store(tmp_path)


def test_nan_is_not_a_record(tmp_path):
    with Store(tmp_path / "s.sqlite") as store, pytest.raises(ValueError, match="JSON"):
        store.put("a", "any", {"value": float("nan")})


@pytest.mark.parametrize("header_only", [False, True])
def test_a_flipped_bit_costs_one_record_at_most(header_only, tmp_path):
    rng = random.Random(1)
    sizes = (3, 20, 60, 400)  # the longer ones go on in other pages
    known = {key_of("run", {"k": k}): {"k": k, "v": [rng.random()] * rng.choice(sizes)} for k in range(60)}
    path = tmp_path / "store.sqlite"
    with Store(path) as store:
        store.put_all("run", known)
    whole = path.read_bytes()
    told = 0
    for _ in range(100):
        for file in tmp_path.iterdir():
            file.unlink()
        damaged = bytearray(whole)
        damaged[rng.randrange(100 if header_only else len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        with Store(path, lambda key, kind, it: None if key in known else "not its key") as store:
            found = store.get(list(known))
            assert len(found) >= len(known) - 1
            assert all(found[key] == known[key] for key in found)
            assert len(store.records()) == len(found)
            lost = [key for key in known if key not in found]
            assert store.claim(list(known)) == lost
            told += bool(store.warnings)
            for key in lost:
                store.put(key, "run", known[key])
            assert store.get(list(known)) == known
    assert told


def test_a_record_nested_without_end_is_set_aside(tmp_path):
    text = '{"a":' * 100_000 + "1" + "}" * 100_000
    with Store(tmp_path / "store.sqlite") as store:
        store.put("good", "run", {"a": 1})
        digest = hashlib.sha256(text.encode()).hexdigest()
        store._db.execute("insert into records values (?, ?, ?, ?)", ("deep", "run", text, digest))
        assert store.records() == [{"a": 1}]
        assert store.set_aside() == [("deep", "it is not JSON")]


def torn(path):
    """Make a store of 60 records in which one page is damaged; return how many are still whole."""
    with Store(path) as store:
        store.put_all("any", {f"{k:032}": {"k": k, "text": "x" * 300} for k in range(60)})
    data = bytearray(path.read_bytes())
    data[5 * 4096 : 5 * 4096 + 200] = b"\xff" * 200
    path.write_bytes(data)
    return len(rescue_module.rescue(path))


def test_many_who_rescue_one_store_at_once_rescue_it_once(tmp_path, monkeypatch):
    path = tmp_path / "s.sqlite"
    whole = torn(path)
    assert 30 < whole <= 60
    slow, together, seen = sqlite_module.rescue, threading.Barrier(6), []
    monkeypatch.setattr(sqlite_module, "rescue", lambda file: (time.sleep(0.05), slow(file))[1])

    def work(number):
        with Store(path) as store:
            together.wait()
            store.records()  # where the damage is found
            store.put(f"new{number}", "any", {"number": number})
            seen.append(len(store.records()))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    with Store(path) as store:
        assert len(store.records()) == whole + 6
    assert len(seen) == 6
    assert [file.name for file in tmp_path.glob("*.damaged-*") if file.name[-1].isdigit()] == [
        "s.sqlite.damaged-1"
    ]


def test_a_record_put_while_another_rescues_the_store_is_in_the_new_one(tmp_path):
    path = tmp_path / "s.sqlite"
    whole = torn(path)
    with Store(path) as unaware, Store(path) as store:
        store.records()
        unaware.put("new", "any", {"number": 1})  # it had the damaged file open
        assert store.get(["new"]) == {"new": {"number": 1}}
        assert len(unaware.records()) == whole + 1


def test_a_row_with_another_key_is_not_what_was_asked_for(tmp_path, monkeypatch):
    with Store(tmp_path / "s.sqlite") as store:
        store.put("key", "any", {"number": 1})
        rows = store._rows(["key"])
        monkeypatch.setattr(store, "_rows", lambda keys: [("kez", *rows[0][1:]), (None, *rows[0][1:])])
        assert store.get(["key"]) == {}
        assert "set aside" in store.warnings[0]


def test_tables_with_invalid_names_count_as_damage(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.put("k" * 32, "any", {"number": 1})
    data = path.read_bytes()
    for name in (b"records", b"claims"):
        path.write_bytes(data.replace(b"create table " + name, b"create t\x9eble " + name, 1).replace(
            b"CREATE TABLE " + name, b"CREATE T\x9eBLE " + name, 1))  # fmt: skip
        with Store(path) as store:
            assert store.get(["k" * 32]) == {"k" * 32: {"number": 1}}
