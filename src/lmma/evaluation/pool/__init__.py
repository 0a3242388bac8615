"""Evaluation in local worker processes."""
