"""Archives: SQLite files with a row for every evaluation, which later runs use as a cache."""

from lmma.run.archive.database import ArchiveError
from lmma.run.archive.reader import Archive

__all__ = ["Archive", "ArchiveError"]
