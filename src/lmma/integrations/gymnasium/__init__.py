"""Reinforcement learning: policies for environments of Gymnasium, found by a search of their weights."""

from lmma.kernels.install import how_to_install

try:
    import gymnasium as _gymnasium
except ImportError as error:
    raise ImportError(f"lmma.integrations.gymnasium needs gymnasium: {how_to_install('rl')}") from error

from lmma.integrations.gymnasium.policies import Policy, evaluate_policy, load_policy
from lmma.integrations.gymnasium.train import TrainingResult, train

del _gymnasium
__all__ = ["Policy", "TrainingResult", "evaluate_policy", "load_policy", "train"]
