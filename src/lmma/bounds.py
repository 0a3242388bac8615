"""Box bounds, as ``bounds=`` and ``boundary=`` make them."""

from lmma.strategies.parts.bounds import Box, Project, Reflect, Smooth, box

__all__ = ["Box", "Project", "Reflect", "Smooth", "box"]
