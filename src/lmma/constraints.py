"""Constraints beyond a box, as ``constraints=`` takes them.

Examples
--------
A simulation that gives its value and what is limited, in one call; here the sum of squares of three numbers,
whose mean is to be 1 at least and whose first is to be 2:

>>> import lmma
>>> def simulate(x):
...     return (x**2).sum(), [x.mean(), x[0]]
>>> limits = lmma.constraints.Returned(lb=[1, 2], ub=[float("inf"), 2])
>>> result = lmma.minimize(simulate, [0.0] * 3, 0.5, constraints=limits, rng=1)
>>> result.success, [round(float(x), 3) for x in result.x]
(True, [2.0, 0.5, 0.5])
"""

from lmma.run.constraint_forms import Returned

__all__ = ["Returned"]
