"""Names of methods, by what their classes declare."""

import lmma
from lmma.methods import strategy_class

# Evolution strategies: only the order of the values counts, and all layers can be put around them
BY_RANKS = [name for name in lmma.methods() if not strategy_class(name).uses_values]
# Those that adapt their step size; with a fixed one they only come near an optimum
ADAPTING = [name for name in BY_RANKS if not strategy_class(name).fixed_step]
