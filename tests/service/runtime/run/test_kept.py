"""Values between steps that stay on their device, in whichever way the steps run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.types import ErrorStatus, Model, Operand, OperandType, OperationType
from nnhal_service.partition import Fallback, Pin
from nnhal_service.runtime import PreparedPlan, RunReport
from tests.support.distant import Distant
from tests.support.picky import CPU, Bound, Loader, Picky, always, serving
from tests.support.subgraphs import INT32, Program
from tests.support.waiting import wait_until

F32 = OperandType.TENSOR_FLOAT32
ADD, MUL, TANH = OperationType.ADD, OperationType.MUL, OperationType.TANH
COUNT = 64
SIZE = 4 * COUNT
X = np.linspace(-1, 1, COUNT, dtype=np.float32)
EXPECTED = pytest.approx((np.tanh(2 * X) + X * X).tolist(), abs=1e-6)
NPU = "npu"
PINS = (Pin("op:ADD", NPU), Pin("op:MUL", NPU), Pin("op:TANH", CPU))
COPIED = {0: 2 * SIZE, 1: 0, 2: 2 * SIZE}
"""Bytes that cross in each step: all but x * x."""


def skipping(dimensions: Sequence[int] = (COUNT,)) -> Model:
    """Return tanh(x + x) + x * x. The square passes from the first step to the last."""
    program = Program()
    main = program.graph()
    value = Operand(F32, tuple(dimensions))
    x, none = main.input(value.dimensions, F32), main.constant(0, INT32)
    doubled = main.operation(ADD, [x, x, none], value)
    square = main.operation(MUL, [x, x, none], value)
    main.returns(main.operation(ADD, [main.operation(TANH, [doubled], value), square, none], value))
    return program.model()


@pytest.fixture
def npu() -> Distant:
    return Distant(NPU)


@pytest.fixture
def cpu() -> Picky:
    return Picky(CPU, ratio=1.0)


@pytest.fixture
def load(short_path: Path, npu: Distant, cpu: Picky) -> Iterator[Loader]:
    """Serve both devices, and return a loader of models over them. At the end nothing is left on the device."""
    with serving(short_path, npu, cpu) as loader:
        yield loader
    wait_until(lambda: npu.own.bytes == 0, "the device's memory is freed")


@pytest.fixture
def prepared(load: Loader) -> PreparedPlan:
    return load(skipping(), pins=PINS)


def copied(report: RunReport) -> dict[int, int]:
    """Return the bytes that each step copied."""
    return {step.step: step.copied_bytes for step in report.steps}


def strategies(report: RunReport) -> list[tuple[str, int, int]]:
    """Return each entry of the ledger: strategy, bytes of the value, and bytes that were copied."""
    return [(entry.strategy, entry.bytes, entry.copied_bytes) for entry in report.ledger]


def test_a_value_that_one_device_writes_and_reads_is_kept_there(prepared: PreparedPlan) -> None:
    kept = [value for value in prepared.values.values() if value.is_kept]
    (edge,) = kept[0].edges
    assert (len(kept), kept[0].writer, kept[0].destinations) == (1, 0, (2,))
    assert (edge.strategy.value, edge.layer.value, edge.kind) == ("DirectCompatibility", "Kept", "device_buffer")
    assert (edge.copied_bytes, edge.reason) == (0, "both ends are on npu, which keeps it in its own memory")
    assert kept[0].operand not in prepared.layout.placements
    assert prepared.layout.total_bytes >= 2 * SIZE


def test_a_kept_value_does_not_cross(runner: str, prepared: PreparedPlan, npu: Distant) -> None:
    bound = Bound(prepared, [X], [COUNT])
    for factor in (1, -1):
        bound.give(factor * X)
        report = bound.run()
        assert copied(report) == COPIED
        assert bound.outputs() == [pytest.approx((np.tanh(2 * factor * X) + X * X).tolist(), abs=1e-6)]
        assert sum(entry.copied_bytes for entry in report.ledger) == sum(COPIED.values())
        assert ("DirectCompatibility", SIZE, 0) in strategies(report)
        assert all(strategy != "Unplanned" for strategy, _, _ in strategies(report))
    assert (npu.copied_in, npu.copied_out) == (2 * 2 * SIZE, 2 * 2 * SIZE)
    assert (npu.own.fetched, npu.own.stored, npu.own.bytes) == (0, 0, SIZE)
    bound.close()
    wait_until(lambda: npu.own.bytes == 0, "the device's memory is freed")


@pytest.mark.slow
def test_bindings_keep_their_values_apart_and_free_them(prepared: PreparedPlan, npu: Distant) -> None:
    factors = (1, 2, 3)
    bindings = [Bound(prepared, [factor * X], [COUNT], measure_timing=False) for factor in factors]
    assert npu.own.bytes == len(factors) * SIZE
    for bound in (*bindings, *reversed(bindings)):
        bound.run()
    for factor, bound in zip(factors, bindings, strict=True):
        scaled = factor * X
        assert bound.outputs() == [pytest.approx((np.tanh(2 * scaled) + scaled * scaled).tolist(), abs=1e-5)]
        bound.close()
    for _ in range(100):
        bound = Bound(prepared, [X], [COUNT], measure_timing=False)
        bound.run()
        bound.close()
    assert bound.outputs() == [EXPECTED]
    wait_until(lambda: npu.own.bytes == 0, "the device's memory is freed")


@pytest.mark.parametrize("failing", [(0,), (2,), (0, 2)], ids=["the writer", "the reader", "both"])
def test_a_kept_value_passes_through_the_host_when_another_device_takes_a_step(
    runner: str, prepared: PreparedPlan, npu: Distant, failing: tuple[int, ...]
) -> None:
    bound = Bound(prepared, [X], [COUNT])
    bound.run()
    calls = iter(range(3))
    fetched, stored = npu.own.fetched, npu.own.stored

    def fails() -> ErrorStatus:
        number = 0 if next(calls) == 0 else 2
        return ErrorStatus.GENERAL_FAILURE if number in failing else ErrorStatus.NONE

    npu.fails = fails
    report = bound.run()
    assert report.fell_back
    assert [step.device for step in report.steps] == [CPU if n in failing else d for n, d in enumerate((NPU, CPU, NPU))]
    assert bound.outputs() == [EXPECTED]
    crossed = (npu.own.fetched - fetched, npu.own.stored - stored)
    assert crossed == {(0,): (0, SIZE), (2,): (SIZE, 0), (0, 2): (0, SIZE)}[failing]
    expected = "DirectCompatibility" if len(failing) == 2 else "CopyToTarget"
    (entry,) = [entry for entry in report.ledger if (entry.source_step, entry.destination_step) == (0, 2)]
    assert (entry.strategy, entry.copied_bytes) == (expected, 0)
    npu.fails = lambda: ErrorStatus.NONE
    bound.give(2 * X)
    assert copied(bound.run()) == COPIED
    assert bound.outputs() == [pytest.approx((np.tanh(4 * X) + 4 * X * X).tolist(), abs=1e-5)]
    bound.close()


def test_what_another_device_wrote_in_one_run_is_not_read_in_the_next(prepared: PreparedPlan, npu: Distant) -> None:
    bound = Bound(prepared, [X], [COUNT])
    script: Iterator[ErrorStatus] = iter(())
    npu.fails = lambda: next(script)
    none, failure = ErrorStatus.NONE, ErrorStatus.GENERAL_FAILURE
    for factor, outcomes in ((1, (failure, none)), (2, (none, failure)), (3, (none, none))):
        script = iter(outcomes)
        bound.give(factor * X)
        bound.run()
        scaled = factor * X
        assert bound.outputs() == [pytest.approx((np.tanh(2 * scaled) + scaled * scaled).tolist(), abs=1e-5)]
    bound.close()


def test_without_fallback_a_failed_step_fails_the_run_and_the_next_one_is_whole(load: Loader, npu: Distant) -> None:
    bound = Bound(load(skipping(), Fallback.DENY, pins=PINS), [X], [COUNT])
    npu.fails = always()
    with pytest.raises(HalError, match="npu fails on demand"):
        bound.run()
    npu.fails = lambda: ErrorStatus.NONE
    bound.run()
    assert bound.outputs() == [EXPECTED]
    bound.close()


def test_a_value_that_the_device_cannot_keep_lies_on_the_host(prepared: PreparedPlan, npu: Distant) -> None:
    npu.own.refuses = True
    bound = Bound(prepared, [X], [COUNT])
    report = bound.run()
    assert bound.outputs() == [EXPECTED]
    assert copied(report) == {0: 3 * SIZE, 1: 0, 2: 3 * SIZE}
    unplanned = [entry.copied_bytes for entry in report.ledger if entry.strategy == "Unplanned"]
    assert unplanned == [SIZE, SIZE]
    bound.close()


def test_a_value_of_unknown_size_lies_on_the_host_until_a_binding_gives_its_dimensions(load: Loader) -> None:
    prepared = load(skipping((0,)), pins=PINS)
    assert not any(value.is_kept for value in prepared.values.values())
    unknown = Bound(prepared, [X], [COUNT], {"in0": (COUNT,)})
    report = unknown.run()
    assert unknown.outputs() == [EXPECTED]
    assert copied(report) == COPIED
    assert ("DirectCompatibility", SIZE, 0) in strategies(report)
    unknown.close()


def test_a_value_that_control_flow_hands_on_is_not_kept(short_path: Path) -> None:
    """``d = x + x; i = d; while i < n: i = i + n; return i + d``: d is read by the loop and by a step."""
    program = Program()
    main, compare, advance = (program.graph() for _ in range(3))
    compare.returns(compare.less(compare.input(), compare.input()))
    advance.returns(advance.add(advance.input(), advance.input()))
    x, n = main.input(), main.input()
    doubled = main.add(x, x)
    inputs = [main.reference(compare), main.reference(advance), doubled, n]
    looped = main.operation(OperationType.WHILE, inputs, Operand(OperandType.TENSOR_INT32, (1,)))
    main.returns(main.add(looped, doubled))
    npu = Distant(NPU, (ADD,))
    with serving(short_path, npu, Picky(CPU, ratio=2.0)) as load:
        prepared = load(program.model())
        assert prepared.plan.walk is not None
        assert not any(value.is_kept for value in prepared.values.values())
        bound = Bound(prepared, [np.array([1], np.int32), np.array([9], np.int32)], [1])
        bound.run()
        assert (bound.outputs(), npu.own.bytes) == ([[13]], 0)
        bound.close()


def test_a_launched_run_keeps_the_value_too(prepared: PreparedPlan, npu: Distant) -> None:
    bound = Bound(prepared, [X], [COUNT], measure_timing=False)
    bound.context.launch(()).fence.wait(30)
    assert bound.outputs() == [EXPECTED]
    assert (npu.copied_in, npu.copied_out) == (2 * SIZE, 2 * SIZE)
    bound.close()
