"""Evaluation on the workers of a cluster: Dask, Ray or MPI."""
