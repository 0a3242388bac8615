"""Literal transcriptions of the other methods from their papers.

Each class takes the standard normal numbers ``z`` of a generation from outside, one row a candidate, and
is otherwise self-contained: no line of ``lmma`` is used, and nothing is clever. Slow by intention.
What is not as printed is so for small n only and listed in docs/departures.md.

Sources: the supplement of the LM-MA-ES paper (archive); Loshchilov 2017 (LM-CMA-ES); Akimoto, Auger and
Hansen 2014 (VD-CMA-ES); Hansen's tutorial, arXiv 1604.00772 (active CMA-ES); Ros and Hansen 2008 (sep).
"""

from __future__ import annotations

from math import ceil, exp, floor, log, sqrt

import numpy as np


def dot(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


def ranking(values):
    return sorted(range(len(values)), key=lambda i: values[i])


def path(p, c, mu_w, step):
    return [(1 - c) * p[k] + sqrt(mu_w * c * (2 - c)) * step[k] for k in range(len(p))]


def weighted(weights, rows, order):
    n = len(rows[0])
    return [sum(weights[i] * rows[order[i]][k] for i in range(len(weights))) for k in range(n)]


def log_weights(lam, offset):
    """w_i ~ ln(offset) - ln i, i = 1 ... mu, and mu_w."""
    mu = lam // 2
    raw = [log(offset) - log(i) for i in range(1, mu + 1)]
    weights = [w / sum(raw) for w in raw]
    return weights, 1 / sum(w * w for w in weights)


def chi(n):
    return sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))


class Oracle:
    """What all of them share: lambda, the mean, and candidates y + sigma d."""

    def __init__(self, x0, sigma0):
        self.y = [float(x) for x in x0]
        self.sigma = float(sigma0)
        self.n = len(self.y)
        self.lam = 4 + floor(3 * log(self.n))
        self.mu = self.lam // 2
        self.t = 0
        self.p_sigma = [0.0] * self.n
        self.p_c = [0.0] * self.n
        self.setup()

    def ask(self, z):
        self.z = [[float(v) for v in row] for row in z]
        self.d = [self.transform(i) for i in range(self.lam)]
        return np.array([[self.y[k] + self.sigma * d[k] for k in range(self.n)] for d in self.d])

    def tell(self, values):
        order = ranking(values)
        d_mean = weighted(self.weights, self.d, order)
        self.y = [self.y[k] + self.sigma * d_mean[k] for k in range(self.n)]
        self.update(order, d_mean, list(values))
        self.t += 1

    def csa_norm(self, c_sigma, d_sigma):
        length = sqrt(dot(self.p_sigma, self.p_sigma))
        self.sigma *= exp(c_sigma / d_sigma * (length / chi(self.n) - 1))


class Archive(Oracle):
    """Supplement, Algorithm 1; ref, time and M count from 1 there and from 0 here."""

    def setup(self):
        n = self.n
        self.m_max = 4 + floor(3 * log(n))
        self.weights, self.mu_w = log_weights(self.lam, self.mu + 0.5)
        self.c_1 = self.c_c = min(0.5, 1 / n)
        self.c_sigma = 1 / self.m_max
        self.d_sigma = 0.5
        self.N = max(n * n / self.m_max, n)
        self.m = 0
        self.M = [[0.0] * n for _ in range(self.m_max)]
        self.ref = []
        self.time = [0] * self.m_max

    def transform(self, i):
        d = list(self.z[i])
        for j in range(self.m - 1, -1, -1):
            c = self.c_1
            if j < self.m - 1:
                c = self.c_1 * (self.time[self.ref[j + 1]] - self.time[self.ref[j]]) / self.N
            c = min(0.5, c)
            s = dot(self.M[self.ref[j]], d)
            d = [(1 - c) * d[k] + c * self.M[self.ref[j]][k] * s for k in range(self.n)]
        return d

    def update(self, order, d_mean, values):
        z_mean = weighted(self.weights, self.z, order)
        self.p_sigma = path(self.p_sigma, self.c_sigma, self.mu_w, z_mean)
        self.p_c = path(self.p_c, self.c_c, self.mu_w, z_mean)
        self.m = min(self.t + 1, self.m_max)
        if self.t < self.m_max:
            self.ref.append(self.t)
        else:
            gaps = [self.time[self.ref[i + 1]] - self.time[self.ref[i]] for i in range(self.m - 1)]
            i_min = 1 + min(range(self.m - 1), key=lambda i: gaps[i] - self.N)
            if gaps[i_min - 1] - self.N >= 0:
                i_min = 0
            self.ref.append(self.ref.pop(i_min))  # the (i_min + 1)-th, counted from 1
        self.time[self.ref[-1]] = self.t + 1
        self.M[self.ref[-1]] = list(self.p_c)
        square = dot(self.p_sigma, self.p_sigma)
        self.sigma *= exp(self.c_sigma / self.d_sigma * (square / self.n - 1))


