"""Results in files: saved values are restored, and invalid content is rejected with a message."""

import copy
import json
import pickle
import zipfile

import numpy as np
import pytest

import lmma
from lmma._archive import RESULT, read, write


def ellipsoid(x):
    return float(np.sum(np.arange(1, len(x) + 1) ** 2 * x**2))


def found(**options):
    return lmma.minimize(ellipsoid, np.ones(6), 0.5, **{"rng": 1, "maxfevals": 400} | options)


def altered(path, change, arrays=None):
    """Write a file again with a right checksum, as somebody who means harm would."""
    header, held = read(path, RESULT)
    change(header)
    header.pop("arrays")
    write(path, header, held | (arrays or {}), RESULT)


@pytest.fixture
def saved(tmp_path):
    found(history=True).save(tmp_path / "result.npz")
    return tmp_path / "result.npz"


@pytest.mark.parametrize("method", lmma.methods())
def test_a_saved_value_is_restored(method, tmp_path):
    result = found(method=method, history=True)
    result.save(tmp_path / "result.npz")
    again = lmma.load(tmp_path / "result.npz")
    assert type(again) is type(result)
    assert again.keys() == result.keys()
    for name in result.keys() - {"learned", "hess_inv"}:
        assert np.array_equal(again[name], result[name]), name
    if result.hess_inv is not None:
        v = np.arange(6.0)
        assert np.array_equal(again.hess_inv @ v, result.hess_inv @ v)
    further = [lmma.minimize(ellipsoid, start, rng=2, maxfevals=200) for start in (result, again)]
    assert np.array_equal(further[0].x, further[1].x)


@pytest.mark.parametrize("method", ["quasi-newton", "interpolation", "coordinates", "portfolio"])
def test_a_run_that_ends_within_any_phase_can_be_saved_and_continued(method, tmp_path):
    for budget in (12, 20, 25, 30, 40, 60, 100, 150):
        result = found(method=method, maxfevals=budget)
        result.save(tmp_path / "result.npz")
        again = lmma.load(tmp_path / "result.npz")
        assert np.array_equal(again.x, result.x)
        if result.hess_inv is not None:
            assert np.array_equal(again.hess_inv @ np.arange(6.0), result.hess_inv @ np.arange(6.0))
        assert lmma.minimize(ellipsoid, again, rng=2, maxfevals=300).fun <= max(result.fun, 1e-20)


CASES = {
    "scales": {"sigma0": None, "bounds": [(-1, 1), (-2, 2), (-1, 5), (-1, 1), (0, 3), (-1, 1)]},
    "single precision": {"dtype": "float32"},
    "restarts": {"restarts": 3, "tolfun": 1.0, "maxfevals": 3000},
    "constants": {"method": "lm-ma-es", "m": 3},
}


@pytest.mark.parametrize("case", CASES)
def test_scales_precision_restarts_and_constants_come_back(case, tmp_path):
    options = {"sigma0": 0.5, "rng": 1, "maxfevals": 400, **CASES[case]}
    result = lmma.minimize(ellipsoid, np.ones(6), **options)
    result.save(tmp_path / "result.npz")
    again = lmma.load(tmp_path / "result.npz")
    assert again.x.dtype == result.x.dtype
    assert again.runs == result.runs
    v = np.arange(6.0)
    assert np.array_equal(again.hess_inv @ v, result.hess_inv @ v)


def test_failures_come_back(tmp_path):
    def fails(x):
        if x[0] > 1:
            raise RuntimeError("the mesh\ncould not be built")
        return ellipsoid(x)

    result = lmma.minimize(fails, np.ones(6), 0.5, rng=1, maxfevals=200)
    result.save(tmp_path / "result.npz")
    again = lmma.load(tmp_path / "result.npz")
    assert again.errors == result.errors
    assert again.failed == result.failed
    assert again.failures == result.failures > 0


def test_a_result_can_be_saved_after_it_was_pickled_loaded_or_copied(saved, tmp_path):
    for number, result in enumerate(
        (lmma.load(saved), pickle.loads(pickle.dumps(lmma.load(saved))), copy.deepcopy(lmma.load(saved)))
    ):
        result.save(tmp_path / f"{number}.npz")
        again = lmma.load(tmp_path / f"{number}.npz")
        assert np.array_equal(again.x, result.x)
        assert again.learned.generation == result.learned.generation


