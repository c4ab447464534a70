"""An alarm rings when it is due, and not if it was called off."""

from __future__ import annotations

import threading

from nnhal.remote.alarms import Alarms

_LONG_SECONDS = 3600.0


def test_what_is_due_is_done_while_a_later_alarm_waits() -> None:
    alarms, rung = Alarms(), threading.Event()
    with alarms.set(_LONG_SECONDS, rung.clear), alarms.set(0.01, rung.set):
        assert rung.wait(60)


def test_an_alarm_whose_context_is_left_does_not_ring() -> None:
    alarms, called_off, rung = Alarms(), threading.Event(), threading.Event()
    with alarms.set(_LONG_SECONDS, called_off.set):
        pass
    with alarms.set(0, rung.set):
        assert rung.wait(60)
    assert not called_off.is_set()


def test_alarms_share_a_thread() -> None:
    alarms, before = Alarms(), _waiting()
    with alarms.set(_LONG_SECONDS, threading.Event().set), alarms.set(_LONG_SECONDS, threading.Event().set):
        assert len(_waiting() - before) == 1


def _waiting() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "alarms"}