class LMCMA(Oracle):
    """Loshchilov 2017: products with the Cholesky factor (Az) and its inverse (Ainvz).

    ``first[i]`` is the first direction vector candidate i uses (SelectSubset).
    """

    def setup(self):
        n = self.n
        self.m = 4 + floor(3 * log(n))
        self.weights, self.mu_w = log_weights(self.lam, self.mu + 0.5)
        self.c_c = 0.5 / sqrt(n)
        self.c_1 = 1 / (10 * log(n + 1))
        self.a = sqrt(1 - self.c_1)
        self.N_steps = n
        self.T = max(1, floor(log(n)))
        self.c_sigma, self.d_sigma, self.z_star = 0.3, 1.0, 0.3
        self.s = 0.0
        self.previous = None
        self.P, self.V, self.b, self.e = {}, {}, {}, {}
        self.j, self.l = [], {}
        self.first = [0] * self.lam

    def transform(self, i):
        z = self.z[i]
        x = list(z)
        for r in self.j[self.first[i] :]:
            s = self.b[r] * dot(self.V[r], z)
            x = [self.a * x[k] + s * self.P[r][k] for k in range(self.n)]
        return x

    def inverse(self, p, used):
        x = list(p)
        for r in used:
            s = self.e[r] * dot(self.V[r], x)
            x = [x[k] / self.a - s * self.V[r][k] for k in range(self.n)]
        return x

    def update(self, order, d_mean, values):
        self.p_c = path(self.p_c, self.c_c, self.mu_w, d_mean)
        if self.t % self.T == 0:
            if len(self.j) < self.m:
                self.j.append(len(self.j))
            else:
                gaps = [self.l[self.j[i]] - self.l[self.j[i - 1]] for i in range(1, self.m)]
                i_min = 1 + min(range(self.m - 1), key=lambda i: gaps[i] - self.N_steps)
                if gaps[i_min - 1] - self.N_steps >= 0:
                    i_min = 0
                self.j.append(self.j.pop(i_min))
            self.l[self.j[-1]] = self.t
            self.P[self.j[-1]] = list(self.p_c)
            for i, r in enumerate(self.j):  # all of them anew; a code may skip the unchanged
                self.V[r] = self.inverse(self.P[r], self.j[:i])
                v2 = dot(self.V[r], self.V[r])
                q = sqrt(1 + self.c_1 / (1 - self.c_1) * v2)
                self.b[r] = self.a / v2 * (q - 1)
                self.e[r] = 1 / (self.a * v2) * (1 - 1 / q)
        if self.previous is not None:
            both = values + self.previous
            rank = [
                sum(other < value for other in both) + sum(other == value for other in both) / 2
                for value in both
            ]  # equal values share their ranks; the paper does not speak of them
            new = sum(rank[: self.lam])
            old = sum(rank[self.lam :])
            z_psr = (old - new) / self.lam**2 - self.z_star
            self.s = (1 - self.c_sigma) * self.s + self.c_sigma * z_psr
            self.sigma *= exp(self.s / self.d_sigma)
        self.previous = values


