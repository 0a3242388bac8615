"""Strategies of other packages for comparisons, COCO and timing, with one adaptor each.

====================  ================================================================================
name                  strategy
====================  ================================================================================
``pycma``             Hansen's `cma`, its default: full matrix, active
``pycma-vd``          the same with ``GaussVDSampler``: a diagonal and one direction
``pycma-vkd``         the same with ``GaussVkDSampler``: a diagonal and k directions, k adapted
``cmaes``             ``CMA`` of `cmaes`: full matrix
``cmaes-sep``         ``SepCMA`` of `cmaes`: a diagonal
``cmaes-dxnesic``     ``DXNESIC`` of `cmaes`: natural gradient, full matrix by its exponential, O(n^3)
``fcmaes-crfmnes``    ``CRFMNES`` of `fcmaes` in Python: a diagonal and one direction; lambda is the
                      article's 4 + floor(3 ln n) rounded up to even, because the package's 32 is slower
``fcmaes-crfmnes-c``  the same in C++
``fcmaes-cma``        ``ACMA_C`` of `fcmaes`, CMA-ES in C++: full matrix, active
``pypop7-lmcma``      ``LMCMA`` of `pypop7`: LM-CMA-ES
``pypop7-lmmaes``     ``LMMAES`` of `pypop7`: LM-MA-ES
``lmmaes``            ``Lmmaes`` of `lmmaes`: LM-MA-ES, with the paper's lambda
``evosax-lmmaes``     ``LM_MA_ES`` of `evosax`: LM-MA-ES in float32
``evosax-cmaes``      ``CMA_ES`` of `evosax`: full matrix, in float32
====================  ================================================================================

All constants are the defaults of the package. A package is imported when its strategy is started. An
:class:`Adaptor` wraps the package's strategy in two calls, ``propose`` and ``learn``, without any code of
lmma; it is used for timing. A :class:`Peer` is a :class:`Strategy` made of an adaptor; it is used for
comparisons. The package's own stopping rules are ignored if tolx = 0, and applied otherwise, as in runs with
restarts.
"""

from lmma_lab.peers.adaptors import ADAPTORS, Adaptor
from lmma_lab.peers.peer import PEERS, Peer, peer_class

__all__ = ["ADAPTORS", "PEERS", "Adaptor", "Peer", "peer_class"]
