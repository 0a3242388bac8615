"""How a strategy came down, thinned: what ``es.plot()`` draws."""

from __future__ import annotations

from typing import Any, final

KEPT = 1000  # snapshots at most
Row = tuple[int, float, float, int]  # evaluations, best_fun, sigma, failures


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

    def take(self, generation: int, row: Row) -> None:
        """Keep a snapshot if it is time to."""
        if generation >= self._due:
            self._rows.append(row)
            if len(self._rows) > KEPT:
                self._rows = self._rows[::2]
                self._stride *= 2
            self._due = generation + self._stride

    def columns(self, last: Row) -> dict[str, list[Any]]:
        """Return the record as one list for each quantity; it ends with ``last``."""
        rows = self._rows if self._rows and self._rows[-1] == last else [*self._rows, last]
        names = ("evaluations", "best_fun", "sigma", "failures")
        return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def draw(columns: dict[str, list[Any]], target: float | None, title: str) -> Any:
    """Return a ``matplotlib.figure.Figure`` of a record."""
    from lmma.output.plotting.convergence import convergence

    return convergence(columns, target=target, title=title)
