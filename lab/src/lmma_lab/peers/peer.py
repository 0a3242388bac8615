"""Strategies of other packages behind lmma's interface."""

from __future__ import annotations

import math
from importlib import util
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from lmma.methods import Strategy
from lmma.numerics.recombination import Array, Indices, default_popsize
from lmma_lab.install import how_to_install
from lmma_lab.peers.adaptors import ADAPTORS, Adaptor


class Peer(Strategy):
    """A strategy of another package behind lmma's interface.

    The package's strategy is created in the first generation, from the current mean, step size and key.
    """

    adaptor: ClassVar[type[Adaptor]]

    def __init__(
        self, x0: npt.ArrayLike, sigma0: float | npt.ArrayLike, *, popsize: int | None = None, **options: Any
    ) -> None:
        popsize = self.adaptor.admissible(popsize or default_popsize(np.size(x0)))
        super().__init__(x0, sigma0, popsize=popsize, **options)
        self._peer: Adaptor | None = None

    def _sample(self, out: Array) -> None:
        if self._peer is None:
            seed = int(self.key[0] % (2**31 - 1)) + 1  # pycma replaces a seed of 0 by the time
            self._peer = self.adaptor(self.mean, self.sigma, self.popsize, seed)
        out[...] = self._peer.propose()

    def _update(self, order: Indices, values: Array) -> None:
        assert self._peer is not None
        assert self.candidates is not None
        all_values = np.full(self.popsize, math.inf)
        all_values[order] = values
        try:
            self._peer.learn(self.candidates, all_values)
            sigma = self._peer.sigma()
        except Exception:  # packages raise various exceptions on numerical breakdown
            sigma = math.nan
        self.sigma = self.sigma if sigma is None else sigma

    def _measure_spread(self) -> float:
        assert self.candidates is not None
        return float(self.candidates.std(axis=0).max())

    def stop(self) -> dict[str, float]:
        """Return the reasons to stop: lmma's common rules and, unless tolx = 0, the package's own rules."""
        reasons = super().stop()
        if not reasons and self.tolx > 0 and self._peer is not None and self._peer.should_stop():
            reasons["stagnation"] = float(self.generation)
        return reasons

    def get_state(self) -> dict[str, Any]:
        """Raise TypeError, because the state is inside another package."""
        raise TypeError(f"{self.name} cannot be saved: its state is inside {self.adaptor.package}")

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Estimate the bytes that the candidates need; the memory of the package is unknown."""
        return 4 * popsize * n * itemsize


def _peer_of(name: str, adaptor: type[Adaptor]) -> type[Peer]:
    return type(adaptor.__name__, (Peer,), {"name": name, "adaptor": adaptor, "__doc__": adaptor.__doc__})


PEERS = {name: _peer_of(name, adaptor) for name, adaptor in ADAPTORS.items()}


def peer_class(name: str) -> type[Peer]:
    """Return the peer called ``name``; raise ValueError if its package is not installed."""
    package = ADAPTORS[name].package
    if util.find_spec(package) is None:
        raise ValueError(f"method {name!r} needs the package {package}: {how_to_install(package)}")
    return PEERS[name]
