"""SGD preconditioned by direction vectors of LM-MA-ES that are updated with gradients.

The paper ends with the question whether one can "... accelerate SGD by replacing the evolution path vectors
by momentum vectors based on noisy batch gradients". Here each direction vector m_j is a momentum with its own
time horizon, and their product is a preconditioner.

=========  =====================  ======  ==================================================================
paper      code                   shape   meaning
=========  =====================  ======  ==================================================================
m_j        ``vectors``            (m, n)  fading means of normalised gradients, memory 4^j/0.3 steps
c_c,j      ``0.3/4^(j-1)``        (m,)    learning rates; independent of n, because one gradient has the
                                          information of n samples of an ES
c_d,j      ``strength/1.5^(j-1)`` (m,)    divided by n: strength of the stretching, as in LM-MA-ES
p_sigma    ``path``               (n,)    evolution path of the learning rate, with ``csa``
=========  =====================  ======  ==================================================================

    g = gradient;  u = M^T g;  z = -sqrt(n) u/|u|;  M = prod_j ((1 - c_d,j) I + c_d,j m_j m_j^T)
    v <- momentum v + u;  x <- x - lr M v;  m_j <- (1 - c_c,j) m_j + sqrt(c_c,j (2 - c_c,j)) z
    with csa: p <- (1 - c) p + sqrt(c (2 - c)) z;  lr <- lr exp(c/2 (|p|^2/n - 1))

docs/networks_research.md reports the results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, final

import torch

LONGEST = 1.0  # largest change of the logarithm of the learning rate by CSA per step


@final
class LMMA(torch.optim.Optimizer):  # type: ignore[misc]  # PyTorch may be absent
    """SGD with momentum, preconditioned by direction vectors of LM-MA-ES.

    All parameters of a group form one vector; each group has its own direction vectors.

    Parameters
    ----------
    params : iterable of tensors or of dicts
        As in every ``torch.optim.Optimizer``.
    lr : float
        Learning rate; with ``csa`` the initial one.
    momentum : float
        Momentum of the preconditioned gradient.
    vectors : int
        Number of direction vectors, m; 0 gives SGD with momentum.
    strength : float
        Strength of the stretching, c_d,1 times n.
    csa : float
        Rate of cumulative step-size adaptation of the learning rate, such as 0.01; 0 disables it.
    weight_decay : float
        Decoupled weight decay as in AdamW: each step shrinks parameters by ``lr * weight_decay``. Parameters
        without a gradient stay as they are.

    Examples
    --------
    >>> net, inputs = torch.nn.Linear(3, 1), torch.eye(3)
    >>> optimizer = LMMA(net.parameters(), lr=0.01)
    >>> net(inputs).square().mean().backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        *,
        momentum: float = 0.9,
        vectors: int = 5,
        strength: float = 0.3,
        csa: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        for name, value, fits, wanted in (
            ("lr", lr, lr > 0, "positive"),
            ("momentum", momentum, 0 <= momentum < 1, "in [0, 1)"),
            ("vectors", vectors, isinstance(vectors, int) and vectors >= 0, "an integer of at least 0"),
            ("strength", strength, strength >= 0, "at least 0"),
            ("csa", csa, 0 <= csa < 1, "in [0, 1)"),
            ("weight_decay", weight_decay, weight_decay >= 0, "at least 0"),
        ):
            if not fits or not math.isfinite(value):
                raise ValueError(f"{name} must be {wanted} and finite, got {value!r}")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "vectors": vectors, "strength": strength, "csa": csa,
            "weight_decay": weight_decay,
        })  # fmt: skip

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; return the result of ``closure``, which computes the loss and its gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            if any(parameter.grad is not None for parameter in group["params"]):
                self._step(group)
        return loss

    def _step(self, group: dict[str, Any]) -> None:
        gradient = torch.cat([_gradient(parameter) for parameter in group["params"]])
        state = self._state(group, gradient)
        c_c = [0.3 / 4**j for j in range(group["vectors"])]
        c_d = [group["strength"] / 1.5**j / len(gradient) for j in range(group["vectors"])]
        vectors, n = state["vectors"], len(gradient)
        u = _stretched(gradient, reversed(list(zip(c_d, vectors, strict=True))))  # M^T g
        velocity = state["velocity"].mul_(group["momentum"]).add_(u)
        step = _stretched(velocity, zip(c_d, vectors, strict=True))
        length = float(torch.linalg.vector_norm(u))
        if length > 0 and math.isfinite(length):
            z = u * (-math.sqrt(n) / length)
            for rate, vector in zip(c_c, vectors, strict=True):
                vector.mul_(1 - rate).add_(z, alpha=math.sqrt(rate * (2 - rate)))
            if group["csa"]:
                group["lr"] *= _agreement(state["path"], z, group["csa"])
        first = 0
        for parameter in group["params"]:
            part = step[first : first + parameter.numel()].view_as(parameter)
            first += parameter.numel()
            if parameter.grad is None:  # frozen, or not part of this loss: neither decay nor momentum
                continue
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
            parameter.sub_(part.to(parameter.dtype), alpha=group["lr"])
        state["step"] += 1

    def _state(self, group: dict[str, Any], gradient: Any) -> dict[str, Any]:
        """Return the state of a group, stored under its first parameter."""
        state: dict[str, Any] = self.state[group["params"][0]]
        if not state:
            state["step"] = 0
            state["velocity"] = torch.zeros_like(gradient)
            state["vectors"] = gradient.new_zeros((group["vectors"], len(gradient)))
            state["path"] = torch.zeros_like(gradient) if group["csa"] else gradient.new_zeros(0)
        return state


def _gradient(parameter: Any) -> Any:
    gradient = parameter.grad
    if gradient is None:
        return torch.zeros_like(parameter).reshape(-1)
    if gradient.is_sparse or gradient.is_complex():
        raise ValueError(
            "LMMA needs dense, real gradients; use torch.optim.SparseAdam, or torch.view_as_real"
        )
    return gradient.reshape(-1)


def _stretched(x: Any, factors: Iterable[tuple[float, Any]]) -> Any:
    """Apply x <- (1 - c) x + c m (m . x) for each factor in turn."""
    x = x.clone()
    for rate, vector in factors:
        along = torch.dot(vector, x)
        x.mul_(1 - rate).add_(vector * along, alpha=rate)
    return x


def _agreement(path: Any, z: Any, rate: float) -> float:
    """Return the factor of the learning rate: above 1 if gradients agree, below 1 if they oppose."""
    path.mul_(1 - rate).add_(z, alpha=math.sqrt(rate * (2 - rate)))
    excess = float(torch.dot(path, path)) / len(path) - 1.0
    return math.exp(max(-LONGEST, min(LONGEST, rate / 2 * excess)))
