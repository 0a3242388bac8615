"""Use a method of lmma through SciPy: the same call, another `method`."""

from scipy.optimize import minimize, rosen

import lmma

for name in ("ma-es", "lm-ma-es"):
    result = minimize(
        rosen,
        [0.0] * 10,
        method=lmma.scipy_method(name),
        options={"sigma0": 0.5, "rng": 2, "maxfevals": 100_000, "ftarget": 1e-9},
    )
    print(f"{name:9} fun = {result.fun:.2e}  nfev = {result.nfev:6,}  {result.message}")
