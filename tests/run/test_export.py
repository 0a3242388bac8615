"""Results keep their names when saved, loaded, shown and exported, for every kind of variable."""

import csv
import dataclasses
import io
import json
import sys
import tomllib

import numpy as np
import pytest

import lmma
from lmma._archive import CHECKPOINT, RESULT, read, write
from lmma.cli import main


class Alloy:
    """A value that only Python can hold."""

    def __repr__(self):
        return "Alloy()"


ALLOY = Alloy()
EVERYTHING = lmma.Space(
    flow=lmma.Real(1e-4, 1, log=True, unit="kg/s"),
    speed=lmma.Real(1, 9),
    walls=lmma.Real(1, 20, unit="mm", shape=(2, 2)),
    gear=lmma.Integer(1, 6),
    bolts=lmma.Integer(1, 9, unit="pieces", shape=3),
    oil=lmma.Choice(["A", "C, thick"]),
    size=lmma.Choice([1, 2.5, None, True, (1, 2)]),
    kinds=lmma.Choice(["x", "y"], shape=2),
    mixed=lmma.Choice(["x", 3, (4, 5)], shape=2),
    gravity=lmma.Fixed(9.81),
    table=lmma.Fixed(np.arange(3.0)),
    note=lmma.Fixed("a text"),
)
OBJECTS = lmma.Space(a=lmma.Real(0, 1, log=False), part=lmma.Choice([ALLOY, print]), k=lmma.Fixed(ALLOY))


def everything(values):
    far = (
        (np.log(values["flow"]) + 5) ** 2
        + (values["speed"] - 3) ** 2
        + float(((values["walls"] - 4) ** 2).sum())
    )
    return far + (values["gear"] - 3) ** 2 + values["bolts"].sum() + (values["oil"] == "A")


def objects(a, part, k):
    return (a - 0.3) ** 2 + (part is print)


def same(one, other):
    """Return whether two structures are equal, types of containers and arrays included."""
    if isinstance(one, np.ndarray):
        same_kind = isinstance(other, np.ndarray) and one.dtype == other.dtype and one.shape == other.shape
        return same_kind and one.tolist() == other.tolist()
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@pytest.fixture(scope="module")
def result():
    return lmma.minimize(everything, EVERYTHING, rng=1, maxfevals=400)


@pytest.fixture
def saved(result, tmp_path):
    result.save(tmp_path / "result.npz")
    return tmp_path / "result.npz"


@pytest.fixture
def shown(capsys):
    def run(*words):
        status = main(["show", *map(str, words)])
        out, err = capsys.readouterr()
        return status, out if status == 0 else err

    return run


# A space


def test_every_kind_of_variable_is_saved_and_loaded(result, saved):
    again = lmma.load(saved)
    assert same(again.x, result.x)
    assert again.space == EVERYTHING
    assert same(again.space["table"].value, EVERYTHING["table"].value)
    assert again.keys() == result.keys()
    assert not again.warnings
    assert sorted(str(again).splitlines()) == sorted(str(result).splitlines())
    assert again.to_csv() == result.to_csv()
    assert again.to_dict(history=True) == result.to_dict(history=True)
    assert dict(again.importance) == dict(result.importance)


def test_a_loaded_result_is_saved_again_and_continued(result, saved, tmp_path):
    lmma.load(saved).save(tmp_path / "second.npz")
    again = lmma.load(tmp_path / "second.npz")
    assert same(again.x, result.x)
    further = [lmma.minimize(everything, start, rng=2, maxfevals=100) for start in (result, again)]
    assert same(further[0].x, further[1].x)  # named values, although only the results know the space


def test_noise_and_constraints_keep_their_points(tmp_path):
    noise = np.random.default_rng(1)
    space = lmma.Space(a=lmma.Real(1e-3, 1, log=True), b=lmma.Real(0, 1, shape=2))
    result = lmma.minimize(
        lambda a, b: a + float(b @ b) + noise.normal(), space, rng=1, noise="auto", maxfevals=600
    )
    result.save(tmp_path / "noisy.npz")
    again = lmma.load(tmp_path / "noisy.npz", like=space)
    assert same(again.x_seen, result.x_seen)
    assert same(again.x, result.x)
    result = lmma.minimize(
        lambda x: (float(x @ x), [1 - x[0], x[1] - 2]), np.ones(3), 0.5, rng=1, maxfevals=300
    )
    result.save(tmp_path / "constrained.npz")
    again = lmma.load(tmp_path / "constrained.npz")
    assert not again.warnings
    assert same(again.constr, result.constr)
    assert same(again.multipliers, result.multipliers)


