"""Commands and file readers that lmma-lab adds to ``lmma``.

pyproject.toml names them as entry points. ``lmma --help`` imports this module, so it imports no other of the
lab.
"""

from lmma.cli.extensions import Command, Reader

COMPARE = Command("run any methods on any problems and compare them", "lmma_lab.cli.compare")
BENCH = Command(
    "run a benchmark: cost per generation, seconds to a target, or COCO's bbob-largescale",
    "lmma_lab.cli.bench",
)
REPRODUCE = Command(
    "repeat the paper's experiments: figures, tables and a ledger of its claims", "lmma_lab.cli.reproduce"
)
ATTACK = Command(
    "search for adversarial images that fool a random forest or another classifier", "lmma_lab.cli.attack"
)
STORE = Reader(b"SQLite format 3\0", "lmma_lab.cli.show_store")
