"""Runs with every input and output in allocated memory, on devices that compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.types import ErrorStatus, Model, OperationType
from nnhal_service.partition import Fallback
from nnhal_service.runtime import LoadedModel, PreparedPlan, RunReport, TensorBinding
from nnhal_service.runtime.memory.domains import AllocatedMemory, ModelRole, allocate
from tests.support.picky import CPU, Picky, always, serving
from tests.support.subgraphs import Program, branches, counting_loop

ADD, LESS = OperationType.ADD, OperationType.LESS


class InMemory:
    """A model and its memory."""

    def __init__(self, prepared: PreparedPlan) -> None:
        tensors = prepared.imported
        self.inputs = [allocate([ModelRole(prepared, False, number)]) for number in range(len(tensors.inputs))]
        self.outputs = [allocate([ModelRole(prepared, True, number)]) for number in range(len(tensors.outputs))]
        self._model = LoadedModel(prepared)
        self._context = self._model.bind(
            [TensorBinding(t.name, memory=m) for t, m in zip(tensors.inputs, self.inputs, strict=True)],
            [TensorBinding(t.name, memory=m) for t, m in zip(tensors.outputs, self.outputs, strict=True)],
            [],
        )

    @property
    def devices(self) -> list[str]:
        """Return whose memory the inputs lie in, then the outputs."""
        return [memory.device for memory in (*self.inputs, *self.outputs)]

    def give(self, *values: Array) -> None:
        for memory, array in zip(self.inputs, values, strict=True):
            shared = create_ashmem(array.nbytes)
            open_pool(shared, writable=True).write(0, array.view(np.uint8))
            memory.copy_from(shared)

    def run(self, *values: Array) -> RunReport:
        self.give(*values)
        return self._context.run()

    def result(self, memory: AllocatedMemory) -> list[int]:
        taken = create_ashmem(memory.description.byte_size)
        memory.copy_to(taken)
        values = open_pool(taken, writable=False).read(0, taken.size).view(np.int32)
        return [int(value) for value in values]

    def close(self) -> None:
        self._model.unbind(self._context)
        for memory in (*self.inputs, *self.outputs):
            memory.close()


@contextmanager
def running(directory: Path, model: Model, *drivers: Picky, fallback: Fallback = Fallback.ALLOW) -> Iterator[InMemory]:
    with serving(directory, *drivers) as load:
        bound = InMemory(load(model, fallback))
        try:
            yield bound
        finally:
            bound.close()


def i32(*values: int) -> Array:
    return np.array(values, np.int32)


def sums(dimensions: tuple[int, ...] = (2,)) -> Model:
    """Return a model of ``x + y``, and of that plus y."""
    program = Program()
    main = program.graph()
    x, y = main.input(dimensions), main.input(dimensions)
    first = main.add(x, y, dimensions)
    main.returns(first, main.add(first, y, dimensions))
    return program.model()


@pytest.mark.contract("MR-02", "MR-05")
@pytest.mark.parametrize(("condition", "expected"), [(0, 17), (1, 12)])
def test_the_branches_of_a_walked_if_use_the_devices_own_memory(
    short_path: Path, condition: int, expected: int
) -> None:
    npu, cpu = Picky("npu", (ADD,)), Picky(CPU, ratio=1.0)
    with running(short_path, branches(), npu, cpu) as bound:
        assert bound.devices == ["", "npu", "npu", "npu"]
        bound.run(np.array([condition], np.uint8), i32(7), i32(5))
        assert bound.result(bound.outputs[0]) == [expected]


@pytest.mark.contract("MR-03", "MR-05")
@pytest.mark.parametrize(("start", "limit", "expected"), [(9, 3, 9), (1, 4, 5), (-7, 3, 5)])
def test_a_walked_loop_begins_with_the_devices_own_memory_and_ends_in_the_hosts(
    short_path: Path, start: int, limit: int, expected: int
) -> None:
    npu, cpu = Picky("npu", (ADD, LESS)), Picky(CPU, ratio=1.0)
    with running(short_path, counting_loop(), npu, cpu) as bound:
        assert bound.devices == ["npu", "npu", ""]
        bound.run(i32(start), i32(limit))
        assert bound.result(bound.outputs[0]) == [expected]
        assert bound.result(bound.inputs[0]) == [start]


@pytest.mark.contract("FB-14")
def test_memory_of_a_device_that_fails_holds_what_another_one_computed(short_path: Path) -> None:
    npu, cpu = Picky("npu"), Picky(CPU, ratio=1.0)
    npu.fails = always()
    with running(short_path, sums(), npu, cpu) as bound:
        assert bound.devices == ["npu"] * 4
        assert bound.run(i32(1, 2), i32(10, 20)).fell_back
        assert [bound.result(memory) for memory in bound.outputs] == [[11, 22], [21, 42]]
        npu.fails = lambda: ErrorStatus.NONE
        runs = cpu.runs
        assert not bound.run(i32(3, 4), i32(10, 20)).fell_back
        assert [bound.result(memory) for memory in bound.outputs] == [[13, 24], [23, 44]]
        assert cpu.runs == runs


@pytest.mark.contract("FB-10")
def test_memory_of_a_device_that_fails_holds_nothing_if_fallback_is_denied(short_path: Path) -> None:
    npu, cpu = Picky("npu"), Picky(CPU, ratio=1.0)
    with running(short_path, sums(), npu, cpu, fallback=Fallback.DENY) as bound:
        bound.run(i32(1, 2), i32(10, 20))
        assert bound.result(bound.outputs[0]) == [11, 22]
        npu.fails = always()
        with pytest.raises(HalError, match="npu fails on demand"):
            bound.run(i32(1, 2), i32(10, 20))
        for memory in bound.outputs:
            with pytest.raises(HalError, match="uninitialised"):
                bound.result(memory)
        assert bound.result(bound.inputs[0]) == [1, 2]


@pytest.mark.contract("MR-08", "MR-09")
def test_values_that_cross_devices_lie_on_the_host_and_others_on_their_device(short_path: Path) -> None:
    program = Program()
    main = program.graph()
    x, y = main.input(), main.input()
    total = main.add(x, y)
    main.returns(total, main.less(total, y))
    devices = Picky("a", (ADD,)), Picky("b", (LESS,)), Picky(CPU, ratio=1.0)
    with running(short_path, program.model(), *devices) as bound:
        assert bound.devices == ["a", "", "", "b"]
        assert not bound.run(i32(-3), i32(2)).fell_back
        assert bound.result(bound.outputs[0]) == [-1]
        is_less = create_ashmem(1)
        bound.outputs[1].copy_to(is_less)
        assert open_pool(is_less, writable=False).read(0, 1).tolist() == [1]
