"""Other packages' strategies, as published: one adaptor each, for comparisons, COCO and timing alike.

====================  ================================================================================
name                  what
====================  ================================================================================
``pycma``             Hansen's `cma`, its default: full matrix, active
``pycma-vd``          the same with ``GaussVDSampler``: a diagonal and one direction
``pycma-vkd``         the same with ``GaussVkDSampler``: a diagonal and k directions, k adapted
``cmaes``             ``CMA`` of `cmaes`: full matrix
``cmaes-sep``         ``SepCMA`` of `cmaes`: a diagonal
``cmaes-dxnesic``     ``DXNESIC`` of `cmaes`: natural gradient, full matrix by its exponential, O(n^3)
``fcmaes-crfmnes``    ``CRFMNES`` of `fcmaes` in Python: a diagonal and one direction; lambda is the
                      article's 4 + floor(3 ln n) made even, since the package's 32 is slower here
``fcmaes-crfmnes-c``  the same in C++
``fcmaes-cma``        ``ACMA_C`` of `fcmaes`, CMA-ES in C++: full matrix, active
``pypop7-lmcma``      ``LMCMA`` of `pypop7`: LM-CMA-ES
``pypop7-lmmaes``     ``LMMAES`` of `pypop7`: LM-MA-ES
``lmmaes``            ``Lmmaes`` of `lmmaes`: LM-MA-ES, with the paper's lambda
``evosax-lmmaes``     ``LM_MA_ES`` of `evosax`: LM-MA-ES in float32
``evosax-cmaes``      ``CMA_ES`` of `evosax`: full matrix, in float32
====================  ================================================================================

Every constant is the package's own. A package is imported when its strategy is started. An :class:`Adaptor`
is the package's strategy behind two calls, ``propose`` and ``learn``, with nothing of ours around it: this is
what is timed. A :class:`Peer` is a :class:`Strategy` made of an adaptor: this is what is compared. Where a
run is told to search on (tolx = 0), a peer's own rules to stop are not asked; where it may restart, they are.
"""

from lmma.experiments.peers.adaptors import ADAPTORS, Adaptor
from lmma.experiments.peers.peer import PEERS, Peer, peer_class

__all__ = ["ADAPTORS", "PEERS", "Adaptor", "Peer", "peer_class"]
