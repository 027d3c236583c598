"""Python's garbage collector, in a process of ours."""

from __future__ import annotations

import gc

from skitter.cli.tuning import YOUNG, tune_collector


def test_a_full_collection_does_not_look_at_what_was_loaded_before():
    gc.collect()
    before, usual = len(gc.get_objects()), gc.get_threshold()
    try:
        tune_collector()

        assert gc.get_freeze_count() >= before - 100
        assert gc.get_threshold()[0] == YOUNG
    finally:
        gc.unfreeze()
        gc.set_threshold(*usual)
