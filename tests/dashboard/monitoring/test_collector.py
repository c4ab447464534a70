"""Knowledge of the collector when a change has been made."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nnhal.v1 import framework_admin_pb2
from nnhal_dashboard.monitoring import collector as collector_module
from nnhal_dashboard.monitoring.collector import Collector, continued
from nnhal_dashboard.settings import DashboardSettings
from nnhal_pages.operating import observer
from nnhal_pages.operating.snapshot import Detail
from tests.support.waiting import wait_until

_PATIENCE = 60.0


class _Framework:
    """A framework of one model, which answers the question about it when the test lets it."""

    def __init__(self, *_: Any) -> None:
        self.gone = False

    state = "UNAVAILABLE"
    asked = threading.Event()
    may_answer = threading.Event()

    def framework(self, _: int) -> framework_admin_pb2.GetFrameworkResponse:
        model = framework_admin_pb2.ServedModelState(name="digits", version="1", state=self.state)
        self.asked.set()
        assert self.may_answer.wait(_PATIENCE)
        return framework_admin_pb2.GetFrameworkResponse(models=[model])

    def runs(self, after: int, most: int) -> framework_admin_pb2.GetRunsResponse:
        runs = [framework_admin_pb2.FinishedRun(number=after + 1, model="digits")]
        return framework_admin_pb2.GetRunsResponse(finished=runs)

    def process(self, brief: bool) -> None:
        return None

    def close(self) -> None:
        pass


def test_what_was_asked_before_a_change_is_asked_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(observer, "FrameworkAdmin", _Framework)
    monkeypatch.setattr(observer, "_SILENT_SECONDS", _PATIENCE)
    monkeypatch.setattr(collector_module, "_CHANGE_SECONDS", _PATIENCE)
    with Collector(DashboardSettings(directory=tmp_path, framework=tmp_path)) as collector:
        assert _Framework.asked.wait(_PATIENCE)
        _Framework.state = "READY"
        with ThreadPoolExecutor(1) as pool:
            refreshed = pool.submit(collector.refresh)
            _Framework.may_answer.set()
            framework = refreshed.result(_PATIENCE).framework
        assert framework is not None
        assert [model.state for model in framework.models] == ["READY"]
        assert not collector.snapshot.finished  # runs are asked for once a page shows them
        wait_until(lambda: bool(collector.look(Detail.RUNS).finished), "runs are known")


def ended_runs(first: int, count: int, error: str = "") -> list[framework_admin_pb2.FinishedRun]:
    return [framework_admin_pb2.FinishedRun(number=number, error=error) for number in range(first, first + count)]


def test_the_last_runs_are_kept_and_those_that_failed_beside_them() -> None:
    known = continued(ended_runs(1, 3, "lost"), ended_runs(4, 700))
    assert [run.number for run in known] == [1, 2, 3, *range(204, 704)]


def test_a_framework_that_was_started_again_counts_anew() -> None:
    assert continued(ended_runs(1, 9), ended_runs(3, 2)) == ended_runs(3, 2)
    assert continued(ended_runs(1, 9), []) == ended_runs(1, 9)
