"""Real clusters on this machine, started once for all tests; missing ones are skipped with a reason."""

import os
import sys

import pytest

WORKERS = 2
MISSING = "not installed: pip install 'lmma[{}]'"


@pytest.fixture(scope="session")
def importable():
    """Have the processes of clusters find lmma where this one found it."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    yield
    os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


@pytest.fixture(scope="session")
def dask_cluster(importable):
    distributed = pytest.importorskip("distributed", reason="Dask is " + MISSING.format("dask"))
    import dask

    # A local cluster gives a worker up for ever that is away so many seconds after it was lost, and a test
    # that kills workers soon has none left.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="session")
def dask_client(dask_cluster):
    with dask_cluster.get_client() as client:
        yield client


@pytest.fixture(scope="session")
def ray_cluster(importable):
    pytest.importorskip("ray", reason="Ray is " + MISSING.format("ray"))
    from ray.cluster_utils import Cluster

    # Ray's workers are nice to others by 15: on a busy machine they would hardly start
    os.environ.setdefault("RAY_worker_niceness", "0")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": WORKERS, "include_dashboard": False})
    yield cluster
    cluster.shutdown()


@pytest.fixture(scope="session")
def ray_session(ray_cluster):
    import ray

    ray.init(address=ray_cluster.address, log_to_driver=False, configure_logging=False)
    yield ray
    ray.shutdown()


@pytest.fixture(params=["dask", "ray"])
def cluster(request):
    """A cluster as ``workers=`` takes it."""
    return request.getfixturevalue({"dask": "dask_client", "ray": "ray_session"}[request.param])
