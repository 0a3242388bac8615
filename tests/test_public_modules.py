"""Public names: each is available under its name, and no other is shown."""

import ast
from importlib import import_module
from itertools import permutations
from pathlib import Path

import pytest

import lmma

SOURCE = Path(__file__).resolve().parents[1] / "src"

FUNCTIONS = {"check", "load", "methods", "minimize", "register", "scipy_method", "strategy"}
STRATEGIES = {
    "ACMAES", "CMAES", "CSAES", "PulseFull", "DLMMAES", "Pulse", "ES", "LMCMAES", "LMMAES", "LMMAESArchive",
    "Coordinates", "Interpolation", "MAES", "OpenES", "Portfolio", "QuasiNewton", "SepCMAES", "Strategy",
    "VDCMAES",
}  # fmt: skip
OTHERS = {
    "Archive", "ArchiveError", "BIPOP", "CheckResult", "Checkpoint", "CheckpointError", "Choice",
    "ClusterError", "EvaluationError", "Fixed", "IPOP", "Integer", "Real", "Replicated", "RunResult",
    "Space", "Tree", "__version__",
}  # fmt: skip
MODULES = {
    "archive",
    "bounds",
    "checkpoint",
    "cluster",
    "constraints",
    "integrations",
    "plotting",
    "problems",
    "restarts",
    "space",
    "testing",
}
PUBLIC = FUNCTIONS | STRATEGIES | OTHERS | MODULES

# Where users have found things since the first release, and will
PATHS = {
    "lmma.archive": ["Archive", "ArchiveError"],
    "lmma.bounds": ["Box", "Project", "Reflect", "Smooth", "Wrap", "box"],
    "lmma.checkpoint": ["Checkpoint", "CheckpointError"],
    "lmma.cluster": ["ClusterError", "Replicated"],
    "lmma.constraints": ["Returned"],
    "lmma.minimize": ["choose_method", "default_sigma0", "minimize"],
    "lmma.plotting": ["convergence", "panels", "save"],
    "lmma.problems": ["Problem", "get", "names", "rotated", "shifted"],
    "lmma.restarts": ["BIPOP", "IPOP", "Plan", "Schedule"],
    "lmma.scipy_method": ["scipy_method"],
    "lmma.space": ["Choice", "Fixed", "Integer", "Real", "Space", "Tree", "Variable"],
    "lmma.testing": ["check_strategy"],
}

WITHOUT_EXTRAS = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("matplotlib", "plotly", "sklearn", "distributed", "ray", "mpi4py"):
            raise ImportError(f"{name} is not installed")
sys.meta_path.insert(0, Missing())
"""


def test_dir_shows_what_is_public_and_nothing_else(python):
    loaded = "import lmma, lmma.cli, lmma.kernels, lmma.run, lmma.methods, lmma.evaluation\n"
    assert python("-c", loaded + "print(*dir(lmma))").split() == sorted(PUBLIC)


def test_everything_public_is_there_without_any_extra(python):
    code = WITHOUT_EXTRAS + "import lmma\nprint(*(name for name in dir(lmma) if hasattr(lmma, name)))"
    assert set(python("-c", code).split()) == PUBLIC
    for name in FUNCTIONS:
        assert callable(getattr(lmma, name))
    for name in STRATEGIES - {"ES"}:
        assert issubclass(getattr(lmma, name), lmma.Strategy)
    for name in MODULES:
        assert getattr(lmma, name) is import_module(f"lmma.{name}")


def test_a_star_gives_what_is_public(python):
    listed = python(
        "-c",
        'from lmma import *\nprint(*(name for name in dir() if name == "__version__" or name[0] != "_"))',
    )
    assert set(listed.split()) == PUBLIC


def test_modules_are_imported_when_they_are_asked_for(python):
    code = (
        "import sys, lmma\n"
        f"print(*(name for name in {sorted(MODULES)} if 'lmma.' + name in sys.modules))\n"
        "lmma.problems\n"
        "print('lmma.problems' in sys.modules)"
    )
    assert python("-c", code) == "\nTrue\n"


IMPORTS = ("import lmma.minimize", "import lmma.scipy_method", "from lmma.minimize import minimize")


@pytest.mark.parametrize("order", list(permutations(IMPORTS)), ids=range(6))
def test_a_module_does_not_take_the_place_of_its_function(order, python):
    checks = (
        "import inspect, lmma, lmma.cli.minimize\n"
        "assert inspect.isfunction(lmma.minimize) and inspect.isfunction(lmma.scipy_method)\n"
        "from lmma import minimize, scipy_method\n"
        "assert minimize is lmma.minimize and scipy_method is lmma.scipy_method\n"
        "print('functions')"
    )
    assert python("-c", "\n".join([*order, checks])) == "functions\n"


@pytest.mark.parametrize("module", PATHS)
def test_old_paths_lead_where_they_did(module, python):
    names = ", ".join(PATHS[module])
    python("-c", f"from {module} import {names}")  # before anything else of lmma is imported


def test_a_name_is_one_thing_whichever_way_it_is_reached():
    assert lmma.Checkpoint is lmma.checkpoint.Checkpoint
    assert lmma.CheckpointError is lmma.checkpoint.CheckpointError
    assert lmma.Replicated is lmma.cluster.Replicated
    assert lmma.ClusterError is lmma.cluster.ClusterError
    assert (lmma.IPOP, lmma.BIPOP) == (lmma.restarts.IPOP, lmma.restarts.BIPOP)
    assert lmma.strategy("ma-es", [1.0, 2.0], 1.0).__class__ is lmma.MAES


def test_a_misspelt_name_gets_a_suggestion():
    with pytest.raises(AttributeError, match="module 'lmma' has no attribute 'minimise'") as caught:
        lmma.minimise  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("minimise", lmma)  # what Python's own hint is made from


def test_type_checkers_see_the_same_names():
    tree = ast.parse((SOURCE / "lmma" / "__init__.py").read_text())
    seen = {}
    for node in tree.body:
        for each in [node, *(node.body if isinstance(node, ast.If) else [])]:
            if isinstance(each, ast.ImportFrom) and (each.module or "").startswith("lmma"):
                seen |= {alias.name: each.module for alias in each.names}
                # "as" makes a name part of the interface, whatever __all__ says
                assert all(alias.asname == alias.name for alias in each.names if alias.asname != "_METHODS")
    del seen["METHODS"]  # the table that public classes of methods are taken from
    wanted = [
        f"from {home} import {name} as {name}" for name, home in lmma._PUBLIC.items() if name not in seen
    ]
    assert not wanted, f"add to the imports for type checkers in lmma/__init__.py: {wanted}"
    assert seen == lmma._PUBLIC
    assert {"__version__", *seen} == PUBLIC
    assert (SOURCE / "lmma" / "py.typed").is_file()


def test_the_package_can_be_run(python):
    assert python("-m", "lmma", "--version").startswith(f"lmma {lmma.__version__}")
    listed = python("-m", "lmma", "methods")
    assert all(f"\n{name} " in listed for name in lmma.methods())