def test_values_that_need_pickle_are_omitted_and_named(tmp_path):
    result = found()
    result["model"] = object()
    result["pair"] = np.array([1, 2])
    result["note"] = "of mine"
    result.save(tmp_path / "result.npz")
    again = lmma.load(tmp_path / "result.npz")
    assert "model" not in again
    assert again.pair.tolist() == [1, 2]
    assert again.note == "of mine"
    assert again.warnings == ["save() omitted model of type object"]


def test_loading_a_user_strategy_requires_its_class(tmp_path, monkeypatch):
    class Mine(lmma.LMMAES):
        name = "mine-alone"

    found(method=Mine).save(tmp_path / "result.npz")
    again = lmma.load(tmp_path / "result.npz")
    assert "learned" not in again
    assert "mine-alone" in again.warnings[0]
    assert "lmma.register" in again.warnings[0]
    from lmma.methods import registry

    monkeypatch.setitem(registry._registered, "mine-alone", Mine)
    assert lmma.load(tmp_path / "result.npz").learned.kind is Mine


def test_a_file_contains_no_pickle_and_saving_leaves_no_other_files(saved):
    found().save(saved)  # over the first
    assert [path.name for path in saved.parent.iterdir()] == ["result.npz"]
    with np.load(saved, allow_pickle=False) as arrays:
        assert json.loads(arrays["header"].tobytes())["format"] == "lmma result"


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="existing folder"):
        found().save(tmp_path / "nowhere" / "result.npz")
    with pytest.raises(ValueError, match="existing folder"):
        found().save(tmp_path)


def test_any_flipped_byte_is_noticed(saved):
    whole = saved.read_bytes()
    for place in range(0, len(whole), 97):
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match="cannot use result"):
            lmma.load(saved)
    for size in (0, 10, 100, len(whole) - 1):
        saved.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="cannot use result"):
            lmma.load(saved)


def test_a_file_of_another_kind_is_named(tmp_path):
    found(checkpoint=tmp_path / "run.npz")
    with pytest.raises(ValueError, match="but a checkpoint; lmma show"):
        lmma.load(tmp_path / "run.npz")
    found().save(tmp_path / "result.npz")
    with pytest.raises(lmma.CheckpointError, match="but a result; lmma show"):
        found(checkpoint=tmp_path / "result.npz")
    with pytest.raises(ValueError, match=r"result .* does not exist"):
        lmma.load(tmp_path / "nothing.npz")
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as archive:
        archive.writestr("a.txt", "x" * 200)
    with pytest.raises(ValueError, match="cannot use result"):
        lmma.load(tmp_path / "other.npz")


