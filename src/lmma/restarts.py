"""Schedules for ``restarts=``."""

from lmma.run.restarts import BIPOP, IPOP, Plan, Schedule

__all__ = ["BIPOP", "IPOP", "Plan", "Schedule"]
