"""Commands that lmma-lab adds to ``lmma``, one file per command."""
