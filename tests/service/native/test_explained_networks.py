"""What explanations, ledgers and devices say of networks, by plan and in runs on a device on another host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nnhal.reports import wire_bytes_of
from nnhal.types import TransferCosts
from nnhal_devices.backend import Backend
from nnhal_service.native.explanation import explanation_to_wire
from nnhal_service.partition import Pin, Strategy
from tests.support.distant import Distant
from tests.support.picky import CPU, Bound, Picky, serving
from tests.support.three_steps import EXPECTED, X, add_mul_tanh

ROUND_TRIP_NS, LAUNCH_NS, NS_PER_BYTE = 1_000_000.0, 60_000.0, 50.0
PINS = (Pin("op:ADD", "npu-7"), Pin("op:MUL", CPU), Pin("op:TANH", "npu-7"))


def devices(round_trip_ns: float = ROUND_TRIP_NS, remote_ns: float = 1_000.0) -> tuple[Distant, Picky]:
    """A remote device, and a CPU on which an operation takes a millisecond."""
    remote, cpu = Distant("npu-7"), Picky(CPU, ratio=1.0)
    costs = TransferCosts(round_trip_ns + LAUNCH_NS, 0.0, 0.0, NS_PER_BYTE, True, round_trip_ns)
    remote.backend = replace(_taking(remote.backend, remote_ns), transfer_costs=costs)
    cpu.backend = replace(_taking(cpu.backend, 1e6), transfer_costs=TransferCosts(0.0, 0.0, 0.0, 0.0))
    return remote, cpu


def _taking(backend: Backend, ns: float) -> Backend:
    return replace(backend, operation_ns=lambda model: [ns] * len(model.model.main.operations))


def test_edges_and_sums_say_what_goes_up_and_what_comes_down(short_path: Path) -> None:
    with serving(short_path, *devices()) as load:
        story = explanation_to_wire(load(add_mul_tanh(), strategy=Strategy.LEAST_TIME, pins=PINS))
    sent = [(edge.source, edge.destination, edge.wire_up_bytes, edge.wire_down_bytes) for edge in story.edges]
    assert sorted(sent) == [
        ("client", CPU, 0, 0),
        ("client", "npu-7", 8, 0),
        (CPU, "npu-7", 8, 0),
        ("npu-7", "client", 0, 8),
        ("npu-7", CPU, 0, 8),
    ]
    assert story.wire_ns == 2 * ROUND_TRIP_NS + 32 * NS_PER_BYTE
    assert story.modelled_ns == pytest.approx(story.wire_ns + 2 * (LAUNCH_NS + 1_000) + 1e6)
    assert {d.name: (d.link.round_trip_ns, d.link.ns_per_byte) for d in story.devices if d.HasField("link")} == {
        "npu-7": (ROUND_TRIP_NS, NS_PER_BYTE)
    }


def test_the_whole_model_on_another_host_is_told_with_its_time_on_the_wire(short_path: Path) -> None:
    with serving(short_path, *devices(1e9)) as load:
        story = explanation_to_wire(load(add_mul_tanh(), strategy=Strategy.LEAST_TIME))
    assert [step.device for step in story.steps] == [CPU]
    assert story.wire_ns == 0
    found = {other.device: (other.modelled_ns, other.wire_ns) for other in story.counterfactuals}
    on_wire = 1e9 + 16 * NS_PER_BYTE
    assert found["npu-7"] == pytest.approx((on_wire + LAUNCH_NS + 3 * 1_000, on_wire))
    assert found[CPU] == pytest.approx((3e6, 0))


def test_a_fast_network_takes_the_model_to_the_other_host(short_path: Path) -> None:
    with serving(short_path, *devices(10_000)) as load:
        story = explanation_to_wire(load(add_mul_tanh(), strategy=Strategy.LEAST_TIME))
    assert [step.device for step in story.steps] == ["npu-7"]


def test_runs_send_what_the_plan_says_and_the_device_counts_it(short_path: Path) -> None:
    with serving(short_path, *devices()) as load:
        prepared = load(add_mul_tanh(), strategy=Strategy.LEAST_TIME, pins=PINS)
        story = explanation_to_wire(prepared)
        bound = Bound(prepared, [X], [2])
        report = bound.run()
        assert bound.outputs() == [EXPECTED]
        usage = prepared.parts[0].member.remote.usage(1.0)
        bound.close()
    sent = [(edge.wire_up_bytes, edge.wire_down_bytes) for edge in story.edges]
    assert [(entry.wire_up_bytes, entry.wire_down_bytes) for entry in report.ledger] == sent
    assert wire_bytes_of(copy for step in report.steps for copy in step.copies) == (16, 16)
    assert (usage.wire_up_bytes, usage.wire_down_bytes) == (16, 16)
