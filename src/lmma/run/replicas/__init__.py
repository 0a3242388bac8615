"""Replicas of the strategy on the workers of a cluster, so that only values travel."""
