"""Progress display, figures and the live page, made from records of runs."""
