"""Box bounds, as ``bounds=`` and ``boundary=`` make them.

:func:`box` turns what a user gives as bounds into a :class:`Box`; :class:`Smooth`, :class:`Reflect`,
:class:`Project` and :class:`Wrap` are the ways to keep to it.

Examples
--------
>>> import numpy as np
>>> from lmma.bounds import box
>>> unit = box([0.0, 1.0], np.full(3, 0.5), boundary="reflect")
>>> unit.name
'reflect'
>>> unit.inside(np.array([0.25, 1.25, -0.5]))
array([0.25, 0.75, 0.5 ])
"""

from lmma.strategies.parts.bounds import Box, Project, Reflect, Smooth, Wrap, box

__all__ = ["Box", "Project", "Reflect", "Smooth", "Wrap", "box"]
