"""Addition of a second to the history, from two snapshots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnhal.v1 import admin_pb2, framework_admin_pb2, supervisor_pb2
from nnhal_dashboard.monitoring.history import History
from nnhal_dashboard.monitoring.history_file import HistoryFile
from nnhal_pages.operating.snapshot import ObservedProcess, Snapshot
from tests.support.dashboard import device_process


def counted(
    requests: int, durations: Sequence[int] = (), at: float = 0.0, since: float = 0.0, **models: int
) -> framework_admin_pb2.GetFrameworkResponse:
    """Return the answer of a framework that has served so many requests, and so many of each model, since an instant.

    ``at`` is the instant of the answer if it is not that of the first snapshot that has it.
    """
    since_ns = round(since * 1e9)

    def of(count: int, **more: Any) -> framework_admin_pb2.ModelCounts:
        return framework_admin_pb2.ModelCounts(requests=count, since_ns=since_ns, **more)

    return framework_admin_pb2.GetFrameworkResponse(
        at_ns=round(at * 1e9),
        counts=of(requests, durations=durations),
        models=[
            framework_admin_pb2.ServedModelState(name=name, version="1", counts=of(count))
            for name, count in models.items()
        ],
    )


def moment(at: float, *devices: ObservedProcess, jump: float = 0.0, **fields: Any) -> Snapshot:
    """Return a snapshot of an instant, at which all processes have answered; the clock of the day is ``jump`` ahead."""
    at_ns = round(at * 1e9)
    for answer in (fields.get("framework"), *(each.device for each in devices)):
        if answer is not None:
            answer.at_ns = answer.at_ns or at_ns
    return Snapshot(at=at + jump, at_ns=at_ns, processes=devices, **fields)


def test_rates_are_by_second() -> None:
    history = History()
    history.add(moment(10.0, framework=counted(100, [90, 10], digits=60, other=40)))
    history.add(moment(12.0, framework=counted(150, [120, 30], digits=100, other=50)))
    assert history.recent("requests") == 25
    assert [history.recent("model.requests", name) for name in ("digits", "other")] == [20, 5]
    _, durations = history.durations(12.0, 2, 1)
    assert durations.sum(axis=0)[:2].tolist() == [30, 20]


def test_a_framework_that_was_started_again_has_counted_since_then() -> None:
    history = History()
    for second in range(3):
        history.add(moment(10.0 + second, framework=counted(100 * second)))
    silent = counted(200, at=12.0)
    for at in (13.0, 14.0):
        history.add(moment(at, framework=silent))
    history.add(moment(15.0, framework=counted(300, since=13.0)))  # more than before: it counts anew all the same
    track = history.track("requests", "", 15.0, 5, 1)
    assert track.mean.tolist() == [100, 100, pytest.approx(math.nan, nan_ok=True), 150, 150]


def test_a_framework_that_does_not_answer_is_not_known() -> None:
    history, silent = History(), counted(100, [100])
    history.add(moment(10.0, framework=silent))
    history.add(moment(11.0, framework=silent))
    assert history.recent("requests") is None


def test_a_framework_that_stalls_is_known_as_a_whole_when_it_goes_on() -> None:
    """16 requests a second: the dashboard asks every second, and the framework is silent for 4 s."""
    history = History()
    for at in range(10, 61):
        if not 20 < at < 24:
            answer = counted(16 * at, [16 * at])
        history.add(moment(float(at), framework=answer))
    assert history.recent("requests", seconds=40) == pytest.approx(16)
    assert history.track("requests", "", 60.0, 50, 1).mean.tolist() == [16] * 50
    _, durations = history.durations(60.0, 50, 1)
    assert durations.sum() == 16 * 50


def test_a_dashboard_that_stalls_counts_by_the_time_of_the_framework() -> None:
    history = History()
    for at, answered in ((10.0, 10.0), (11.0, 10.1), (12.0, 12.0)):
        history.add(moment(at, framework=counted(round(10 * answered), at=answered)))
    assert history.recent("requests") == pytest.approx(10)


def test_a_device_that_stalls_is_never_busier_than_its_workers() -> None:
    history = History()
    device = device_process(device=admin_pb2.GetDeviceResponse(workers=1))
    for at in (10.0, 11.0, 12.0, 13.0):
        history.add(moment(at, device))
    worked = admin_pb2.GetDeviceResponse(workers=1, busy_ns=2 * 10**9, executions_ended=40)
    history.add(moment(14.0, device_process(device=worked)))
    assert history.recent("device.busy", "npu") == pytest.approx(0.5)
    assert history.recent("device.executions", "npu") == pytest.approx(10)
    assert history.track("device.busy", "npu", 14.0, 4, 1).mean.tolist() == [0.5] * 4


def test_what_waited_on_a_device_that_was_silent_stays_unknown() -> None:
    history = History()
    for at in range(10, 16):
        answer = admin_pb2.GetDeviceResponse(workers=1, waiting=3, executions_ended=10 * at)
        is_silent = 11 < at < 15
        if is_silent:
            answer.at_ns, answer.executions_ended = 11 * 10**9, 110
        history.add(moment(float(at), device_process(device=answer, silence="it is stopped" if is_silent else "")))
    waiting = history.track("device.waiting", "npu", 15.0, 5, 1).mean
    assert np.flatnonzero(np.isnan(waiting)).tolist() == [1, 2, 3]
    assert history.track("device.executions", "npu", 15.0, 5, 1).mean.tolist() == [10] * 5


def test_a_model_that_was_loaded_again_has_counted_since_then() -> None:
    history = History()
    history.add(moment(10.0, framework=counted(100, digits=60)))
    history.add(moment(12.0, framework=counted(110, since=11.0, digits=20)))
    assert history.recent("model.requests", "digits") == 20


def test_a_model_has_failures_and_the_mean_of_its_latencies() -> None:
    def served(at: float, requests: int, failures: int, duration_ns: int) -> Snapshot:
        counts = framework_admin_pb2.ModelCounts(requests=requests, failures=failures, duration_ns=duration_ns)
        model = framework_admin_pb2.ServedModelState(name="digits", version="1", counts=counts)
        return moment(at, framework=framework_admin_pb2.GetFrameworkResponse(models=[model]))

    history = History()
    for snapshot in (served(10, 0, 0, 0), served(12, 2, 1, 6_000_000), served(13, 2, 1, 6_000_000)):
        history.add(snapshot)
    assert history.track("model.failures", "digits", 13, 2, 1).mean.tolist() == [0.5, 0.0]
    latency = history.track("model.latency", "digits", 13, 2, 1).mean
    assert latency[0] == 3_000_000 and np.isnan(latency[1])


def test_devices_are_busy_by_the_time_of_their_workers() -> None:
    before = device_process(device=admin_pb2.GetDeviceResponse(workers=2, busy_ns=0, executions_ended=0))
    after = device_process(device=admin_pb2.GetDeviceResponse(workers=2, busy_ns=10**9, executions_ended=50))
    history = History()
    history.add(moment(10.0, before))
    history.add(moment(11.0, after))
    assert history.recent("device.busy", "npu") == 0.5
    assert history.recent("device.executions", "npu") == 50


def test_a_device_that_was_started_again_has_counted_since_then() -> None:
    history = History()
    for at, since, ended in ((10, 0, 50), (15, 13, 60)):
        device = admin_pb2.GetDeviceResponse(workers=1, executions_ended=ended, since_ns=since * 10**9)
        history.add(moment(at, device_process(device=device)))
    assert history.recent("device.executions", "npu") == 30


def test_questions_that_follow_each_other_at_once_make_one_sample() -> None:
    history = History()
    for at, requests in ((10.0, 0), (11.0, 10), (11.1, 12), (12.0, 20)):
        history.add(moment(at, framework=counted(requests)))
    assert history.track("requests", "", 12.0, 2, 1).mean.tolist() == [10, 10]


def test_samples_of_a_mean_count_by_their_time() -> None:
    history = History()
    for at, requests in ((10.0, 0), (11.0, 100), (20.0, 190)):
        history.add(moment(at, framework=counted(requests)))
    assert history.recent("requests") == pytest.approx(19)
    assert history.recent("requests", seconds=5) == pytest.approx(10)


@pytest.mark.parametrize("jump", [3600.0, -30.0, -7200.0])
def test_rates_stay_as_they_are_when_the_clock_of_the_day_jumps(jump: float) -> None:
    history = History()
    for at in range(10, 130):
        history.add(moment(1e9 + at, framework=counted(7 * at), jump=jump if at >= 70 else 0.0))
    assert history.end == 1e9 + 129 + jump
    assert history.recent("requests") == pytest.approx(7)
    assert history.track("requests", "", history.end, 20, 1).mean.tolist() == [7] * 20


def test_a_clock_that_is_set_back_by_little_loses_nothing() -> None:
    history = History()
    for at in range(10, 130):
        history.add(moment(1e9 + at, framework=counted(7 * at), jump=-30.0 if at >= 70 else 0.0))
    assert history.track("requests", "", history.end, 80, 1).mean.tolist() == [7] * 80


def test_what_has_values_has_a_name() -> None:
    history = History()
    for second in range(3):
        history.add(moment(10.0 + second, framework=counted(second, [], digits=second)))
    assert history.names("model.requests") == ["digits"]
    assert history.names("requests") == [""]
    assert history.names("device.busy") == []


def test_a_dashboard_that_is_started_again_goes_on(tmp_path: Path) -> None:
    event = supervisor_pb2.ProcessEvent(at_ns=10**18, subject="npu", kind="died", text="killed")
    history = History(HistoryFile(tmp_path / "history"))
    for second in range(20):
        history.add(moment(1e9 + second, framework=counted(5 * second, [])))
    history.add(moment(1e9 + 20, framework=counted(100, []), events=(event,)))
    history.save()
    again = History(HistoryFile(tmp_path / "history"))
    assert again.end == 1e9 + 20
    assert list(again.kept_events) == [event]
    assert again.track("requests", "", again.end, 20, 1).mean.tolist() == [5.0] * 20
