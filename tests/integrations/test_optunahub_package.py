"""The package for OptunaHub, loaded by optunahub from this repository; skipped if it is not installed."""

import re
import warnings

import pytest

from pages import ROOT

PACKAGE = ROOT / "contrib" / "optunahub" / "package"
FIELDS = ("author", "title", "description", "tags", "optuna_versions", "license")  # that OptunaHub asks for


def test_the_package_has_what_optunahub_asks_for():
    folder = PACKAGE / "samplers" / "lmma"
    assert {path.name for path in folder.iterdir()} >= {"__init__.py", "README.md", "LICENSE", "example.py"}
    head = re.match(r"---\n(.*?)\n---\n", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    assert tuple(line.split(":")[0] for line in head.splitlines()) == FIELDS
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_optunahub_loads_it_and_a_study_runs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optunahub = pytest.importorskip("optunahub", reason="optunahub is not installed")
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        module = optunahub.load_local_module("samplers/lmma", registry_root=str(PACKAGE))
        study = optuna.create_study(sampler=module.LmmaSampler(seed=1))
        study.optimize(lambda trial: trial.suggest_float("x", -5, 5) ** 2, n_trials=30)
    assert module.__all__ == ["LmmaSampler"]
    assert any(key.startswith("lmma:") for trial in study.trials for key in trial.system_attrs)
