"""Durable records in one SQLite file, for whatever is done piece by piece: experiments and attacks."""

from lmma.store.sqlite import FILE, Record, Store, StoreError, key_of

__all__ = ["FILE", "Record", "Store", "StoreError", "key_of"]