LIES = {
    "x of words": lambda h: h["values"].update(x="words"),
    "fun of words": lambda h: h["values"].update(fun="low"),
    "fun nan": lambda h: h["values"].update(fun=float("nan")),
    "count below 0": lambda h: h["values"].update(nfev=-1),
    "count of words": lambda h: h["values"].update(nit="many"),
    "message a number": lambda h: h["values"].update(message=3),
    "method a list": lambda h: h["values"].update(method=["a"]),
    "warnings a number": lambda h: h["values"].update(warnings=1),
    "values a list": lambda h: h.update(values=[]),
    "values hold learned": lambda h: h["values"].update(learned=1),
    "special unknown": lambda h: h.update(special=["__class__"]),
    "run unknown": lambda h: h.update(runs=[{"popsize": 1, "oddity": 2}]),
    "run of words": lambda h: h["runs"][0].update(popsize="ten"),
    "errors of numbers": lambda h: h.update(errors=[{"kind": 1, "message": 2}]),
    "failed below 0": lambda h: h.update(failed={"nan": -1}),
    "learned a number": lambda h: h.update(learned=3),
    "learned a huge population": lambda h: h["learned"].update(popsize=2**50),
    "learned other options": lambda h: h["learned"].update(options={"__class__": 1}),
    "learned another method": lambda h: h["learned"].update(method="cma-es"),
    "learned another precision": lambda h: h["learned"].update(dtype="object"),
    "learned no generation": lambda h: h["learned"].update(generation=-5),
    "learned nothing": lambda h: h["learned"].clear(),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_impossible_result_is_rejected(lie, saved):
    if lie == "x of words":
        header, arrays = read(saved, RESULT)
        arrays.pop("value.x")
        header.pop("arrays")
        LIES[lie](header)
        write(saved, header, arrays, RESULT)
    else:
        altered(saved, LIES[lie])
    with pytest.raises(ValueError, match="cannot use result"):
        lmma.load(saved)


@pytest.mark.parametrize(
    "arrays",
    [
        {"value.x": np.full(6, np.nan)},
        {"value.x": np.ones((2, 3))},
        {"value.mean": np.ones(5)},
        {"history.evaluations": np.ones((3, 3))},
        {"history.sigma": np.ones(1)},
        {"part.step.path": np.ones(99)},
        {"part.nonsense": np.ones(3)},
        {"learned.scale": np.zeros(6)},
        {"learned.scale": np.ones(4)},
    ],
    ids=["x nan", "x square", "mean short", "history square", "history short", "part", "part unknown",
         "scale 0", "scale short"],
)  # fmt: skip
def test_arrays_that_fit_no_result_are_rejected(arrays, saved):
    altered(saved, lambda header: None, arrays)
    with pytest.raises(ValueError, match="cannot use result"):
        lmma.load(saved)


def test_a_small_file_cannot_ask_for_much_memory(saved):
    n = 50_000  # a dense matrix of 20 GB
    altered(
        saved,
        lambda header: header["learned"].update(method="cma-es"),
        {"value.x": np.ones(n), "value.mean": np.ones(n)},
    )
    with pytest.raises(ValueError, match="too many for a file of"):
        lmma.load(saved)


SPACE = lmma.Space(
    speed=lmma.Real(1, 9), gear=lmma.Integer(1, 6), oil=lmma.Choice(["A", "B", "C"]), on=lmma.Choice([0, 1])
)


def knobs(speed, gear, oil, on):
    return (speed - 3) ** 2 + (gear - 4) ** 2 + {"A": 2.0, "B": 0.0, "C": 1.0}[oil] + on


@pytest.mark.parametrize("method", ["pulse-full", "ma-es", "lm-ma-es", "d-lm-ma-es"])
def test_learned_choices_are_restored(method, tmp_path):
    result = lmma.minimize(knobs, SPACE, rng=1, maxfevals=800, method=method)
    result.save(tmp_path / "result.npz")
    again = lmma.load(tmp_path / "result.npz")
    assert not again.warnings
    assert again.learned.categories == result.learned.categories
    theirs, ours = again.learned.parts(), result.learned.parts()
    assert theirs.keys() == ours.keys()
    assert any(name.startswith("choices.") for name in ours)
    assert all(np.array_equal(theirs[name], ours[name]) for name in ours)
    options = {"space": SPACE, "rng": 2, "maxfevals": 200, "method": method}
    one, other = lmma.minimize(knobs, result, **options), lmma.minimize(knobs, again, **options)
    assert np.array_equal(one.vector, other.vector)
    assert one.fun == other.fun
    fresh = lmma.minimize(knobs, SPACE, rng=2, maxfevals=200, method=method)
    assert one.mean.tobytes() != fresh.mean.tobytes()


def test_choices_alone_come_back(tmp_path):
    space = lmma.Space(a=lmma.Choice([1, 2, 3]), b=lmma.Choice(["x", "y"]))
    result = lmma.minimize(lambda a, b: a + (b == "x"), space, rng=1, maxfevals=300)
    result.save(tmp_path / "result.npz")
    assert not lmma.load(tmp_path / "result.npz").warnings


@pytest.mark.parametrize(
    "wrong", [{"9": [0, 3]}, {"x": [0, 3]}, {"0": [0, 1]}, {"0": [0]}, {"0": 3}, {"0": [0, 2**60]}, []]
)
def test_choices_that_cannot_be_are_rejected(wrong, tmp_path):
    file = tmp_path / "result.npz"
    lmma.minimize(knobs, SPACE, rng=1, maxfevals=100).save(file)
    header, arrays = read(file, RESULT)
    header["learned"]["categories"] = wrong
    write(file, header, arrays, RESULT)
    with pytest.raises(ValueError, match="cannot use result"):
        lmma.load(file)
