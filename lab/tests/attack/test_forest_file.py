import json
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from lmma_lab.attack import CompiledForest, compile_forest, load_forest, save_forest
from lmma_lab.attack.forest import FlatForest


def test_a_saved_forest_comes_back_bit_for_bit(forest, near, engine, tmp_path):
    compiled = compile_forest(forest, engine=engine)
    save_forest(compiled, tmp_path / "forest.npz", notes={"trees": 60})
    loaded, notes = load_forest(tmp_path / "forest.npz", engine=engine)
    X = near(100)
    assert np.array_equal(loaded.predict_proba(X), forest.predict_proba(X))
    assert np.array_equal(loaded.classes_, forest.classes_)
    assert notes == {"trees": 60}


def test_text_labels_survive_and_invalid_ones_are_rejected(digits, tmp_path):
    from sklearn.ensemble import RandomForestClassifier

    names = np.array(["digit " + str(k) for k in range(10)], dtype=object)
    model = RandomForestClassifier(n_estimators=3, max_depth=3, random_state=0)
    model.fit(digits.X_train, names[digits.y_train])
    save_forest(compile_forest(model), tmp_path / "words.npz")
    loaded, _ = load_forest(tmp_path / "words.npz")
    assert np.array_equal(loaded.predict(digits.X_test), model.predict(digits.X_test))
    flat = loaded.flat
    odd = FlatForest(
        flat.words, flat.bits, flat.roots, flat.used, flat.values, np.array([None] * 10), flat.n_features
    )
    with pytest.raises(ValueError, match="without pickle"):
        save_forest(CompiledForest(odd), tmp_path / "odd.npz")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.npz does not exist"):
        load_forest(tmp_path / "nothing.npz")


def test_files_of_another_kind_are_rejected(tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(b"this is no model at all")
    with pytest.raises(ValueError, match=r"model\.npz is damaged or not a forest"):
        load_forest(path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(ValueError, match=r"model\.npz is not a forest saved by lmma"):
        load_forest(path)


def test_pickled_objects_are_never_unpacked(forest, tmp_path):
    path = tmp_path / "forest.npz"
    save_forest(compile_forest(forest), path)
    arrays = dict(np.load(path))
    arrays["classes"] = np.array([print, print], dtype=object)
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="damaged or not a forest"):
        load_forest(path)


def test_a_file_cut_short_is_rejected(forest, tmp_path):
    path = tmp_path / "forest.npz"
    save_forest(compile_forest(forest), path)
    whole = path.read_bytes()
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="damaged"):
            load_forest(path)


def _with(flat, **changes):
    fields = {name: getattr(flat, name) for name in FlatForest.__dataclass_fields__}
    return FlatForest(**(fields | changes))


def _damage(flat):
    """Forests that would lead a careless walk astray, each with the words expected of the refusal."""
    words, inner = flat.words, np.flatnonzero(flat.words[:, 1] & ((1 << flat.bits) - 1))
    leaf = np.flatnonzero(flat.words[:, 1] == 0)

    def changed(index, column, value):
        copy = words.copy()
        copy[index, column] = value
        return copy

    ones = (1 << flat.bits) - 1
    first = int(inner[0])
    feature = words[first, 1] & ~np.uint32(ones)
    yield "child outside", _with(flat, words=changed(first, 1, feature | ones)), "child"
    yield "child is itself", _with(flat, words=changed(first, 1, feature | 1)), "child lies outside"
    # leaf 0 turned into an inner node whose subtree overlaps its neighbours
    yield "leaf that asks", _with(flat, words=changed(leaf[0], 1, 2)), "child"
    yield "inner that answers", _with(flat, words=changed(first, slice(0, 2), 0)), "child"
    yield "feature", _with(flat, used=flat.used[:5]), "feature that does not exist"
    yield "column", _with(flat, used=flat.used + np.uint32(1000)), "outside the input"
    yield "class", _with(flat, words=changed(leaf[3], 0, 10)), "class that does not exist"
    yield "roots", _with(flat, roots=flat.roots[:-1]), "roots"
    yield "no roots", _with(flat, roots=flat.roots[:0]), "size|roots"
    roots = flat.roots.copy()
    roots[3] = roots[5]
    yield "roots out of order", _with(flat, roots=roots), "roots"
    roots = flat.roots.copy()
    roots[3] = np.uint64(2**63)
    yield "roots far away", _with(flat, roots=roots), "roots"
    roots = flat.roots.copy()
    roots[3] += np.uint64(1)
    yield "roots shifted", _with(flat, roots=roots), "child|roots"
    yield "no nodes", _with(flat, words=words[:0]), "roots"
    yield "bits", _with(flat, bits=0), "out of range"
    yield "many bits", _with(flat, bits=40), "out of range"
    yield "no features", _with(flat, n_features=0), "out of range"


