"""The interpolation search as one sequential listing, without phases, state, bounds or float32.

:func:`search` is a generator: it yields batches of points and receives their values, NaN for failures. It
returns the reason why it ends. Points are x, in units of sigma0 they are base + L u.
"""

import math

import numpy as np

from lmma.numerics.value_noise import ValueNoise


def ball(lam, g, radius):
    """Minimise g.z + sum lam z^2/2 in the ball, by the secular equation."""
    size, least, largest = float(np.linalg.norm(g)), float(lam[0]), float(np.abs(lam).max())
    if size == 0 and least >= 0:
        return np.zeros(len(g)), True
    if least > 1e-12 * largest:
        z = -g / lam
        if float(z @ z) <= radius * radius:
            return z, True
    low, high = max(0.0, -least), max(0.0, -least) + size / radius + 1e-12 * largest
    mu = max(low + 1e-12 * largest, size / radius - float(lam[-1]), 1e-300)
    for _ in range(60):
        z = -g / (lam + mu)
        r = float(np.linalg.norm(z))
        if not r > 0 or abs(r - radius) < 1e-3 * radius:
            break
        low, high = (max(low, mu), high) if r > radius else (low, min(high, mu))
        new = mu + r * r / float(np.sum(z * z / (lam + mu))) * (r - radius) / radius
        new = new if low < new < high else (low + high) / 2
        if abs(new - mu) <= 1e-14 * abs(mu):
            break
        mu = new
    z = -g / (lam + mu)
    r = float(np.linalg.norm(z))
    if r > radius:
        z *= radius / r
    elif least < 0 and r < 0.99 * radius:
        z[0] += math.copysign(math.sqrt(radius**2 - r**2), -g[0] if g[0] else 1.0)
    return z, False


def inverse_of_conditions(V):
    m, n = V.shape
    W = np.block([
        [0.5 * (V @ V.T) ** 2, np.ones((m, 1)), V],
        [np.ones((1, m)), np.zeros((1, n + 1))],
        [V.T, np.zeros((n, n + 1))],
    ])  # fmt: skip
    t = np.ones(m + n + 1)
    t[:m] = 1 / np.maximum(1.0, np.sum(V * V, axis=1))
    t[m + 1 :] = 1 / np.maximum(np.abs(V * t[:m, None]).max(axis=0), 1e-8)
    H = np.linalg.inv(W * t[:, None] * t) * t[:, None] * t
    return 0.5 * (H + H.T)


