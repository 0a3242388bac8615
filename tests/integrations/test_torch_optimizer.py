"""LMMA, the optimiser: PyTorch's conventions, and the listing; skipped if PyTorch is not installed."""

import copy
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'lmma[torch]'")

from lmma.integrations.torch import LMMA  # noqa: E402


def quadratic(x):
    return 0.5 * (torch.logspace(0, 2, x.numel()).reshape(x.shape) * x * x).sum()


def advance(optimizer, params, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        sum(quadratic(p) for p in params).backward()
        optimizer.step()


def test_it_follows_its_listing_number_by_number():
    n, m, lr, momentum, strength = 6, 3, 1e-3, 0.8, 0.5
    x = torch.nn.Parameter(torch.ones(n, dtype=torch.float64))
    optimizer = LMMA([x], lr=lr, momentum=momentum, vectors=m, strength=strength, csa=0.1)
    y, v, path = np.ones(n), np.zeros(n), np.zeros(n)
    vectors = [np.zeros(n) for _ in range(m)]
    h = np.logspace(0, 2, n)
    for _ in range(40):
        g = h * y
        M = np.eye(n)
        for j in range(m):
            c = strength / 1.5**j / n
            M = ((1 - c) * np.eye(n) + c * np.outer(vectors[j], vectors[j])) @ M
        u = M.T @ g
        v = momentum * v + u
        z = -math.sqrt(n) * u / np.linalg.norm(u)
        for j in range(m):
            rate = 0.3 / 4**j
            vectors[j] = (1 - rate) * vectors[j] + math.sqrt(rate * (2 - rate)) * z
        path = 0.9 * path + math.sqrt(0.1 * 1.9) * z
        lr *= math.exp(0.05 * (path @ path / n - 1))
        y = y - lr * M @ v
        advance(optimizer, [x], 1)
        np.testing.assert_allclose(x.detach().numpy(), y, rtol=1e-5)  # torch.logspace is of single precision
    assert optimizer.param_groups[0]["lr"] == pytest.approx(lr, rel=1e-5)


def test_without_vectors_it_is_sgd_with_momentum():
    ours, theirs = (torch.nn.Parameter(torch.ones(2, 3)) for _ in range(2))
    advance(LMMA([ours], lr=1e-3, vectors=0), [ours], 30)
    advance(torch.optim.SGD([theirs], lr=1e-3, momentum=0.9), [theirs], 30)
    torch.testing.assert_close(ours, theirs)


def test_a_state_dict_takes_a_run_on_as_if_it_had_not_ended():
    def start():
        return [torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(4))]

    unbroken = start()
    advance(LMMA(unbroken, lr=1e-4, csa=0.02), unbroken, 40)
    broken = start()
    first = LMMA(broken, lr=1e-4, csa=0.02)
    advance(first, broken, 20)
    second = LMMA(broken, lr=0.5)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    advance(second, broken, 20)
    for a, b in zip(unbroken, broken, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_groups_have_their_own_rates_and_directions():
    a, b = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(4))
    optimizer = LMMA([{"params": [a], "lr": 1e-3}, {"params": [b], "vectors": 2}], lr=1e-4)
    advance(optimizer, [a, b], 5)
    assert optimizer.state[a]["vectors"].shape == (5, 3)
    assert optimizer.state[b]["vectors"].shape == (2, 4)
    alone = torch.nn.Parameter(torch.ones(3))
    advance(LMMA([alone], lr=1e-3), [alone], 5)
    torch.testing.assert_close(a, alone)
    late = torch.nn.Parameter(torch.ones(2))
    optimizer.add_param_group({"params": [late]})
    advance(optimizer, [a, b, late], 2)
    assert not torch.equal(late, torch.ones(2))


def test_a_closure_is_called_once_with_gradients_and_its_loss_returned():
    x = torch.nn.Parameter(torch.ones(3))
    optimizer = LMMA([x], lr=1e-3)
    calls = []

    def closure():
        optimizer.zero_grad()
        loss = quadratic(x)
        loss.backward()
        calls.append(torch.is_grad_enabled())
        return loss

    assert float(optimizer.step(closure).detach()) == pytest.approx(0.5 * 111)
    assert calls == [True]


def test_parameters_without_a_gradient_stay_and_a_scheduler_works():
    x, idle = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2))
    optimizer = LMMA([{"params": [x]}, {"params": [idle]}], lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    advance(optimizer, [x], 1)
    scheduler.step()
    assert torch.equal(idle, torch.ones(2))
    assert optimizer.param_groups[0]["lr"] == 5e-4


def test_weight_decay_is_decoupled():
    x = torch.nn.Parameter(torch.ones(3))
    optimizer = LMMA([x], lr=0.1, weight_decay=0.5)
    x.grad = torch.zeros(3)
    optimizer.step()
    torch.testing.assert_close(x.detach(), torch.full((3,), 0.95))


@pytest.mark.parametrize("options", [{"weight_decay": 0.5}, {"weight_decay": 0.5, "csa": 0.05}, {}])
def test_frozen_parameters_of_a_group_stay_as_they_are(options):
    free, frozen = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2), requires_grad=False)
    optimizer = LMMA([free, frozen], lr=0.1, **options)
    later = torch.nn.Parameter(torch.ones(2))  # frozen after it has momentum
    another = LMMA([free, later], lr=0.1, **options)
    for step in range(6):
        free.grad = torch.ones(3)
        optimizer.step()
        later.grad = torch.ones(2) if step < 3 else None
        before = later.detach().clone()
        another.step()
        assert torch.equal(later, before) == (step >= 3)
    assert torch.equal(frozen, torch.ones(2))
    assert not torch.equal(free, torch.ones(3))


def test_the_learning_rate_grows_while_gradients_agree():
    x = torch.nn.Parameter(torch.ones(10))
    optimizer = LMMA([x], lr=1e-6, csa=0.05)
    advance(optimizer, [x], 50)
    assert optimizer.param_groups[0]["lr"] > 1e-5


OUT_OF_RANGE = [{"lr": 0.0}, {"lr": math.nan}, {"momentum": 1.0}, {"vectors": -1}, {"strength": -1.0},
                {"csa": 1.0}, {"weight_decay": -0.1}]  # fmt: skip


@pytest.mark.parametrize("option", OUT_OF_RANGE, ids=str)
def test_options_out_of_range_are_rejected(option):
    with pytest.raises(ValueError, match=f"{next(iter(option))} must be "):
        LMMA([torch.nn.Parameter(torch.ones(2))], **option)


def test_sparse_gradients_are_rejected():
    x = torch.nn.Parameter(torch.ones(3))
    x.grad = torch.eye(3)[0].to_sparse()
    with pytest.raises(ValueError, match="dense"):
        LMMA([x]).step()
