from __future__ import annotations

from nnhal_devices.remote.clock_offset import ClockOffset

AHEAD = 5_000_000


def call(offset: ClockOffset, sent: int, there: int, work: int, back: int) -> None:
    """A call that takes so long to get there, to be answered, and to come back; the other clock is ahead."""
    came = sent + there
    offset.add(sent, came + AHEAD, came + work + AHEAD, came + work + back)


def test_a_call_of_two_equal_ways_gives_the_offset() -> None:
    offset = ClockOffset()
    call(offset, 1000, 200, 5000, 200)
    assert offset.here(2000 + AHEAD, 0, 10_000) == 2000


def test_the_quickest_call_of_late_counts() -> None:
    offset = ClockOffset()
    call(offset, 1000, 20, 0, 20)
    call(offset, 2000, 3000, 0, 10)
    assert offset.here(2500 + AHEAD, 0, 10_000) == 2500


def test_an_old_call_counts_no_more() -> None:
    offset = ClockOffset()
    call(offset, 1000, 20, 0, 20)
    later = 60_000_000_000
    offset.add(later, later + 100, later + 100, later + 200)
    assert offset.here(later + 50, later, later + 200) == later + 50


def test_an_instant_lies_where_it_must() -> None:
    offset = ClockOffset()
    assert offset.here(5, 10, 20) == 10
    assert offset.here(25, 10, 20) == 20
