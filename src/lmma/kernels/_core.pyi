"""Types of the compiled core; what the functions mean is said in ``compiled.py``."""

from typing import Any

from lmma.kernels.twin import Array

def normals(key0: int, key1: int, generation: int, first: int, out: Array, threads: int, /) -> None: ...
def lm_sample(
    key0: int,
    key1: int,
    generation: int,
    first: int,
    vectors: Array,
    active: int,
    gram: Array,
    c_d: Array,
    mean: Array,
    step: float | Array,
    z: Array | None,
    out: Array,
    projections: Array,
    keep: Array | None,
    gain: Array | None,
    z_mean: Array | None,
    threads: int,
    /,
) -> None: ...
def lm_workspace(n: int, rows: int, m: int, itemsize: int, threads: int, /) -> int: ...
def recombine(weights: Array, order: Any, rows: Array, out: Array, threads: int, /) -> None: ...
def lm_update(vectors: Array, keep: Array, gain: Array, z_mean: Array, threads: int, /) -> None: ...
def squares(weights: Array, order: Any, rows: Array, out: Array, threads: int, /) -> None: ...
def rescale(
    scales: Array,
    rate: float,
    weights: Array,
    order: Any,
    rows: Array,
    path: Array,
    share: float,
    threads: int,
    /,
) -> None: ...
def lm_direction(
    weights: Array,
    order: Any,
    projections: Array,
    active: int,
    gram: Array,
    c_d: Array,
    vectors: Array,
    z_mean: Array,
    u: Array,
    out: Array,
    threads: int,
    /,
) -> None: ...
def lm_gram(gram: Array, keep: Array, gain: Array, u: Array, length2: float, /) -> None: ...
def pulse_sample(
    key0: int,
    key1: int,
    generation: int,
    first: int,
    axes: Array,
    longs: int,
    gains: Array,
    cross: Array,
    mean: Array,
    steps: Array,
    z: Array,
    out: Array,
    threads: int,
    /,
) -> None: ...
def pulse_learn(
    z: Array,
    paths: Array,
    ranks: Array,
    weights: Array,
    generations: int,
    scales: Array,
    axes: Array,
    longs: int,
    gains: Array,
    sizes: Array,
    concentration: Array,
    rates: Array,
    images: Array | None,
    duals: Array | None,
    few_images: Array | None,
    few_duals: Array | None,
    path: Array | None,
    damping: Array | None,
    long_rows: Array,
    short_rows: Array,
    turned: Array,
    threads: int,
    /,
) -> None: ...
def pulse_renew(
    long_rows: Array,
    short_rows: Array,
    axes: Array,
    longs: int,
    gains: Array,
    sizes: Array,
    concentration: Array,
    path: Array,
    limits: Array,
    threads: int,
    /,
) -> None: ...
def round_integers(
    candidates: Array, columns: Any, lower: Array, upper: Array, values: Array, unrounded: Array, /
) -> None: ...
def settle_integers(
    mean: Array,
    scale: Array,
    columns: Any,
    lower: Array,
    upper: Array,
    values: Array,
    unrounded: Array,
    weights: Array,
    order: Any,
    old: Array,
    deviation: Array,
    alpha: float,
    reach: Array,
    /,
) -> None: ...
def add_squares(rows: Array, against: int, fade: float, total: Array, threads: int, /) -> None: ...
def fade(path: Array, keep: float, gain: float, step: Array, /) -> None: ...
def grow(change: Array, columns: Array, inverse: Array, /) -> bool: ...
def leading_axes(rows: Array, axes: Array, sizes: Array, fourths: Array, threads: int, /) -> None: ...
def stretched(rows: Array, axes: Array, gains: Array, power: float, out: Array, threads: int, /) -> None: ...
def pairs(words: Any, out: Array, /) -> None: ...
def instructions(name: str = ..., /) -> str: ...
