"""Installation commands for the lab's optional dependencies."""

from lmma import _text

LAB = _text.Distribution("lmma-lab", __file__, ("plot", "report", "attack", "bench", "largescale"))


def how_to_install(what: str) -> str:
    """Return the command that installs an extra of lmma-lab, such as ``"bench"``, or a module's package."""
    return _text.how_to_install(what, LAB)
