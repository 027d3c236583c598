"""Python's garbage collector, in a process of ours."""

from __future__ import annotations

import gc

from skitter.engine.collector import freeze_loaded_objects


def test_a_full_collection_does_not_look_at_what_was_loaded_before():
    gc.collect()
    before = len(gc.get_objects())
    try:
        freeze_loaded_objects()

        assert gc.get_freeze_count() >= before - 100
    finally:
        gc.unfreeze()
