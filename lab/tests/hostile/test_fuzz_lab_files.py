"""Damaged model files, idx files and stores are rejected with a message or read correctly."""

import functools
import gzip
import io
import json
import math
import struct
import zipfile

import numpy as np
import pytest

from fuzzing import damaged, deep, one_of, within_memory
from lmma_lab.attack.data import read_idx, write_idx
from lmma_lab.store import Store, StoreError

BOMB = 160 << 20  # bytes that a few hundred kB become when they are unpacked


# Forests


@pytest.fixture(scope="module")
def forest(tmp_path_factory):
    pytest.importorskip("sklearn", reason="a forest to save is trained by scikit-learn")
    from sklearn.ensemble import RandomForestClassifier

    from lmma_lab.attack import compile_forest, save_forest

    rng = np.random.default_rng(1)
    X, y = rng.uniform(size=(200, 6)), rng.integers(3, size=200)
    model = RandomForestClassifier(n_estimators=4, max_depth=5, random_state=0).fit(X, y)
    path = tmp_path_factory.mktemp("forest") / "model.npz"
    save_forest(compile_forest(model), path, notes={"trees": 4})
    return path.read_bytes(), X


@functools.cache
def bomb(name):
    """Return an archive with one array of zeros that is far larger than the file."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(f"{name}.npy", "w", force_zip64=True) as member,
    ):
        shape = {"descr": "|u1", "fortran_order": False, "shape": (BOMB,)}
        np.lib.format.write_array_header_1_0(member, shape)
        for _ in range(BOMB >> 20):
            member.write(bytes(1 << 20))
    return file.getvalue()


@functools.cache
def gzip_bomb(size):
    """Return an idx file that says it has ``size`` bytes and has more."""
    head = struct.pack(">BBBB1I", 0, 0, 8, 1, size)
    return gzip.compress(head + bytes(BOMB), 1)


def forged_model(rng, content):
    """Return a whole archive with wrong content."""
    with np.load(io.BytesIO(content)) as archive:
        arrays = dict(archive)
    name = one_of(rng, sorted(arrays))
    kind = one_of(
        rng, ["bits", "bits", "remove", "empty", "type", "shape", "nan", "header", "deep", "bomb", "declared"]
    )
    array = arrays[name]
    if kind == "remove":
        del arrays[name]
    elif kind == "empty":
        arrays[name] = array[:0]
    elif kind == "type":
        arrays[name] = array.astype(one_of(rng, [np.float32, np.uint8, np.int64, np.complex128, "U5"]))
    elif kind == "shape":
        arrays[name] = array[np.newaxis]
    elif kind == "nan":
        arrays["values"] = np.where(rng.random(arrays["values"].shape) < 0.1, np.nan, arrays["values"])
    elif kind == "header":
        header = json.loads(arrays["header"].tobytes())
        header[one_of(rng, sorted(header))] = one_of(
            rng, [None, -1, 0, 10**30, "text", [], {}, 1.5, math.nan, True, 99]
        )
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    elif kind == "deep":
        arrays["header"] = np.frombuffer(deep(), np.uint8)
    elif kind == "bits" and array.size:
        data = bytearray(array.tobytes())
        for where in rng.integers(len(data), size=3):
            data[where] ^= 1 << int(rng.integers(8))
        arrays[name] = np.frombuffer(bytes(data), array.dtype).reshape(array.shape)
    file = io.BytesIO(bomb(name)) if kind == "bomb" else io.BytesIO()
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        for label, part in arrays.items():
            if kind == "bomb" and label == name:
                continue  # it is there already
            member = io.BytesIO()
            if kind == "declared" and label == name:  # a small member that says it is huge
                np.lib.format.write_array_header_1_0(
                    member, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
                )
            else:
                np.lib.format.write_array(member, part, allow_pickle=False)
            archive.writestr(f"{label}.npy", member.getvalue())
    return file.getvalue(), f"{kind} {name}"


def test_a_bad_model_file_is_rejected_or_predicts_soundly(fuzz, forest, tmp_path):
    from lmma_lab.attack import load_forest

    content, X = forest
    path = tmp_path / "model.npz"

    def case(rng):
        if rng.random() < 0.5:
            broken, what = damaged(rng, content), "damaged"
        else:
            broken, what = forged_model(rng, content)
        path.write_bytes(broken)
        try:
            model, notes = within_memory(load_forest, path)
        except ValueError as error:
            assert "model.npz" in str(error), f"{error}: {what}"
            return "refused"
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}: {what}") from error
        assert isinstance(notes, dict)
        wide = np.resize(X, (len(X), model.n_features_in_))  # as many features as the file says
        for answer in (model.predict_proba(wide), model.predict_proba(-1e30 * wide)):
            assert np.isfinite(answer).all(), f"{what} gives {answer}"
        return "loaded"

    fuzz(case, short=150, long=5_000, at_least=["refused", "loaded"])


# Images


def test_a_bad_idx_file_is_rejected_or_read_as_it_says(fuzz, tmp_path):
    images = np.random.default_rng(1).integers(256, size=(20, 5, 4), dtype=np.uint8)
    contents = {}
    for name in ("images", "images.gz"):
        write_idx(tmp_path / name, images)
        contents[name] = (tmp_path / name).read_bytes()

    def case(rng):
        name = one_of(rng, sorted(contents))
        kind = one_of(rng, ["damaged"] * 20 + ["shape"] * 3 + ["bomb"])
        if kind == "damaged":
            broken = damaged(rng, contents[name])
        elif kind == "shape":
            sizes = [one_of(rng, [0, 1, 400, 2**31, 2**32 - 1]) for _ in range(3)]
            broken = struct.pack(">BBBB3I", 0, 0, 8, 3, *sizes) + images.tobytes()
            broken = gzip.compress(broken) if name.endswith("gz") else broken
        else:
            broken = gzip_bomb(one_of(rng, [400, 2**32 - 1]))
        (tmp_path / name).write_bytes(broken)
        try:
            array = within_memory(read_idx, tmp_path / name)
        except ValueError as error:
            assert name in str(error), f"{error}: {kind}"
            return "refused"
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}: {kind}") from error
        assert array.dtype == np.uint8
        return "read"

    fuzz(case, short=200, long=5_000, at_least=["refused", "read"])


# Stores


def test_a_bad_store_never_gives_a_wrong_record(fuzz, tmp_path):
    records = {f"key{k:03}": {"number": k, "text": "x" * (k % 7), "list": [k / 7] * 20} for k in range(60)}
    whole = tmp_path / "whole.sqlite"
    with Store(whole) as store:
        store.put_all("any", records)
    content = whole.read_bytes()

    def case(rng):
        for file in tmp_path.glob("s.sqlite*"):
            file.unlink()
        path = tmp_path / "s.sqlite"
        broken = damaged(rng, content)
        path.write_bytes(broken)
        try:
            return within_memory(reads_soundly, path, records)
        except StoreError as error:
            assert str(path) in str(error), f"the file is not named in {error}"
            assert "\n" not in str(error)
            return "refused"
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}") from error

    fuzz(case, short=200, long=5_000, at_least=["all", "some"])


def reads_soundly(path, records):
    """Open a store that may be damaged, read it, and add a record; return how much it still had."""
    with Store(path) as store:
        found = store.get(list(records))
        wrong = [key for key, record in found.items() if record != records[key]]
        assert not wrong, f"other records than were put: {wrong}"
        assert all(record in records.values() for record in store.records("any"))
        assert store.done(["new"]) == set()
        assert store.claim(["new"]) == ["new"]
        store.put("new", "any", {"number": 1})
        assert store.get(["new"]) == {"new": {"number": 1}}
    return "all" if len(found) == len(records) else "some"
