"""Plans of several steps that fail: which steps run again, and on which device."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.types import DataLocation, ErrorStatus, Model, Operand, OperationType
from nnhal_service.partition import Fallback
from nnhal_service.runtime import LoadedModel, TensorBinding
from tests.service.buffers import Buffer
from tests.service.three_steps import ADD, EXPECTED, F32, MUL, TANH, X, add_mul_tanh, runs
from tests.support.picky import CPU, Bound, Loader, Picky, always, serving
from tests.support.subgraphs import I32, INT32, Program, branches

SQRT, WHILE = OperationType.SQRT, OperationType.WHILE
GENERAL_FAILURE = ErrorStatus.GENERAL_FAILURE


@pytest.mark.contract("FB-03")
@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("status", [GENERAL_FAILURE, ErrorStatus.MISSED_DEADLINE_PERSISTENT])
@pytest.mark.usefixtures("at_once")
def test_the_cpu_runs_the_failed_step_and_the_run_goes_on_after_it(
    load: Loader, devices: list[Picky], victim: int, status: ErrorStatus
) -> None:
    bound = Bound(load(add_mul_tanh()), [X], [2])
    devices[victim].fails = always(status)
    report = bound.run()
    assert bound.outputs() == [EXPECTED]
    assert report.fell_back
    assert runs(devices) == [1, 1, 1, 1]
    names = ["add", "mul", "tanh"]
    names[victim] = CPU
    assert [(step.step, step.device) for step in report.steps] == list(enumerate(names))


@pytest.mark.usefixtures("at_once")
def test_steps_that_ran_beside_the_failed_one_do_not_run_again(load: Loader, devices: list[Picky]) -> None:
    """The outputs are tanh(2x), which succeeds, and 2x * x, which fails at the same time."""
    program = Program()
    main = program.graph()
    x, none = main.input((2,), F32), main.constant(0, INT32)
    doubled = main.operation(ADD, [x, x, none], Operand(F32, (2,)))
    product = main.operation(MUL, [doubled, x, none], Operand(F32, (2,)))
    main.returns(product, main.operation(TANH, [doubled], Operand(F32, (2,))))
    bound = Bound(load(program.model()), [X], [2, 2])
    devices[1].fails = always()
    report = bound.run()
    assert bound.outputs() == [pytest.approx(list(2 * X * X)), pytest.approx(list(np.tanh(2 * X)), abs=1e-6)]
    assert runs(devices) == [1, 1, 1, 1]
    assert sorted(step.device for step in report.steps) == ["add", CPU, "tanh"]


@pytest.mark.usefixtures("at_once")
def test_the_next_run_is_tried_on_the_devices_again(load: Loader, devices: list[Picky]) -> None:
    bound = Bound(load(add_mul_tanh()), [X], [2])
    devices[1].fails = always()
    assert bound.run().fell_back
    devices[1].fails = lambda: ErrorStatus.NONE
    report = bound.run()
    assert not report.fell_back
    assert [step.device for step in report.steps] == ["add", "mul", "tanh"]
    assert bound.outputs() == [EXPECTED]


@pytest.mark.contract("FB-04")
@pytest.mark.usefixtures("at_once")
def test_if_the_cpu_fails_too_it_runs_the_whole_model(load: Loader, devices: list[Picky]) -> None:
    bound = Bound(load(add_mul_tanh()), [X], [2])
    cpu = devices[3]
    devices[1].fails = always()
    cpu.fails = lambda: GENERAL_FAILURE if cpu.runs == 1 else ErrorStatus.NONE
    report = bound.run()
    assert bound.outputs() == [EXPECTED]
    assert runs(devices) == [1, 1, 0, 2]
    assert [step.device for step in report.steps] == [CPU]
    assert report.fell_back
    assert {entry.destination for entry in report.ledger} <= {CPU, ""}


@pytest.mark.usefixtures("at_once")
def test_if_every_fallback_fails_the_error_lists_what_was_tried(load: Loader, devices: list[Picky]) -> None:
    bound = Bound(load(add_mul_tanh()), [X], [2])
    devices[1].fails = always(ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT)
    devices[3].fails = always()
    with pytest.raises(HalError) as caught:
        bound.run()
    assert caught.value.status == GENERAL_FAILURE
    assert caught.value.message.count("on demand") == 2
    assert "mul fails on demand; and without the device: " in caught.value.message
    assert "cpu_ref fails on demand" in caught.value.message
    assert not re.search("GENERAL_FAILURE|RESOURCE_EXHAUSTED", caught.value.message)
    assert runs(devices) == [1, 1, 0, 2]


@pytest.mark.contract("FB-05")
def test_if_a_step_planned_on_the_cpu_fails_the_cpu_runs_the_whole_model(short_path: Path) -> None:
    add, cpu = Picky("add", (ADD,)), Picky(CPU, ratio=1.0)
    with serving(short_path, add, cpu) as load:
        bound = Bound(load(add_mul_tanh()), [X], [2])
        cpu.fails = lambda: GENERAL_FAILURE if cpu.runs == 1 else ErrorStatus.NONE
        report = bound.run()
        assert bound.outputs() == [EXPECTED]
        assert (add.runs, cpu.runs) == (1, 2)
        assert [step.device for step in report.steps] == [CPU]
        assert report.fell_back


@pytest.mark.contract("FB-10")
@pytest.mark.usefixtures("at_once")
def test_if_fallback_is_denied_neither_kind_happens(load: Loader, devices: list[Picky]) -> None:
    bound = Bound(load(add_mul_tanh(), Fallback.DENY), [X], [2])
    devices[1].fails = always(ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT)
    with pytest.raises(HalError) as caught:
        bound.run()
    assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT
    assert devices[3].runs == 0


def loop_then_sqrt() -> Model:
    """Return ``while i < n: i = i + n``, and the square root of another input."""
    program = Program()
    main, compare, advance = (program.graph() for _ in range(3))
    compare.returns(compare.less(compare.input(), compare.input()))
    advance.returns(advance.add(advance.input(), advance.input()))
    inputs = [main.reference(compare), main.reference(advance), main.input(), main.input()]
    loop = main.operation(WHILE, inputs, Operand(I32, (1,)))
    main.returns(loop, main.operation(SQRT, [main.input((2,), F32)], Operand(F32, (2,))))
    return program.model()


@pytest.mark.contract("FB-08")
def test_a_fallback_after_a_loop_does_not_run_the_loop_again(short_path: Path) -> None:
    sqrt, cpu = Picky("sqrt", (SQRT,)), Picky(CPU, ratio=1.0)
    with serving(short_path, sqrt, cpu) as load:
        prepared = load(loop_then_sqrt())
        assert prepared.plan.walk is not None
        assert prepared.plan.walk.layout() == ["WHILE", CPU, "GOTO", CPU, "GOTO", "sqrt"]
        bound = Bound(prepared, [np.array([9], np.int32), np.array([3], np.int32), X * X], [1, 2])
        sqrt.fails = always()
        report = bound.run()
        assert bound.outputs() == [[9], pytest.approx([0.5, 0.25])]
        assert [(step.step, step.device) for step in report.steps] == [(0, CPU), (2, CPU)]
        assert (sqrt.runs, cpu.runs) == (1, 2)
        assert report.fell_back


@pytest.mark.contract("FB-06")
def test_if_the_walk_itself_fails_the_whole_model_runs_on_the_cpu(short_path: Path) -> None:
    npu, cpu = Picky("npu", (ADD,)), Picky(CPU, ratio=1.0)
    with serving(short_path, npu, cpu) as load:
        prepared = load(branches())
        condition = Buffer("npu", np.array([1], np.uint8))
        condition.unreadable = 1
        memory = create_ashmem(16)
        mapped = open_pool(memory, writable=True)
        mapped.write(0, np.array([7, 5], np.int32).view(np.uint8))
        context = LoadedModel(prepared).bind(
            [
                TensorBinding("in0", memory=condition),
                TensorBinding("in1", DataLocation(0, 0, 4)),
                TensorBinding("in2", DataLocation(0, 4, 4)),
            ],
            [TensorBinding("out0", DataLocation(0, 8, 4))],
            [memory],
        )
        report = context.run()
        assert mapped.read(8, 4).view(np.int32).tolist() == [12]
        assert report.fell_back
        assert (npu.runs, cpu.runs) == (0, 1)
