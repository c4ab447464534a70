"""The explanations of plans, above all of one in which the framework walks control flow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nnhal.reports import wire_bytes_of
from nnhal.types import Operand, OperationType, TransferCosts
from nnhal_devices.backend import Backend
from nnhal_service.native.convert import model_to_wire
from nnhal_service.native.explanation import explanation_to_wire
from nnhal_service.partition import Pin, Strategy
from nnhal_service.runtime import PreparedPlan
from tests.service.three_steps import EXPECTED, X, add_mul_tanh, one_device_each
from tests.support.distant import Distant
from tests.support.picky import CPU, Bound, Picky, serving
from tests.support.subgraphs import I32, Program


@pytest.fixture
def prepared(short_path: Path) -> Iterator[PreparedPlan]:
    """while i < n: i = i + n; then i + n. The additions are for npu."""
    program = Program()
    main, compare, advance = (program.graph() for _ in range(3))
    compare.returns(compare.less(compare.input(), compare.input()))
    advance.returns(advance.add(advance.input(), advance.input()))
    i, n = main.input(), main.input()
    references = [main.reference(compare), main.reference(advance)]
    main.returns(main.add(main.operation(OperationType.WHILE, [*references, i, n], Operand(I32, (1,))), n))
    npu = Picky("npu", (OperationType.ADD,))
    with serving(short_path, npu, Picky(CPU, ratio=1.0)) as load:
        yield load(program.model())


def test_the_operations_of_all_steps_have_their_places(prepared: PreparedPlan) -> None:
    model = model_to_wire("m", prepared)
    assert [(place.operation, place.device, place.step) for place in model.placements] == [
        ("LESS", CPU, 0),
        ("ADD", "npu", 1),
        ("ADD", "npu", 2),
    ]
    assert list(model.steps) == [CPU, "npu", "npu"]


def test_an_explanation_has_those_of_main_first_and_says_what_is_walked(prepared: PreparedPlan) -> None:
    story = explanation_to_wire(prepared)
    assert [(entry.operation, entry.device, entry.step) for entry in story.operations] == [
        ("WHILE", "framework", -1),
        ("ADD", "npu", 2),
        ("LESS", CPU, 0),
        ("ADD", "npu", 1),
    ]
    assert [refusal.device for refusal in story.operations[2].refusals] == ["npu"]
    assert [other.device for other in story.counterfactuals] == ["npu"]
    assert [step.device for step in story.steps] == [CPU, "npu", "npu"]
    assert {(edge.source, edge.destination) for edge in story.edges} == {("client", "npu"), ("npu", "client")}
    assert story.client_bytes == 3 * 4
    assert story.fallback_bytes == story.fallback_bytes_unaligned == 0


def test_the_values_of_subgraphs_are_told_from_those_of_main(prepared: PreparedPlan) -> None:
    story = explanation_to_wire(prepared)
    walked, last, less, advance = story.operations
    (result,) = walked.outputs
    assert list(last.inputs) == [result, walked.inputs[1]]
    assert len({*walked.inputs, *walked.outputs, *last.outputs}) == 4
    assert not any("subgraph" in value for value in (*walked.inputs, *last.inputs, *last.outputs))
    assert all(value.endswith(" of subgraph 1") for value in (*less.inputs, *less.outputs))
    assert all(value.endswith(" of subgraph 2") for value in (*advance.inputs, *advance.outputs))
    assert not any(operation.costs for operation in (less, advance))


def test_the_arena_has_a_place_for_each_value_between_steps(short_path: Path) -> None:
    with serving(short_path, *one_device_each()) as load:
        story = explanation_to_wire(load(add_mul_tanh()))
    places = [(value.value, value.bytes, value.first_step, value.last_step) for value in story.arena_values]
    doubled, product = (operation.outputs[0] for operation in story.operations[:2])
    assert sorted(places) == sorted([(doubled, 8, 0, 1), (product, 8, 1, 2)])
    first, second = story.arena_values
    assert first.offset + first.bytes <= second.offset  # both live during step 1
    assert second.offset + second.bytes <= story.fallback_bytes


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
