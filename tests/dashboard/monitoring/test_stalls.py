"""Rates of a framework's process that is stopped for a while, beside how many requests it was sent."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from nnhal.clock import now_ns
from nnhal_dashboard.monitoring.collector import Collector
from nnhal_dashboard.settings import DashboardSettings
from tests.support.model_server import Served, devices, model_server
from tests.support.repositories import onnx_file, write
from tests.support.waiting import wait_until


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    write(tmp_path / "repository", "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    with devices() as started, model_server(started, tmp_path / "repository") as served:
        yield served


def test_no_second_stands_for_what_was_done_in_several(served: Served, tmp_path: Path) -> None:
    settings = DashboardSettings(directory=tmp_path, framework=served.endpoint.directory)
    with Collector(settings, served.child.admin_key) as collector:
        wait_until(lambda: collector.history.recent("requests") is not None, "the framework has answered twice")
        began_ns, sent = now_ns(), 0

        def ask() -> bool:
            nonlocal sent
            infer(served)
            sent += 1
            return collector.history.recent("requests", seconds=1) not in (None, 0.0)

        wait_until(ask, "requests are counted")
        stopped_ns = now_ns()
        os.kill(served.child.pid, signal.SIGSTOP)
        try:
            # The framework is silent for three times as long as it was asked.
            wait_until(lambda: now_ns() - stopped_ns > 3 * (stopped_ns - began_ns), "the framework was silent for long")
            wait_until(lambda: collector.snapshot.host is not None and not collector.snapshot.host.answers, "it is")
        finally:
            os.kill(served.child.pid, signal.SIGCONT)
        infer(served)
        sent += 1
        wait_until(lambda: counted(collector) == sent, "all requests are counted")
        wait_until(lambda: collector.history.recent("requests", seconds=1) == 0.0, "a second has passed since")
        seconds = (now_ns() - began_ns) / 1e9
        mean = collector.history.track("requests", "", collector.history.end, seconds, 1).mean
        assert sent / seconds / 2 < float(np.nanmean(mean)) < sent / seconds * 2


def infer(served: Served) -> None:
    given = {"name": "x", "shape": (1, 8), "datatype": "FP32", "data": [0.5] * 8}
    httpx.post(f"http://{served.http}/v2/models/tanh/infer", json={"inputs": [given]}, timeout=60).raise_for_status()


def counted(collector: Collector) -> int:
    """Return how many requests the framework had counted when it answered last."""
    framework = collector.snapshot.framework
    return framework.counts.requests if framework is not None else 0
