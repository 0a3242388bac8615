"""PyTorch modules as objectives, one vmap per generation; skipped if PyTorch is not installed."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import lmma

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'lmma[torch]'")

from lmma.integrations.torch import objective  # noqa: E402

INPUTS = torch.rand((20, 3), generator=torch.Generator().manual_seed(0)) * 2 - 1
TARGETS = INPUTS.prod(1, keepdim=True) + 0.5


def network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def loss(net, inputs=INPUTS, targets=TARGETS):
    return ((net(inputs) - targets) ** 2).mean()


def one_by_one(net, rows):
    tree = lmma.Tree(net)
    with torch.no_grad():
        return [float(loss(tree.decode(row))) for row in rows]


def rows_of(net, count=7):
    start = lmma.Tree(net).start()
    return start + np.random.default_rng(0).standard_normal((count, len(start))).astype(np.float32)


@pytest.mark.parametrize("chunk", [None, 1, 3, 100])
def test_values_are_those_of_one_module_after_the_other(chunk):
    net = network()
    rows = rows_of(net)
    values = objective(net, loss, chunk=chunk)(rows)
    np.testing.assert_allclose(values, one_by_one(net, rows), rtol=1e-5)
    assert values.dtype == np.float64


def test_a_run_knows_that_the_objective_is_vectorised():
    net = network()
    runs = [
        lmma.minimize(objective(net, loss), net, 0.1, rng=1, maxiter=5, **options)
        for options in ({}, {"vectorized": True})
    ]
    assert runs[0].failures == 0
    np.testing.assert_array_equal(runs[0].vector, runs[1].vector)


def test_a_parameter_as_x0_is_rejected_with_a_message():
    with pytest.raises(TypeError, match=r"x0 must be a vector of numbers, got a Parameter.*detach"):
        lmma.minimize(lambda x: 0.0, torch.nn.Parameter(torch.zeros(3)))


def test_a_module_is_searched_in_its_precision_and_comes_back_trained():
    net = network()
    before = [parameter.detach().clone() for parameter in net.parameters()]
    result = lmma.minimize(objective(net, loss), net, 0.3, vectorized=True, rng=1, maxfevals=4000)
    assert result.vector.dtype == np.float32
    assert isinstance(result.x, torch.nn.Sequential)
    assert float(loss(result.x).detach()) == pytest.approx(result.fun, rel=1e-4)
    assert result.fun < 0.5 * float(loss(net).detach())
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))  # the example's own


def test_parameters_are_views_of_the_vector():
    tree = lmma.Tree(network())
    x = np.zeros(tree.n, np.float32)
    made = tree.decode(x)
    assert np.shares_memory(made[0].weight.detach().numpy(), x)
    rows = np.zeros((5, tree.n), np.float32)
    shown = rows.view()
    shown.flags.writeable = False  # as a run shows its candidates
    stacked = tree.columns(shown)
    assert stacked["0.weight"].shape == (5, 4, 3)
    assert np.shares_memory(stacked["0.weight"].numpy(), rows)
    assert list(stacked) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_rows_of_a_run_reach_the_loss_without_a_copy():
    seen = []

    def f(parameters):
        seen.append(parameters["0.weight"].data_ptr() == parameters["0.bias"].data_ptr() - 12 * 4)
        return torch.zeros(len(parameters["0.weight"]))

    lmma.minimize(f, network(), 0.1, vectorized=True, maxiter=2, rng=1)
    assert seen == [True, True]


def test_a_mini_batch_is_the_same_for_all_candidates_and_another_in_the_next_generation():
    drawn = []

    def batch(generator):
        rows = torch.randint(20, (5,), generator=generator)
        drawn.append(tuple(rows.tolist()))
        return INPUTS[rows], TARGETS[rows]

    net = network()
    fun = objective(net, loss, batch=batch)
    result = lmma.minimize(fun, net, 0.1, vectorized=True, maxiter=5, rng=1)
    assert len(drawn) == result.nit == 5
    assert len(set(drawn)) == 5
    rows = rows_of(net)
    np.testing.assert_array_equal(fun(rows, 7), fun(rows, seed=7))
    with pytest.raises(TypeError, match="needs seed="):
        fun(rows)


def test_frozen_parameters_and_buffers_stay():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)).eval()
    net[0].requires_grad_(False)
    tree = lmma.Tree(net)
    assert list(tree.slices) == ["1.weight", "1.bias", "2.weight", "2.bias"]
    result = lmma.minimize(objective(net, loss), net, 0.1, vectorized=True, maxiter=3, rng=1)
    assert torch.equal(result.x[0].weight, net[0].weight)
    assert torch.equal(result.x[1].running_mean, net[1].running_mean)
    with pytest.raises(ValueError, match="require gradients"):
        lmma.Tree(net.requires_grad_(False))


def test_tied_weights_are_one_and_stay_tied():
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    net[1].weight = net[0].weight
    tree = lmma.Tree(net)
    assert tree.n == 9 + 3 + 3
    made = tree.decode(np.zeros(tree.n, np.float32))
    assert made[1].weight is made[0].weight


def test_a_state_dict_and_a_tree_of_tensors_are_structures():
    net = network()
    state = net.state_dict()
    tree = lmma.Tree(state)
    net.load_state_dict(tree.decode(tree.encode(state)))
    parameters = {"w": torch.zeros(3, 1), "b": torch.zeros(1)}

    def linear(p):
        return ((INPUTS @ p["w"] + p["b"] - TARGETS) ** 2).mean()

    result = lmma.minimize(objective(parameters, linear), parameters, 0.3, vectorized=True, rng=1)
    assert isinstance(result.x["w"], torch.Tensor)
    wanted = np.linalg.lstsq(np.c_[INPUTS.numpy(), np.ones(20)], TARGETS.numpy(), rcond=None)[0]
    residual = float(np.mean((np.c_[INPUTS.numpy(), np.ones(20)] @ wanted - TARGETS.numpy()) ** 2))
    assert result.fun == pytest.approx(residual, rel=1e-3)


@pytest.mark.parametrize("value", [torch.tensor(1.5), torch.tensor([1.5]), np.array([1.5]), np.float32(1.5)],
                         ids=["0-d tensor", "one entry", "array", "number"])  # fmt: skip
def test_tensors_and_arrays_with_one_entry_are_values(value):
    result = lmma.minimize(lambda x: value + float(x @ x) * 0, np.ones(3), 0.5, maxiter=2, rng=1)
    assert result.fun == 1.5
    assert result.failures == 0


def test_half_precision_is_searched_in_single():
    net = network().to(torch.bfloat16)
    tree = lmma.Tree(net)
    assert tree.dtype == np.float32
    assert tree.decode(tree.start())[0].weight.dtype == torch.bfloat16


def test_an_objective_travels_to_other_processes():
    fun = pickle.loads(pickle.dumps(objective(network(), loss)))
    rows = rows_of(network())
    np.testing.assert_allclose(fun(rows), objective(network(), loss)(rows))


def test_an_invalid_argument_is_rejected_with_a_message():
    net = network()
    with pytest.raises(TypeError, match="one entry"):
        objective(net, lambda net: net(INPUTS))(rows_of(net))
    with pytest.raises(TypeError, match="loss must be a function"):
        objective(net, 3)
    with pytest.raises(ValueError, match="chunk must be"):
        objective(net, loss, chunk=0)
    with pytest.raises(AttributeError, match="call it like the module"):
        objective(net, lambda net: net.weight.sum())(rows_of(net))
    with pytest.raises(ValueError, match=r"floats of shape .*21\)"):
        objective(net, loss)(np.zeros((2, 5), np.float32))


def test_importing_lmma_imports_neither_torch_nor_jax():
    words = (
        "import sys, numpy, lmma; lmma.minimize(lambda p: float(p['a'] @ p['a']), {'a': numpy.ones(3)}, 1.0,"
        " maxiter=2); print('torch' in sys.modules, 'jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
