"""A strategy of another package as one of ours, to be run beside them."""

from __future__ import annotations

import math
from importlib import util
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from lmma.experiments.peers.adaptors import ADAPTORS, Adaptor
from lmma.kernels.install import how_to_install
from lmma.strategies import Strategy
from lmma.strategies.parts.recombination import Array, Indices, default_popsize


class Peer(Strategy):
    """A strategy of another package behind the interface of ours.

    The package's strategy starts with the first generation, from the mean, step size and key of that moment.
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
            seed = int(self.key[0] % (2**31 - 1)) + 1  # pycma takes 0 for the time
            self._peer = self.adaptor(self.mean, self.sigma, self.popsize, seed)
        out[...] = self._peer.propose()

    def _update(self, order: Indices, values: Array) -> None:
        assert self._peer is not None
        assert self.candidates is not None
        told = np.full(self.popsize, math.inf)
        told[order] = values
        try:
            self._peer.learn(self.candidates, told)
            sigma = self._peer.sigma()
        except Exception:  # whatever a package raises when its numbers break down
            sigma = math.nan
        self.sigma = self.sigma if sigma is None else sigma

    def _measure_spread(self) -> float:
        assert self.candidates is not None
        return float(self.candidates.std(axis=0).max())

    def stop(self) -> dict[str, float]:
        """Return why to stop: the rules of all strategies, and the package's own unless told to go on."""
        reasons = super().stop()
        if not reasons and self.tolx > 0 and self._peer is not None and self._peer.has_enough():
            reasons["stagnation"] = float(self.generation)
        return reasons

    def get_state(self) -> dict[str, Any]:
        """Refuse: the state is inside another package."""
        raise TypeError(f"{self.name} keeps its state inside {self.adaptor.package}: it cannot be saved")

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return about how many bytes the candidates need; what the package needs is not known."""
        return 4 * popsize * n * itemsize


def _peer_of(name: str, adaptor: type[Adaptor]) -> type[Peer]:
    return type(adaptor.__name__, (Peer,), {"name": name, "adaptor": adaptor, "__doc__": adaptor.__doc__})


PEERS = {name: _peer_of(name, adaptor) for name, adaptor in ADAPTORS.items()}


def peer_class(name: str) -> type[Peer]:
    """Return the peer called ``name``, or raise ValueError that says what to install."""
    package = ADAPTORS[name].package
    if util.find_spec(package) is None:
        raise ValueError(f"method {name!r} needs the package {package}: {how_to_install(package)}")
    return PEERS[name]
