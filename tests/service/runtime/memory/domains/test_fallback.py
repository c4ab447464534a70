"""Fallback if a device fails to run a model whose values lie in its memory, which it can still copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.codec import memory_from_wire
from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.types import DataLocation, ErrorStatus, Memory, Operand, OperandType, OperationType
from nnhal.v1 import buffer_pb2, burst_pb2, types_pb2
from nnhal_frontends.imported import ImportedModel, ImportedTensor
from nnhal_service.runtime import LoadedModel, PreparedPlan, RunReport, TensorBinding
from nnhal_service.runtime.memory.domains import AllocatedMemory, ModelRole, allocate
from tests.service.memory_bench import Start
from tests.support.models import Recipe
from tests.support.scripted import Call, refuse

TOGETHER = {"op:ADD": "a", "op:SUB": "a", "op:MUL": "a"}
FAILS: dict[str, Any] = {
    f"{service}.{method}": refuse(HalError(ErrorStatus.GENERAL_FAILURE, "no"))
    for service, method in (
        ("Execution", "ExecuteSynchronously"),
        ("PreparedModel", "ExecuteSynchronouslyWithConfig"),
        ("PreparedModel", "ExecuteFencedWithConfig"),
    )
}


def no_burst(call: burst_pb2.BurstCall) -> burst_pb2.BurstAnswer:
    return burst_pb2.BurstAnswer(status=types_pb2.ERROR_STATUS_GENERAL_FAILURE, message="no")


class Buffers:
    """The contents of a scripted device's buffers, by handle."""

    def __init__(self) -> None:
        self.content: dict[int, Array] = {}
        self.script: dict[str, Any] = {**FAILS, "Buffer.CopyFrom": self._copy_from, "Buffer.CopyTo": self._copy_to}

    def _copy_from(self, request: Any, call: Call) -> buffer_pb2.CopyFromResponse:
        pool = open_pool(memory_from_wire(request.src, call.owner.descriptors.get), writable=False)
        self.content[request.buffer] = pool.read(0, pool.size).view(np.float32)
        return buffer_pb2.CopyFromResponse()

    def _copy_to(self, request: Any, call: Call) -> buffer_pb2.CopyToResponse:
        pool = open_pool(memory_from_wire(request.dst, call.owner.descriptors.get), writable=True)
        pool.write(0, self.content[request.buffer].view(np.uint8))
        return buffer_pb2.CopyToResponse()


def shared(values: Array) -> Memory:
    memory = create_ashmem(values.nbytes)
    open_pool(memory, writable=True).write(0, values.view(np.uint8))
    return memory


def run(prepared: PreparedPlan, bound: dict[str, AllocatedMemory]) -> RunReport:
    """Run the model; p, q, r and s are 1, 2, 3, … unless they are bound to memory."""
    numbers = np.tile(np.arange(1, 9, dtype=np.float32), 6)
    places = {name: DataLocation(0, number * 32, 32) for number, name in enumerate("pqrsty")}

    def binding(name: str) -> TensorBinding:
        if name in bound:
            return TensorBinding(name, memory=bound[name])
        return TensorBinding(name, places[name])

    model = LoadedModel(prepared)
    context = model.bind([binding(n) for n in "pqrs"], [binding(n) for n in "ty"], [shared(numbers)])
    try:
        return context.run()
    finally:
        model.unbind(context)


@pytest.mark.contract("FB-14")
def test_inputs_and_outputs_in_device_memory_are_copied_when_the_whole_model_falls_back(start: Start) -> None:
    buffers = Buffers()
    prepared = start(buffers.script, no_burst).load(TOGETHER)
    p, y = allocate([ModelRole(prepared, False, 0)]), allocate([ModelRole(prepared, True, 1)])
    assert (p.device, y.device) == ("a", "a")
    p.copy_from(shared(np.full(8, 10, np.float32)))
    assert run(prepared, {"p": p, "y": y}).fell_back
    taken = create_ashmem(32)
    y.copy_to(taken)
    numbers = np.arange(1, 9, dtype=np.float32)
    result = open_pool(taken, writable=False).read(0, 32).view(np.float32)
    np.testing.assert_allclose(result, (10 + numbers - numbers) * numbers)


def padding() -> ImportedModel:
    """Return the model in which y is p, padded by the value of q: its dimensions are unknown before the run."""
    recipe = Recipe()
    p, q = recipe.input(OperandType.TENSOR_FLOAT32, (1, 8)), recipe.input(OperandType.TENSOR_INT32, (2, 2))
    y = recipe.operation(OperationType.PAD, [p, q], Operand(OperandType.TENSOR_FLOAT32, (0, 0)))
    model = recipe.build(y).model
    kinds = {"p": (p, np.float32, (1, 8)), "q": (q, np.int32, (2, 2)), "y": (y, np.float32, (0, 0))}
    tensors = {name: ImportedTensor(name, index, np.dtype(kind), shape) for name, (index, kind, shape) in kinds.items()}
    return ImportedModel(model, (tensors["p"], tensors["q"]), (tensors["y"],), (("pad",),), (), ("p", "q", "y"))


@pytest.mark.contract("FB-14")
def test_an_output_in_device_memory_of_unknown_shape_cannot_fall_back(start: Start) -> None:
    prepared = start(FAILS, no_burst).load({"op:PAD": "a"}, imported=padding())
    y = allocate([ModelRole(prepared, True, 0)])
    assert y.device == "a"
    y.from_host(shared(np.zeros(8, np.float32)), (1, 8))
    model = LoadedModel(prepared)
    context = model.bind(
        [TensorBinding("p", DataLocation(0, 0, 32)), TensorBinding("q", DataLocation(0, 32, 16))],
        [TensorBinding("y", memory=y)],
        [create_ashmem(64)],
    )
    with pytest.raises(HalError, match="to be written by another device: expected all dimensions to be known") as error:
        context.run()
    assert error.value.status == ErrorStatus.GENERAL_FAILURE
    model.unbind(context)
    with pytest.raises(HalError, match="uninitialised"):
        y.require_readable(())
