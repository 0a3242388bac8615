"""Evaluation on a Dask, Ray or MPI cluster; the transport is chosen from ``workers=``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lmma._text import how_to_install

if TYPE_CHECKING:
    from lmma.evaluation.cluster.messages import Transport

ADDRESSES = "dask://host:port, ray://host:port, ray://auto, or mpi under mpiexec"


def find_transport(workers: Any, *, slots: int | None = None) -> Transport | None:
    """Return the transport for a Dask client or cluster, Ray, an MPI pool or an address; otherwise None.

    ``slots`` is the number of concurrent evaluations per Ray actor. Dask workers have one per thread.
    """
    if isinstance(workers, str):
        return _connect(workers)
    name = workers.__name__ if type(workers).__name__ == "module" else type(workers).__module__
    package = str(name).partition(".")[0]
    if package == "distributed" or hasattr(workers, "scheduler_address"):
        from lmma.evaluation.cluster.dask import DaskTransport

        if hasattr(workers, "scheduler_address"):  # a cluster, to which a client must connect
            from distributed import Client

            return DaskTransport(Client(workers), owned=True)
        if hasattr(workers, "nthreads"):
            return DaskTransport(workers)
    if package == "ray":
        import ray

        from lmma.evaluation.cluster.ray import RayTransport

        return RayTransport(ray, slots=slots or 1)
    if package == "mpi4py":
        from lmma.evaluation.cluster.mpi import MPITransport

        return MPITransport(workers)
    return None


def is_address(text: str) -> bool:
    """Return whether ``text`` is a cluster address."""
    scheme, _, rest = text.partition("://")
    return scheme in ("dask", "ray", "mpi") and (scheme == "mpi") == (not rest)


def _connect(address: str) -> Transport:
    if not is_address(address):
        raise ValueError(f"workers must be an integer or a cluster address ({ADDRESSES}), got {address!r}")
    scheme, _, rest = address.partition("://")
    if scheme == "dask" and not rest.rpartition(":")[2].isdigit():
        raise ValueError(f"workers={address!r} has no port: use dask://host:port")
    try:
        transport: Transport = import_module(f"lmma.evaluation.cluster.{scheme}").connect(rest)
    except ModuleNotFoundError as error:
        raise ValueError(f"{address} needs {error.name}: {how_to_install(scheme)}") from None
    except ValueError as error:
        if "workers" in str(error):
            raise
        raise ValueError(f"workers={address!r}: {error}") from None
    return transport
