"""Methods that adapt their step size; those with a fixed one only come near an optimum."""

import lmma
from lmma.methods import strategy_class

ADAPTING = [name for name in lmma.methods() if not strategy_class(name).fixed_step]