class VD(Oracle):
    """Akimoto, Auger and Hansen 2014; v0 is given."""

    def setup(self):
        n = self.n
        self.weights, mu_w = log_weights(self.lam, (self.lam + 1) / 2)
        self.mu_w = mu_w
        f = max((n - 5) / 6, 0.5)
        self.c_c = (4 + mu_w / n) / (n + 4 + 2 * mu_w / n)
        self.c_1 = f * 2 / ((n + 1.3) ** 2 + mu_w)
        self.c_mu = min(1 - self.c_1, f * 2 * (mu_w - 2 + 1 / mu_w) / ((n + 2) ** 2 + mu_w))
        self.c_sigma = sqrt(mu_w) / (2 * (sqrt(n) + sqrt(mu_w)))
        self.d_sigma = 1 + self.c_sigma + 2 * max(0, sqrt((mu_w - 1) / (n + 1)) - 1)
        self.D = [1.0] * n
        self.v = [0.0] * n

    def transform(self, i):
        v2 = dot(self.v, self.v)
        u = [x / sqrt(v2) for x in self.v]
        s = (sqrt(1 + v2) - 1) * dot(self.z[i], u)
        return [self.D[k] * (self.z[i][k] + s * u[k]) for k in range(self.n)]

    def p_and_q(self, y, u, v2):
        s = dot(y, u)
        p = [y[k] ** 2 - v2 / (1 + v2) * s * y[k] * u[k] - 1 for k in range(self.n)]
        q = [s * y[k] - (s * s + 1 + v2) / 2 * u[k] for k in range(self.n)]
        return p, q

    def update(self, order, d_mean, values):
        n = self.n
        z_mean = weighted(self.weights, self.z, order)
        self.p_sigma = path(self.p_sigma, self.c_sigma, self.mu_w, z_mean)
        square = dot(self.p_sigma, self.p_sigma)
        fade = 1 - (1 - self.c_sigma) ** (2 * (self.t + 1))
        h = 1.0 if square / n < (2 + 4 / (n + 1)) * fade else 0.0
        self.p_c = path(self.p_c, self.c_c, self.mu_w, [h * x for x in d_mean])
        v2 = dot(self.v, self.v)
        u = [x / sqrt(v2) for x in self.v]
        uu = [x * x for x in u]
        p, q = [0.0] * n, [0.0] * n
        for i in range(self.mu):
            y = [self.d[order[i]][k] / self.D[k] for k in range(n)]
            dp, dq = self.p_and_q(y, u, v2)
            p = [p[k] + self.c_mu * self.weights[i] * dp[k] for k in range(n)]
            q = [q[k] + self.c_mu * self.weights[i] * dq[k] for k in range(n)]
        dp, dq = self.p_and_q([self.p_c[k] / self.D[k] for k in range(n)], u, v2)
        p = [p[k] + h * self.c_1 * dp[k] for k in range(n)]
        q = [q[k] + h * self.c_1 * dq[k] for k in range(n)]
        gamma = 1 / sqrt(1 + v2)
        alpha = sqrt(v2**2 + (1 + v2) / max(uu) * (2 - gamma)) / (2 + v2)
        beta = 0.0
        if alpha < 1:
            beta = (4 - (2 - gamma) / max(uu)) / (1 + 2 / v2) ** 2
        else:
            alpha = 1.0
        b = 2 * alpha**2 - beta
        a = [2 - (b + 2 * alpha**2) * x for x in uu]
        w = [uu[k] / a[k] for k in range(n)]
        uq = dot(u, q)
        r = [p[k] - alpha / (1 + v2) * ((2 + v2) * q[k] * u[k] - v2 * uq * uu[k]) for k in range(n)]
        share = b * dot(r, w) / (1 + b * dot(uu, w))
        s = [r[k] / a[k] - share * w[k] for k in range(n)]
        su = dot(s, uu)
        grad_v = [(q[k] - alpha * ((2 + v2) * u[k] * s[k] - su * u[k])) / sqrt(v2) for k in range(n)]
        limit = min(1.0, 0.7 * sqrt(v2) / sqrt(dot(grad_v, grad_v)), 0.7 / max(abs(x) for x in s))
        self.v = [self.v[k] + limit * grad_v[k] for k in range(n)]
        self.D = [self.D[k] + limit * self.D[k] * s[k] for k in range(n)]
        self.csa_norm(self.c_sigma, self.d_sigma)


