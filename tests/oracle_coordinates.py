"""The search by coordinates as one sequential listing, without phases, state, bounds or float32.

:func:`search` is a generator: it yields batches of points and receives their values, NaN for failures. It
returns the reason why it ends.
"""

import math

import numpy as np

from lmma.numerics.value_noise import ValueNoise

INF = math.inf


def valleys(column, least):
    """The number of valleys in a list of values, apart from rises and falls of up to ``least``."""
    count, falling, extreme = 0, True, INF
    for v in column:
        if math.isnan(v):
            continue
        if falling and v > extreme + least:
            count, falling, extreme = count + 1, False, v
        elif not falling and v < extreme - least:
            falling, extreme = True, v
        else:
            extreme = min(extreme, v) if falling else max(extreme, v)
    return count + falling


def parabola(a, b, va, vb):
    """Minimum of the parabola through (0, 0), (a, va), (b, vb), and its second derivative, 0 without one."""
    d = 2 * (va / a - vb / b) / (a - b)
    move = -(va / a - d * a / 2) / d
    if math.isfinite(move) and math.isfinite(d) and d > 0:
        return move, d
    better, worse = (a, b) if va < vb else (b, a)
    return (2 * better if min(va, vb) < 0 else worse / 2), 0.0


def search(x, sigma0, draw):
    """``draw(batch, stream)`` returns the random generator of a batch."""
    n, batch, noise = len(x), 0, ValueNoise()
    f, h = INF, np.zeros(n)

    def say(X):
        nonlocal batch
        v = np.array((yield X), dtype=float)
        v = np.where(np.isfinite(v), v, np.nan)
        batch += 1
        noise.remember(v)
        return v

    def eps():
        return noise.error(f)

    def moved(columns, places):
        X = np.repeat(x[None], len(columns), axis=0)
        X[np.arange(len(columns)), columns] = places
        return X

    def one_by_one(columns, places):
        """Values where single coordinates differ from x, infinite for failures."""
        v = yield from say(moved(columns, places))
        return np.where(np.isnan(v), INF, v)

    # the value at x0, or at points nearby
    v, attempts, X = (yield from say(x[None])), 0, x[None]
    while np.isnan(v).all():
        attempts += 1
        if attempts > 3:
            return "failures"
        normal = draw(batch - 1, 1).standard_normal((4, n))
        X = x + np.array([0.01, 0.03, 0.1, 0.3])[:, None] * np.full(n, sigma0) * normal
        v = yield from say(X)
    x, f = X[int(np.nanargmin(v))].copy(), float(np.nanmin(v))
    low, high = x - 3 * sigma0, x + 3 * sigma0
    w = high - low

    def look_at_noise(length):
        step = length * w * draw(batch - 1, 2).standard_normal(n)
        runs = [[]]
        for value in (yield from say(x + np.arange(-3.0, 5.0)[:, None] * step)):
            if math.isnan(value):
                runs.append([])
            else:
                runs[-1].append(value)
        noise.measure(np.array(max(runs, key=len)), f)

    far = float(np.abs(x / w).max())
    yield from look_at_noise(max(1e-8, 1e-9 * far))

    # is f a sum?
    additive, coupled = True, False
    if n > 1:
        random = draw(batch - 1, 3)
        sizes = w * random.uniform(0.05, 0.1, (4, n))
        ends = x + np.where(random.random((4, n)) < 0.5, -1.0, 1.0) * sizes
        ranks = random.random((4, n)).argsort(axis=1).argsort(axis=1)
        A = ranks < (n + 1) // 2
        v = yield from say(np.concatenate((ends, np.where(A, ends, x), np.where(A, x, ends))))
        clear, lines = True, 0
        for c, a, b in zip(v[:4], v[4:8], v[8:], strict=True):
            if math.isfinite(c + a + b):
                lines += 1
                size = abs(a - f) + abs(b - f) + abs(c - f)
                hidden = 10 * noise.error(max(abs(a), abs(b), abs(c), abs(f)))
                coupled |= abs((c - f) - (a - f) - (b - f)) > max(1e-6 * size, hidden)
                clear &= hidden <= 1e-2 * size
        coupled &= lines > 1
        additive = clear and lines > 1 and not coupled

    def spread_factor():
        return 1 + 0.1 * (2 * draw(batch - 1, 7).random() - 1)

    # how many valleys?
    levels = 0
    if additive:
        few = draw(batch - 1, 4).permutation(n)[: max(2, n // 100)]
        parts = (np.arange(40)[:, None] + 0.5) / 40
        v = yield from say(moved(np.tile(few, 40), (low[few] + w[few] * parts).ravel()))
        counts = [valleys(v[j :: len(few)].tolist(), 8 * eps()) for j in range(len(few))]
        levels = 200 if np.mean([count > 1 for count in counts]) > 0.3 else 0
    h = spread_factor() * (0.2 / levels if levels else 0.2) * w
    d, rests = np.full(n, INF), np.zeros(n, dtype=bool)
    shortfalls, sweeps, gained = 0, 0, False

    def joint(y, alone):
        """Move to y, or only in the best coordinate; ``alone`` has the values of single moves."""
        nonlocal x, f, shortfalls, gained
        for attempt in range(4):
            moving = np.flatnonzero(y != x)
            if len(moving) == 0:
                return
            if len(moving) == 1:
                j = int(moving[0])
                if alone[j] < f:
                    x, f, gained = y.copy(), float(alone[j]), True
                return
            z = x + (1 - 1e-6) * (y - x) if attempt == 1 else y
            value = float((yield from say(z[None]))[0])
            if not math.isnan(value) or attempt == 3:
                break
            if attempt > 0:
                fewer = draw(batch - 1, 6).permutation(moving)[: len(moving) // 2]
                y[fewer], alone[fewer] = x[fewer], f
        gain, expected, hidden = f - value, float(np.sum(f - alone)), len(moving) * (4 * eps())
        if gain > 0 and gain >= 0.5 * expected - hidden:
            x, f, gained = z.copy(), value, True
            return
        shortfalls += expected > hidden and not math.isnan(value)
        j = int(alone.argmin())
        if alone[j] < f:
            x, f, gained = x.copy(), float(alone[j]), True
            x[j] = y[j]

    def scan(low, high, levels, extend):
        """The lowest of five valleys of each coordinate, after golden sections; None without any."""
        nonlocal w
        found = [[] for _ in range(n)]  # (value, order, place, left, right) of each valley
        columns, ends, extension = np.arange(n), (low.copy(), high.copy()), 0
        while True:
            count, P, V = -(-256 // len(columns)), [low], [np.full(len(columns), INF)]
            shift = draw(batch - 1, 5).random(len(columns))
            for level in range(0, levels, count):
                rows = min(count, levels - level)
                part = level + np.arange(rows)[:, None] + shift
                places = low + (high - low) * (part / levels)
                v = yield from one_by_one(np.tile(columns, rows), places.ravel())
                P.extend(places)
                V.extend(v.reshape(rows, -1))
            P, V = np.array([*P, high]), np.array([*V, np.full(len(columns), INF)])
            beyond = []
            for c, j in enumerate(columns):
                for i in range(1, levels + 1):
                    if V[i, c] <= V[i - 1, c] and V[i, c] <= V[i + 1, c] and V[i, c] < INF:
                        found[j].append((V[i, c], len(found[j]), P[i, c], P[i - 1, c], P[i + 1, c]))
                found[j] = [(v, k, *rest) for k, (v, _, *rest) in enumerate(sorted(found[j])[:5])]
                if extend and found[j]:
                    near = 0.1 * (high - low)[c]
                    if found[j][0][2] < low[c] + near and low[c] == ends[0][j]:
                        beyond.append((j, low[c] - (high - low)[c], low[c]))
                    elif found[j][0][2] > high[c] - near and high[c] == ends[1][j]:
                        beyond.append((j, high[c], high[c] + (high - low)[c]))
            if not beyond or extension == 3:
                break
            extension += 1
            columns = np.array([j for j, _, _ in beyond])
            low, high = np.array([b for _, b, _ in beyond]), np.array([e for _, _, e in beyond])
            for j, b, e in beyond:
                ends[0][j], ends[1][j] = min(ends[0][j], b), max(ends[1][j], e)
        w = ends[1] - ends[0] if extend else w
        all_of = [(k, j) for k in range(5) for j in range(n) if k < len(found[j])]
        if not all_of:
            return None
        brackets = {(k, j): [found[j][k][i] for i in (3, 2, 4, 0)] for k, j in all_of}
        for _ in range(4):
            q = [
                p + (3 - math.sqrt(5)) / 2 * ((b if b - p > p - a else a) - p)
                for a, p, b, _ in (brackets[at] for at in all_of)
            ]
            v = yield from one_by_one(np.array([j for _, j in all_of]), np.array(q))
            for at, place, value in zip(all_of, q, v, strict=True):
                a, p, b, u = brackets[at]
                if value < u:
                    brackets[at] = [p, place, b, value] if place > p else [a, place, p, value]
                else:
                    brackets[at] = [a, p, place, u] if place > p else [place, p, b, u]
        best = [min((brackets[k, j][::-1] for k in range(5) if (k, j) in brackets), key=lambda t: t[0],
                    default=None) for j in range(n)]  # fmt: skip
        y, alone = x.copy(), np.full(n, f)
        for j in range(n):
            if best[j] is not None and best[j][0] < f - 4 * eps():
                y[j], alone[j] = best[j][2], best[j][0]
        return y, alone

    spacing, improved, zooms = w / max(levels, 1), False, 0
    if levels:
        found = yield from scan(low, high, levels, extend=True)
        if found is None:
            h = spread_factor() * 0.2 * w
        else:
            improved = bool((found[1] < f).any())
            yield from joint(*found)
            if noise.is_outdated(f):
                yield from look_at_noise(max(1e-7 * float((h / w).max()), 1e-13 * float(np.abs(x / w).max())))

    # sweeps
    while True:
        shortest = np.maximum(1e-13 * w, 4 * np.spacing(np.abs(x)))
        floor = np.maximum(shortest, np.sqrt(100 * eps() / d))
        active = np.flatnonzero(~(rests & (h <= 2 * floor)))
        settled = improved and zooms < 5 and bool((h <= 1e-6 * spacing)[active].all())
        if settled or not len(active):
            sweeps += 1
            h[active] = np.maximum(h, np.minimum(floor, 2 * h))[active]
            if settled:
                zooms += 1
                found = yield from scan(x - 10 * spacing, x + 10 * spacing, 80, extend=False)
                if found is None:
                    h = spread_factor() * 0.2 * w
                    d, rests = np.full(n, INF), np.zeros(n, dtype=bool)
                    continue
                y, alone = found
                lower = alone < f
                improved = bool(lower.any())
                h = np.where(lower, 2 * 10.0 / 80 * 0.2 * spacing, h)
                d, rests = np.where(lower, INF, d), rests & ~lower
                yield from joint(y, alone)
            elif coupled:
                return "not_additive"
            elif not gained and np.all(noise.recent == f):
                return "flat"
            else:
                return "converged"
        else:
            sweeps += 1
            h[active] = np.maximum(h, np.minimum(floor, 2 * h))[active]
            up, down = x + h, x - h
            v = yield from one_by_one(
                np.concatenate((active, active)), np.concatenate((up[active], down[active]))
            )
            tries, values = [], {j: (v[i], v[len(active) + i]) for i, j in enumerate(active)}
            for i, j in enumerate(active):
                a, b, va, vb = up[j] - x[j], down[j] - x[j], v[i] - f, v[len(active) + i] - f
                move, curvature = parabola(a, b, va, vb)
                place = x[j] + min(max(move, -3 * h[j]), 3 * h[j])
                tries.append((j, a, b, va, vb, place, curvature))
            new = [t for t in tries if t[5] not in (x[t[0]], up[t[0]], down[t[0]])]
            third = {}
            if new:
                u = yield from one_by_one(np.array([t[0] for t in new]), np.array([t[5] for t in new]))
                third = {t[0]: value for t, value in zip(new, u, strict=True)}
            y, alone, hidden = x.copy(), np.full(n, f), 4 * eps()
            for j, a, b, va, vb, place, curvature in tries:
                vp = third.get(j, INF) - f
                bonus = 2 * hidden if curvature * abs(a) * abs(b) > hidden and place != x[j] else 0.0
                best = int(np.argmin([-hidden, va, vb, vp - bonus]))
                y[j] = (x[j], up[j], down[j], place)[best]
                alone[j] = (f, values[j][0], values[j][1], third.get(j, INF))[best]
                sizes = [abs(value) for value in (va, vb) if value < INF]
                d[j] = max(sum(sizes), 100 * eps()) / h[j] ** 2 if sizes else INF
                rests[j] = f - alone[j] <= hidden
                follow = min(max(abs(y[j] - x[j]), 0.05 * h[j]), 2 * h[j])
                longer = (0.25 * h[j], h[j], h[j], follow)[best]
                h[j] = max(longer, min(max(shortest[j], math.sqrt(100 * eps() / d[j])), h[j]))
            yield from joint(y, alone)
        if shortfalls == 2 or (not additive and sweeps > 40):
            return "not_additive"
        if noise.is_outdated(f):
            yield from look_at_noise(max(1e-7 * float((h / w).max()), 1e-13 * float(np.abs(x / w).max())))