def test_values_that_only_python_can_hold_are_texts_without_like(tmp_path):
    result = lmma.minimize(objects, OBJECTS, rng=1, maxfevals=200)
    result.save(tmp_path / "result.npz")
    plain = lmma.load(tmp_path / "result.npz")
    assert plain.x == {"a": result.x["a"], "part": "Alloy()", "k": "Alloy()"}
    assert "like=" in plain.warnings[0]
    assert "part" in plain.warnings[0]
    again = lmma.load(tmp_path / "result.npz", like=OBJECTS)
    assert again.x == result.x
    assert again.space is OBJECTS
    assert not again.warnings


def test_a_like_that_does_not_match_is_rejected(saved):
    for other in (lmma.Space(a=lmma.Real(0, 1)), {"w": np.ones(3)}, lmma.Tree([1.0, 2.0])):
        with pytest.raises(ValueError, match="like= does not match"):
            lmma.load(saved, like=other)


# Structures


@dataclasses.dataclass
class Layer:
    weights: np.ndarray
    bias: float
    name: str = "first"


def layer_loss(layer):
    return float(np.sum((layer.weights - 1) ** 2)) + layer.bias**2


def test_a_dataclass_is_saved_loaded_and_shown(tmp_path, shown):
    start = Layer(np.zeros((2, 3)), 0.5)
    result = lmma.minimize(layer_loss, start, rng=1, maxfevals=300)
    result.save(tmp_path / "result.npz")
    again = lmma.load(tmp_path / "result.npz", like=start)
    assert type(again.x) is Layer
    assert same(again.x.weights, result.x.weights)
    assert (again.x.bias, again.x.name) == (result.x.bias, "first")
    plain = lmma.load(tmp_path / "result.npz")
    assert same(plain.x, {"weights": result.x.weights, "bias": result.x.bias, "name": "first"})
    assert plain.to_csv() == again.to_csv() == result.to_csv()
    assert plain.to_csv().splitlines()[:2] == [
        "name,value,unit",
        f'"weights[0,0]",{float(result.vector[0])!r},',
    ]
    assert dict(plain.importance).keys() == {"weights", "bias"}
    further = [lmma.minimize(layer_loss, each, rng=2, maxfevals=100) for each in (result, again)]
    assert np.array_equal(further[0].vector, further[1].vector)
    status, text = shown(tmp_path / "result.npz", "--save-x", tmp_path / "x.npy", "--importance")
    assert status == 0
    assert "weights = [" in text
    assert "bias = " in text
    assert np.array_equal(np.load(tmp_path / "x.npy"), result.vector)


def test_nested_dicts_lists_and_tuples_come_back(tmp_path):
    start = {"a": [np.ones(2), (0.5, {"b": np.ones((1, 2), np.float32)})], 3: 1.0, "tag": "t"}
    result = lmma.minimize(lambda s: float(np.sum(s["a"][0] ** 2)) + s[3] ** 2, start, rng=1, maxfevals=100)
    result.save(tmp_path / "result.npz")
    assert same(lmma.load(tmp_path / "result.npz").x, result.x)


def test_a_module_is_saved_loaded_and_shown(tmp_path, shown):
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1).bfloat16()
    )

    def loss(module):
        return float(sum((p.float() ** 2).sum() for p in module.parameters()))

    result = lmma.minimize(loss, model, 0.1, rng=1, maxfevals=60)
    result.save(tmp_path / "result.npz")
    again = lmma.load(tmp_path / "result.npz", like=model)
    assert type(again.x) is torch.nn.Sequential
    for (name, one), (_, other) in zip(
        result.x.state_dict().items(), again.x.state_dict().items(), strict=True
    ):
        assert one.dtype == other.dtype, name
        assert torch.equal(one, other), name
    plain = lmma.load(tmp_path / "result.npz")
    assert list(plain.x) == list(result.x.state_dict())
    for name, one in result.x.state_dict().items():
        assert np.array_equal(
            plain.x[name], one.float().numpy() if one.is_floating_point() else one.numpy()
        ), name
    assert plain.to_csv() == result.to_csv()
    assert json.loads(result.to_json())["x"]["0.bias"] == plain.x["0.bias"].tolist()
    status, text = shown(tmp_path / "result.npz", "--save-x", tmp_path / "x.csv", "--importance")
    assert status == 0
    assert "0.weight = [" in text
    assert (tmp_path / "x.csv").read_text() == result.to_csv()


