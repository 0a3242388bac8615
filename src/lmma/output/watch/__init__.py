"""Logs as a live page: read while they grow, drawn in a browser, served to this machine alone."""
