"""A strategy with batches of 1, 7, 2n and popsize rows in turn, and one that allows partial batches."""

import numpy as np

import lmma


class Varied(lmma.Strategy):
    """Moves its mean to the best of a batch, and shortens its steps."""

    can_resample = True

    @property
    def batch_size(self):
        return (1, 7, 2 * self.n, self.popsize)[self.generation % 4]

    def _sample(self, out):
        out[...] = self.mean + self.steps * self.generator().standard_normal(out.shape)

    def _resample(self, rows, attempt, out):
        fresh = self.generator(attempt).standard_normal(out.shape)
        out[rows] = (self.mean + self.steps * fresh)[rows]

    def _update(self, order, values):
        if len(order) > 1:
            self.mean[...] = self.candidates[order[: len(order) // 2]].mean(axis=0)
        self.sigma *= 0.98

    @classmethod
    def memory(cls, n, popsize, itemsize=8):
        return 2 * n * popsize * itemsize


class Cut(Varied):
    cuts_batches = True


def curved(x):
    return float(np.sum((x - 0.3) ** 2 * np.arange(1, len(x) + 1)))


def curved_rows(X):
    return np.sum((X - 0.3) ** 2 * np.arange(1, X.shape[1] + 1), axis=1)
