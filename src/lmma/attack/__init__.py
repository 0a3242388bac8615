"""Adversarial inputs for classifiers that answer probabilities and have no gradients."""

from lmma.attack.campaign import Campaign, campaign
from lmma.attack.data import Dataset, load_digits, load_mnist
from lmma.attack.forest import CompiledForest, compile_forest
from lmma.attack.forest_file import load_forest, save_forest
from lmma.attack.objective import Objective, Projection
from lmma.attack.records import Record, RecordStore
from lmma.attack.training import train_forest

__all__ = [
    "Campaign",
    "CompiledForest",
    "Dataset",
    "Objective",
    "Projection",
    "Record",
    "RecordStore",
    "campaign",
    "compile_forest",
    "load_digits",
    "load_forest",
    "load_mnist",
    "save_forest",
    "train_forest",
]