def test_a_jax_tree_is_saved_loaded_and_shown(tmp_path, shown):
    jax = pytest.importorskip("jax")
    start = {
        "layer": {"w": jax.numpy.ones((2, 2)), "b": jax.numpy.zeros(2, jax.numpy.bfloat16)},
        "scale": 2.0,
    }
    result = lmma.minimize(
        lambda t: float((t["layer"]["w"] ** 2).sum() + (t["scale"] - 1) ** 2), start, 0.1, rng=1, maxfevals=60
    )
    result.save(tmp_path / "result.npz")
    again = lmma.load(tmp_path / "result.npz", like=start)
    leaves, others = map(jax.tree_util.tree_leaves, (result.x, again.x))
    assert [getattr(leaf, "dtype", float) for leaf in leaves] == [
        getattr(leaf, "dtype", float) for leaf in others
    ]
    assert all(np.array_equal(one, other) for one, other in zip(leaves, others, strict=True))
    plain = lmma.load(tmp_path / "result.npz")
    assert isinstance(plain.x["layer"]["w"], np.ndarray)
    assert np.array_equal(plain.x["layer"]["w"], result.x["layer"]["w"])
    assert plain.x["scale"] == result.x["scale"]
    assert plain.to_csv() == result.to_csv()
    status, text = shown(tmp_path / "result.npz")
    assert status == 0
    assert "layer.w = [" in text


# Files that users take away


def test_csv_has_names_values_and_units(result):
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO(result.to_csv()))}
    assert float(rows["flow"]["value"]) == result.x["flow"]  # not its logarithm
    assert rows["flow"]["unit"] == "kg/s"
    assert float(rows["walls[1,0]"]["value"]) == result.x["walls"][1, 0]
    assert rows["walls[1,0]"]["unit"] == "mm"
    assert rows["bolts[2]"]["value"] == str(result.x["bolts"][2])
    assert rows["oil"]["value"] == "C, thick"
    assert rows["gravity"]["value"] == "9.81"


def test_a_plain_vector_has_numbered_names(tmp_path):
    result = lmma.minimize(lambda x: float(x @ x), np.ones(2), 0.5, rng=1, maxfevals=50)
    lines = [f"x[{k}],{float(value)!r}," for k, value in enumerate(result.x)]
    assert result.to_csv(tmp_path / "x.csv").splitlines() == ["name,value,unit", *lines]
    assert (tmp_path / "x.csv").read_text() == result.to_csv()


def test_to_dict_holds_plain_values_and_to_json_is_strict(result, tmp_path):
    found = result.to_dict()
    assert "history" not in found
    assert found["x"]["walls"] == result.x["walls"].tolist()
    assert found["units"] == {"flow": "kg/s", "walls": "mm", "bolts": "pieces"}
    assert found["nfev"] == result.nfev
    assert set(found) >= {"message", "success", "reason", "fun", "runs", "errors", "failed", "vector"}
    assert json.loads(json.dumps(found)) == found
    text = result.to_json(tmp_path / "a.json", history=True)
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads(text)
    assert json.loads(text)["history"]["best_fun"][-1] == result.fun
    failing = lmma.minimize(lambda x: np.nan, np.ones(2), 0.5, rng=1, maxfevals=20)
    assert json.loads(failing.to_json())["fun"] is None


@pytest.mark.parametrize("suffix", ["csv", "json", "toml"])
def test_a_file_of_a_point_is_read_back(result, suffix, tmp_path):
    from lmma.run.result import point_of
    from lmma.space.point import is_named, read_values

    point, file = point_of(result), tmp_path / f"best.{suffix}"
    point.write(file)
    assert is_named(file)
    values = read_values(file, EVERYTHING)
    assert not set(values) & {"gravity", "table", "note"}
    made = EVERYTHING.encode(values)
    assert np.allclose(made, result.vector, rtol=1e-14)
    assert same({**EVERYTHING.decode(made), "flow": 0}, {**result.x, "flow": 0})
    for wrong in (
        "speed = 3\nspede = 4" if suffix == "toml" else '{"spede": 1}',
        "name,value\nspede,3",
        "\0",
    ):
        file.write_text(wrong)
        with pytest.raises(ValueError, match=r"spede|cannot be read|no value for"):
            EVERYTHING.encode(read_values(file, EVERYTHING))


