"""Control flow that the framework walks: results, sizes, and how long a loop may take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.types import ErrorStatus, Model, Operand, OperandLifeTime, OperationType
from nnhal_service.partition import Fallback, Strategy
from nnhal_service.runtime import PreparedPlan
from nnhal_service.runtime.run.walk import loop_timeout
from tests.support.picky import CPU, Bound, Loader, Picky, always, serving
from tests.support.subgraphs import B8, I32, INT32, Program, branches, counting_loop

ADD, LESS, IF, WHILE = OperationType.ADD, OperationType.LESS, OperationType.IF, OperationType.WHILE
LONGEST_LOOP_NS = 15 * 10**9


@pytest.fixture
def npu() -> Picky:
    """Return a device that takes additions only."""
    return Picky("npu", (ADD,))


@pytest.fixture
def cpu() -> Picky:
    return Picky(CPU, ratio=1.0)


@pytest.fixture
def load(short_path: Path, npu: Picky, cpu: Picky) -> Iterator[Loader]:
    with serving(short_path, npu, cpu) as loader:
        yield loader


def i32(*values: int) -> Array:
    return np.array(values, np.int32)


def b8(value: int) -> Array:
    return np.array([value], np.uint8)


def layout(prepared: PreparedPlan) -> list[str]:
    walk = prepared.plan.walk
    return [] if walk is None else walk.layout()


@pytest.mark.contract("CF-08", "CF-17", "PT-20")
@pytest.mark.parametrize(("condition", "expected"), [(0, 7 + 5 + 5), (1, 7 + 5), (200, 7 + 5)])
def test_an_if_runs_the_steps_of_the_branch_that_it_selects(
    load: Loader, npu: Picky, condition: int, expected: int
) -> None:
    prepared = load(branches())
    assert layout(prepared) == ["IF", "npu", "GOTO", "npu"]
    bound = Bound(prepared, [b8(condition), i32(7), i32(5)], [1])
    report = bound.run()
    assert bound.outputs() == [[expected]]
    assert [step.device for step in report.steps] == ["npu"]
    assert npu.runs == 1
    assert not report.fell_back


@pytest.mark.contract("CF-06", "CF-07", "PT-21")
@pytest.mark.parametrize(("start", "limit"), [(9, 3), (1, 4), (-100, 7)])
def test_a_while_goes_round_until_its_condition_is_false(load: Loader, start: int, limit: int) -> None:
    prepared = load(counting_loop())
    assert layout(prepared) == ["WHILE", CPU, "GOTO", "npu", "GOTO"]
    expected, rounds = start, 0
    while expected < limit:
        expected, rounds = expected + limit, rounds + 1
    bound = Bound(prepared, [i32(start), i32(limit)], [1], loop_timeout_duration_ns=LONGEST_LOOP_NS)
    report = bound.run()
    assert bound.outputs() == [[expected]]
    assert [step.device for step in report.steps] == [CPU, *["npu", CPU] * rounds]


def test_a_binding_can_walk_again_with_other_values(load: Loader) -> None:
    bound = Bound(load(counting_loop()), [i32(0), i32(1)], [1])
    for start, limit, expected in ((0, 1, 1), (5, 2, 5), (-7, 3, 5)):
        bound.give(i32(start), i32(limit))
        bound.run()
        assert bound.outputs() == [[expected]]


def nested() -> Model:
    """Return ``sum = 0; for i in 0..n: for j in 0..i: sum = sum + (1 if sum < 3 else 2)``; constants are passed in."""
    program = Program()
    main, outer_test, outer, inner_test, inner, small, large = (program.graph() for _ in range(7))

    def less_of_first_and_last(graph_inputs: int) -> None:
        graph = outer_test if graph_inputs == 3 else inner_test
        operands = [graph.input() for _ in range(graph_inputs)]
        graph.returns(graph.less(operands[0], operands[-1]))

    less_of_first_and_last(3)
    less_of_first_and_last(4)
    i, total, n = (outer.input() for _ in range(3))
    bound = replace(outer.operands[i], lifetime=OperandLifeTime.TEMPORARY_VARIABLE)
    references = [outer.reference(inner_test), outer.reference(inner)]
    j = outer.operation(WHILE, [*references, outer.constant([0]), total, n, i], bound, bound)
    outer.returns(outer.add(i, outer.constant([1])), j + 1)
    j, total, _, _ = (inner.input() for _ in range(4))
    decision = inner.less(total, inner.constant([3]))
    added = inner.operation(IF, [decision, inner.reference(small), inner.reference(large), total], bound)
    inner.returns(inner.add(j, inner.constant([1])), added)
    for branch, step in ((small, 1), (large, 2)):
        branch.returns(branch.add(branch.input(), branch.constant([step])))
    references = [main.reference(outer_test), main.reference(outer)]
    limit = main.input()
    result = main.operation(WHILE, [*references, main.constant([0]), main.constant([0]), limit], bound, bound)
    main.returns(result + 1)
    return program.model()


def sum_of(n: int) -> int:
    """Return what ``nested`` computes."""
    total = 0
    for i in range(n):
        for _ in range(i):
            total += 1 if total < 3 else 2
    return total


@pytest.mark.contract("CF-10")
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_loops_and_decisions_within_loops_are_walked_too(load: Loader, n: int) -> None:
    prepared = load(nested())
    assert layout(prepared).count("WHILE") == 2
    assert layout(prepared).count("IF") == 1
    bound = Bound(prepared, [i32(n)], [1])
    bound.run()
    assert bound.outputs() == [[sum_of(n)]]


def test_what_control_flow_yields_is_read_by_other_steps(load: Loader) -> None:
    """The outputs are out0, the result of an IF with a constant condition on x and x, and out1 = 2 * out0."""
    program = Program()
    main, then, otherwise = (program.graph() for _ in range(3))
    for branch in (then, otherwise):
        branch.returns(branch.add(branch.input(), branch.input()))
    x = main.input()
    temporary = main.add(x, x)
    inputs = [main.constant([1], B8), main.reference(then), main.reference(otherwise), temporary, x]
    chosen = main.operation(IF, inputs, Operand(I32, (1,)))
    main.returns(chosen, main.add(chosen, chosen))
    prepared = load(program.model())
    assert layout(prepared) == ["npu", "IF", "npu", "GOTO", "npu", "npu"]
    bound = Bound(prepared, [i32(4)], [1, 1])
    bound.run()
    assert bound.outputs() == [[12], [24]]


def open_inside() -> Model:
    """Return ``while i < n: i = i + SLICE(twos, i, 1)`` with ``twos = 2 * FILL(i + 1, 1)``, whose size is unknown."""
    program = Program()
    main, compare, body = (program.graph() for _ in range(3))
    compare.returns(compare.less(compare.input(), compare.input()))
    i, _ = body.input(), body.input()
    size = body.add(i, body.constant([1]))
    ones = body.operation(OperationType.FILL, [size, body.constant(1, INT32)], Operand(I32, (0,)))
    twos = body.add(ones, ones, (0,))
    last = body.operation(OperationType.SLICE, [twos, i, body.constant([1])], Operand(I32, (1,)))
    body.returns(body.add(i, last))
    references = [main.reference(compare), main.reference(body)]
    main.returns(main.operation(WHILE, [*references, main.input(), main.input()], Operand(I32, (1,))))
    return program.model()


def endless() -> Model:
    """Return ``while i < n: i = i + 0``."""
    program = Program()
    main, compare, body = (program.graph() for _ in range(3))
    compare.returns(compare.less(compare.input(), compare.input()))
    i, _ = body.input(), body.input()
    body.returns(body.add(i, body.constant([0])))
    references = [main.reference(compare), main.reference(body)]
    main.returns(main.operation(WHILE, [*references, main.input(), main.input()], Operand(I32, (1,))))
    return program.model()


@pytest.mark.contract("CF-12", "CF-18", "FB-07")
def test_a_loop_that_takes_too_long_does_not_fall_back(load: Loader, cpu: Picky) -> None:
    prepared = load(endless())
    bound = Bound(prepared, [i32(0), i32(1)], [1], loop_timeout_duration_ns=1_000_000)
    with pytest.raises(HalError, match="the framework walks") as caught:
        bound.run()
    assert caught.value.status == ErrorStatus.MISSED_DEADLINE_TRANSIENT
    bound.give(i32(1), i32(1))
    bound.run()
    assert bound.outputs() == [[1]]


@pytest.mark.contract("CF-13", "CF-15")
@pytest.mark.parametrize(("asked", "seconds"), [(-1, 2), (0, 0), (5 * 10**9, 5), (15 * 10**9, 15), (16 * 10**9, 15)])
def test_a_loop_timeout_has_a_default_and_a_maximum(asked: int, seconds: int) -> None:
    assert loop_timeout(asked) == seconds * 10**9


@pytest.mark.contract("RQ-13")
def test_an_invalid_loop_timeout_is_refused(load: Loader) -> None:
    with pytest.raises(HalError, match="loop timeout of -2 ns") as caught:
        Bound(load(endless()), [i32(0), i32(1)], [1], loop_timeout_duration_ns=-2)
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT


def test_control_flow_entirely_on_the_cpu_is_one_step(load: Loader) -> None:
    prepared = load(counting_loop(), strategy=Strategy.CPU_ONLY)
    assert prepared.plan.walk is None
    bound = Bound(prepared, [i32(1), i32(4)], [1])
    bound.run()
    assert bound.outputs() == [[5]]


@pytest.mark.contract("FB-03")
def test_the_cpu_runs_a_body_that_fails_once_and_the_loop_goes_on(load: Loader, npu: Picky) -> None:
    bound = Bound(load(counting_loop()), [i32(-10), i32(3)], [1])
    npu.fails = lambda: ErrorStatus.GENERAL_FAILURE if npu.runs == 2 else ErrorStatus.NONE
    report = bound.run()
    assert bound.outputs() == [[5]]
    assert [step.device for step in report.steps][1::2] == ["npu", CPU, "npu", "npu", "npu"]
    assert report.fell_back


@pytest.mark.contract("FB-05")
def test_if_a_condition_fails_on_the_cpu_the_whole_model_runs_there(load: Loader, cpu: Picky) -> None:
    bound = Bound(load(counting_loop()), [i32(-10), i32(3)], [1])
    cpu.fails = lambda: ErrorStatus.GENERAL_FAILURE if cpu.runs == 3 else ErrorStatus.NONE
    report = bound.run()
    assert bound.outputs() == [[5]]
    assert [step.device for step in report.steps] == [CPU]
    assert report.fell_back
    assert cpu.runs == 4


@pytest.mark.contract("FB-10")
def test_without_fallback_a_body_that_fails_ends_the_run(load: Loader, npu: Picky) -> None:
    bound = Bound(load(counting_loop(), Fallback.DENY), [i32(-10), i32(3)], [1])
    npu.fails = always(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT)
    with pytest.raises(HalError) as caught:
        bound.run()
    assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT


def test_values_of_unknown_size_in_a_body_may_change_size_from_round_to_round(load: Loader) -> None:
    prepared = load(open_inside())
    assert layout(prepared) == ["WHILE", CPU, "GOTO", "npu", CPU, "npu", CPU, "npu", "GOTO"]
    bound = Bound(prepared, [i32(0), i32(20)], [1], loop_timeout_duration_ns=LONGEST_LOOP_NS)
    for _ in range(2):
        report = bound.run()
        assert bound.outputs() == [[20]]
        assert not report.fell_back
