"""Box bounds: the objects behind ``bounds=`` and ``boundary=``.

:func:`box` converts bounds in any accepted form to a :class:`Box`. :class:`Smooth`, :class:`Reflect`,
:class:`Project` and :class:`Wrap` map points outside the box into it.

Examples
--------
>>> import numpy as np
>>> from lmma.bounds import box
>>> unit = box([0.0, 1.0], np.full(3, 0.5), boundary="reflect")
>>> unit.boundary
'reflect'
>>> unit.inside(np.array([0.25, 1.25, -0.5]))
array([0.25, 0.75, 0.5 ])
"""

from lmma.layers.bounds import Box, Project, Reflect, Smooth, Wrap, box

__all__ = ["Box", "Project", "Reflect", "Smooth", "Wrap", "box"]
