"""The figure that all plots return: notebooks display it, and ``show()`` opens a window in a script."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

try:
    from matplotlib.figure import Figure as MatplotlibFigure  # not pyplot, which keeps global state
except ImportError as error:
    from lmma._text import how_to_install

    raise ImportError(f"figures require matplotlib: {how_to_install('plot')}") from error


class Figure(MatplotlibFigure):
    """A matplotlib figure without pyplot's global state.

    A notebook displays it as a picture, whether or not ``%matplotlib`` was called.
    """

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=100)
        return file.getvalue()

    def show(self, warn: bool = True) -> None:
        """Open a window and wait until it is closed; in a notebook, display the figure.

        Raises
        ------
        RuntimeError
            If matplotlib has no window system, as on a server.
        """
        if _in_notebook():
            import_module("IPython.display").display(self)
            return
        from matplotlib import pyplot
        from matplotlib.backend_bases import FigureManagerBase

        window = pyplot.figure(figsize=self.get_size_inches())  # pyplot chooses the window system
        manager = window.canvas.manager
        if manager is None or type(manager) is FigureManagerBase:
            pyplot.close(window)
            raise RuntimeError(
                f"no window can be opened: matplotlib uses the backend {pyplot.get_backend()}. To write the "
                "figure to a file, use figure.savefig('run.png')"
            )
        manager.canvas.figure = self
        self.set_canvas(manager.canvas)
        pyplot.show(block=True)


def _in_notebook() -> bool:
    """Return whether the process is the kernel of a notebook."""
    import sys

    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")
