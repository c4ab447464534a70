"""Validation of models with IF and WHILE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nnhal.errors import HalError
from nnhal.types import ErrorStatus, Operand, OperandLifeTime, OperandType, OperationType
from nnhal.validation import validate_model
from nnhal.validation.control_flow import MAX_DEPTH
from tests.support.subgraphs import B8, I32, Graph, Program, nested

IF, WHILE = OperationType.IF, OperationType.WHILE
F32 = OperandType.TENSOR_FLOAT32
RESULT = Operand(I32, (1,))
DECISION = Operand(B8, (1,), lifetime=OperandLifeTime.SUBGRAPH_INPUT)


def refused(program: Program, message: str) -> None:
    with pytest.raises(HalError, match=message) as failure:
        validate_model(program.model())
    assert failure.value.status == ErrorStatus.INVALID_ARGUMENT


def identity(program: Program, inputs: int = 1, outputs: int = 1, result: Operand = RESULT) -> Graph:
    """Make a subgraph of I32 [1] values whose outputs are sums of the first input."""
    graph = program.graph()
    first, *_ = (graph.input() for _ in range(inputs))
    if result.type == F32:
        return graph.returns(graph.operation(OperationType.CAST, [first], result))
    return graph.returns(*(graph.add(first, first, result.dimensions) for _ in range(outputs)))


def condition(program: Program, inputs: int) -> Graph:
    graph = program.graph()
    first, *_ = (graph.input() for _ in range(inputs))
    return graph.returns(graph.less(first, first))


def branching(then: Callable[[Program], Graph] = identity, decide: Operand = DECISION) -> Program:
    """Make a model with an IF over one value."""
    program = Program()
    main = program.graph()
    main.operands.append(decide)
    branches = [main.reference(then(program)), main.reference(identity(program))]
    main.returns(main.operation(IF, [0, *branches, main.input()], RESULT))
    return program


def looping(
    body: Callable[[Program], Graph], results: int = 1, decide: Callable[[Program], Graph] | None = None
) -> Program:
    """Make a model with a WHILE over two values."""
    program = Program()
    main = program.graph()
    references = [
        main.reference(decide(program) if decide else condition(program, 2)),
        main.reference(body(program)),
    ]
    values = [main.input(), main.input()]
    first = main.operation(WHILE, [*references, *values], *(RESULT for _ in range(results)))
    main.returns(*range(first, first + results))
    return program


@pytest.mark.contract("MV-22")
def test_a_model_with_control_flow_needs_level_4() -> None:
    assert validate_model(branching().model()) == 4
    assert validate_model(looping(lambda p: identity(p, 2)).model()) == 4


@pytest.mark.contract("CF-01")
@pytest.mark.parametrize(
    "decide",
    [
        replace(DECISION, type=I32),
        *(replace(DECISION, dimensions=dimensions) for dimensions in ((2,), (1, 1), (0,), ())),
    ],
)
def test_a_condition_is_exactly_one_boolean(decide: Operand) -> None:
    refused(branching(decide=decide), r"expected TENSOR_BOOL8 \[1\]")


@pytest.mark.contract("CF-01")
def test_a_condition_has_a_value() -> None:
    refused(branching(decide=replace(DECISION, lifetime=OperandLifeTime.NO_VALUE)), "is NO_VALUE")


@pytest.mark.contract("CF-01", "MV-22")
@pytest.mark.parametrize(("position", "name"), [(1, "then"), (2, "else")])
def test_branches_are_subgraphs(position: int, name: str) -> None:
    program = Program()
    main = program.graph()
    decide, x, branch = main.input(code=B8), main.input(), main.reference(identity(program))
    inputs = [decide, branch, branch, x]
    inputs[position] = x
    main.returns(main.operation(IF, inputs, RESULT))
    refused(program, rf"operation 0 \(IF\): input {position} \({name}\) is TENSOR_INT32, expected SUBGRAPH")


@pytest.mark.contract("CF-03", "MV-22")
@pytest.mark.parametrize(("position", "name"), [(0, "condition"), (1, "body")])
def test_the_condition_and_the_body_of_a_loop_are_subgraphs(position: int, name: str) -> None:
    program = Program()
    main = program.graph()
    inputs = [main.reference(condition(program, 1)), main.reference(identity(program)), main.input()]
    inputs[position] = inputs[2]
    main.returns(main.operation(WHILE, inputs, RESULT))
    refused(program, rf"operation 0 \(WHILE\): input {position} \({name}\) is TENSOR_INT32, expected SUBGRAPH")


@pytest.mark.contract("CF-01", "CF-03")
@pytest.mark.parametrize("code", [IF, WHILE])
def test_control_flow_has_three_inputs(code: OperationType) -> None:
    program = Program()
    main = program.graph()
    main.returns(main.operation(code, [main.input(), main.reference(identity(program))], RESULT))
    refused(program, "got 2 inputs and 1 outputs")


@pytest.mark.contract("CF-02")
@pytest.mark.parametrize(
    ("then", "message"),
    [
        (lambda p: identity(p, inputs=2), "the inputs of its then branch are 2, expected 1"),
        (lambda p: identity(p, outputs=2), "the outputs of its then branch are 2, expected 1"),
        (lambda p: identity(p, result=Operand(F32, (1,))), "number 0 is TENSOR_FLOAT32"),
        (lambda p: identity(p, result=Operand(I32, (2,))), r"number 0 is TENSOR_INT32 \[2\]"),
    ],
)
def test_branches_fit_the_operation(then: Callable[[Program], Graph], message: str) -> None:
    refused(branching(then), message)


@pytest.mark.contract("CF-02")
def test_unknown_dimensions_fit_known_ones() -> None:
    assert validate_model(branching(lambda p: identity(p, result=Operand(I32))).model()) == 4


@pytest.mark.contract("CF-04")
@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (lambda p: condition(p, 1), "the inputs of its condition are 1, expected 2"),
        (lambda p: identity(p, 2, 2), "its condition has 2 outputs, expected 1"),
        (lambda p: identity(p, 2), r"the output of its condition is TENSOR_INT32 \[1\]"),
    ],
)
def test_a_loops_condition_decides_by_all_values(decide: Callable[[Program], Graph], message: str) -> None:
    refused(looping(lambda p: identity(p, 2), decide=decide), message)


@pytest.mark.contract("CF-05")
@pytest.mark.parametrize(
    ("body", "results", "message"),
    [
        (lambda p: identity(p, 1), 1, "the inputs of its body are 1, expected 2"),
        (lambda p: identity(p, 2, 1), 2, "its body has 1 outputs, expected 2 .* to 2"),
        (lambda p: identity(p, 2, 3), 1, "its body has 3 outputs, expected 1 .* to 2"),
        (lambda p: identity(p, 2, result=Operand(F32, (1,))), 1, "the outputs of its body: number 0"),
    ],
)
def test_a_loops_body_gives_values_for_the_next_round(
    body: Callable[[Program], Graph], results: int, message: str
) -> None:
    refused(looping(body, results), message)


@pytest.mark.contract("CF-11", "MV-07")
@pytest.mark.parametrize("length", [1, 3])
def test_subgraphs_that_refer_to_one_another_in_a_cycle_are_refused(length: int) -> None:
    program = Program()
    main = program.graph()
    cycle = [program.graph() for _ in range(length)]
    for number, graph in enumerate(cycle):
        following = graph.reference(cycle[(number + 1) % length])
        decide, x = graph.constant([1], B8), graph.input()
        graph.returns(graph.operation(IF, [decide, following, following, x], RESULT))
    branch = main.reference(cycle[0])
    main.returns(main.operation(IF, [main.input(code=B8), branch, branch, main.input()], RESULT))
    refused(program, "in a cycle")


@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1])
def test_subgraphs_nest_up_to_a_limit(depth: int) -> None:
    program = nested(depth)
    if depth > MAX_DEPTH:
        refused(program, f"referenced subgraphs nest more than {MAX_DEPTH} deep")
    else:
        assert validate_model(program.model()) == 4


@pytest.mark.contract("CF-10")
def test_a_subgraph_may_be_referred_to_from_several_places() -> None:
    program = Program()
    main, outer, shared = program.graph(), program.graph(), identity(program)
    decide, x = outer.constant([1], B8), outer.input()
    outer.returns(outer.operation(IF, [decide, *[outer.reference(shared)] * 2, x], RESULT))
    branches = [main.reference(outer), main.reference(shared)]
    main.returns(main.operation(IF, [main.input(code=B8), *branches, main.input()], RESULT))
    assert validate_model(program.model()) == 4


@pytest.mark.parametrize("position", [3, 0])
def test_a_value_of_an_if_must_not_be_omitted(position: int) -> None:
    program = branching()
    main = program.graphs[0]
    index = main.build().operations[0].inputs[position]
    main.operands[index] = replace(main.operands[index], lifetime=OperandLifeTime.NO_VALUE)
    refused(program, "is NO_VALUE, expected a value")


def body_with(code: OperationType, program: Program) -> Graph:
    """Make a body over two values that is itself an IF or a WHILE."""
    body = program.graph()
    first, second = body.input(), body.input()
    if code == IF:
        references = [body.reference(identity(program, 2)) for _ in range(2)]
        return body.returns(body.operation(IF, [body.less(first, second), *references, first, second], RESULT))
    references = [body.reference(condition(program, 2)), body.reference(identity(program, 2))]
    return body.returns(body.operation(WHILE, [*references, first, second], RESULT))


@pytest.mark.contract("CF-10")
@pytest.mark.parametrize("code", [IF, WHILE])
def test_a_loops_body_may_hold_further_control_flow(code: OperationType) -> None:
    assert validate_model(looping(lambda program: body_with(code, program)).model()) == 4


def test_a_fault_inside_a_subgraph_is_named_there() -> None:
    program = branching()
    program.graphs[2].operands[0] = replace(program.graphs[2].operands[0], zero_point=1)
    refused(program, "operand 0 of referenced subgraph 1 .* has zero point 1")


def test_quantisation_is_part_of_what_must_fit() -> None:
    program = branching()
    main = program.graphs[0]
    main.operands[-1] = replace(main.operands[-1], scale=0.5)
    refused(program, r"the outputs of its then branch: number 0 is TENSOR_INT32 \[1\] \(0\.0, 0\)")
