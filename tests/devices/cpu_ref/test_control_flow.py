"""IF and WHILE on the reference driver."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.resolved import ResolvedModel
from nnhal.types import ErrorStatus, Operand, OperationType
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.cpu_ref.interpreter import Interpreter
from nnhal_devices.driver import Control
from tests.support.models import run_on
from tests.support.subgraphs import B8, I32, INT32, Graph, Program

IF, WHILE = OperationType.IF, OperationType.WHILE


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


def adder(program: Program, amount: int) -> Graph:
    """x + amount."""
    graph = program.graph()
    return graph.returns(graph.add(graph.input(), graph.constant([amount])))


def chooser() -> ResolvedModel:
    """condition ? x + 1 : x + 2."""
    program = Program()
    main = program.graph()
    condition, x = main.input(code=B8), main.input()
    branches = [main.reference(adder(program, amount)) for amount in (1, 2)]
    main.returns(main.operation(IF, [condition, *branches, x], Operand(I32, (1,))))
    return program.resolved()


def counting_condition(program: Program, values: int = 3) -> Graph:
    """First loop value < last loop value."""
    graph = program.graph()
    inputs = [graph.input() for _ in range(values)]
    return graph.returns(graph.less(inputs[0], inputs[-1]))


@pytest.mark.contract("CF-08", "CF-17")
@pytest.mark.parametrize(("condition", "expected"), [(0, 7), (1, 6), (2, 6), (255, 6)])
def test_any_byte_but_zero_chooses_the_first_branch(condition: int, expected: int) -> None:
    (result,) = run_on(CpuRef(), chooser(), np.array([condition], np.uint8), ints(5))
    assert result == [expected]


@pytest.mark.contract("CF-08")
def test_the_other_branch_is_not_run() -> None:
    program = Program()
    main, failing = program.graph(), program.graph()
    indexes = failing.constant([9])
    axis = failing.constant(0, INT32)
    failing.returns(failing.operation(OperationType.GATHER, [failing.input(), axis, indexes], Operand(I32, (1,))))
    condition, x = main.input(code=B8), main.input()
    branches = [main.reference(adder(program, 1)), main.reference(failing)]
    main.returns(main.operation(IF, [condition, *branches, x], Operand(I32, (1,))))
    model = program.resolved()
    assert run_on(CpuRef(), model, np.array([1], np.uint8), ints(5))[0] == [6]
    with pytest.raises(HalError):
        run_on(CpuRef(), model, np.array([0], np.uint8), ints(5))


def summing_loop() -> ResolvedModel:
    """while i < n: i, total, spare = i + 1, total + i, i + 100; one output more in the body than in the operation."""
    program = Program()
    main = program.graph()
    condition, body = counting_condition(program, 4), program.graph()
    i, total, _, _ = (body.input() for _ in range(4))
    results = [body.add(i, body.constant([1])), body.add(total, i), body.add(i, body.constant([100]))]
    body.returns(*results)
    values = [main.constant([0]), main.constant([10]), main.input(), main.input()]
    first = main.operation(
        WHILE, [main.reference(condition), main.reference(body), *values], Operand(I32, (1,)), Operand(I32, (1,))
    )
    main.returns(first, first + 1)
    return program.resolved()


@pytest.mark.contract("CF-06", "CF-07")
@pytest.mark.parametrize(("rounds", "expected"), [(0, 10), (1, 10), (2, 11), (5, 20), (-3, 10)])
def test_a_loop_carries_the_first_values_and_keeps_the_others(rounds: int, expected: int) -> None:
    count, total = run_on(CpuRef(), summing_loop(), ints(0), ints(rounds))
    assert (count.item(), total.item()) == (max(rounds, 0), expected)


def doubling_loop(declared: Dimensions) -> ResolvedModel:
    """while i < n: i, x = i + 1, x beside x. ``declared`` are the dimensions of x in the subgraphs."""
    program = Program()
    main, condition, body = program.graph(), program.graph(), program.graph()
    i, _, n = condition.input(), condition.input(declared), condition.input()
    condition.returns(condition.less(i, n))
    i, x, _ = body.input(), body.input(declared), body.input()
    longer = body.operation(OperationType.TILE, [x, body.constant([2])], Operand(I32, declared))
    body.returns(body.add(i, body.constant([1])), longer)
    values = [main.constant([0]), main.constant([1, 2]), main.input()]
    results = [Operand(I32, (1,)), Operand(I32, (0,))]
    first = main.operation(WHILE, [main.reference(condition), main.reference(body), *values], *results)
    main.returns(first, first + 1)
    return program.resolved()


@pytest.mark.parametrize("declared", [(), (0,)])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_loop_values_may_change_their_dimensions(rounds: int, declared: Dimensions) -> None:
    _, values = run_on(CpuRef(), doubling_loop(declared), ints(rounds))
    np.testing.assert_array_equal(values, np.tile([1, 2], 2**rounds))


def test_a_value_that_outgrows_its_declared_dimensions_fails() -> None:
    model = doubling_loop((2,))
    assert len(run_on(CpuRef(), model, ints(0))[1]) == 2
    with pytest.raises(HalError, match=r"dimensions \[4\], the model says \[2\]") as failure:
        run_on(CpuRef(), model, ints(1))
    assert failure.value.status == ErrorStatus.GENERAL_FAILURE


def nested_loops() -> ResolvedModel:
    """for i < n: count to n in a loop of its own; in the first two rounds add the count to the total, by a branch."""
    program = Program()
    main, outer = program.graph(), program.graph()
    below, increment = counting_condition(program, 2), program.graph()
    i, _ = increment.input(), increment.input()
    increment.returns(increment.add(i, increment.constant([1])))
    keep, both = program.graph(), program.graph()
    first, _ = keep.input(), keep.input()
    keep.returns(keep.add(first, keep.constant([0])))
    both.returns(both.add(both.input(), both.input()))

    i, total, n = outer.input(), outer.input(), outer.input()
    references = [outer.reference(below), outer.reference(increment)]
    count = outer.operation(WHILE, [*references, outer.constant([0]), n], Operand(I32, (1,)))
    early, branches = outer.less(i, outer.constant([2])), [outer.reference(both), outer.reference(keep)]
    summed = outer.operation(IF, [early, *branches, total, count], Operand(I32, (1,)))
    following = outer.operation(IF, [early, *[outer.reference(increment)] * 2, i, n], Operand(I32, (1,)))
    outer.returns(following, summed)

    references = [main.reference(counting_condition(program)), main.reference(outer)]
    values = [main.constant([0]), main.constant([0]), main.input()]
    first = main.operation(WHILE, [*references, *values], *(Operand(I32, (1,)) for _ in range(2)))
    main.returns(first, first + 1)
    return program.resolved()


@pytest.mark.contract("CF-10")
def test_loops_nest_and_subgraphs_are_shared() -> None:
    rounds, total = run_on(CpuRef(), nested_loops(), ints(5))
    assert (rounds.item(), total.item()) == (5, 10)


def run_with(model: ResolvedModel, control: Control, *inputs: Array) -> list[Array]:
    return Interpreter(model).run(0, inputs, control)


@pytest.mark.contract("CF-12", "EX-15")
def test_an_endless_loop_misses_its_deadline() -> None:
    program = Program()
    main, condition, body = program.graph(), program.graph(), adder(program, 1)
    x = condition.input()
    condition.returns(condition.operation(OperationType.EQUAL, [x, x], Operand(B8, (1,))))
    references = [main.reference(condition), main.reference(body)]
    main.returns(main.operation(WHILE, [*references, main.input()], Operand(I32, (1,))))
    with pytest.raises(HalError, match=r"operation 0 \(WHILE\): the loop took more than 1000000 ns") as failure:
        run_with(program.resolved(), Control(loop_timeout_ns=1_000_000), ints(0))
    assert failure.value.status == ErrorStatus.MISSED_DEADLINE_TRANSIENT


def test_a_loop_that_ends_at_once_has_no_time_to_miss() -> None:
    count, _ = run_with(summing_loop(), Control(loop_timeout_ns=0), ints(0), ints(0))
    assert count == [0]


@pytest.mark.contract("CF-14")
def test_each_entry_into_a_loop_has_the_whole_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(1_000))
    monkeypatch.setattr("nnhal_devices.cpu_ref.control_flow.now_ns", lambda: next(now))
    program = Program()
    main = program.graph()
    condition, body = counting_condition(program, 2), program.graph()
    i, _ = body.input(), body.input()
    body.returns(body.add(i, body.constant([1])))
    references, rounds = [main.reference(condition), main.reference(body)], main.constant([10])
    loops = [main.operation(WHILE, [*references, main.constant([0]), rounds], Operand(I32, (1,))) for _ in range(2)]
    main.returns(*loops)
    model = program.resolved()  # looks at the clock once when entered and once a round
    assert [result.item() for result in run_with(model, Control(loop_timeout_ns=10))] == [10, 10]
    with pytest.raises(HalError, match="more than 9 ns"):
        run_with(model, Control(loop_timeout_ns=9))


def test_an_omitted_condition_is_refused() -> None:
    with pytest.raises(HalError, match="input that it needs the value of is omitted") as failure:
        Interpreter(chooser()).run(0, [None, ints(5)], Control())
    assert failure.value.status == ErrorStatus.INVALID_ARGUMENT
