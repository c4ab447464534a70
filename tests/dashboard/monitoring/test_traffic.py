"""Flows by the counts of two moments, and by the plans of models."""

from __future__ import annotations

from typing import Any

import pytest

from nnhal.v1 import admin_pb2, framework_admin_pb2, framework_pb2, supervisor_pb2
from nnhal_dashboard.monitoring.plans import PlanSubject
from nnhal_dashboard.monitoring.traffic import (
    BETWEEN,
    CLIENTS,
    SECONDS,
    ServedTraffic,
    client_name,
)
from tests.support.dashboard import ScriptedCollector, device_process, framework_process, framework_state

NET = PlanSubject("net", "1")


def counts(requests: int, **fields: Any) -> framework_admin_pb2.ModelCounts:
    copied = framework_admin_pb2.CopiedBytes(between=requests * 100, clients=requests * 300, staged=requests * 40)
    given: dict[str, Any] = {
        "duration_ns": requests * 2_000_000,
        "copied": copied,
        "runs": requests,
        "run_ns": requests * 1_000_000,
    }
    return framework_admin_pb2.ModelCounts(requests=requests, **given | fields)


def served(requests: int, **fields: Any) -> framework_admin_pb2.ServedModelState:
    given: dict[str, Any] = {"devices": ["npu", "cpu"], "state": "READY", "counts": counts(requests)}
    return framework_admin_pb2.ServedModelState(name="net", version="1", **given | fields)


def device(name: str, ended: int) -> Any:
    state = admin_pb2.GetDeviceResponse(workers=2, executions_ended=ended, busy_ns=ended * 10**7)
    return device_process(name, device=state)


def run(number: int, client: str, ended_ns: int) -> framework_admin_pb2.FinishedRun:
    return framework_admin_pb2.FinishedRun(number=number, model="net", version="1", client=client, ended_ns=ended_ns)


def edge(source: str, step: int, target: str, to: int, size: int, copied: int = 0) -> framework_pb2.EdgeExplanation:
    ends: dict[str, Any] = {"source": source, "source_step": step, "destination": target, "destination_step": to}
    return framework_pb2.EdgeExplanation(value="v", bytes=size, copied_bytes=copied, **ends)


def explained(*_: Any, **__: Any) -> framework_admin_pb2.ExplainTargetResponse:
    refusal = framework_pb2.DeviceRefusal(device="npu", reason="DTYPE: got TENSOR_FLOAT32, allowed int8 for input 0")
    operations = [
        framework_pb2.OperationExplanation(operation="CONV_2D", device="cpu", refusals=[refusal]),
        framework_pb2.OperationExplanation(operation="CONV_2D", device="npu", step=1),
    ]
    edges = [
        edge("", -1, "cpu", 0, 1000, copied=600),
        edge("cpu", 0, "npu", 1, 500, copied=500),
        edge("npu", 1, "", -1, 24),
    ]
    return framework_admin_pb2.ExplainTargetResponse(
        explanation=framework_pb2.ModelExplanation(operations=operations, edges=edges)
    )


def watched(*moments: dict[str, Any]) -> tuple[ScriptedCollector, ServedTraffic]:
    """Show moments one after the other, with plans known, and say what flows at the last."""
    collector = ScriptedCollector(device("npu", 0), device("cpu", 0), framework_process(), **moments[0])
    for moment in moments[1:]:
        collector.show(device("npu", 30), device("cpu", 10), framework_process(), **moment)
    collector.contacts.answers["framework", "explain"] = explained
    collector.traffic.learn(collector.snapshot)
    return collector, collector.traffic.at(collector.snapshot)


def test_rates_are_those_between_two_moments() -> None:
    before = {"framework": framework_state(models=[served(100)]), "at": 1000.0}
    _, traffic = watched(before, {"framework": framework_state(models=[served(120)]), "at": 1010.0})
    (model,) = traffic.models
    assert model.requests == pytest.approx(2.0)
    assert model.mean_ns == pytest.approx(2e6)
    assert sum(model.device_ns.values()) == pytest.approx(1e6)
    assert traffic.devices["npu"].executions == pytest.approx(3.0)
    assert traffic.slowest() is None  # nobody told how long single requests took


