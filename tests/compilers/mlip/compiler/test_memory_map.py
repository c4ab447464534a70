"""A memory map over the time of a run."""

from __future__ import annotations

from dataclasses import replace

from nnhal_mlip.compiler.memory_map import OcmUse, TileMemoryRange, alike_tiles, uses_by_tile
from nnhal_mlip.timing.queues import ProgramTimeline, StageSpan

TIMES = ProgramTimeline((), (StageSpan(0, 0, 0, 10, 10, 40, 50, ()), StageSpan(1, 1, 50, 60, 60, 90, 100, ())), 130, 20)
HELD = TileMemoryRange(0, 128, 256, 0, 1, 0, 1, "value a", False)


def test_a_range_lasts_from_the_start_of_its_first_stage_to_the_end_of_its_last() -> None:
    assert uses_by_tile([replace(HELD, first_stage=1)], TIMES) == {0: (OcmUse(128, 256, 50, 100, "value a", False),)}


def test_what_is_stored_after_the_last_stage_lasts_to_the_end_of_the_run() -> None:
    assert uses_by_tile([replace(HELD, last_stage=2)], TIMES)[0][0].end == TIMES.total


def test_what_is_pinned_is_there_all_the_time() -> None:
    ((use,),) = uses_by_tile([replace(HELD, first_stage=1, last_stage=1, pinned=True)], TIMES).values()
    assert (use.begin, use.end, use.pinned) == (0, TIMES.total, True)


def test_tiles_that_hold_the_same_are_grouped() -> None:
    lower = replace(HELD, start=0, stop=64, what="value b")
    ranges = [replace(each, tile=tile) for tile in (2, 0) for each in (HELD, lower)] + [replace(lower, tile=1)]
    tiles = uses_by_tile(ranges, TIMES)
    assert [use.start for use in tiles[0]] == [0, 128]
    assert list(alike_tiles(tiles).values()) == [[0, 2], [1]]
