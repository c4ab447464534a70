"""What a second adds to the history, from two snapshots."""

from __future__ import annotations

from nnhal.v1 import admin_pb2, framework_admin_pb2
from nnhal_dashboard.monitoring.history import SECONDS, History
from nnhal_dashboard.monitoring.snapshot import Snapshot
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


def test_rates_are_by_second() -> None:
    history = History()
    history.add(Snapshot(at=10.0, framework=counted(100, [90, 10], digits=60, other=40)))
    history.add(Snapshot(at=12.0, framework=counted(150, [120, 30], digits=100, other=50)))
    (sample,) = history.samples()
    assert sample.is_known
    assert sample.requests == 25
    assert sample.models == {"digits": 20, "other": 5}
    assert sample.durations == (30, 20)


def test_a_framework_that_was_started_again_is_not_known_for_a_second() -> None:
    history = History()
    history.add(Snapshot(at=10.0, framework=counted(100, [100])))
    history.add(Snapshot(at=11.0, framework=counted(3, [3])))
    assert [sample.is_known for sample in history.samples()] == [False]


def test_a_framework_that_does_not_answer_is_not_known() -> None:
    history, silent = History(), counted(100, [100])
    history.add(Snapshot(at=10.0, framework=silent))
    history.add(Snapshot(at=11.0, framework=silent))
    assert [sample.is_known for sample in history.samples()] == [False]


def test_a_model_that_was_loaded_again_is_left_out_for_a_second() -> None:
    history = History()
    history.add(Snapshot(at=10.0, framework=counted(100, [100], digits=60, other=40)))
    history.add(Snapshot(at=11.0, framework=counted(110, [110], digits=2, other=45)))
    (sample,) = history.samples()
    assert sample.models == {"other": 5}


def test_a_model_has_failures_and_the_mean_of_its_latencies() -> None:
    def served(requests: int, failures: int, duration_ns: int) -> Snapshot:
        counts = framework_admin_pb2.ModelCounts(requests=requests, failures=failures, duration_ns=duration_ns)
        model = framework_admin_pb2.ServedModelState(name="digits", version="1", counts=counts)
        return Snapshot(at=10.0 + requests, framework=framework_admin_pb2.GetFrameworkResponse(models=[model]))

    history = History()
    for snapshot in (served(0, 0, 0), served(2, 1, 6_000_000), served(2, 1, 6_000_000)):
        history.add(snapshot)
    first, second = history.samples()
    assert first.model_failures == {"digits": 0.5}
    assert first.model_latency_ns == {"digits": 3_000_000}
    assert second.model_latency_ns == {}


def test_devices_are_busy_by_the_time_of_their_workers() -> None:
    before = device_process(device=admin_pb2.GetDeviceResponse(workers=2, busy_ns=0, executions_ended=0))
    after = device_process(device=admin_pb2.GetDeviceResponse(workers=2, busy_ns=10**9, executions_ended=50))
    history = History()
    history.add(Snapshot(at=10.0, processes=(before,)))
    history.add(Snapshot(at=11.0, processes=(after,)))
    (sample,) = history.samples()
    assert sample.busy == {"npu": 0.5}
    assert sample.executions == {"npu": 50}


def test_a_device_that_was_started_again_is_left_out_for_a_second() -> None:
    history = History()
    for at, ended in ((10.0, 50), (11.0, 1)):
        device = device_process(device=admin_pb2.GetDeviceResponse(workers=1, executions_ended=ended))
        history.add(Snapshot(at=at, processes=(device,)))
    (sample,) = history.samples()
    assert sample.executions == {} and sample.busy == {}


def test_a_quarter_of_an_hour_is_kept() -> None:
    history = History()
    for second in range(SECONDS + 100):
        history.add(Snapshot(at=float(second)))
    assert len(history.samples()) == SECONDS
    assert [sample.at for sample in history.samples(2)] == [SECONDS + 98, SECONDS + 99]
