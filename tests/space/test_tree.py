"""Trees: structures of numbers as vectors and back, as views of them."""

import pickle
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

import lmma
from lmma import Tree
from lmma.space.tree import is_structure

Pair = namedtuple("Pair", "weight bias")


@dataclass(frozen=True)
class Layer:
    weight: np.ndarray
    bias: float = 0.0
    width: int = 3
    trained: bool = field(default=False, init=False)


def nested():
    rng = np.random.default_rng(0)
    return {
        "layers": [Layer(rng.standard_normal((2, 3)), 1.5), Pair(rng.standard_normal(4), 0.25)],
        "scale": 2.0,
        "name": "net",
        "seen": np.arange(3),
    }


PATHS = ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias", "scale"]


def test_every_number_has_a_place_and_comes_back():
    example = nested()
    tree = Tree(example)
    assert list(tree.slices) == PATHS
    assert tree.n == 6 + 1 + 4 + 1 + 1
    again = tree.decode(tree.encode(example))
    assert isinstance(again["layers"][0], Layer)
    assert isinstance(again["layers"][1], Pair)
    np.testing.assert_array_equal(again["layers"][0].weight, example["layers"][0].weight)
    assert (again["layers"][0].bias, again["layers"][0].width, again["scale"]) == (1.5, 3, 2.0)
    assert again["name"] == "net"
    assert again["seen"] is example["seen"]  # integers are constants


def test_arrays_are_views_of_the_vector():
    tree = Tree(nested())
    x = np.arange(float(tree.n))
    made = tree.decode(x)
    assert np.shares_memory(made["layers"][0].weight, x)
    assert np.shares_memory(made["layers"][1].weight, x)
    x[:] = -1.0
    assert np.all(made["layers"][0].weight == -1.0)


def test_stacked_arrays_are_views_of_the_rows():
    tree = Tree(nested())
    rows = np.arange(3.0 * tree.n).reshape(3, tree.n)
    made = tree.columns(rows)
    assert made["layers"][0].weight.shape == (3, 2, 3)
    assert made["scale"].shape == (3,)
    assert np.shares_memory(made["layers"][0].weight, rows)
    assert np.shares_memory(made["scale"], rows)
    for row, x in enumerate(rows):
        np.testing.assert_array_equal(made["layers"][0].weight[row], tree.decode(x)["layers"][0].weight)


def test_the_example_is_never_altered():
    example = nested()
    kept = example["layers"][0].weight.copy()
    tree = Tree(example)
    tree.encode(example)[:] = 7.0
    made = tree.decode(np.zeros(tree.n))
    made["layers"][0].weight[:] = 9.0
    np.testing.assert_array_equal(example["layers"][0].weight, kept)


@pytest.mark.parametrize(
    ("leaves", "dtype"),
    [
        ({"a": np.ones(2, np.float32), "b": 1.0}, "float32"),
        ({"a": np.ones(2, np.float32), "b": np.ones(2)}, "float64"),
        ({"a": np.ones(2, np.float16)}, "float32"),
        ({"a": 1.0}, "float64"),
    ],
    ids=["single and a float", "mixed", "half", "floats"],
)
def test_precision_is_that_of_the_arrays(leaves, dtype):
    tree = Tree(leaves)
    assert tree.dtype == dtype
    made = tree.decode(tree.encode(leaves))
    for name, leaf in leaves.items():
        assert np.asarray(made[name]).dtype == np.asarray(leaf).dtype


def test_kinds_of_dicts_are_kept():
    counted = defaultdict(list, {"a": np.ones(2)})
    assert isinstance(Tree(counted).decode(np.zeros(2)), defaultdict)
    ordered = OrderedDict(b=np.ones(1), a=np.ones(1))
    assert list(Tree(ordered).decode(np.zeros(2))) == ["b", "a"]


def test_parameters_that_are_not_trainable_are_constants():
    example = {"w": np.ones(3), "frozen": np.full(2, 5.0)}
    tree = Tree(example, trainable=lambda path, leaf: path != "frozen")
    assert tree.n == 3
    assert tree.decode(np.zeros(3))["frozen"] is example["frozen"]


def test_a_tree_travels_without_the_numbers_of_its_example():
    tree = Tree({"w": np.ones((100, 100))})
    content = pickle.dumps(tree)
    assert len(content) < 2000
    assert pickle.loads(content).described() == tree.described()
    with pytest.raises(ValueError, match="has no start values: pass x0"):
        pickle.loads(content).start()


