"""Clusters whose workers make their candidates themselves: ``workers=Replicated(...)``."""

from lmma.run.replicas.replicated import ClusterError, Replicated

__all__ = ["ClusterError", "Replicated"]
