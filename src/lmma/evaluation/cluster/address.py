"""Which cluster a user's handle means; an engine is imported only for those who brought one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmma.evaluation.cluster.transport import Engine

WAYS = "dask://host:port, ray://host:port, ray://auto or mpi"


def find_engine(handle: Any, *, slots: int | None = None) -> Engine | None:
    """Return the engine for a Dask client or cluster, for Ray, for an MPI pool or an address; else None.

    ``slots`` is how many evaluations one actor of Ray makes at a time; workers of Dask know that themselves.
    """
    if isinstance(handle, str):
        return _connected(handle)
    name = handle.__name__ if type(handle).__name__ == "module" else type(handle).__module__
    package = str(name).partition(".")[0]
    if package == "distributed" or hasattr(handle, "scheduler_address"):
        from lmma.evaluation.cluster.dask import Dask

        if hasattr(handle, "scheduler_address"):  # a cluster, to which a client must connect
            from distributed import Client

            return Dask(Client(handle), own=True)
        if hasattr(handle, "nthreads"):
            return Dask(handle)
    if package == "ray":
        import ray

        from lmma.evaluation.cluster.ray import Ray

        return Ray(ray, slots=slots or 1)
    if package == "mpi4py":
        from lmma.evaluation.cluster.mpi import MPI

        return MPI(handle)
    return None


def is_address(text: str) -> bool:
    """Return whether ``text`` is a cluster's address."""
    scheme, _, rest = text.partition("://")
    return scheme in ("dask", "ray", "mpi") and (scheme == "mpi") == (not rest)


def _connected(address: str) -> Engine:
    if not is_address(address):
        raise ValueError(f"workers must be an integer or a cluster's address: {WAYS}; got {address!r}")
    scheme, _, rest = address.partition("://")
    try:
        engine: Engine = import_module(f"lmma.evaluation.{scheme}").connect(rest)
    except ModuleNotFoundError as error:
        raise ValueError(f"{address} needs {error.name}: pip install 'lmma[{scheme}]'") from None
    return engine
