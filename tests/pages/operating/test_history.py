from __future__ import annotations

from dataclasses import replace
from typing import Any

from nnhal.admin import DURATION_BOUNDS_NS
from nnhal.v1 import admin_pb2, framework_admin_pb2
from nnhal_pages.operating.counts import devices_at_work
from nnhal_pages.operating.resources.history import device_rates, model_rates
from nnhal_pages.operating.snapshot import ObservedProcess, Snapshot

SECOND = 10**9


def device(at: float, ended: int, busy_ns: int) -> Snapshot:
    counted = admin_pb2.GetDeviceResponse(
        workers=2, executions_ended=ended, busy_ns=busy_ns, staged_bytes=ended * 64, at_ns=round(at * SECOND)
    )
    silent = ObservedProcess("gpu", "device", silence="it does not answer")
    return Snapshot(at=at, processes=(ObservedProcess("npu", "device", device=counted), silent))


def framework(at: float, requests: int, failures: int = 0, **counted: Any) -> Snapshot:
    durations = [0] * (len(DURATION_BOUNDS_NS) + 1)
    durations[9] = requests
    counts = framework_admin_pb2.ModelCounts(requests=requests, failures=failures, durations=durations, **counted)
    fields: dict[str, Any] = {"name": "digits", "version": "1", "state": "READY", "devices": ["npu"]}
    model = framework_admin_pb2.ServedModelState(counts=counts, **fields)
    return Snapshot(at=at, framework=framework_admin_pb2.GetFrameworkResponse(models=[model], at_ns=round(at * SECOND)))


def test_a_device_between_two_samples() -> None:
    before = device(5, 100, SECOND)
    after = device(7, 300, 2 * SECOND)
    (rates,) = device_rates(before, after)
    assert (rates["executions_per_second"], rates["busy"], rates["staged_bytes_per_second"]) == (100.0, 0.25, 6400.0)


def test_a_device_that_was_restarted_has_counted_since_then_and_a_silent_one_is_left_out() -> None:
    (rates,) = device_rates(device(5, 100, SECOND), device(7, 3, 10))
    assert (rates["name"], rates["executions_per_second"]) == ("npu", 1.5)


def test_what_a_device_does_is_not_known_until_it_answers_again() -> None:
    before = device(5, 100, SECOND)
    (rates,) = device_rates(before, replace(before, at=7))
    assert (rates["name"], rates["executions_per_second"], rates["busy"]) == ("npu", None, None)


def test_a_model_between_two_samples() -> None:
    before, after = framework(1, 100, 5), framework(3, 500, 7)
    (rates,) = model_rates(before, after)
    assert (rates["requests_per_second"], rates["failures_per_second"]) == (200.0, 1.0)
    assert rates["p50_ns"] is not None
    assert DURATION_BOUNDS_NS[8] < rates["p50_ns"] < DURATION_BOUNDS_NS[9]


def test_a_model_without_new_requests_has_no_quantiles() -> None:
    (rates,) = model_rates(framework(1, 100), framework(2, 100))
    assert (rates["p50_ns"], rates["p99_ns"]) == (None, None)


def test_devices_that_have_run_steps_are_at_work() -> None:
    def at_work(**after: int) -> set[str]:
        before, now = framework(1, 10, runs=10).framework, framework(2, 20, **after).framework
        assert before is not None and now is not None
        return devices_at_work(before, now)

    assert at_work(runs=20) == {"npu"}
    assert at_work(runs=10) == set()
    assert at_work(runs=20, fell_back=1) == set()