def test_damaged_nodes_are_rejected_whatever_the_damage(forest, engine):
    flat = compile_forest(forest).flat
    seen = []
    for name, damaged, words in _damage(flat):
        with pytest.raises(ValueError, match=words):
            CompiledForest(damaged, engine=engine)
        seen.append(name)
    assert len(seen) == 16


def test_random_damage_is_rejected_or_harmless(forest, near, engine):
    # whatever passes the checks must also be walked to the end
    flat = compile_forest(forest).flat
    rng = np.random.default_rng(0)
    X = near(40)
    refused = 0
    for _ in range(150):
        words = flat.words.copy()
        hit = rng.integers(len(words), size=3)
        words[hit, rng.integers(2, size=3)] ^= np.uint32(1) << rng.integers(32, size=3).astype(np.uint32)
        try:
            out = CompiledForest(_with(flat, words=words), engine=engine).predict_proba(X)
        except ValueError:
            refused += 1
        else:
            assert np.allclose(out.sum(axis=1), 1.0)
    assert refused > 50


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"format": "another"}, "another format"),
        ({"version": 99}, "version 99"),
        ({"bits": "many"}, "must be integers"),
        ({"n_features": 1.5}, "must be integers"),
        ({"n_features": -1}, "damaged"),
    ],
)
def test_damaged_headers_are_rejected(forest, tmp_path, header, words):
    path = tmp_path / "forest.npz"
    save_forest(compile_forest(forest), path)
    arrays = dict(np.load(path))
    changed = json.loads(arrays["header"].tobytes()) | header
    arrays["header"] = np.frombuffer(json.dumps(changed).encode(), np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=words):
        load_forest(path)


@pytest.mark.parametrize("name", ["words", "roots", "used", "values", "classes"])
def test_arrays_of_the_wrong_type_are_rejected(forest, tmp_path, name):
    path = tmp_path / "forest.npz"
    save_forest(compile_forest(forest), path)
    arrays = dict(np.load(path))
    arrays[name] = np.zeros((2, 2, 2), dtype=np.int16)
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="damaged"):
        load_forest(path)


def bomb(path, **sizes):
    """An archive of a few MB whose arrays promise, and hold, far more."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("words", "roots", "used", "values", "classes", "header"):
            rows = sizes.get(name, 1)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                shape = f"({rows * (1 << 20) // 8},)"
                head = f"{{'descr': '<u8', 'fortran_order': False, 'shape': {shape}, }}"
                head = head.ljust(117) + "\n"
                member.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
                for _ in range(rows):
                    member.write(bytes(1 << 20))


@pytest.mark.parametrize("sizes", [{"words": 300}, {"header": 300}, {"classes": 1100}])
def test_a_bomb_is_rejected_before_it_takes_memory(sizes, tmp_path):
    path = tmp_path / "bomb.npz"
    bomb(path, **sizes)
    tracemalloc.start()
    with pytest.raises(ValueError, match="its arrays need"):
        load_forest(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10e6


def test_an_array_that_promises_more_than_it_holds_is_rejected(tmp_path):
    path = tmp_path / "promise.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("words", "roots", "used", "values", "classes", "header"):
            head = "{'descr': '<u8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + "\n"
            archive.writestr(
                f"{name}.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(8)
            )
    with pytest.raises(ValueError, match="damaged or not a forest"):
        load_forest(path)


def test_a_header_nested_without_end_is_rejected(tmp_path):
    path = tmp_path / "deep.npz"
    deep = np.frombuffer(b"[" * 100_000, np.uint8)
    np.savez(path, **dict.fromkeys(("words", "roots", "used", "values", "classes"), np.zeros(1)), header=deep)
    with pytest.raises(ValueError, match="nested too deeply"):
        load_forest(path)
