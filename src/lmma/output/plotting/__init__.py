"""Records -> figures: the only package that knows matplotlib, imported when a figure is made."""
