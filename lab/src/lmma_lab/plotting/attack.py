"""Figures of attacks: gallery, progress of the search, and success over distance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lmma.output.plotting.style import assign_styles, style_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DASHES = ("-", "--", ":", "-.")  # the curves of simple methods overlap
BANDS = (0, 1000, 2000, 5000)  # first problem of each band of 100 in the paper's figure, by initial objective


class _AttackedImage(Protocol):
    """Fields of an attack that the figures read; :class:`lmma_lab.attack.Record` documents them."""

    # fmt: off
    @property
    def image(self) -> int: ...
    @property
    def label(self) -> int: ...
    @property
    def found(self) -> int: ...
    @property
    def success(self) -> bool: ...
    @property
    def start(self) -> float: ...
    @property
    def l2(self) -> float: ...
    @property
    def queries(self) -> int: ...
    @property
    def curve(self) -> NDArray[np.float64]: ...
    @property
    def adversarial(self) -> NDArray[Any]: ...
    # fmt: on


Campaigns = Mapping[str, Sequence[_AttackedImage]]  # by name


def _subplots(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure  # not pyplot, which keeps global state

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def attack_gallery(
    records: Sequence[_AttackedImage],
    originals: Mapping[int, NDArray[Any]],
    shape: tuple[int, int],
    *,
    high: float = 255.0,
    names: Sequence[object] | None = None,
) -> Figure:
    """Return a figure with the original, the amplified difference and the adversarial image of each record.

    Parameters
    ----------
    records : sequence of Record
        Successful attacks; each row of the figure shows two.
    originals : mapping of int to (n,)
        Original image of each record, by image number.
    shape : tuple
        Height and width.
    high : float
        Largest valid pixel value.
    names : sequence, optional
        Labels of the columns of predict_proba.
    """
    rows = max(1, (len(records) + 1) // 2)
    widths = (1, 1, 1, 0.15, 1, 1, 1)  # a gap between two records
    figure, axes = _subplots(rows, 7, (9.9, 1.9 * rows), width_ratios=widths)
    for axis in axes.ravel():
        axis.set_axis_off()
    for k, record in enumerate(records):
        x0 = np.asarray(originals[record.image], dtype=float)
        difference = record.adversarial.astype(float) - x0
        boost = float(np.abs(difference).max()) or 1.0
        left, middle, right = axes[k // 2, 4 * (k % 2) : 4 * (k % 2) + 3]
        name = names if names is not None else range(1 + max(record.label, record.found))
        left.imshow(x0.reshape(shape), cmap="gray", vmin=0, vmax=high)
        middle.imshow(difference.reshape(shape), cmap="gray", vmin=-boost, vmax=boost)
        right.imshow(record.adversarial.reshape(shape), cmap="gray", vmin=0, vmax=high)
        left.set_title(f"image {record.image}: {name[record.label]}", fontsize=8)
        middle.set_title(f"difference, times {high / 2 / boost:.0f}", fontsize=8)
        right.set_title(f"classified as {name[record.found]}, L2 {record.l2:.3g}", fontsize=8)
    return figure


@dataclass(frozen=True)
class Bands:
    """Groups of problems of increasing difficulty, sorted by initial objective.

    Parameters
    ----------
    first : sequence of int, optional
        First problem of each band. Default: the paper's 0, 1000, 2000 and 5000 if there are enough images,
        otherwise the same fractions of the available images.
    size : int
        Problems in a band.
    titles : sequence of str, optional
        Title of each band.
    """

    first: Sequence[int] | None = None
    size: int = 100
    titles: Sequence[str] | None = None

    def of(self, order: Sequence[int]) -> list[tuple[str, Sequence[int]]]:
        """Return the title and the images of each band of ``order``, which ranks images by difficulty."""
        first, size = self.first, self.size
        if first is None:
            enough = len(order) >= BANDS[-1] + size
            first = BANDS if enough else [band * len(order) // 9721 for band in BANDS]
            size = size if enough else max(1, len(order) // 10)
        chosen = [order[band : band + size] for band in first]
        titles = self.titles or [
            f"problems {band} to {band + len(images) - 1}" for band, images in zip(first, chosen, strict=True)
        ]
        return list(zip(titles, chosen, strict=True))


def attack_progress(
    campaigns: Campaigns, *, bands: Bands | None = None, popsize: int | None = None
) -> Figure:
    """Return a figure of the median objective over queries, for problems of increasing difficulty.

    Parameters
    ----------
    campaigns : mapping of name to records
        Only images attacked in all campaigns are included.
    bands : Bands, optional
        Groups of problems; by default those of the paper.
    popsize : int, optional
        Queries per generation.
    """
    common = set.intersection(*({r.image for r in records} for records in campaigns.values()))
    tables = {name: {r.image: r for r in records} for name, records in campaigns.items()}
    first = next(iter(tables.values()))
    order = sorted(common, key=lambda image: (first[image].start, image))
    if not order:
        raise ValueError("campaigns have no image in common; attack the same images with each method")
    drawn = (bands or Bands()).of(order)
    figure, axes = _subplots(2, len(drawn), (2.9 * len(drawn), 4.6))
    for (title, chosen), (above, below) in zip(drawn, axes.T, strict=True):
        lowest = 0.0
        for (name, table), (colour, dash) in zip(tables.items(), _styles(list(tables)), strict=True):
            longest = max(len(table[image].curve) for image in chosen)
            medians = np.median([_filled(table[image].curve, longest) for image in chosen], axis=0)
            queries = np.arange(longest) * (popsize or first[chosen[0]].queries // (longest - 1))
            for axis in (above, below):
                axis.plot(queries, medians, color=colour, ls=dash, lw=1.4, label=name)
            lowest = min(lowest, float(medians.min()))
        above.set_title(title, fontsize=9)
        for axis in (above, below):
            style_axes(axis)
            axis.axhline(0.0, color="0.6", lw=0.8, ls=":")
        below.set_ylim(1.1 * lowest if lowest < 0 else -0.01, 0.0)  # the scale of -1 / distance
        below.set_xlabel("queries")
    axes[0, 0].set_ylabel("objective, median")
    axes[1, 0].set_ylabel("the same, below zero")
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def _styles(methods: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Return the colour and dash style of each method."""
    return assign_styles(methods, DASHES).values()


def _filled(curve: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Pad the curve of a finished run to `length` with its last value."""
    return np.concatenate([curve, np.full(length - len(curve), curve[-1])])


def attack_success(campaigns: Campaigns) -> Figure:
    """Return a figure of the share of images with an adversarial within each distance."""
    figure, axes = _subplots(1, 1, (5.4, 3.6))
    axis = axes[0, 0]
    far = max((r.l2 for records in campaigns.values() for r in records if r.success), default=1.0)
    for (name, records), (colour, dash) in zip(campaigns.items(), _styles(list(campaigns)), strict=True):
        reached = np.sort([r.l2 for r in records if r.success])
        share = 100 * np.arange(1, len(reached) + 1) / max(1, len(records))
        last = share[-1] if len(share) else 0.0
        x, y = np.concatenate([[0.0], reached, [far]]), np.concatenate([[0.0], share, [last]])
        axis.step(x, y, where="post", color=colour, ls=dash, label=name)
    style_axes(axis)
    axis.set_xlabel("L2 distance allowed")
    axis.set_ylabel("images with an adversarial, %")
    axis.set_ylim(0, 100)
    axis.set_xlim(0, None)
    axis.legend(frameon=False, fontsize=8)
    return figure
