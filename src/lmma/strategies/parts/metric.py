"""The learned metric as an operator that can be copied, pickled and sent to other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator

if TYPE_CHECKING:
    from lmma.strategies.es import Transform

Array = npt.NDArray[np.floating]


@final
class Metric(LinearOperator):  # type: ignore[misc]  # SciPy has no types
    """C = S M M^T S, the inverse Hessian up to a factor: M is what was learned, S the given scales.

    It refers to the strategy's transform rather than copying it; a copy holds what M is made of and nothing
    of the last sample.
    """

    def __init__(self, transform: Transform, scale: Array | None, n: int, dtype: npt.DTypeLike) -> None:
        super().__init__(dtype, (n, n))
        self.transform = transform
        self.scale = scale

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"transform": self.transform.at_rest()}

    def _matvec(self, x: Array) -> Array:
        scale = 1.0 if self.scale is None else self.scale
        v = np.ravel(x).astype(self.dtype) * scale
        return self.transform.apply(self.transform.apply_transposed(v)) * scale

    _rmatvec = _matvec
