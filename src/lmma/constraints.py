"""Constraints beyond a box, for ``constraints=``.

Examples
--------
A simulation that returns its value and the constrained quantities in one call. Here it is the sum of squares
of three numbers; their mean must be at least 1, and the first must be 2:

>>> import lmma
>>> def simulate(x):
...     return (x**2).sum(), [x.mean(), x[0]]
>>> limits = lmma.constraints.Returned(lb=[1, 2], ub=[float("inf"), 2])
>>> result = lmma.minimize(simulate, [0.0] * 3, 0.5, constraints=limits, rng=1)
>>> result.success, [round(float(x), 3) for x in result.x]
(True, [2.0, 0.5, 0.5])
"""

from lmma.run.user_constraints import Returned

__all__ = ["Returned"]
