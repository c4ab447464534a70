"""Settings of a process so that its threads and its work get along."""

from __future__ import annotations

import gc

from nnhal_hosting.interpreter_sharing import set_start_apart


def test_what_a_process_has_made_before_it_serves_is_spared_by_the_collector() -> None:
    frozen = gc.get_freeze_count()
    try:
        made: list[list[int]] = [[]]
        set_start_apart()
        assert not any(found is made for found in gc.get_objects())
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()
    assert any(found is made for found in gc.get_objects())
    gc.freeze()  # again, as all tests have it
