"""Adversarial inputs for classifiers that return probabilities and have no gradients."""

from lmma_lab.attack.campaign import Campaign, campaign
from lmma_lab.attack.data import Dataset, load_digits, load_mnist
from lmma_lab.attack.forest import CompiledForest, compile_forest
from lmma_lab.attack.forest_file import load_forest, save_forest
from lmma_lab.attack.objective import Objective, Projection
from lmma_lab.attack.records import Record, RecordStore
from lmma_lab.attack.training import train_forest

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
