"""Schedules for ``restarts=``.

:class:`IPOP` restarts with increasing populations, :class:`BIPOP` alternates between large and small ones. A
custom schedule is a subclass of :class:`Schedule` whose ``next`` returns a :class:`Plan`, or None to stop.

References
----------
Auger and Hansen, "A restart CMA evolution strategy with increasing population size", CEC 2005.

Hansen, "Benchmarking a BI-population CMA-ES on the BBOB-2009 function testbed", GECCO 2009.

Examples
--------
>>> import numpy as np, lmma
>>> from lmma.restarts import IPOP
>>> def rastrigin(X):
...     return 10 * X.shape[1] + np.sum(X**2 - 10 * np.cos(2 * np.pi * X), axis=1)
>>> result = lmma.minimize(
...     rastrigin, np.full(5, 3.0), 2.0, vectorized=True, rng=1, ftarget=1e-8, restarts=IPOP(9, factor=3)
... )
>>> result.success
True
"""

from lmma.run.restarts import BIPOP, IPOP, Schedule
from lmma.run.state import Plan

__all__ = ["BIPOP", "IPOP", "Plan", "Schedule"]
