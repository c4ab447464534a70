"""Questions to a process, and the answers that are kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from nnhal.v1 import admin_pb2, framework_admin_pb2
from nnhal_pages.operating import observer as module
from nnhal_pages.operating.observer import ProcessObserver
from nnhal_pages.operating.snapshot import NO_DETAIL, Detail, ObservedProcess


class _Framework:
    """A framework with one session, which notes what it is asked for."""

    asked: list[str]

    def __init__(self, *_: Any) -> None:
        self.gone = False

    def framework(self, _: int) -> framework_admin_pb2.GetFrameworkResponse:
        return framework_admin_pb2.GetFrameworkResponse()

    def runs(self, _: int, most: int) -> framework_admin_pb2.GetRunsResponse:
        self.asked.append(f"{most} runs")
        return framework_admin_pb2.GetRunsResponse()

    def process(self, brief: bool) -> admin_pb2.GetProcessResponse:
        self.asked.append("process" if brief else "sessions")
        sessions = [] if brief else [admin_pb2.SessionState(id="s1")]
        return admin_pb2.GetProcessResponse(draining=brief, sessions=sessions)


def _asked(observer: ProcessObserver, wanted: Detail) -> ObservedProcess:
    assert observer.ask(wanted)
    question = observer.awaited
    assert question is not None
    question.result(60)
    return observer.take()


def test_only_what_is_wanted_is_asked_for_and_what_is_known_of_sessions_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FrameworkAdmin", _Framework)
    _Framework.asked = []
    with ThreadPoolExecutor(1) as pool:
        observer = ProcessObserver(ObservedProcess("framework", "framework", "/nowhere"), "", pool)
        assert _asked(observer, NO_DETAIL).process is None
        assert _Framework.asked == []
        known = _asked(observer, Detail.SESSIONS | Detail.PROCESSES).process
        assert known is not None and [each.id for each in known.sessions] == ["s1"]
        known = _asked(observer, Detail.PROCESSES).process
        assert known is not None and known.draining and [each.id for each in known.sessions] == ["s1"]
        _asked(observer, Detail.CLIENTS)
    assert _Framework.asked == ["sessions", "process", "200 runs"]
