"""Addition of a second to the history, from two snapshots."""

from __future__ import annotations

from pathlib import Path

from nnhal.v1 import admin_pb2, framework_admin_pb2, supervisor_pb2
from nnhal_dashboard.monitoring.history import RECENT_SECONDS, History
from nnhal_dashboard.monitoring.history_file import HistoryFile
from nnhal_dashboard.monitoring.ring import RingSample
from nnhal_pages.operating.snapshot import Snapshot
from tests.support.dashboard import device_process


def counted(requests: int, durations: list[int], **models: int) -> framework_admin_pb2.GetFrameworkResponse:
    """Return a framework that has served so many requests, and so many of each model."""
    return framework_admin_pb2.GetFrameworkResponse(
        counts=framework_admin_pb2.ModelCounts(requests=requests, durations=durations),
        models=[
            framework_admin_pb2.ServedModelState(
                name=name, version="1", counts=framework_admin_pb2.ModelCounts(requests=count)
            )
            for name, count in models.items()
        ],
    )


def of_kind(sample: RingSample, kind: str) -> dict[str, float]:
    """Return the values of a kind, by whose they are."""
    prefix = f"{kind}/"
    return {name.removeprefix(prefix): value for name, value in sample.values.items() if name.startswith(prefix)}


def test_rates_are_by_second() -> None:
    history = History()
    history.add(Snapshot(at=10.0, framework=counted(100, [90, 10], digits=60, other=40)))
    history.add(Snapshot(at=12.0, framework=counted(150, [120, 30], digits=100, other=50)))
    (sample,) = history.samples()
    assert sample.values["requests/"] == 25
    assert of_kind(sample, "model.requests") == {"digits": 20, "other": 5}
    assert sample.durations == (30, 20)


def test_a_framework_that_was_started_again_is_not_known_for_a_second() -> None:
    history = History()
    history.add(Snapshot(at=10.0, framework=counted(100, [100])))
    history.add(Snapshot(at=11.0, framework=counted(3, [3])))
    assert ["requests/" in sample.values for sample in history.samples()] == [False]


def test_a_framework_that_does_not_answer_is_not_known() -> None:
    history, silent = History(), counted(100, [100])
    history.add(Snapshot(at=10.0, framework=silent))
    history.add(Snapshot(at=11.0, framework=silent))
    assert ["requests/" in sample.values for sample in history.samples()] == [False]


def test_a_model_that_was_loaded_again_is_left_out_for_a_second() -> None:
    history = History()
    history.add(Snapshot(at=10.0, framework=counted(100, [100], digits=60, other=40)))
    history.add(Snapshot(at=11.0, framework=counted(110, [110], digits=2, other=45)))
    (sample,) = history.samples()
    assert of_kind(sample, "model.requests") == {"other": 5}


def test_a_model_has_failures_and_the_mean_of_its_latencies() -> None:
    def served(at: float, requests: int, failures: int, duration_ns: int) -> Snapshot:
        counts = framework_admin_pb2.ModelCounts(requests=requests, failures=failures, duration_ns=duration_ns)
        model = framework_admin_pb2.ServedModelState(name="digits", version="1", counts=counts)
        return Snapshot(at=at, framework=framework_admin_pb2.GetFrameworkResponse(models=[model]))

    history = History()
    for snapshot in (served(10, 0, 0, 0), served(12, 2, 1, 6_000_000), served(13, 2, 1, 6_000_000)):
        history.add(snapshot)
    first, second = history.samples()
    assert of_kind(first, "model.failures") == {"digits": 0.5}
    assert of_kind(first, "model.latency") == {"digits": 3_000_000}
    assert of_kind(second, "model.latency") == {}


def test_devices_are_busy_by_the_time_of_their_workers() -> None:
    before = device_process(device=admin_pb2.GetDeviceResponse(workers=2, busy_ns=0, executions_ended=0))
    after = device_process(device=admin_pb2.GetDeviceResponse(workers=2, busy_ns=10**9, executions_ended=50))
    history = History()
    history.add(Snapshot(at=10.0, processes=(before,)))
    history.add(Snapshot(at=11.0, processes=(after,)))
    (sample,) = history.samples()
    assert of_kind(sample, "device.busy") == {"npu": 0.5}
    assert of_kind(sample, "device.executions") == {"npu": 50}


def test_a_device_that_was_started_again_is_left_out_for_a_second() -> None:
    history = History()
    for at, ended in ((10.0, 50), (11.0, 1)):
        device = device_process(device=admin_pb2.GetDeviceResponse(workers=1, executions_ended=ended))
        history.add(Snapshot(at=at, processes=(device,)))
    (sample,) = history.samples()
    assert of_kind(sample, "device.executions") == {} and of_kind(sample, "device.busy") == {}


def test_the_last_minute_is_kept_as_it_was_found_and_a_day_by_its_values() -> None:
    history = History()
    for second in range(RECENT_SECONDS + 100):
        history.add(Snapshot(at=1e9 + second, framework=counted(100 * second, [])))
    assert len(history.samples()) == RECENT_SECONDS
    assert [sample.at for sample in history.samples(2)] == [history.end - 1, history.end]
    track = history.track("requests", "", history.end, RECENT_SECONDS + 60, 1)
    assert track.mean.tolist() == [100.0] * (RECENT_SECONDS + 60)


def test_questions_that_follow_each_other_at_once_make_one_sample() -> None:
    history = History()
    for at, requests in ((10.0, 0), (11.0, 10), (11.1, 12), (12.0, 20)):
        history.add(Snapshot(at=at, framework=counted(requests, [])))
    assert [sample.values["requests/"] for sample in history.samples()] == [10, 10]


def test_a_clock_that_is_set_back_begins_anew() -> None:
    history = History()
    for at in (5000.0, 5001.0, 5002.0, 100.0, 101.0, 102.0):
        history.add(Snapshot(at=at, framework=counted(int(at), [])))
    assert history.end == 102.0
    assert history.track("requests", "", 102.0, 2, 1).mean.tolist() == [1.0, 1.0]


def test_what_has_values_has_a_name() -> None:
    history = History()
    for second in range(3):
        history.add(Snapshot(at=10.0 + second, framework=counted(second, [], digits=second)))
    assert history.names("model.requests") == ["digits"]
    assert history.names("requests") == [""]
    assert history.names("device.busy") == []


def test_a_dashboard_that_is_started_again_goes_on(tmp_path: Path) -> None:
    event = supervisor_pb2.ProcessEvent(at_ns=10**18, subject="npu", kind="died", text="killed")
    history = History(HistoryFile(tmp_path / "history"))
    for second in range(20):
        history.add(Snapshot(at=1e9 + second, framework=counted(5 * second, [])))
    history.add(Snapshot(at=1e9 + 20, framework=counted(100, []), events=(event,)))
    history.save()
    again = History(HistoryFile(tmp_path / "history"))
    assert again.end == 1e9 + 20
    assert list(again.kept_events) == [event]
    assert again.track("requests", "", again.end, 20, 1).mean.tolist() == [5.0] * 20
