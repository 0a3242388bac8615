"""Experiments with lmma: tasks as data, a record store, a runner, and rules that check the paper's claims."""
