"""A process that falls silent while a call is waited for."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

import nnhal.remote.watch as watch_module
from nnhal.endpoint import Endpoint
from nnhal.remote.watch import Watch


class Call:
    """A call that somebody waits for."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def cancel(self) -> None:
        self.cancelled.set()


def test_a_call_is_cancelled_if_the_process_does_not_answer(tmp_path: Path) -> None:
    patient, hasty = (Watch(Endpoint(tmp_path), "test", patience) for patience in (3600.0, 0.01))
    waits, call = Call(), Call()
    with patient.over(waits), hasty.over(call):
        assert call.cancelled.wait(60)
    assert hasty.silent
    assert not waits.cancelled.is_set()


def test_a_call_that_ends_at_once_costs_no_look_at_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(watch_module, "wanted_seconds", looks.append)
    progress = watch_module.CallProgress(os.getpid(), stall_seconds=1.0)
    assert looks == [] and not progress.has_stalled() and looks == [os.getpid()]


def test_a_call_that_has_ended_is_not_watched(tmp_path: Path) -> None:
    watch = Watch(Endpoint(tmp_path), "test", 0.01)
    ended, call = Call(), Call()
    with watch.over(ended):
        pass
    with watch.over(call):
        assert call.cancelled.wait(60)
    assert not ended.cancelled.is_set()
