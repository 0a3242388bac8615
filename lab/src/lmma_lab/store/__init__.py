"""Durable storage of records of experiments and attacks in one SQLite file."""

from lmma_lab.store.sqlite import FILE, Record, Store, StoreError, key_of

__all__ = ["FILE", "Record", "Store", "StoreError", "key_of"]