BAD = {
    "nothing": ({}, ValueError, "nothing to search"),
    "integers": ({"a": 1, "b": [2, 3]}, ValueError, r"1\.0, not 1"),
    "texts": (["a", "b"], ValueError, "nothing to search"),
    "complex": ({"a": np.ones(2, complex)}, TypeError, "a is complex"),
    "objects": ({"a": {"b": np.array([1.0, None])}}, TypeError, "a.b is an array of objects"),
    "keys": ({(1, 2): 1.0}, TypeError, "strings or integers"),
    "paths": ({"a.b": 1.0, "a": {"b": 2.0}}, ValueError, "duplicate path 'a.b'"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_object_that_is_not_a_tree_is_rejected_with_a_message(name):
    example, error, words = BAD[name]
    with pytest.raises(error, match=words):
        Tree(example)


def test_another_form_is_rejected_with_its_path():
    tree = Tree(nested())
    changed = nested()
    changed["layers"][1] = Pair(np.ones(5), 0.0)
    with pytest.raises(ValueError, match=r"layers\.1\.weight has shape \(5,\), but \(4,\)"):
        tree.encode(changed)
    with pytest.raises(ValueError, match="missing key 'scale'"):
        tree.encode({name: part for name, part in nested().items() if name != "scale"})
    with pytest.raises(ValueError, match="unexpected key 'more'"):
        tree.encode({**nested(), "more": 1.0})
    with pytest.raises(ValueError, match="sequence of 2"):
        tree.encode({**nested(), "layers": [1.0]})
    with pytest.raises(TypeError, match=r"'weight' at 'layers\.0'"):
        tree.encode({**nested(), "layers": [SimpleNamespace(bias=1.0), Pair(np.ones(4), 0.0)]})
    with pytest.raises(TypeError, match="scale must be numeric"):
        tree.encode({**nested(), "scale": "big"})
    with pytest.raises(ValueError, match="NaN or infinity"):
        tree.start({**nested(), "scale": np.nan})
    with pytest.raises(ValueError, match=r"floats of shape \(13\)"):
        tree.decode(np.zeros(12))
    with pytest.raises(TypeError, match="trainable must be a function"):
        Tree(nested(), trainable=True)


def test_steps_by_path_mean_all_below_and_the_longest_counts():
    tree = Tree(nested())
    steps = tree.steps({"layers": 0.1, "layers.1.bias": 0.01}, usual=0.3)
    np.testing.assert_array_equal(steps, [0.1] * 11 + [0.01, 0.3])
    np.testing.assert_array_equal(tree.steps({"layers": {"0": 0.2, "1": {"weight": 0.4}}}, usual=0.3)[:12],
                                  [0.2] * 7 + [0.4] * 4 + [0.3])  # fmt: skip
    by_column = tree.steps({"layers.0.weight": np.array([1.0, 2.0, 3.0])}, usual=0.3)
    np.testing.assert_array_equal(by_column[:6], [1, 2, 3, 1, 2, 3])
    assert tree.steps(0.5) == 0.5


def test_bounds_by_path_leave_the_rest_open():
    bounds = Tree(nested()).bounds({"scale": (0, 5), "layers.0": (None, 1.0)})
    np.testing.assert_array_equal(bounds.lb, [-np.inf] * 12 + [0.0])
    np.testing.assert_array_equal(bounds.ub, [1.0] * 7 + [np.inf] * 5 + [5.0])


@pytest.mark.parametrize(
    ("sigma0", "words"),
    [
        ({"layers.0.wieght": 0.1}, "did you mean 'layers.0.weight'"),
        ({"layers.0.weight": -0.1}, "must be positive for 'layers.0.weight'"),
        ({"layers.0.weight": np.ones(5)}, r"shape \(5,\), which cannot be broadcast to \(2, 3\)"),
        ({"scale": 0.1}, "has no entry for 'layers.0.weight'"),
    ],
    ids=["misspelt", "negative", "shape", "left out"],
)
def test_steps_that_cannot_be_meant_are_rejected(sigma0, words):
    with pytest.raises(ValueError, match=words):
        Tree(nested()).steps(sigma0)
    with pytest.raises(ValueError, match="pair"):
        Tree(nested()).bounds({"scale": 3})


VECTORS = ([1.0, 2.0], (1, 2), np.ones(3), np.ones((2, 2)), [[1.0, 2.0], [3.0, 4.0]], [np.float64(1)], 3.0)
STRUCTURES = ({"a": 1.0}, [np.ones(2), np.ones(3)], (np.ones(1), 2.0), Layer(np.ones(2)), [{"a": 1.0}])


def test_plain_vectors_are_not_structures():
    assert not any(map(is_structure, VECTORS))
    assert all(map(is_structure, STRUCTURES))


def test_a_strategy_takes_a_tree():
    tree = Tree({"w": np.ones((2, 2), np.float32), "b": 0.0})
    es = lmma.strategy("lm-ma-es", tree, {"w": 0.1, "b": 0.01}, rng=1)
    assert es.dtype == np.float32
    X = es.ask()
    es.tell([float((part["w"] ** 2).sum() + part["b"] ** 2) for part in map(tree.decode, X)])
    assert es.evaluations == es.popsize
