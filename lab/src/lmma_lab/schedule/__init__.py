"""Parallel execution of tasks and storage of their records."""
