"""Replicas instead of vectors: workers of a cluster make their candidates themselves, and only values travel.

At n = 10^6 one generation of vectors is 360 MB. A strategy, however, is a function of its seed and of the
values it is told; with :class:`Replicated` each worker holds a replica of it, and what travels does not
depend on n.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from lmma.evaluation import pickling
from lmma.evaluation.base import EvaluationOptions, Evaluator, Function, OnError
from lmma.evaluation.cluster.address import find_transport
from lmma.evaluation.cluster.transport import ClusterError
from lmma.kernels.words import one_line, shown
from lmma.run.replicas.replica_driver import ReplicatedDriver


@final
class Replicated:
    """A cluster each of whose workers holds a replica of the strategy; pass it as ``workers=``.

    Parameters
    ----------
    cluster : dask.distributed.Client, ray, or an address
        As ``workers=`` takes it. MPI pools cannot be used: there a task cannot be sent to one worker.
    initializer : callable, optional
        Called once in each process that evaluates. What it returns, unless that is None, becomes the last
        argument of ``fun``: ``fun(x, *args, data)``. Load data sets and start simulators here.
    check : int
        Generations between two comparisons of checksums; a replica that differs gets the state again.
    slots : int
        Evaluations at a time of one replica, for Ray; a worker of Dask has one for each of its threads.

    Raises
    ------
    TypeError
        If ``initializer`` cannot be called or, when a run begins, ``cluster`` is none that can be used.
    ValueError
        If ``check`` or ``slots`` is not a whole number of at least 1.

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
                raise ValueError(f"{name} must be a whole number of at least 1, got {shown(value)}")
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
        """Return what evaluates ``fun`` on this cluster."""
        transport = find_transport(self.cluster, slots=self.slots)
        if transport is None or not transport.addressed:
            raise TypeError(
                "Replicated takes a Dask client, ray after ray.init(), or an address such as "
                f"dask://host:port; got {shown(self.cluster)}"
            )
        loaded = fun if self.initializer is None else pickling.WithData(fun, self.initializer)
        options = EvaluationOptions(on_error, vectorized, timeout, quorum)
        return ReplicatedDriver(pickling.dumps((loaded, args)), options, transport, check=self.check)


__all__ = ["ClusterError", "Replicated"]
