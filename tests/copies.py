"""Checks that public objects have a one-line repr and survive copying and pickling."""

import copy
import pickle

LONGEST = 200  # characters of a line


def check_copies(each):
    """Raise AssertionError unless ``each`` shows itself on one line and its copies look like it."""
    assert "\n" not in repr(each)
    assert len(repr(each)) <= LONGEST
    assert " at 0x" not in repr(each)
    for again in (pickle.loads(pickle.dumps(each)), copy.deepcopy(each), copy.copy(each)):
        assert type(again) is type(each)
        assert repr(again) == repr(each)