class ActiveCMA(Oracle):
    """Hansen's tutorial with negative weights; the symmetric root, renewed every ``gap`` generations."""

    def setup(self):
        n, lam, mu = self.n, self.lam, self.mu
        raw = [log((lam + 1) / 2) - log(i) for i in range(1, lam + 1)]
        mu_w = sum(raw[:mu]) ** 2 / sum(w * w for w in raw[:mu])
        mu_minus = sum(raw[mu:]) ** 2 / sum(w * w for w in raw[mu:])
        self.mu_w = mu_w
        self.c_sigma = (mu_w + 2) / (n + mu_w + 5)
        self.d_sigma = 1 + 2 * max(0, sqrt((mu_w - 1) / (n + 1)) - 1) + self.c_sigma
        self.c_c = (4 + mu_w / n) / (n + 4 + 2 * mu_w / n)
        self.c_1 = 2 / ((n + 1.3) ** 2 + mu_w)
        self.c_mu = min(1 - self.c_1, 2 * (0.25 + mu_w + 1 / mu_w - 2) / ((n + 2) ** 2 + mu_w))
        negative = min(
            1 + self.c_1 / self.c_mu,
            1 + 2 * mu_minus / (mu_w + 2),
            (1 - self.c_1 - self.c_mu) / (n * self.c_mu),
        )
        positive_sum = sum(w for w in raw if w > 0)
        negative_sum = -sum(w for w in raw if w < 0)
        self.all = [w / positive_sum if w >= 0 else negative * w / negative_sum for w in raw]
        self.weights = self.all[:mu]
        self.gap = max(1, ceil(1 / (10 * n * (self.c_1 + self.c_mu))))
        self.C = np.eye(n)
        self.root = np.eye(n)

    def ask(self, z):
        if self.t % self.gap == 0:
            values, vectors = np.linalg.eigh(self.C)
            self.root = vectors @ np.diag(np.sqrt(values)) @ vectors.T
        return super().ask(z)

    def transform(self, i):
        return [dot(self.root[k], self.z[i]) for k in range(self.n)]

    def update(self, order, d_mean, values):
        n = self.n
        z_mean = weighted(self.weights, self.z, order)
        self.p_sigma = path(self.p_sigma, self.c_sigma, self.mu_w, z_mean)
        length = sqrt(dot(self.p_sigma, self.p_sigma))
        fade = 1 - (1 - self.c_sigma) ** (2 * (self.t + 1))
        h = 1.0 if length / sqrt(fade) < (1.4 + 2 / (n + 1)) * chi(n) else 0.0
        self.p_c = path(self.p_c, self.c_c, self.mu_w, [h * x for x in d_mean])
        delta = (1 - h) * self.c_c * (2 - self.c_c)
        C = (1 + self.c_1 * delta - self.c_1 - self.c_mu * sum(self.all)) * self.C
        C = C + self.c_1 * np.outer(self.p_c, self.p_c)
        for i in range(self.lam):
            w = self.all[i]
            if w < 0:
                w *= n / dot(self.z[order[i]], self.z[order[i]])
            C = C + self.c_mu * w * np.outer(self.d[order[i]], self.d[order[i]])
        self.C = C
        self.csa_norm(self.c_sigma, self.d_sigma)


class Separable(Oracle):
    """Ros and Hansen 2008: C diagonal, its learning rate (n + 2)/3 times larger."""

    def setup(self):
        n = self.n
        self.weights, mu_w = log_weights(self.lam, (self.lam + 1) / 2)
        self.mu_w = mu_w
        self.c_sigma = (mu_w + 2) / (n + mu_w + 3)
        self.d_sigma = 1 + 2 * max(0, sqrt((mu_w - 1) / (n + 1)) - 1) + self.c_sigma
        self.c_c = 4 / (n + 4)
        c_cov = 1 / mu_w * 2 / (n + sqrt(2)) ** 2
        c_cov += (1 - 1 / mu_w) * min(1, (2 * mu_w - 1) / ((n + 2) ** 2 + mu_w))
        self.c_cov = min(1.0, (n + 2) / 3 * c_cov)
        self.C = [1.0] * n

    def transform(self, i):
        return [sqrt(self.C[k]) * self.z[i][k] for k in range(self.n)]

    def update(self, order, d_mean, values):
        n = self.n
        z_mean = weighted(self.weights, self.z, order)
        self.p_sigma = path(self.p_sigma, self.c_sigma, self.mu_w, z_mean)
        length = sqrt(dot(self.p_sigma, self.p_sigma))
        fade = 1 - (1 - self.c_sigma) ** (2 * (self.t + 1))
        h = 1.0 if length / sqrt(fade) < (1.4 + 2 / (n + 1)) * chi(n) else 0.0
        self.p_c = path(self.p_c, self.c_c, self.mu_w, [h * x for x in d_mean])
        for k in range(n):
            rank_mu = sum(self.weights[i] * self.d[order[i]][k] ** 2 for i in range(self.mu))
            self.C[k] = (
                (1 - self.c_cov) * self.C[k]
                + self.c_cov / self.mu_w * self.p_c[k] ** 2
                + self.c_cov * (1 - 1 / self.mu_w) * rank_mu
            )
        self.csa_norm(self.c_sigma, self.d_sigma)
