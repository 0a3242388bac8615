"""Pulse, the default method."""
