"""Timing of lmma and other packages: internal cost per generation, and seconds to a target."""
