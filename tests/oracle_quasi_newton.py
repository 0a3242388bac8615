"""The quasi-Newton search as one sequential listing, without phases, state, bounds or float32.

With ``pairs_only``, L remains diagonal, and directions are those of L-BFGS.

:func:`search` is a generator: it yields batches of points and receives their values, NaN for failures. It
returns the reason why it ends. All lengths are in units of sigma0.
"""

import math

import numpy as np

SHARES = [math.factorial(k) ** 2 / math.factorial(2 * k) for k in range(12)]


def level_of_differences(v):
    levels, signs, table = [], [], v
    for k in range(1, len(v)):
        table = np.diff(table)
        levels.append(math.sqrt(SHARES[k] * float(np.mean(table * table))))
        signs.append((table > 0).any() and (table < 0).any())
    for k in range(len(levels) - 2):
        three = levels[k : k + 3]
        if min(three) > 0 and max(three) <= 4 * min(three) and signs[k]:
            return three[0]
    return min(levels[-3:])


def digits(v):
    v = v[v != 0]
    return next((d for d in range(2, 10) if all(float(f"{x:.{d - 1}e}") == x for x in v)), None)


def search(x, sigma0, draw, *, pairs_only=False):
    """``draw(batch, stream)`` returns the random generator of a batch."""
    n, s = len(x), np.full(len(x), sigma0)
    batch, seen = 0, np.empty(0)
    eps_rel, eps_abs, f_measured = 2.2e-16, 0.0, 0.0
    f, L, separable, good_diagonal = math.inf, np.eye(n), True, None
    step, moved, inverse, pairs = None, [], None, []
    wins = {"c": 0.5, "m": 0.5}
    iteration = fails = creep = creeps = bad = limited_steps = 0
    bads, grow, reach = [], 1.0, 4.0

    def say(offsets):
        nonlocal batch, seen
        v = np.array((yield x + s * offsets), dtype=float)
        v = np.where(np.isfinite(v), v, np.nan)
        batch += 1
        seen = np.concatenate((seen, v[-40:][~np.isnan(v[-40:])]))[-40:]
        return v

    def eps():
        return max(2.2e-16 * abs(f), eps_rel * abs(f), eps_abs, 1e-300)

    def look_at_noise():
        nonlocal eps_rel, eps_abs, f_measured
        d = L @ draw(batch, 0).standard_normal(n)
        far = np.abs(x / s).max()
        want = max(1e-7, 1e-9 * far) if step is None else max(1e-6 * np.abs(step).max(), 1e-13 * far)
        d = d * (want / max(float(np.linalg.norm(d)) / math.sqrt(n), 1e-300))
        v = yield from say(np.arange(-3.0, 5.0)[:, None] * d)
        runs = [v[a:b] for a in range(9) for b in range(a, 9) if not np.isnan(v[a:b]).any()]
        v = max(runs, key=len)  # values at equal distances
        level = level_of_differences(v) if len(v) >= 5 else 0.0
        eps_rel = level / max(abs(float(np.median(v)) if len(v) else f), 1e-300)
        if len(seen) >= 6:
            eps_abs, D = 0.0, digits(seen)
            if D is not None and np.all(seen == np.round(seen)) and np.abs(seen).max() < 10.0**D:
                eps_abs = 0.3
            elif D is not None:
                eps_rel = max(eps_rel, 0.3 * 10.0 ** (1 - D))
            elif np.array_equal(seen.astype(np.float32).astype(float), seen):
                eps_rel = max(eps_rel, 3e-8)
        f_measured = abs(f)

    def slopes_of_both(up, down, a, usual=1.0):
        """From the values at +a and -a, where a may be negative."""
        g, d = (up - down) / (2 * a), (up + down - 2 * f) / a**2
        for j in np.flatnonzero(np.isnan(d)):
            g[j] = (f - down[j]) / a[j] + usual * a[j] / 2
            if not np.isnan(up[j]):
                g[j] = (up[j] - f) / a[j] - usual * a[j] / 2
            d[j] = usual
        return np.where(np.isnan(g), 0.0, g), d

    def central(tau):
        S = np.full(n, tau)[:, None] * L.T
        v = yield from say(np.concatenate((S, -S)))
        row = int(np.nanargmin(v)) if not np.isnan(v).all() else 0
        lowest = (v[row], np.concatenate((S, -S))[row])
        g, d = slopes_of_both(v[:n], v[n:], np.full(n, tau))
        return v, g, d, lowest

    def curvature_error(tau):
        return 6 * eps() / tau**2

    def resolved(steps):
        """Return which of the ``steps`` along the columns of L are long compared with the rounding of x."""
        return (np.abs(steps * L) > 64 * (np.spacing(np.abs(x)) / s)[:, None]).any(axis=0)

    def newton_of(g, d, tau, least, low, high):
        """Rescale the columns of L to curvature 1; return the slopes."""
        nonlocal L, inverse
        c = np.maximum(np.abs(d), max(curvature_error(tau), least))
        r = 1 / np.sqrt(np.clip(np.where(resolved(tau), c, 1.0), low, high))
        L, inverse = L * r, None
        return g * r, r

    # the value at x0, or at points nearby
    v = yield from say(np.zeros((1, n)))
    attempts = 0
    while np.isnan(v).all():
        attempts += 1
        if attempts > 3:
            return "failures"
        offsets = np.array([0.01, 0.03, 0.1, 0.3])[:, None] * draw(batch, 0).standard_normal((4, n))
        v = yield from say(offsets)
    row = int(np.nanargmin(v))
    if attempts:
        x = x + s * offsets[row]
    f = float(v[row])
    yield from look_at_noise()

    # the first stencil, along coordinates
    v, g, d, lowest = yield from central(0.05)
    usual = np.abs(v[:n] + v[n:] - 2 * f) / np.full(n, 0.05) ** 2
    known = usual[~np.isnan(usual)]
    g, d = slopes_of_both(v[:n], v[n:], np.full(n, 0.05), float(np.median(known)) if len(known) else 1.0)
    first = np.maximum(np.abs(d), max(curvature_error(0.05), 1e-12 * np.abs(d).max(), 1e-300))
    L, u = np.diag(1 / np.sqrt(first)), max(float(np.abs(d).mean()), 1e-300)
    candidates = [("n", -(g / np.sqrt(first)))]
    if g @ g > 0:
        candidates.append(("u", -(g / u) * np.sqrt(first)))
    g = g / np.sqrt(first)
    was_central, models = True, {}
    a = values = np.empty(0)  # of the last one-sided stencil

    while True:
        iteration += 1
        D = 0.5 * float(g @ g)
        if D == 0:  # nothing seen: a saddle point, or a larger stencil
            if lowest is not None and lowest[0] < f - 2 * eps():
                x, f, fails = x + s * lowest[1], lowest[0], 0
            else:
                fails, grow = fails + 1, 4 * grow
                constant = np.all(seen == f) and not (f == 0 and step is not None)
                if fails > (8 if constant else 4):
                    return "flat" if constant else "converged"
            tau = math.sqrt(2 * 50 * eps()) * grow
            v, g, d, lowest = yield from central(tau)
            g, _ = newton_of(g, d, tau, 1e-8, 1e-6, 1e12)
            candidates, models, was_central = [("n", -g)], {}, True
            continue

        # unit steps along all candidate directions
        tries = []
        for name, p in candidates:
            dx = L @ p
            if separable and name == "n":
                dx = np.clip(dx, -reach, reach)
                p = dx / np.diag(L)
            longest = np.abs(dx).max()
            tries.append((name, p, dx, min(1.0, reach / longest) if longest > 0 else 1.0))
        v = yield from say(
            np.array([t for *_, t in tries])[:, None] * np.array([dx for _, _, dx, _ in tries])
        )
        v = np.where(np.isnan(v), np.inf, v)
        slopes = np.array([p for _, p, *_ in tries]) @ g
        win = int(np.argmin(v))
        if tries[win][0] == "m":
            gains = []
            for k, (_, _, _, t) in enumerate(tries):
                gain = f - v[k]
                bend = (v[k] - f - slopes[k] * t) / t**2
                if np.isfinite(v[k]) and slopes[k] < 0 < bend and -slopes[k] / (2 * bend) < t:
                    gain = max(gain, slopes[k] ** 2 / (4 * bend))
                gains.append(gain if k != win else -math.inf)
            k = int(np.argmax(gains))
            if gains[k] > 0 and f - v[win] < 1.5 * gains[k]:
                win = k
        rho = 0.0
        for (name, p, _, t), value, slope in zip(tries, v, slopes, strict=True):
            if name == "n" and t >= 0.5:
                predicted = -slope * t - 0.5 * t * t * float(p @ p)
                rho = (f - value) / predicted if predicted > 0 and np.isfinite(value) else 0.0
        name, p, dx, t = tries[win]
        slope, longest = float(slopes[win]), np.abs(dx).max()

        # line search
        t1, f1 = (t, v[win]) if v[win] < f else (0.0, f)
        shortest = (t, v[win])
        for k in range(1, 13):
            if t1 > 0 and f1 < f - 1e-4 * abs(slope) * t1:
                q = f1 - f - slope * t1
                best = -slope * t1 * t1 / (2 * q) if q > 0 else 4 * t1
                if best > 1.6 * t1 and longest * t1 < reach and k < 6:
                    t2 = min(best, 4 * t1, max(reach / longest, t1))
                elif best < 0.55 * t1 and k == 1:
                    t2 = max(best, 0.1 * t1)
                else:
                    break
                value = (yield from say(t2 * dx[None]))[0]
                if not value < f1:
                    break
                longer, t1, f1 = t2 > t1, t2, value
                if not longer:
                    break
            else:
                tl, fl = (t1, f1) if t1 > 0 else shortest
                t2 = tl / 8
                if np.isfinite(fl):
                    q = fl - f - slope * tl
                    t2 = min(max(-slope * tl * tl / (2 * q) if q > 0 else tl / 4, tl / 20), tl / 2)
                if abs(slope) * t2 < 0.6 * eps() or k > 9:
                    break
                value = (yield from say(t2 * dx[None]))[0]
                shortest = min(shortest, (t2, math.inf if np.isnan(value) else value))
                if value < f1:
                    t1, f1 = t2, value
                elif t1 > 0:
                    break

        if t1 == 0:  # no decrease
            fails += 1
            if fails > 4:
                tiny = (np.abs(s * dx) <= 64 * np.spacing(np.abs(x))).all()
                return "converged" if tiny or 4 * n * eps() > D else "stuck"
            if not was_central and fails == 1:
                w = yield from say(-a[:, None] * L.T)
                g, d = slopes_of_both(values, w, a)
                tau, lowest = abs(a[0]), None
            else:
                if fails == 2:
                    yield from look_at_noise()
                if fails > 2:
                    grow *= 4
                tau = math.sqrt(2 * 50 * eps()) * grow
                v, g, d, lowest = yield from central(tau)
            g, _ = newton_of(g, d, tau, 1e-8, 1e-6, 1e12)
            candidates, models, was_central = [("n", -g)], {}, True
            continue

        gain, fails, grow = f - f1, 0, max(1.0, grow / 2)
        move = longest * t1
        moved = [*moved, move][-30:]
        if move >= 0.99 * reach:
            limited_steps += 1
        else:
            limited_steps = 0
            creep = creep + 1 if gain < 0.01 * D else max(0, creep - 2)
        if limited_steps == 3:
            reach, limited_steps = 2 * reach, 0
        step = t1 * dx
        x, f = x + s * step, f1
        if creep >= 6:
            creep, creeps = 0, creeps + 1
            if creeps == 2:
                return "stuck"
            h = max(0.1 * sorted(moved)[-len(moved) // 4], 1e-9 * np.abs(x / s).max())
            L, inverse, pairs, separable = np.eye(n) * h, None, [], False
            v, g, d, lowest = yield from central(1.0)
            c = np.maximum(np.abs(d), max(6 * eps(), 1e-8 * np.abs(d).max(), 1e-300))
            L, g = L * (1 / np.sqrt(c)), g * (1 / np.sqrt(c))
            candidates, models, was_central, lowest = [("n", -g)], {}, True, None
            continue
        for tried, *_ in tries:
            if tried in wins:
                wins[tried] += 0.2 * ((tried == name) - wins[tried])

        # the winner's model
        if name == "u":
            before, after = np.diag(L), np.full(n, 1 / math.sqrt(u))
            L, g, p = np.diag(after), g / before * after, p * before / after
        elif name in models:
            a2, z, w, sy = models[name]
            if inverse is not None:
                inverse = inverse * math.sqrt(a2)
                inverse = inverse - np.outer(z / (sy + float(w @ z)), w @ inverse)
            L = L / math.sqrt(a2)
            L = L + np.outer(L @ z, w / sy)
            g = g / math.sqrt(a2)
            g = g + w * (float(z @ g) / sy)
            p = p * math.sqrt(a2)
            p = p - z * (float(w @ p) / (sy + float(w @ z))) if name == "m" else -g
        models, shat = {}, t1 * p
        expected = g * (1 - min(t1, 1.0))
        D = min(D, max(gain, 1e-3 * D))
        if abs(f) < (0.01 if eps_rel > 1e-14 else 1e-6) * f_measured:
            yield from look_at_noise()

        # the next slopes
        tau = math.sqrt(2 * max(eps(), 1e-13 * D / n))
        inexact, doubtful = (
            n * tau**2 / 2 > 0.01 * D,
            separable and eps_rel >= 1e-13 and not 0.5 <= rho <= 1.8,
        )
        diagonal, old, d = np.diag(L).copy(), g, None
        was_central = inexact or doubtful
        if was_central:
            tau = math.sqrt(2 * 50 * eps()) * grow
            v, new, d, lowest = yield from central(tau)
            lowest = None
            if separable:
                new, r = newton_of(new, d, tau, 1e-8, 0.04, 25.0)
                old, shat = old * r, shat / r
        else:
            random = np.where(draw(batch - 1, 1).random(n) < 0.5, -1.0, 1.0)
            a = tau * np.where(expected == 0, random, -np.sign(expected))
            values = yield from say(a[:, None] * L.T)
            missing = np.isnan(values)
            if missing.any():
                values[missing] = yield from say(-(a[:, None] * L.T)[missing])
                a[missing] *= -1
            new = (values - f) / a - a / 2
            new, lowest = np.where(np.isnan(new), 0.0, new), None
        good = 0.5 <= rho <= 1.8
        bad, bads = 0 if good else bad + 1, [*bads, not good][-8:]
        if separable:
            if good:
                good_diagonal = diagonal
            tolerated = 0 if iteration == 1 or eps_rel < 1e-13 else 1
            if bad > tolerated or (bad and not 0.1 < t1 < 10) or sum(bads) > 3:
                separable, now = False, np.diag(L).copy()
                then = now
                if iteration > 1:
                    then = now if good_diagonal is None else good_diagonal
                elif name == "n" and t1 < 0.2 and np.std(np.log(first)) < 3:
                    then = np.full(n, math.sqrt(1 / first.mean()))
                if then is not now:
                    L, shat, inverse = np.diag(then), shat * now / then, None
                old, new = old / now * then, new / now * then
        y, g = new - old, new
        if separable:
            if d is None:
                with np.errstate(all="ignore"):
                    r = y / shat
                long = np.abs(shat) > 1e-6 * float(np.linalg.norm(shat)) / math.sqrt(n)
                known = np.isfinite(r) & long & (r > 0) & resolved(a)
                r = 1 / np.sqrt(np.where(known, np.clip(r, 0.02, 50.0), 1.0))
                L, g = L * r, g * r
            candidates = [("n", -g)]
            continue

        # the next directions of a diagonal L: L-BFGS in the coordinates u, from L and from a multiple of it
        candidates = [("n", -g)]
        sy, ss = float(shat @ y), float(shat @ shat)
        if pairs_only:
            diagonal = np.diag(L)
            if sy > max(1e-8 * ss, 1e-250):
                pairs = [*pairs, (step, y / diagonal)][-12:]
            used = [(S / diagonal, Y * diagonal) for S, Y in pairs]
            used = [(S, Y) for S, Y in used if float(S @ Y) > 1e-8 * float(S @ S)]
            if used:
                candidates = []
                for name, scaled in (("a", False), ("c", True)):
                    q, factors = g, []
                    for S, Y in reversed(used):
                        factors.append(float(S @ q) / float(S @ Y))
                        q = q - factors[-1] * Y
                    if scaled:
                        S, Y = used[-1]
                        q = q * (float(S @ Y) / float(Y @ Y))
                    for (S, Y), k in zip(used, reversed(factors), strict=True):
                        q = q + S * (k - float(Y @ q) / float(S @ Y))
                    candidates.append((name, -q))
            continue

        # the next directions: BFGS, BFGS after a scaling, L-BFGS
        if sy > 1e-8 * ss:
            candidates = []
            factor = min(1.0, max(sy / ss, 0.1))
            for c, a2 in (("a", 1.0), ("c", factor)):
                if c == "c" and (factor > 0.8 or not (wins["c"] > 1 / 4 or iteration % 6 == 3)):
                    continue
                sa, ya = shat * math.sqrt(a2), y / math.sqrt(a2)
                w = math.sqrt(sy / float(ya @ ya)) * ya
                z = sa - w
                models[c] = (a2, z, w, sy)
                ga = g / math.sqrt(a2)
                p = -(ga + w * (float(z @ ga) / sy))
                candidates.append((c, (p + z * (float(w @ p) / sy)) / math.sqrt(a2)))
            if sy > 1e-250:
                if inverse is None or iteration % 50 == 0:
                    inverse = np.linalg.inv(L)
                change = inverse.T @ y
                if float(step @ change) > 1e-250:
                    pairs = [*pairs, (step, change)][-12:]
                if pairs and (wins["m"] > 1 / 5 or iteration % 6 == 1):
                    q, factors = inverse.T @ g, []
                    for S, Y in reversed(pairs):
                        factors.append(float(S @ q) / float(S @ Y))
                        q = q - factors[-1] * Y
                    S, Y = pairs[-1]
                    q = q * (float(S @ Y) / float(Y @ Y))
                    for (S, Y), k in zip(pairs, reversed(factors), strict=True):
                        q = q + S * (k - float(Y @ q) / float(S @ Y))
                    models["m"] = models["a"]
                    candidates.append(("m", -(inverse @ q)))
