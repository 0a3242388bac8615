"""The methods that adapt their steps: those of a fixed step size come near an optimum, and no nearer."""

import lmma
from lmma.strategies import strategy_class

ADAPTING = [name for name in lmma.methods() if not strategy_class(name).fixed_step]
