"""Without PyTorch or JAX everything else works, and the message names the extra."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "jax"):
            raise ImportError(f"{name} is not installed")
sys.meta_path.insert(0, Missing())
import numpy as np, lmma
assert lmma.minimize(lambda p: float(p["w"] @ p["w"]), {"w": np.ones(3)}, 1.0, maxiter=2).nit == 2
"""


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_the_message_names_the_extra(name):
    words = f"{WITHOUT}\nimport lmma.integrations.{name}"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"lmma.integrations.{name} needs" in done.stderr
    assert f"[{name}]" in done.stderr
