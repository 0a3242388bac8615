import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "on_a_cluster.py"


def printed(*words, **env):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *words], capture_output=True, text=True, timeout=120,
        env={**os.environ, **env},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_the_example_prints_the_same_number_everywhere(kind, request):
    if kind == "dask":
        address = request.getfixturevalue("dask_cluster").scheduler_address
        there = printed(address.replace("tcp://", "dask://"))
    else:
        there = printed("ray://auto", RAY_ADDRESS=request.getfixturevalue("ray_cluster").address)
    assert there == printed()
