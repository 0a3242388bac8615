"""Arguments of the compiled forest are converted and checked before anything is written."""

import importlib.util
import sys

import numpy as np
import pytest

from lmma_lab.attack import CompiledForest, compile_forest, forest as forest_module

compiled = forest_module._compiled
pytestmark = pytest.mark.skipif(compiled is None, reason="the compiled forest was not built")
MISTAKES = (ValueError, TypeError, OverflowError)


@pytest.fixture(scope="module")
def flat(forest):
    return compile_forest(forest).flat


def arguments(flat):
    return {
        "words": flat.words, "stride": flat.words.shape[1], "bits": flat.bits, "roots": flat.roots,
        "used": flat.used, "values": flat.values, "n_features": flat.n_features,
        "n_classes": len(flat.classes),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["n_features", "n_classes"])
@pytest.mark.parametrize("change", [2**64, 2**80, -(2**64), -1000], ids=str)
def test_counts_that_wrap_around_are_rejected(flat, name, change):
    good = arguments(flat)
    with pytest.raises(MISTAKES):
        compiled.Forest(**{**good, name: good[name] + change})


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("words", np.int32), ("words", np.float32), ("words", np.uint64), ("words", ">u4"),
        ("roots", np.int64), ("roots", np.float64), ("roots", np.uint32), ("roots", ">u8"),
        ("used", np.int32), ("used", np.float32), ("used", np.uint64),
        ("values", np.int64), ("values", np.float32), ("values", ">f8"),
    ],
)  # fmt: skip
def test_arrays_of_other_types_are_rejected(flat, name, dtype):
    good = arguments(flat)
    with pytest.raises(TypeError, match=name):
        compiled.Forest(**{**good, name: good[name].astype(dtype)})


@pytest.mark.parametrize("name", ["words", "roots", "used"])
def test_arrays_with_gaps_are_rejected(flat, name):
    good = arguments(flat)
    with pytest.raises((ValueError, BufferError)):
        compiled.Forest(**{**good, name: np.repeat(good[name], 2, axis=0)[::2]})


@pytest.mark.parametrize(
    ("place", "value"),
    [(2, -1), (2, 2**64), (2, 0), (2, 1.5), (3, 0), (3, -1), (3, 2**80), (4, -1), (4, 2**64), (4, None)],
    ids=str,
)
def test_a_number_that_does_not_fit_is_rejected_and_nothing_written(flat, digits, place, value):
    X, out = digits.X_test[:9].astype(float), np.full((9, 10), np.nan)
    call = [X, out, 32, 1, 1000]
    call[place] = value
    with pytest.raises(MISTAKES):
        compiled.Forest(**arguments(flat)).evaluate(*call)
    assert np.isnan(out).all()


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32, np.int8, np.bool_, ">f8", ">f4"])
def test_rows_and_sums_of_other_types_are_rejected(flat, digits, dtype):
    forest, X = compiled.Forest(**arguments(flat)), digits.X_test[:9].astype(float)
    with pytest.raises(TypeError, match="rows"):
        forest.evaluate(X.astype(dtype), np.zeros((9, 10)), 32, 1, 1000)
    with pytest.raises(TypeError, match="out"):
        forest.evaluate(X, np.zeros((9, 10), dtype), 32, 1, 1000)
    with pytest.raises(TypeError, match="low"):
        forest.prune(np.zeros(64, dtype), np.ones(64, np.float32))


def test_rows_off_their_alignment_are_answered_all_the_same(forest, near):
    X = near(40)
    memory = np.zeros(X.nbytes + 1, np.uint8)
    crooked = memory[1:].view(np.float64).reshape(X.shape)
    crooked[...] = X
    answer = compile_forest(forest)
    assert not crooked.flags.aligned
    assert np.array_equal(answer.predict_proba(crooked), answer.predict_proba(X))
    with pytest.raises(ValueError, match="rows"):
        compiled.Forest(**arguments(answer.flat)).evaluate(crooked, np.zeros((40, 10)), 32, 1, 1000)


def test_a_pruned_forest_is_of_the_same_type(flat):
    forest = CompiledForest(flat)
    assert type(forest.prune(0.0, 16.0)._engine) is type(forest._engine)


def test_each_module_object_has_a_state_of_its_own():
    name = "lmma_lab.attack._forest"
    spec = importlib.util.find_spec(name)
    if spec is None:
        pytest.skip(f"{name} was not built")
    one, two = (importlib.util.module_from_spec(spec) for _ in range(2))
    for module in (one, two):
        spec.loader.exec_module(module)
    assert one is not two
    assert one.Forest is not two.Forest
    before = two.simd()
    one.simd(0)
    assert two.simd() == before
    assert sys.modules.get(name) not in (one, two)
