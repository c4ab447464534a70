"""Notes that wait to be written to a recording, and those that are dropped."""

from __future__ import annotations

from nnhal_devices.host.recording.notes import NoteLimits, Notes


def test_what_comes_too_fast_is_dropped_and_counted() -> None:
    notes = Notes(NoteLimits(notes=2, value_bytes=8))
    for _ in range(3):
        notes.add(list)
    assert len(notes.take(10)) == 2
    assert notes.dropped_calls == 1
    assert [notes.has_room(size) for size in (8, 1)] == [True, False]
    assert notes.dropped_contents == 1


def test_what_waits_when_a_recording_fails_is_counted() -> None:
    notes = Notes(NoteLimits(notes=2, value_bytes=8))
    notes.add(list)
    notes.stop()
    notes.add(list)
    assert notes.take(10) == []
    assert notes.dropped_calls == 2


def test_what_comes_after_the_end_is_not_counted() -> None:
    notes = Notes(NoteLimits(notes=2, value_bytes=8))
    notes.stop(at_end=True)
    notes.add(list)
    notes.stop()
    assert notes.take(10) == []
    assert not notes.has_room(1)
    assert (notes.dropped_calls, notes.dropped_contents) == (0, 0)
