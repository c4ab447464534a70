from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from nnhal.types import Model, Operand, OperandType, OperationType
from nnhal.validation import validate_model
from nnhal_service.partition import (
    Candidate,
    CompoundPlan,
    IfStep,
    SourceOperand,
    WhileStep,
    interpret,
)
from nnhal_service.runtime.memory.domains import StepRole, step_roles
from tests.service.planning import device, graph_of
from tests.support.subgraphs import B8, Program, branches


def taking(name: str, model: Model, operations: Mapping[int, Collection[int]], ratio: float = 0.5) -> Candidate:
    """Return a device that supports these operations of the subgraphs; 0 is main."""
    refusals, *referenced = (
        {index: "no" for index in range(len(graph.operations)) if index not in operations.get(number, ())}
        for number, graph in enumerate((model.main, *model.referenced))
    )
    return replace(device(name, ratio=ratio), refusals=refusals, referenced=referenced)


def everything(model: Model) -> dict[int, Collection[int]]:
    return {number: range(len(g.operations)) for number, g in enumerate((model.main, *model.referenced))}


def plan(model: Model, *candidates: Candidate) -> CompoundPlan:
    cpu = taking("cpu_ref", model, everything(model), ratio=1.0)
    dimensions = [[operand.dimensions for operand in graph.operands] for graph in (model.main, *model.referenced)]
    return interpret(model, [()] * len(model.main.operations), [*candidates, cpu], dimensions)


def roles(planned: CompoundPlan, operand: SourceOperand) -> set[str]:
    """Return the roles in the contract's notation: device, and in or out."""
    found = step_roles(planned.steps).get(operand, frozenset())
    return {f"{planned.executable[role.step].device} {'out' if role.is_output else 'in'}" for role in found}


@pytest.mark.contract("MR-01")
def test_a_value_has_the_roles_of_all_steps_that_read_or_write_it() -> None:
    model = graph_of([[0, 1], [1, 2], [3, 4]], outputs=[0], inputs=3)
    planned = plan(
        model,
        taking("A", model, everything(model), ratio=0.8),
        taking("B", model, {0: [1]}),
        taking("C", model, {0: [2]}),
    )
    assert planned.layout() == ["B", "A", "C"]
    assert {operand: roles(planned, SourceOperand(0, operand)) for operand in range(6)} == {
        0: {"A in"},
        1: {"A in", "B in"},
        2: {"B in"},
        3: {"A out", "C in"},
        4: {"B out", "C in"},
        5: {"C out"},
    }
    reader = planned.executable[2]
    assert step_roles(planned.steps)[SourceOperand(0, 3)] == {
        StepRole(1, True, 0),
        StepRole(2, False, reader.inputs.index(3)),
    }


@pytest.mark.contract("MR-02")
def test_inputs_and_outputs_of_a_walked_if_have_the_roles_of_both_branches() -> None:
    model = branches()
    planned = plan(model, taking("A", model, {1: [0]}), taking("B", model, {2: [0, 1]}))
    assert planned.layout() == ["IF", "A", "GOTO", "B"]
    decision = planned.steps[0]
    assert isinstance(decision, IfStep)
    assert roles(planned, decision.condition) == set()
    assert [roles(planned, operand) for operand in decision.inputs] == [{"A in", "B in"}] * 2
    assert [roles(planned, operand) for operand in decision.outputs] == [{"A out", "B out"}]


@pytest.mark.contract("MR-03")
def test_values_that_a_walked_while_repeats_have_the_roles_of_condition_and_body() -> None:
    program = Program()
    main, compare, body = (program.graph() for _ in range(3))
    first, second, third = (compare.input() for _ in range(3))
    compare.returns(compare.less(compare.add(first, second), third))
    first, second, third = (body.input() for _ in range(3))
    body.returns(body.add(first, second), body.add(second, third))
    inputs = [main.reference(compare), main.reference(body), main.input(), main.input(), main.input()]
    main.returns(main.operation(OperationType.WHILE, inputs, Operand(OperandType.TENSOR_INT32, (1,))))
    model = program.model()
    validate_model(model)
    planned = plan(model, taking("A", model, {1: [0, 1]}), taking("B", model, {2: [0, 1]}))
    assert planned.layout() == ["WHILE", "A", "GOTO", "B", "GOTO"]
    loop = planned.steps[0]
    assert isinstance(loop, WhileStep)
    assert [roles(planned, operand) for operand in loop.inputs] == [{"A in", "B in"}] * 3
    assert [roles(planned, operand) for operand in loop.outputs] == [set()]
    assert roles(planned, loop.condition_output) == {"A out"}
    assert [roles(planned, operand) for operand in loop.body_outputs] == [{"A in", "B in", "B out"}] * 2


@pytest.mark.contract("MR-04")
def test_roles_reach_through_control_flow_inside_of_control_flow() -> None:
    program = Program()
    main, compare, body, then, otherwise = (program.graph() for _ in range(5))
    first, second, _ = compare.input(), compare.input(), compare.input(code=B8)
    compare.returns(compare.less(first, second))
    for branch in (then, otherwise):
        branch.returns(branch.add(branch.input(), branch.input()))
    first, second, flag = body.input(), body.input(), body.input(code=B8)
    inner = [flag, body.reference(then), body.reference(otherwise), first, second]
    result = Operand(OperandType.TENSOR_INT32, (1,))
    body.returns(body.operation(OperationType.IF, inner, result))
    inputs = [main.reference(compare), main.reference(body), main.input(), main.input(), main.input(code=B8)]
    main.returns(main.operation(OperationType.WHILE, inputs, result))
    model = program.model()
    validate_model(model)
    devices = [taking(name, model, {graph: [0]}) for name, graph in (("A", 1), ("B", 3), ("C", 4))]
    planned = plan(model, *devices)
    assert planned.layout() == ["WHILE", "A", "GOTO", "IF", "B", "GOTO", "C", "GOTO"]
    loop, decision = planned.steps[0], planned.steps[3]
    assert isinstance(loop, WhileStep)
    assert isinstance(decision, IfStep)
    *values, condition = loop.inputs
    assert [roles(planned, operand) for operand in values] == [{"A in", "B in", "C in"}] * 2
    assert (roles(planned, condition), roles(planned, decision.condition)) == (set(), set())
    assert [roles(planned, o) for o in loop.body_outputs] == [{"A in", "B in", "B out", "C in", "C out"}]
    assert [roles(planned, operand) for operand in loop.outputs] == [set()]