def search(x, sigma0, draw):
    """``draw(batch, stream)`` returns the random generator of a batch."""
    n, S, batch, noise = len(x), np.full(len(x), sigma0), 0, ValueNoise()
    f, step = math.inf, np.zeros(n)

    def say(X):
        nonlocal batch
        v = np.array((yield X), dtype=float)
        v = np.where(np.isfinite(v), v, np.nan)
        batch += 1
        noise.remember(v)
        return v

    def eps():
        return noise.error(f)

    def look_at_noise():
        d = L @ draw(batch - 1, 2).standard_normal((n,))
        far, moved = float(np.abs(x / S).max()), float(np.abs(step).max())
        want = max(1e-6 * moved, 1e-13 * far) if moved else max(1e-7, 1e-9 * far)
        d = d * (want / max(float(np.linalg.norm(d)) / math.sqrt(n), 1e-300))
        noise.measure((yield from say(x + S * (np.arange(-3.0, 5.0)[:, None] * d))), f)

    # the value at x0, or at points nearby
    v, attempts = (yield from say(x[None])), 0
    while np.isnan(v).all():
        attempts += 1
        if attempts > 3:
            return "failures"
        near = x + S * (
            np.array([0.01, 0.03, 0.1, 0.3])[:, None] * draw(batch - 1, 1).standard_normal((4, n))
        )
        v = yield from say(near)
    if attempts:
        x = near[int(np.nanargmin(v))]
    f = float(np.nanmin(v))
    L = 0.1 * np.eye(n) * (1 + 0.1 * (2 * draw(batch - 1, 1).random() - 1))
    yield from look_at_noise()

    # the model: c + g.u + u.B u/2 = F at U = L^-1 (X - base)/S
    B, g, c, base = np.zeros((n, n)), np.zeros(n), 0.0, x.copy()
    X, F, U, best, H, s, since = None, None, np.zeros((2 * n + 1, n)), 0, None, 1.0, 0
    delta = rho = 1.0
    steps, misfits, changed, logs = [], [], 0, np.zeros((n, n))
    hits, mark, left = 0, math.inf, 0

    def add(column):
        nonlocal c, g, B
        V, m = U / s, 2 * n + 1
        c, g = c + float(column[m]), g + column[m + 1 :] / s
        B = B + (V.T * column[:m]) @ V / s**2

    def Q(P):
        return c + P @ g + 0.5 * np.sum((P @ B) * P, axis=1)

    def rebuild(T=None):
        nonlocal c, g, B, base, L, U, H, s, since
        g, c, base = g + B @ U[best], float(F[best]), X[best].copy()
        if T is not None:
            L, g, B = L @ T, T.T @ g, T.T @ B @ T
            B = 0.5 * (B + B.T)
        U = np.ascontiguousarray(np.linalg.solve(L, ((X - base) / S).T).T)
        U[best] = 0.0
        s, since = delta, 0
        H = inverse_of_conditions(U / s)
        add(H[:, : 2 * n + 1] @ (F - Q(U)))

    def stencil(directions):
        """Replace all points by x and x +- the columns; return False if some cannot be had."""
        nonlocal X, F, U, g, best, changed, misfits
        P = x + S * np.concatenate((1.0 * directions.T, -1.0 * directions.T))
        v = np.zeros(2 * n)
        bad, last = np.ones(2 * n, dtype=bool), 1.0
        for factor in (1.0, 0.9, -1.9, 0.5, -1.5, 0.2, -1.2):
            if factor != 1.0:
                P[bad] = x + S * (factor / last * ((P[bad] - x) / S))
            v[bad] = yield from say(P[bad])
            bad, last = np.isnan(v), factor
            if not bad.any():
                break
        else:
            return False
        g = g + B @ U[best]
        X, F, U, best = np.vstack((x, P)), np.concatenate(([f], v)), np.zeros((2 * n + 1, n)), 0
        changed, misfits = 0, []
        return True

    def move_to_best():
        nonlocal x, f, best, step
        b = int(np.argmin(F))
        if F[b] < f:
            best, step, x, f = b, (X[b] - x) / S, X[b].copy(), float(F[b])

    def effects(u):
        v, m = u / s, 2 * n + 1
        w = np.concatenate((0.5 * ((U / s) @ v) ** 2, [1.0], v))
        Hw = H @ w
        beta, alpha, tau = 0.5 * float(v @ v) ** 2 - float(w @ Hw), H.diagonal()[:m], Hw[:m]
        return alpha, beta, tau, alpha * beta + tau * tau, Hw

    def insert(P, value, kind, target=None):
        """Replace one point by P."""
        nonlocal H, since, changed, misfits, steps
        u, before = np.linalg.solve(L, (P - base) / S), f
        d, misfit = u - U[best], abs(value - float(Q(u[None])[0]))
        if kind == "step":
            misfits = [*misfits, misfit][-3:]
        e = effects(u)
        if kind == "geometry" and not abs(e[3][target]) > 1e-12:
            rebuild()
            u = np.linalg.solve(L, (P - base) / S)
            e = effects(u)
        alpha, beta, tau, sigma, Hw = e
        r2 = np.sum((U - (u if value < f else U[best])) ** 2, axis=1) / max(rho, 0.1 * delta) ** 2
        weights = np.abs(sigma) * np.maximum(1.0, r2) ** 3
        if not value < f:
            weights[best] = -1
        t, weight = int(np.argmax(weights)), weights.max()
        if kind == "geometry" and abs(sigma[target]) > 1e-12:
            t, weight = target, math.inf
        if not (value < f or weight > {"long": 1e-4}.get(kind, 1e-2)):
            return
        residual = value - float(Q(u[None])[0])
        h, e = H[:, t].copy(), -Hw
        e[t] += 1
        W = np.stack((h, e))  # alpha e e^T - beta h h^T + tau (h e^T + e h^T), in this order of operations
        change = W.T @ (np.array([[-beta, tau[t]], [tau[t], alpha[t]]]) @ W) / sigma[t]
        H = H + (change + change.T) / 2
        X[t], U[t], F[t] = P, u, value
        add(H[:, t] * residual)
        since, changed = since + 1, changed + 1
        move_to_best()
        if value < before and kind in ("step", "long"):
            steps = [*steps, d][-8:]
        if since >= 2 * n or np.linalg.norm(U[best]) > 10 * delta or not np.isfinite(H[t, t]):
            rebuild()

    def metric():
        nonlocal delta, rho, steps, changed, misfits, logs
        lam, V = np.linalg.eigh(B)
        a = np.maximum(np.abs(lam), max(np.abs(lam).max() / 100, 4 * eps() / delta**2, 1e-300))
        lna = np.log(a) - np.log(a).mean()
        C = (V * lna) @ V.T
        size = float(np.linalg.norm(C)) * float(np.linalg.norm(logs))
        cosine, logs = (float(np.sum(C * logs)) / size if size > 0 else 0.0), C
        a = np.exp((0.05 + (0.2 - 0.05) * min(max((cosine - 0.88) / (0.98 - 0.88), 0.0), 1.0)) * lna)
        T, inverse, stretch = (V / a) @ V.T, (V * a) @ V.T, float(np.median(a))
        if steps:
            new = np.array(steps) @ inverse
            stretch = float(np.median(np.linalg.norm(new, axis=1) / np.linalg.norm(np.array(steps), axis=1)))
            steps = list(new)
        delta *= stretch
        rho = max(rho * stretch, 0.1 * delta)
        changed, misfits = 0, []
        rebuild(T)

    def reach():
        return 4.0 / max(float(np.abs(L).max()), 1e-300)

    def low():
        mean = float(np.abs(np.linalg.eigvalsh(B)).mean())
        return min(math.sqrt(2 * 4 * eps() / max(mean, 1e-300)), reach())

    def noisy():
        return noise.relative > 1e-12 or noise.absolute > 1e-12 * abs(f)

    def end():
        inverse = np.linalg.inv(L)
        curvature = float(np.abs(np.diag(inverse.T @ B @ inverse)).sum())
        return "stuck" if first > 0 and curvature > 1e4 * first else "converged"

    def reduce(sloping=True):
        """Reduce rho, or renew the points at the floor of the noise; return the ending, if any."""
        nonlocal delta, rho, hits, mark, left
        if (noise.absolute > 0 and abs(f) < 0.01 * noise.measured_at) or noise.is_outdated(f):
            yield from look_at_noise()
            return (yield from reduce())
        if 0.1 * rho >= low() and sloping:
            delta, rho = max(0.5 * rho, 0.1 * rho), 0.1 * rho
            if (rho * (np.sqrt(np.sum(L * L, axis=1)) * S) < 4 * np.spacing(np.abs(x)) + 1e-60 * S).any():
                return end()
            metric()
            return None
        if f < mark - 4 * eps():
            hits = 0
        mark, hits = f, hits + 1
        if np.all(noise.recent == f) and not (f == 0 and step.any()):
            if hits > 4:
                return "flat"
        elif hits > (12 if noisy() else 2):
            return end()
        if hits > 1:
            metric()
        delta = rho = min(max(rho, low()) * 2.0**hits, max(reach(), rho))
        left = 3
        turned = np.linalg.qr(draw(batch - 1, 3).standard_normal((n, n)))[0]
        if not (yield from stencil(rho * (L @ turned))):
            return "stuck"
        rebuild()
        move_to_best()
        return None

    def resize(to):
        nonlocal delta
        delta = rho if to <= 1.5 * rho else to

    def try_step(d, factors=tuple(0.93**k for k in range(5))):
        """Evaluate x + S L d, nearer to x if that fails."""
        for factor in factors:
            P = x + S * (L @ d if factor == 1 else factor * (L @ d))
            v = yield from say(P[None])
            if not np.isnan(v[0]):
                return P, float(v[0])
        return None, math.nan

    def improve():
        r2 = np.sum((U - U[best]) ** 2, axis=1)
        t, m = int(np.argmax(r2)), 2 * n + 1
        if math.sqrt(r2[t]) <= 2 * delta:
            return False
        radius = max(min(0.1 * math.sqrt(r2[t]), 0.5 * delta), rho)
        V, column = U / s, H[:, t]
        D = (V.T * column[:m]) @ V / s**2
        slopes = column[m + 1 :] / s + D @ U[best]
        lam, axes = np.linalg.eigh(D)
        slopes_ = axes.T @ slopes
        low_, high_ = ball(lam, slopes_, radius)[0], ball(-lam[::-1], -slopes_[::-1], radius)[0][::-1]
        rows = np.array([axes @ low_, axes @ high_])
        sizes = np.abs(rows @ slopes + 0.5 * np.sum((rows @ D) * rows, axis=1))
        P, value = yield from try_step(rows[int(np.argmax(sizes))].copy())
        if P is not None:
            insert(P, value, "geometry", t)
        return True

    # the first stencil, and Newton's step by coordinate
    first, h = 0.0, float(L[0, 0])
    if not (yield from stencil(L)):
        return "stuck"
    g = np.zeros(n)
    rebuild()
    d = B.diagonal().copy()
    first = float(np.abs(d).sum()) / h**2
    a = np.maximum(np.abs(d), max(6 * eps(), 1e-12 * np.abs(d).max(), 1e-300))
    u = np.clip(-g / a, -4 / h, 4 / h)
    gain, ratio, P = -float(g @ u + 0.5 * (d * u) @ u), 0.0, None
    if u.any():
        P, value = yield from try_step(u, (1,))
        ratio = (f - value) / gain if P is not None and gain > 0 else 0.0
    good = 0.5 <= ratio <= 1.8
    a = np.maximum(np.abs(d), max(6 * eps(), 1e-12 * np.abs(d).max(), 1e-300))
    if good or np.std(np.log(a)) >= 3:
        delta = rho = math.sqrt(float(np.median(a)))
        if good:
            delta = max(delta, float(np.linalg.norm(u * np.sqrt(a))))
        rebuild(np.diag(1 / np.sqrt(a)))
    else:
        rebuild()
    move_to_best()
    if P is not None:
        insert(P, value, "trial")

    while True:
        if changed >= 2 * n:
            metric()
        lam, V = np.linalg.eigh(B)
        slopes = g + B @ U[best]
        z, inside = ball(lam, V.T @ slopes, delta)
        d = V @ z
        gain, length = -(float(slopes @ d) + 0.5 * float(d @ (B @ d))), float(np.linalg.norm(d))
        if length >= 0.5 * rho and gain > 0:
            before = f
            P, value = yield from try_step(d)
            if P is None:
                resize(0.5 * delta)
                if delta == rho and (ending := (yield from reduce())):
                    return ending
                continue
            ratio = (before - value) / gain
            if ratio <= 0.1:
                resize(0.5 * min(delta, length))
            else:
                resize(max(0.5 * delta, length if ratio <= 0.7 else 2 * length))
            insert(P, value, "step")
            if ratio < 0.1 and not (yield from improve()) and ratio <= 0 and max(length, delta) <= rho:
                ending = yield from reduce()
                if ending:
                    return ending
            continue
        curvature = float(lam[0]) if inside else 0.0
        if not (len(misfits) == 3 and max(misfits) <= 0.125 * curvature * rho**2):
            resize(0.1 * delta)
            if (yield from improve()):
                continue
        if left > 0 and length > 0 and noisy() and 0.1 * rho < low():
            before, near = f, gain > 10 * eps()
            P, value = yield from try_step(d if near else d * (rho / length))
            if P is not None:
                insert(P, value, "long")
            if P is not None and value < before:
                delta = rho if near else 4 * rho
            else:
                left -= 1
            continue
        ending = yield from reduce(gain > 0)
        if ending:
            return ending
