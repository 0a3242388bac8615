"""Numerical building blocks of the strategies."""
