"""Experiments as data: what to run, a store that survives, a runner, and rules that judge records."""