def test_counts_that_began_anew_are_not_below_zero() -> None:
    before = {"framework": framework_state(models=[served(100)]), "at": 1000.0}
    _, traffic = watched(before, {"framework": framework_state(models=[served(20)]), "at": 1010.0})
    assert traffic.models[0].requests == pytest.approx(2.0)


def test_counts_that_began_anew_count_by_the_time_since_then() -> None:
    began = framework_state(models=[served(20, counts=counts(20, since_ns=1005 * 10**9))], at_ns=1010 * 10**9)
    before = {"framework": framework_state(models=[served(100)], at_ns=1000 * 10**9), "at": 1000.0}
    _, traffic = watched(before, {"framework": began, "at": 1010.0})
    assert traffic.models[0].requests == pytest.approx(4.0)


def test_a_framework_that_answers_late_counts_by_its_own_time() -> None:
    before = {"framework": framework_state(models=[served(100)], at_ns=1000 * 10**9), "at": 1000.0}
    late = framework_state(models=[served(120)], at_ns=1004 * 10**9)
    _, traffic = watched(before, {"framework": late, "at": 1010.0})
    assert traffic.models[0].requests == pytest.approx(5.0)


def test_moments_are_kept_for_half_a_minute() -> None:
    states = [{"framework": framework_state(models=[served(10 * at)]), "at": 1000.0 + at} for at in range(90)]
    states[-1]["framework"] = framework_state(models=[served(10 * 88)])  # nothing in the last second
    _, traffic = watched(*states)
    assert traffic.models[0].requests == pytest.approx(10 * (SECONDS - 1) / SECONDS)


def test_what_was_copied_is_shared_out_as_the_plan_copies() -> None:
    before = {"framework": framework_state(models=[served(100)]), "at": 1000.0}
    _, traffic = watched(before, {"framework": framework_state(models=[served(110)]), "at": 1010.0})
    assert traffic.copied == {("npu", BETWEEN): pytest.approx(100.0), ("cpu", CLIENTS): pytest.approx(300.0)}
    plan = traffic.models[0].plan
    assert plan.client_bytes == 1024
    assert plan.device_bytes == {"cpu": 1500, "npu": 524}
    assert [each.sentence for each in plan.refusals] == ["npu refused 1 of 2: float32"]


def test_clients_share_requests_as_the_last_runs_do() -> None:
    collector, _ = watched({"framework": framework_state(models=[served(100)]), "at": 1000.0})
    now = collector.snapshot.at_ns
    runs = [
        run(1, "ipv4:10.0.0.7:5000", now),
        run(2, "ipv4:10.0.0.7:5001", now),
        run(3, "worker", now),
        run(4, "old", 1),
    ]
    collector.show(
        framework_process(), framework=framework_state(models=[served(130)]), at=1010.0, finished=tuple(runs)
    )
    traffic = collector.traffic.at(collector.snapshot)
    assert traffic.clients == {("10.0.0.7", NET): pytest.approx(2.0), ("worker", NET): pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("client", "name"),
    [("ipv4:127.0.0.1:58192", "127.0.0.1"), ("ipv6:[::1]:80", "::1"), ("", "this host"), ("shop", "shop")],
)
def test_a_client_is_named_by_its_host(client: str, name: str) -> None:
    assert client_name(client) == name


def test_a_plan_is_asked_for_once_until_it_may_be_another() -> None:
    collector, _ = watched({"framework": framework_state(models=[served(100)])})

    def asked() -> int:
        collector.traffic.learn(collector.snapshot)
        return sum(method == "explain" for _, method, _, _ in collector.contacts.calls)

    assert (asked(), asked()) == (1, 1)
    (call,) = [call for call in collector.contacts.calls if call[1] == "explain"]
    assert call[3] == {"as_it_runs": True}
    collector.show(framework_process(), framework=framework_state(models=[served(100, devices=["cpu"])]))
    assert (asked(), asked()) == (2, 2)
    event = supervisor_pb2.ProcessEvent(number=1, at_ns=10**18, subject="net", kind="loaded", text="loaded")
    collector.show(
        framework_process(), framework=framework_state(models=[served(100, devices=["cpu"])]), events=(event,)
    )
    assert (asked(), asked()) == (3, 3)
