from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from nnhal.types import Model, OperandPerformance, OperandType, OperationType
from nnhal.types.layout import Dimensions
from nnhal.validation import validate_model
from nnhal_service.partition import (
    Candidate,
    CompoundPlan,
    GotoStep,
    IfStep,
    Pin,
    PlacementError,
    SourceOperand,
    Step,
    StepError,
    WhileStep,
    interpret,
)
from nnhal_service.partition.compound_plan import MAX_STEPS
from tests.service.planning import device
from tests.support.subgraphs import B8, I32, Program, branches, counting_loop


def plan(model: Model, candidates: Sequence[Candidate], pins: Sequence[Pin] = ()) -> CompoundPlan:
    dimensions: list[list[Dimensions]] = [
        [operand.dimensions for operand in graph.operands] for graph in (model.main, *model.referenced)
    ]
    return interpret(model, [()] * len(model.main.operations), candidates, dimensions, pins)


def taking(name: str, model: Model, *types: OperationType, ratio: float = 0.5) -> Candidate:
    """A device that takes operations of these types in all subgraphs."""
    refusals, *referenced = (
        {number: "no" for number, operation in enumerate(graph.operations) if operation.type not in types}
        for graph in (model.main, *model.referenced)
    )
    return replace(device(name, ratio=ratio), refusals=refusals, referenced=referenced)


def cpu(model: Model) -> Candidate:
    return taking("cpu_ref", model, *OperationType, ratio=1.0)


ADD, LESS, IF, WHILE = OperationType.ADD, OperationType.LESS, OperationType.IF, OperationType.WHILE


@pytest.mark.contract("PT-20")
def test_an_if_on_the_cpu_is_walked_and_its_branches_are_partitioned() -> None:
    model = branches()
    walked = plan(model, [taking("npu", model, ADD), cpu(model)])
    assert walked.layout() == ["IF", "npu", "GOTO", "npu"]
    assert walked.scopes == (0, 1, 2)
    assert walked.has_control_flow
    decision, then, leave, otherwise = walked.steps
    assert isinstance(decision, IfStep)
    (single, double) = model.referenced
    assert (decision.then_step, decision.else_step, leave) == (1, 3, GotoStep(4))
    assert decision.condition == SourceOperand(0, model.main.input_indexes[0])
    assert decision.inputs == tuple(SourceOperand(0, operand) for operand in model.main.input_indexes[1:])
    assert decision.outputs == tuple(SourceOperand(0, operand) for operand in model.main.output_indexes)
    assert decision.then_inputs == tuple(SourceOperand(1, operand) for operand in single.input_indexes)
    assert decision.else_outputs == tuple(SourceOperand(2, operand) for operand in double.output_indexes)
    for step, scope, graph in ((then, 1, single), (otherwise, 2, double)):
        assert isinstance(step, Step)
        assert (step.scope, step.inputs, step.outputs) == (scope, graph.input_indexes, graph.output_indexes)
        assert step.model.referenced == ()
        validate_model(step.model)


@pytest.mark.contract("PT-21")
def test_a_while_on_the_cpu_is_walked_and_its_condition_and_body_are_partitioned() -> None:
    model = counting_loop()
    walked = plan(model, [taking("npu", model, ADD), cpu(model)])
    assert walked.layout() == ["WHILE", "cpu_ref", "GOTO", "npu", "GOTO"]
    loop, _, again, _, and_again = walked.steps
    assert isinstance(loop, WhileStep)
    assert (again, and_again) == (GotoStep(0), GotoStep(0))
    assert (loop.condition_step, loop.body_step, loop.exit_step) == (1, 3, 5)
    compare, advance = model.referenced
    assert loop.condition_output == SourceOperand(1, compare.output_indexes[0])
    assert loop.body_outputs == (SourceOperand(2, advance.output_indexes[0]),)
    assert loop.outputs == (SourceOperand(0, model.main.output_indexes[0]),)


@pytest.mark.contract("PT-22")
@pytest.mark.parametrize("model", [branches(), counting_loop()])
def test_control_flow_that_a_device_takes_with_all_that_is_inside_goes_there_as_it_is(model: Model) -> None:
    planned = plan(model, [taking("npu", model, *OperationType), cpu(model)])
    assert not planned.has_control_flow
    assert [(step.device, step.model) for step in planned.executable] == [("npu", model)]


@pytest.mark.contract("PT-23")
@pytest.mark.parametrize("then", [(1,), (0,), ()])
@pytest.mark.parametrize("otherwise", [(1,), (0,)])
@pytest.mark.parametrize("inner", [(1,), (0,)])
@pytest.mark.parametrize("result", [(1,), (0,)])
def test_an_if_is_for_the_cpu_as_it_is_if_any_of_its_operands_is_of_unknown_size(
    then: Dimensions, otherwise: Dimensions, inner: Dimensions, result: Dimensions
) -> None:
    model = branches(then, otherwise, inner, result)
    known = {then, otherwise, inner, result} == {(1,)}
    assert plan(model, [taking("npu", model, *OperationType), cpu(model)]).layout() == ["npu" if known else "cpu_ref"]
    assert len(plan(model, [taking("npu", model, ADD), cpu(model)]).steps) == (4 if known else 1)


