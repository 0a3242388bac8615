"""What one generation costs inside: ours, NumPy's bare random numbers, memory bandwidth, and peers.

    python benchmarks/generation.py [--dims 128,1024,8192,65536] [--repeat 30] [--out out/bench]

R is the time of one ask + tell of LM-MA-ES divided by the time in which NumPy draws as many standard normal
numbers, (lambda, n) in float64. All contenders take turns within one process and the best of many turns
counts, so that a busy machine disturbs everyone alike. Peers that are not installed are left out with a word
(``pip install 'lmma[bench]'`` brings those that install everywhere). Writes a table, a JSON file and a
log-log plot of the time a sample over n.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np
from peers import PEERS

import lmma
from lmma import kernels
from lmma.kernels import twin
from lmma.strategies.recombination import default_popsize

Step = Callable[[], object]
KERNELS = ("normals", "recombine", "lm_sample", "lm_update", "lm_mix")
COMPILED = None
if kernels.backend().startswith("compiled"):
    from lmma.kernels import compiled as COMPILED
TURN = 0.003  # seconds
FULL_MATRIX_UP_TO = 2048  # variables; beyond, n x n methods are left out


def ours(method: str, n: int, dtype: str = "float64", threads: int = 1, numpy_twin: bool = False) -> Step:
    """Return one generation of a strategy of ours, past its first m generations."""
    es = lmma.strategy(method, np.zeros(n), 1.0, rng=1, dtype=dtype)
    X = np.empty((es.popsize, n), dtype)
    values = np.random.default_rng(1).random(es.popsize)
    if not kernels.backend().startswith("compiled"):
        numpy_twin = False  # it is in use anyway

    def generation() -> None:
        before = set_threads(threads)
        es.ask(out=X)
        es.tell(values)
        set_threads(before)

    def on_the_twin() -> None:
        kept = {name: getattr(kernels, name) for name in KERNELS}
        for name in KERNELS:
            setattr(kernels, name, getattr(twin, name))
        try:
            generation()
        finally:
            for name, function in kept.items():
                setattr(kernels, name, function)

    if numpy_twin:
        return on_the_twin
    for _ in range(default_popsize(n) + 3):
        generation()
    return generation


def set_threads(count: int) -> int:
    """Let the compiled kernels use ``count`` threads; return how many they used before."""
    if COMPILED is None:
        return 1
    before, COMPILED.THREADS = COMPILED.THREADS, count
    return before


def draw(n: int) -> Step:
    """Return what everything is measured against: NumPy drawing the numbers of a generation."""
    rng, z = np.random.default_rng(1), np.empty((default_popsize(n), n))
    return lambda: rng.standard_normal(out=z)


def copy(n: int) -> Step:
    """Return a copy of a generation's numbers: what memory bandwidth alone would cost, once."""
    a = np.zeros((default_popsize(n), n))
    b = np.empty_like(a)
    return lambda: np.copyto(b, a)


def contenders(n: int, peers: bool) -> dict[str, Step]:
    """Return everything to be timed at ``n`` variables."""
    found: dict[str, Step] = {
        "numpy draw": draw(n),
        "memory copy": copy(n),
        "lm-ma-es": ours("lm-ma-es", n),
        "lm-ma-es, 2 threads": ours("lm-ma-es", n, threads=2),
        "lm-ma-es, float32": ours("lm-ma-es", n, dtype="float32"),
        "lm-ma-es, float32, 2 threads": ours("lm-ma-es", n, dtype="float32", threads=2),
        "lm-ma-es, NumPy twin": ours("lm-ma-es", n, numpy_twin=True),
        "d-lm-ma-es": ours("d-lm-ma-es", n),
    }
    if n <= FULL_MATRIX_UP_TO:
        found["ma-es"] = ours("ma-es", n)
        found["cma-es"] = ours("cma-es", n)
    if peers:
        for name, make in PEERS.items():
            try:
                step = make(n)
            except ImportError as missing:
                print(f"  {name}: left out, {missing}")
            except Exception as error:
                print(f"  {name}: left out at n = {n}, {type(error).__name__}: {error}")
            else:
                if step is not None:
                    found[name] = step
    return found


def best_times(steps: dict[str, Step], repeat: int, patience: float) -> dict[str, float]:
    """Return the best time of each, taking turns; slow ones get fewer turns.

    A turn is a few milliseconds of generations in a row, as in a run: the first of them finds its arrays and
    its code out of the caches, which the others' turns have filled.
    """
    best = dict.fromkeys(steps, float("inf"))
    spent = dict.fromkeys(steps, 0.0)
    for turn in range(repeat):
        for name, step in steps.items():
            if turn >= 3 and spent[name] > patience:
                continue
            until = time.perf_counter() + TURN
            while True:
                begin = time.perf_counter()
                step()
                end = time.perf_counter()
                spent[name] += end - begin
                best[name] = min(best[name], end - begin)
                if end > until:
                    break
    return best


def exponent(dims: list[int], seconds: list[float]) -> float:
    """Return the slope of log time a sample over log n."""
    return float(np.polyfit(np.log(dims), np.log(seconds), 1)[0])


def plot(results: dict[int, dict[str, float]], path: Path) -> None:
    """Draw the time a sample over n, the paper's figure 1 with peers added."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.5), layout="constrained")
    axes = figure.add_subplot()
    names = list(dict.fromkeys(name for row in results.values() for name in row))
    for index, name in enumerate(names):
        dims = [n for n in results if name in results[n]]
        micro = [results[n][name] / default_popsize(n) * 1e6 for n in dims]
        own = name.startswith(("lm-ma-es", "d-lm", "ma-es", "cma-es"))
        style = "-" if own else ("k:" if name in ("numpy draw", "memory copy") else "--")
        axes.loglog(
            dims, micro, style, marker="osv^D"[index % 5], markersize=4, label=name, lw=1.8 if own else 1
        )
    axes.set_xlabel("variables n")
    axes.set_ylabel("microseconds a sample, internal")
    axes.grid(True, which="major", alpha=0.3)
    figure.legend(fontsize=7, loc="outside right upper")
    figure.savefig(path)


def main() -> None:
    """Time everything and write table, JSON and plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dims", default="128,1024,8192,65536")
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument(
        "--patience", type=float, default=6.0, help="seconds a slow contender may take in all"
    )
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"kernels: {kernels.backend()}")
    results: dict[int, dict[str, float]] = {}
    for n in [int(word) for word in options.dims.split(",")]:
        steps = contenders(n, not options.no_peers)
        results[n] = best_times(steps, options.repeat, options.patience)
        base = results[n]["numpy draw"]
        print(f"\nn = {n}, lambda = {default_popsize(n)}: NumPy draws in {base * 1e6:,.1f} us")
        for name, seconds in sorted(results[n].items(), key=lambda item: item[1]):
            print(f"  {name:32s} {seconds * 1e6:12,.1f} us   R = {seconds / base:8.2f}", flush=True)
    dims = list(results)
    if len(dims) > 1:
        samples = [results[n]["lm-ma-es"] / default_popsize(n) for n in dims]
        print(f"\nlm-ma-es: time a sample grows like n^{exponent(dims, samples):.2f}")
    (options.out / "generation.json").write_text(json.dumps(results, indent=1) + "\n")
    plot(results, options.out / "generation.png")
    print(f"written: {options.out / 'generation.json'}, {options.out / 'generation.png'}")


if __name__ == "__main__":
    main()
