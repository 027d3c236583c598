"""Python's garbage collector, in a process of ours."""

from __future__ import annotations

import gc

from skitter.engine.collector import spare_what_is_loaded


def test_a_full_collection_does_not_look_at_what_was_loaded_before():
    gc.collect()
    before = len(gc.get_objects())
    try:
        spare_what_is_loaded()

        assert gc.get_freeze_count() >= before - 100
    finally:
        gc.unfreeze()
