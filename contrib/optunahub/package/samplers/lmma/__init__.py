"""LmmaSampler as a package of OptunaHub: ``optunahub.load_module("samplers/lmma").LmmaSampler``."""

from lmma.integrations.optuna import LmmaSampler

__all__ = ["LmmaSampler"]
