"""Evaluation in processes on this machine."""
