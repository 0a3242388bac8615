"""Clusters whose workers generate candidates locally: ``workers=Replicated(...)``."""

from lmma.evaluation.cluster.messages import ClusterError
from lmma.evaluation.replicas import Replicated

__all__ = ["ClusterError", "Replicated"]
