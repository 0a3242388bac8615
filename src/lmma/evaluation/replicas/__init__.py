"""Replicated strategies: cluster workers generate their candidates themselves and only exchange values.

At n = 10^6, one generation of vectors is 360 MB. A strategy is a function of its seed and of the values it
has received. With :class:`Replicated`, each worker holds a replica of it, and the size of messages does not
depend on n.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from lmma._text import one_line, shown
from lmma.evaluation.base import EvaluationOptions, Evaluator, Function, OnError
from lmma.evaluation.cluster import find_transport
from lmma.evaluation.cluster.messages import ClusterError
from lmma.evaluation.objective import WithData, dumps
from lmma.evaluation.replicas.replica_driver import ReplicatedDriver


@final
class Replicated:
    """A cluster whose workers each hold a replica of the strategy; pass it as ``workers=``.

    Parameters
    ----------
    cluster : dask.distributed.Client, ray, or an address
        As for ``workers=``. MPI is not supported: its tasks cannot be sent to a specific worker.
    initializer : callable, optional
        Called once in each evaluating process, for example to load data or to start a simulator. Its return
        value, unless None, becomes the last argument of ``fun``: ``fun(x, *args, data)``.
    check : int
        Generations between checksum comparisons; a replica that differs is sent the state again.
    slots : int
        Concurrent evaluations per replica on Ray. A Dask worker has one per thread.

    Raises
    ------
    TypeError
        If ``initializer`` is not callable or, when the run starts, ``cluster`` is not supported.
    ValueError
        If ``check`` or ``slots`` is not an integer of at least 1.

    Examples
    --------
    >>> from lmma.cluster import Replicated
    >>> lmma.minimize(fun, x0, workers=Replicated("dask://head:8786"))  # doctest: +SKIP
    """

    def __init__(
        self,
        cluster: Any,
        *,
        initializer: Callable[[], object] | None = None,
        check: int = 50,
        slots: int = 1,
    ) -> None:
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer must be callable without arguments, got {shown(initializer)}")
        for name, value in (("check", check), ("slots", slots)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, got {shown(value)}")
        self.cluster = cluster
        self.initializer = initializer
        self.check = int(check)
        self.slots = int(slots)

    def __repr__(self) -> str:
        return f"<Replicated on {one_line(shown(self.cluster), 80)}, check={self.check}, slots={self.slots}>"

    def evaluator(
        self,
        fun: Function,
        args: tuple[object, ...] = (),
        on_error: OnError = "worst",
        *,
        vectorized: bool = False,
        timeout: float | None = None,
        quorum: float = 1.0,
    ) -> Evaluator:
        """Return an evaluator of ``fun`` on this cluster."""
        transport = find_transport(self.cluster, slots=self.slots)
        if transport is None or not transport.addressed:
            raise TypeError(
                "cluster must be a Dask client, ray after ray.init(), or an address such as "
                f"dask://host:port; got {shown(self.cluster)}"
            )
        loaded = fun if self.initializer is None else WithData(fun, self.initializer)
        options = EvaluationOptions(on_error, vectorized, timeout, quorum)
        return ReplicatedDriver(dumps((loaded, args)), options, transport, check=self.check)


__all__ = ["ClusterError", "Replicated"]
