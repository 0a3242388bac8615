"""Contents of lmma.plotting, which imports matplotlib only to draw."""

import subprocess
import sys

import lmma.output.plotting
import lmma.plotting


def test_the_plotting_module_has_every_documented_figure():
    documented = {word for word in lmma.output.plotting.__doc__.split("``")[1::2] if word.isidentifier()}
    functions = {name for name in lmma.plotting.__all__ if name.islower()}
    assert documented == functions
    assert all(getattr(lmma.plotting, name) for name in lmma.plotting.__all__)
    assert lmma.plotting.__all__ == lmma.output.plotting.__all__


def test_the_plotting_module_imports_without_matplotlib():
    code = "import sys, lmma.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
