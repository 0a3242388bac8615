"""How a strategy came down, thinned: what ``es.plot()`` draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from lmma.strategies.base import Strategy

KEPT = 1000  # snapshots at most
NAMES = (
    "evaluations", "best_fun", "sigma", "failures", "popsize", "quality", "rate", "repeats", "average_fun",
)  # fmt: skip
Row = tuple[float, ...]  # by these names


@final
class Trace:
    """At most a thousand snapshots, evenly spread over the generations.

    When there are more, every second one is dropped and the stride doubles. It is no part of the state: a
    strategy that goes on from a state begins a new one.
    """

    __slots__ = ("_due", "_rows", "_stride")

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._stride = 1
        self._due = 0  # the generation of the next snapshot

    def take(self, generation: int, strategy: Strategy) -> None:
        """Keep a snapshot if it is time to."""
        if generation >= self._due:
            self._rows.append(self._row(strategy))
            if len(self._rows) > KEPT:
                self._rows = self._rows[::2]
                self._stride *= 2
            self._due = generation + self._stride

    def columns(self, strategy: Strategy) -> dict[str, list[Any]]:
        """Return the record as one list for each quantity; it ends where the strategy is."""
        last = self._row(strategy)
        rows = self._rows if self._rows and self._rows[-1][0] == last[0] else [*self._rows, last]
        return dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True))

    def _row(self, es: Strategy) -> Row:
        noise = es.noise
        return (
            es.evaluations, es.best_fun, es.sigma, es.failures, es.popsize, noise.quality,
            noise.rate, noise.repeats, es.average_fun,
        )  # fmt: skip


def draw(columns: dict[str, list[Any]], target: float | None, title: str) -> Any:
    """Return a ``matplotlib.figure.Figure`` of a record."""
    from lmma.output.plotting.convergence import convergence

    return convergence(columns, target=target, title=title)