@pytest.mark.contract("PT-24")
@pytest.mark.parametrize("start", [(1,), (0,)])
@pytest.mark.parametrize("condition_input", [(1,), (0,)])
@pytest.mark.parametrize("body_input", [(1,), (0,)])
@pytest.mark.parametrize("body", [(1,), (0,), ()])
def test_a_while_is_for_the_cpu_as_it_is_if_any_of_its_operands_is_of_unknown_size(
    start: Dimensions, condition_input: Dimensions, body_input: Dimensions, body: Dimensions
) -> None:
    model = counting_loop(start, condition_input, body_input, body)
    known = {start, condition_input, body_input, body} == {(1,)}
    assert plan(model, [taking("npu", model, *OperationType), cpu(model)]).layout() == ["npu" if known else "cpu_ref"]
    assert len(plan(model, [taking("npu", model, ADD), cpu(model)]).steps) == (5 if known else 1)


def test_control_flow_inside_a_loop_is_walked_too() -> None:
    """while i < n: if n < i then i = i + n else i = n + i; the branches are for different devices."""
    program = Program()
    main, compare, body, then, otherwise = (program.graph() for _ in range(5))
    compare.returns(compare.less(compare.input(), compare.input()))
    for branch in (then, otherwise):
        branch.returns(branch.add(branch.input(), branch.input()))
    i, n = body.input(), body.input()
    decision = body.less(n, i)
    inputs = [decision, body.reference(then), body.reference(otherwise), i, n]
    result = replace(body.operands[i], lifetime=0)
    body.returns(body.operation(IF, inputs, result))
    references = [main.reference(compare), main.reference(body)]
    main.returns(main.operation(WHILE, [*references, main.input(), main.input()], result))
    model = program.resolved().model
    a, b = taking("a", model, LESS), taking("b", model, ADD)
    b = replace(b, referenced=[*b.referenced[:3], {0: "not here"}])
    walked = plan(model, [a, b, cpu(model)])
    assert walked.layout() == ["WHILE", "a", "GOTO", "a", "IF", "b", "GOTO", "cpu_ref", "GOTO"]
    assert walked.scopes == (0, 1, 2, 3, 4)
    inner = walked.steps[4]
    assert isinstance(inner, IfStep)
    assert (inner.then_step, inner.else_step, walked.steps[6]) == (5, 7, GotoStep(8))
    assert inner.condition == SourceOperand(2, decision)


def test_steps_before_and_after_pass_values_to_control_flow() -> None:
    program = Program()
    main, then, otherwise = (program.graph() for _ in range(3))
    for branch in (then, otherwise):
        branch.returns(branch.add(branch.input(), branch.input()))
    x, y = main.input(), main.input()
    references = [main.reference(then), main.reference(otherwise)]
    before = main.add(x, y)
    chosen = main.operation(IF, [main.less(x, y), *references, before, y], replace(main.operands[x], lifetime=0))
    after = main.add(chosen, y)
    main.returns(after)
    model = program.resolved().model
    walked = plan(model, [taking("npu", model, ADD, LESS), cpu(model)])
    assert walked.layout() == ["npu", "IF", "npu", "GOTO", "npu", "npu"]
    first, decision, *_, last = walked.steps
    assert isinstance(first, Step)
    assert isinstance(decision, IfStep)
    assert isinstance(last, Step)
    assert set(first.outputs) == {before, decision.condition.operand}
    assert decision.outputs == (SourceOperand(0, chosen),)
    assert (last.inputs, last.outputs) == ((y, chosen), (after,))


def test_a_subgraph_that_is_referred_to_twice_is_two_scopes() -> None:
    program = Program()
    main, branch = program.graph(), program.graph()
    branch.returns(branch.add(branch.input(), branch.input()))
    x = main.input()
    inputs = [main.input(code=B8), main.reference(branch), main.reference(branch), x, x]
    main.returns(main.operation(IF, inputs, replace(main.operands[x], lifetime=0)))
    model = program.resolved().model
    assert plan(model, [cpu(model)]).scopes == (0, 1, 1)


def test_pinned_control_flow_is_not_walked() -> None:
    model = branches()
    candidates = [taking("npu", model, ADD), cpu(model)]
    assert plan(model, candidates, [Pin("op:IF", "cpu_ref")]).layout() == ["cpu_ref"]
    assert plan(model, candidates).layout() == ["IF", "npu", "GOTO", "npu"]


def test_walking_needs_to_know_what_devices_say_of_subgraphs() -> None:
    model = branches()
    unasked = replace(cpu(model), referenced=())
    with pytest.raises(PlacementError, match="cpu_ref: not asked about referenced subgraph 0"):
        plan(model, [unasked])


def test_models_whose_plan_would_have_no_end_are_refused() -> None:
    """Each of 20 subgraphs refers to the next one twice."""
    program = Program()
    graphs = [program.graph() for _ in range(20)]
    for number, graph in enumerate(graphs):
        condition, x = graph.input(code=B8), graph.input()
        if number == len(graphs) - 1:
            graph.returns(graph.add(x, x))
            continue
        twice = [graph.reference(graphs[number + 1])] * 2
        graph.returns(graph.operation(IF, [condition, *twice, condition, x], replace(graph.operands[x], lifetime=0)))
    model = program.model()
    info = cpu(model).capabilities.if_performance
    table = (OperandPerformance(OperandType.TENSOR_INT32, info), OperandPerformance(B8, info))
    able = replace(cpu(model), capabilities=replace(cpu(model).capabilities, operand_performance=table))
    with pytest.raises(StepError, match=f"more than {MAX_STEPS} steps"):
        plan(model, [able])
    assert I32 == OperandType.TENSOR_INT32
