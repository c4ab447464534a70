"""The explanations of plans, above all of one in which the framework walks control flow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nnhal.types import Operand, OperationType
from nnhal_service.native.convert import model_to_wire
from nnhal_service.native.explanation import explanation_to_wire
from nnhal_service.runtime import PreparedPlan
from tests.support.picky import CPU, Picky, serving
from tests.support.subgraphs import I32, Program
from tests.support.three_steps import add_mul_tanh, one_device_each


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