def test_toml_and_json_have_units(result, saved, shown, tmp_path):
    assert shown(saved, "--save-x", tmp_path / "x.toml")[0] == 0
    text = (tmp_path / "x.toml").read_text()
    assert f"flow = {result.x['flow']!r}  # kg/s" in text.splitlines()
    assert tomllib.loads(text)["walls"] == result.x["walls"].tolist()
    assert shown(saved, "--save-x", tmp_path / "x.json")[0] == 0
    found = json.loads((tmp_path / "x.json").read_text())
    assert found.pop("$units") == {"flow": "kg/s", "walls": "mm", "bolts": "pieces"}
    assert found == result.to_dict()["x"]
    assert shown(saved, "--save-x", tmp_path / "x.npy")[0] == 0
    assert np.array_equal(np.load(tmp_path / "x.npy"), result.vector)
    status, message = shown(saved, "--save-x", tmp_path / "x.txt")
    assert status == 2
    assert ".csv, .json, .toml or .npy" in message


@pytest.mark.parametrize("kind", ["result", "checkpoint"])
def test_lmma_show_prints_names_and_units(kind, result, saved, shown, tmp_path):
    file = saved
    if kind == "checkpoint":
        file = tmp_path / "run.npz"
        lmma.minimize(everything, EVERYTHING, rng=1, maxfevals=400, checkpoint=file)
    status, text = shown(file, "--importance", "--save-x", tmp_path / "x.csv")
    assert status == 0
    assert f"x             flow = {result.x['flow']:.6g} kg/s" in text
    assert "oil = C, thick" in text
    assert "9.81" not in text  # a constant
    assert (tmp_path / "x.csv").read_text() == result.to_csv()
    bars = text.splitlines()[-6:]
    assert bars[0].startswith("importance    ")
    assert {line[14:].split()[0] for line in bars} == {"flow", "speed"} | {
        f"walls[{i},{j}]" for i in (0, 1) for j in (0, 1)
    }


LIES = {
    "names": lambda h: h["space"]["variables"][0].__setitem__(0, "spede"),
    "size": lambda h: h["space"]["variables"][0][1].update(shape=[10**12]),
    "limits": lambda h: h["space"]["variables"][0][1].update(real=[1, 0]),
    "kind": lambda h: h["space"].update(leaves=[]),
    "leaves": lambda h: h.update(space={"leaves": [["a", [-3]]]}),
    "huge leaves": lambda h: h.update(space={"leaves": [["a", [2**62]]]}),
    "list": lambda h: h.update(space=[1]),
    "array": lambda h: h["structures"].update(x={"array": "nothing"}),
    "shape": lambda h: h["structures"].update(x={"entries": [1, 2], "shape": [2**40]}),
    "oddity": lambda h: h["structures"].update(x={"__class__": "os.system"}),
    "special": lambda h: h["structures"].update(learned=1),
    "texts": lambda h: h.update(as_text=3),
}


@pytest.mark.parametrize("lie", LIES)
def test_descriptions_that_fit_no_result_are_rejected(lie, saved, shown):
    header, arrays = read(saved, RESULT)
    LIES[lie](header)
    header.pop("arrays")
    write(saved, header, arrays, RESULT)
    with pytest.raises(ValueError, match="cannot use result"):
        lmma.load(saved)
    status, message = shown(saved)
    assert (status, message.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "space", [{"leaves": [["a", [3]]]}, {"variables": 3}, 7, {"variables": [["a", {"real": 1}]]}]
)
def test_a_checkpoint_with_a_wrong_space_is_rejected(space, shown, tmp_path):
    file = tmp_path / "run.npz"
    lmma.minimize(everything, EVERYTHING, rng=1, maxfevals=40, checkpoint=file)
    header, arrays = read(file, CHECKPOINT)
    header["space"] = space
    header.pop("arrays")
    write(file, header, arrays, CHECKPOINT)
    status, message = shown(file)
    assert (status, message.count("\n")) == (2, 1)


@pytest.mark.parametrize("shares", [np.full(3, np.inf), np.full(3, -1.0), np.ones(2), np.full((3, 1), 0.1)])
def test_a_checkpoint_with_a_wrong_importance_is_rejected(shares, shown, tmp_path):
    file = tmp_path / "run.npz"
    lmma.minimize(lambda x: float(x @ x), np.ones(3), 0.5, rng=1, maxfevals=40, checkpoint=file)
    header, arrays = read(file, CHECKPOINT)
    header.pop("arrays")
    write(file, header, arrays | {"importance": shares}, CHECKPOINT)
    status, message = shown(file)
    assert (status, message.count("\n")) == (2, 1)
    assert "importance" in message


def test_nothing_is_imported_for_what_a_file_names(saved, python):
    code = f"import lmma, sys; lmma.load({str(saved)!r}); print('torch' in sys.modules, 'jax' in sys.modules)"
    assert python("-c", code).split() == ["False", "False"]
    assert "tests.run.test_export" not in sys.modules
