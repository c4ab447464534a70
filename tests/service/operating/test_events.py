"""The last events of the framework."""

from __future__ import annotations

from nnhal.admin import EVENTS_KEPT
from nnhal_service.operating.events import FrameworkEvents


def test_events_are_numbered_and_told_after_a_number() -> None:
    events = FrameworkEvents()
    events.note("lost", "npu", "device npu is gone")
    events.note("back", "npu", "device npu is back")
    one, other = events.after(0)
    assert (one.number, one.kind, one.subject, one.text) == (1, "lost", "npu", "device npu is gone")
    assert list(events.after(1)) == [other]
    assert other.at_ns >= one.at_ns > 0
    assert list(events.after(2)) == []


def test_the_last_events_are_kept() -> None:
    events = FrameworkEvents()
    for number in range(EVENTS_KEPT + 2):
        events.note("loaded", "m", f"load {number}")
    kept = events.after(0)
    assert (len(kept), kept[0].number, kept[-1].number) == (EVENTS_KEPT, 3, EVENTS_KEPT + 2)
