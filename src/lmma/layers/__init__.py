"""Layers: features that can be wrapped around any method. Private; see docs/architecture.md."""
