"""Literal transcription of Algorithm 1 with loops, the reference for optimised code.

Only two things are not as printed, both for lack of an alternative (docs/departures.md): rates that would
leave (0, 1] for small n are capped at 1/2, and "t mod n/lambda" takes the floor of the quotient.
"""

import math

import numpy as np


class Algorithm1:
    """One of "csa-es", "cma-es", "ma-es", "lm-ma-es", fed with z and values from outside."""

    def __init__(self, kind, y, sigma, lam=None):
        n = len(y)
        lam = 4 + math.floor(3 * math.log(n)) if lam is None else lam  # line 1
        mu = lam // 2
        raw = [math.log(mu + 1 / 2) - math.log(i) for i in range(1, mu + 1)]
        self.w = [r / sum(raw) for r in raw]
        mu_w = 1 / sum(w**2 for w in self.w)
        self.c_sigma = (mu_w + 2) / (n + mu_w + 5)
        self.c_c = 4 / (n + 4)
        self.c_1 = 2 / ((n + 1.3) ** 2 + mu_w)
        self.c_mu = min(1 - self.c_1, 2 * (mu_w - 2 + 1 / mu_w) / ((n + 2) ** 2 + mu_w))
        if kind == "lm-ma-es":
            self.m = 4 + math.floor(3 * math.log(n))
            self.c_sigma = min(0.5, 2 * lam / n)
            self.c_d = [min(0.5, 1 / (1.5 ** (i - 1) * n)) for i in range(1, self.m + 1)]
            self.c_ci = [min(0.5, lam / (4 ** (i - 1) * n)) for i in range(1, self.m + 1)]
        self.kind, self.n, self.lam, self.mu, self.mu_w = kind, n, lam, mu, mu_w

        self.t, self.y, self.sigma = 0, np.array(y, dtype=float), sigma  # line 2
        self.p_sigma = np.zeros(n)
        self.p_c, self.C = np.zeros(n), np.eye(n)
        self.M = np.eye(n)
        if kind == "lm-ma-es":
            self.m_i = [np.zeros(n) for _ in range(self.m)]

    def ask(self, z):
        self.z, self.d, X = z, [], []
        for i in range(self.lam):  # line 4
            z_i = z[i]  # line 5
            d_i = z_i  # line 6
            if self.kind == "cma-es":
                if i == 0 and self.t % max(1, self.n // self.lam) == 0:  # line 7
                    values, vectors = np.linalg.eigh(self.C)
                    self.M = vectors @ np.diag(np.sqrt(values)) @ vectors.T
                d_i = self.M @ d_i  # line 8
            elif self.kind == "ma-es":
                d_i = self.M @ d_i  # line 8
            elif self.kind == "lm-ma-es":
                for j in range(min(self.t, self.m)):  # line 9
                    m_j, c_dj = self.m_i[j], self.c_d[j]
                    d_i = (1 - c_dj) * d_i + c_dj * m_j * (m_j @ d_i)  # line 10
            self.d.append(d_i)
            X.append(self.y + self.sigma * d_i)  # line 11
        return np.array(X)

    def tell(self, f):
        best = sorted(range(self.lam), key=lambda i: f[i])[: self.mu]
        z_w = sum(w * self.z[i] for w, i in zip(self.w, best, strict=True))
        d_w = sum(w * self.d[i] for w, i in zip(self.w, best, strict=True))
        c_s, c_1, c_mu, mu_w = self.c_sigma, self.c_1, self.c_mu, self.mu_w
        self.y = self.y + self.sigma * d_w  # line 12
        self.p_sigma = (1 - c_s) * self.p_sigma + math.sqrt(mu_w * c_s * (2 - c_s)) * z_w  # line 13
        if self.kind == "cma-es":
            c_c = self.c_c
            self.p_c = (1 - c_c) * self.p_c + math.sqrt(mu_w * c_c * (2 - c_c)) * d_w  # line 14
            rank_mu = sum(w * np.outer(self.d[i], self.d[i]) for w, i in zip(self.w, best, strict=True))
            self.C = (
                (1 - c_1 - c_mu) * self.C + c_1 * np.outer(self.p_c, self.p_c) + c_mu * rank_mu
            )  # line 15
        elif self.kind == "ma-es":
            identity = np.eye(self.n)
            rank_mu = sum(w * np.outer(self.z[i], self.z[i]) for w, i in zip(self.w, best, strict=True))
            self.M = self.M @ (
                identity
                + c_1 / 2 * (np.outer(self.p_sigma, self.p_sigma) - identity)
                + c_mu / 2 * (rank_mu - identity)
            )  # line 16
        elif self.kind == "lm-ma-es":
            for i in range(self.m):  # line 17
                c = self.c_ci[i]
                self.m_i[i] = (1 - c) * self.m_i[i] + math.sqrt(mu_w * c * (2 - c)) * z_w  # line 18
        self.sigma *= math.exp(c_s / 2 * (self.p_sigma @ self.p_sigma / self.n - 1))  # line 19
        self.t += 1  # line 20
