"""The two questions the paper leaves open: a rank-mu update of the m_i, and learning rates adapted online.

    python benchmarks/open_questions.py [--n 64] [--seeds 101-103] [--methods SketchES,LikelyES]

Variants of LM-MA-ES as strategies of their own, in plain NumPy, on the paper's protocol. docs/research.md has
the answers; `lmma compare --methods open_questions:SketchES,lm-ma-es` runs them beside any other method.

rank-mu. The rank-mu matrix sum_i w_i z_i z_i^T has no path: z and -z say the same of it. What m vectors can
hold of it is a random sketch, s = sum_i e_i sqrt(w_i) z_i with random signs e_i: E[s s^T] is that matrix.

- SketchES    every second m_i follows s in place of z_mean
- HalfES      its control: the m_i of SketchES that follow z_mean, and no others
- ExtraES     m sketches beside the m paths, at 0.3 times their c_d
- RankES      every second m_i follows the z of one rank

Rates online. After Loshchilov, Schoenauer, Sebag and Hansen (2014): candidates of the rates do the last
update over again, and those under which the steps selected now are likelier show where to go. Likelihood is
that of the shape: -n/2 log(sum_i w_i |M^-1 d_i|^2) - log det M.

- LikelyES    factors on c_c and c_d
- LikelyCcES  a factor on c_c alone
- LikelyCdES  a factor on c_d alone
"""

import argparse
import sys
from pathlib import Path

from one_thread import use_one_thread

use_one_thread()

import numpy as np

from lmma.methods.es import ES, Transform
from lmma.methods.lmma import CAP, LMMAParameters
from lmma.numerics.stepsize import CSA

PATH, SKETCH, RANK = 0, 1, 2


