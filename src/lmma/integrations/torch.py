"""Objectives from PyTorch modules or nested tensors, and an optimiser with direction vectors.

Requires PyTorch, the extra ``torch``. All candidates of a generation are evaluated by one ``vmap``, on the
device and in the precision of the module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from lmma.integrations.stacked import StackedObjective, Values

try:
    import torch
except ImportError as error:
    from lmma._text import how_to_install

    raise ImportError(f"lmma.integrations.torch needs PyTorch: {how_to_install('torch')}") from error

from lmma.integrations.torch_optimizer import LMMA

__all__ = ["LMMA", "Objective", "objective"]


def objective(
    model: Any, loss: Callable[..., Any], *, batch: Any = None, chunk: int | None = None
) -> Objective:
    """Return an objective for ``minimize(fun, model, ...)`` that evaluates a whole generation per call.

    Parameters
    ----------
    model : torch.nn.Module, or a structure of tensors
        Parameters to search: those of a module that require gradients, or the tensors.
    loss : callable
        ``loss(net, *batch)`` returns a tensor with one entry. ``net`` is called like the module and uses the
        parameters of one candidate. For a structure of tensors, ``net`` is such a structure. The loss runs
        under ``torch.func.vmap``, so ``.item()`` and branches on values are not allowed.
    batch : tuple of tensors or callable, optional
        Further arguments of ``loss``. A function ``batch(generator) -> tensors`` is called once per
        generation with a ``torch.Generator`` of the generation's seed and returns a mini-batch, the same for
        all candidates.
    chunk : int, optional
        Number of candidates evaluated together; reduce it if the activations of a generation exceed the
        memory.

    Examples
    --------
    >>> inputs, targets = torch.eye(3), torch.ones(3, 1)
    >>> net = torch.nn.Linear(3, 1)
    >>> fun = objective(net, lambda net: ((net(inputs) - targets) ** 2).mean())
    >>> result = lmma.minimize(fun, net, 0.1, rng=1, ftarget=1e-6)
    >>> result.x(inputs).shape  # a module like net, with the best weights
    torch.Size([3, 1])
    """
    return Objective(model, loss, batch, chunk)


@final
class Objective(StackedObjective):
    """The objective that :func:`objective` returns."""

    def __init__(
        self, model: Any, loss: Callable[..., Any], batch: Any = None, chunk: int | None = None
    ) -> None:
        super().__init__(model, loss, batch, chunk)
        self.module = model if isinstance(model, torch.nn.Module) else None
        found = [] if self.module is None else [*self.module.parameters(), *self.module.buffers()]
        self.device = next((leaf.device for leaf in self.tree.leaves() if leaf.kind == "torch"), None)
        if any(tensor.device != self.device for tensor in found):
            raise ValueError("all parameters of a module must be on one device; call module.to(device)")

    def _draw_batch(self, batch: Callable[..., Any], seed: int) -> Any:
        return batch(torch.Generator().manual_seed(seed))

    def _values(self, candidates: Any, batch: tuple[Any, ...]) -> Values:
        fixed = [None] * len(batch)
        # randomness="same": dropout and the like are equal for all candidates
        every = torch.func.vmap(self._value, in_dims=(0, *fixed), chunk_size=self.chunk, randomness="same")
        with torch.no_grad():
            values = every(candidates, *batch)
        return np.asarray(values.reshape(len(values)).cpu().numpy(), dtype=np.float64)

    def _value(self, candidate: Any, *batch: Any) -> Any:
        net = candidate if self.module is None else _Bound(self.module, candidate)
        value = self.loss(net, *batch)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise TypeError(f"loss must return a tensor with one entry, got {_form(value)}")
        return value.reshape(())


class _Bound:
    """A module called with the parameters of a candidate instead of its own."""

    def __init__(self, module: Any, parameters: dict[str, Any]) -> None:
        self.module = module
        self.parameters = parameters

    def __call__(self, *args: Any, **more: Any) -> Any:
        return torch.func.functional_call(self.module, self.parameters, args, more)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"net has no attribute {name!r}; call it like the module, net(inputs), because attributes would "
            "belong to the module with its original weights"
        )


def _form(value: Any) -> str:
    return f"shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"{value!r:.60}"
