"""One run, from options to result: setup, search, stopping rules, restarts, checkpoints."""