class Chain(Transform):
    """The factors (1 - c_d) I + c_d m_i m_i^T one after another, each m_i fed as its kind says."""

    def __init__(self, n, kinds, c_c, c_d, ages, seed):
        self.vectors = np.zeros((len(kinds), n))
        self.kinds, self.c_c, self.c_d, self.ages = kinds, c_c, c_d, ages
        self.rng = np.random.default_rng(seed)
        self.age = 0

    def factors(self, c_d=None, vectors=None):
        """Return (c_d, m_i) of the factors in use."""
        c_d = self.c_d if c_d is None else c_d
        vectors = self.vectors if vectors is None else vectors
        return [(c, v) for c, v, age in zip(c_d, vectors, self.ages, strict=True) if self.age > age]

    def apply(self, z, out=None):
        """Return M z."""
        d = z.copy()
        for c, v in self.factors():
            d = (1 - c) * d + c * np.multiply.outer(d @ v, v)
        return d if out is None else np.copyto(out, d)

    def apply_transposed(self, d):
        """Return the transpose of M times d."""
        for c, v in reversed(self.factors()):
            d = (1 - c) * d + c * np.multiply.outer(d @ v, v)
        return d

    def update(self, best, p_sigma):
        """Let every m_i fade and add what its kind follows."""
        z, weights = best.z, best.weights
        for i, (kind, rate) in enumerate(zip(self.kinds, self.c_c, strict=True)):
            gain = np.sqrt(rate * (2 - rate))
            if kind == PATH:
                news = np.sqrt(best.mu_w) * best.z_mean
            elif kind == SKETCH:
                news = (self.rng.choice((-1.0, 1.0), len(weights)) * np.sqrt(weights)) @ z
            else:
                news = z[i // 2 % len(z)]
            self.vectors[i] = (1 - rate) * self.vectors[i] + gain * news
        self.age += 1


class LikelyChain(Chain):
    """Paths alone, with factors on c_c and c_d that follow the likelihood of the selected steps."""

    CANDIDATES, STEP, RATE, BOUND = 10, 0.2, 0.1, np.log(30)
    keeps_directions = True

    def __init__(self, *args, adapted):
        super().__init__(*args)
        self.adapted = np.array(adapted)
        self.log_factors = np.zeros(2)  # of c_c and c_d
        self.printed = self.c_c, self.c_d
        self.before = None

    def rates(self, log_factors):
        """Return c_c and c_d under these factors."""
        factors = np.exp(np.clip(log_factors, -self.BOUND, self.BOUND))
        return tuple(np.minimum(f * rates, CAP) for f, rates in zip(factors, self.printed, strict=True))

    def update(self, best, p_sigma):
        """Adapt the factors, then update the paths."""
        if self.before is not None:
            half = self.STEP * self.rng.standard_normal((self.CANDIDATES // 2, 2)) * self.adapted
            offsets = np.concatenate((half, -half))
            likelihood = [self._likelihood(self.log_factors + offset, best) for offset in offsets]
            ranks = np.argsort(np.argsort(likelihood)) >= self.CANDIDATES // 2
            slope = np.where(ranks, 1.0, -1.0) @ offsets * 2 / self.CANDIDATES
            self.log_factors = np.clip(self.log_factors + self.RATE * slope, -self.BOUND, self.BOUND)
            self.c_c, self.c_d = self.rates(self.log_factors)
        self.before = self.vectors.copy(), np.sqrt(best.mu_w) * best.z_mean
        super().update(best, p_sigma)

    def _likelihood(self, log_factors, best):
        c_c, c_d = self.rates(log_factors)
        vectors, news = self.before
        vectors = (1 - c_c)[:, None] * vectors + np.multiply.outer(np.sqrt(c_c * (2 - c_c)), news)
        d, log_det, n = best.d.copy(), 0.0, vectors.shape[1]
        for c, v in reversed(self.factors(c_d, vectors)):
            along = 1 - c + c * (v @ v)
            d = (d - c * np.multiply.outer(d @ v, v) / along) / (1 - c)
            log_det += (n - 1) * np.log(1 - c) + np.log(along)
        return -n / 2 * np.log(best.weights @ np.square(d).sum(axis=1)) - log_det


class Variant(ES):
    """LM-MA-ES with another way to feed its vectors."""

    define = LMMAParameters

    def _make_step(self):
        return CSA(self.n, self.parameters.c_sigma, dtype=self.dtype)

    def _chain(self, cls, kinds, keep=slice(None), extra=0.0, **options):
        p = self.parameters
        c_c, c_d, ages = p.c_c[keep], p.c_d[keep], np.arange(p.m)[keep]
        if extra:
            c_c, c_d, ages = np.tile(c_c, 2), np.concatenate((c_d, extra * c_d)), np.tile(ages, 2)
        return cls(self.n, kinds(len(c_c)), c_c, c_d, ages, self.key[0], **options)

    @classmethod
    def memory(cls, n, popsize, itemsize=8):
        """Return about how many bytes a run needs."""
        return 8 * popsize * n * itemsize


class SketchES(Variant):
    """Every second vector a sketch."""

    name = "rank-mu sketches"

    def _make_transform(self):
        return self._chain(Chain, lambda m: [PATH, SKETCH] * (m // 2) + [PATH] * (m % 2))


class HalfES(Variant):
    """Every second vector alone."""

    name = "half the paths"

    def _make_transform(self):
        return self._chain(Chain, lambda m: [PATH] * m, slice(None, None, 2))


class ExtraES(Variant):
    """As many sketches as paths."""

    name = "sketches beside the paths"

    def _make_transform(self):
        return self._chain(Chain, lambda m: [PATH] * (m // 2) + [SKETCH] * (m // 2), extra=0.3)


class RankES(Variant):
    """Every second vector follows one rank."""

    name = "paths of ranks"

    def _make_transform(self):
        return self._chain(Chain, lambda m: [PATH, RANK] * (m // 2) + [PATH] * (m % 2))


class LikelyES(Variant):
    """c_c and c_d by likelihood."""

    name = "c_c and c_d by likelihood"
    adapted = (1.0, 1.0)

    def _make_transform(self):
        return self._chain(LikelyChain, lambda m: [PATH] * m, adapted=self.adapted)


class LikelyCcES(LikelyES):
    """c_c by likelihood."""

    name = "c_c by likelihood"
    adapted = (1.0, 0.0)


class LikelyCdES(LikelyES):
    """c_d by likelihood."""

    name = "c_d by likelihood"
    adapted = (0.0, 1.0)


METHODS = ("SketchES", "HalfES", "ExtraES", "RankES", "LikelyES", "LikelyCcES", "LikelyCdES")


def main() -> None:
    """Run all variants and print thousands of evaluations to 1e-10."""
    from lmma_lab.schedule.execute import perform
    from lmma_lab.tasks import Solve

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--seeds", default="101-103", help="first-last")
    parser.add_argument("--methods", default="lm-ma-es," + ",".join(METHODS))
    parser.add_argument("--problems", default="sphere,cigar,different-powers,rosenbrock")
    parser.add_argument("--budget", type=int, default=1000, help="thousands of evaluations")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    sys.path.insert(0, str(Path(__file__).parent))
    for method in options.methods.split(","):
        full = f"open_questions:{method}" if method in METHODS else method
        for problem in options.problems.split(","):
            counts = [
                perform(Solve(problem, full, options.n, seed, 1000 * options.budget))["evaluations_to_target"]
                for seed in range(int(first), int(last or first) + 1)
            ]
            reached = [count / 1000 for count in counts if count]
            median = f"{np.median(reached):.1f}" if reached else f"not in {options.budget}"
            print(f"{method:12} {problem:18} {median:>8} ({len(reached)}/{len(counts)})", flush=True)


if __name__ == "__main__":
    main()
