"""Fusing an activation into the operation before it. The result is a new model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnhal.arrays import Array
from nnhal.operations import OperationContext
from nnhal.operations.convolution import CONV_2D_FORMS, DEPTHWISE_CONV_2D_FORMS
from nnhal.operations.elementwise import BinaryInput
from nnhal.operations.matrix import FullyConnectedInput
from nnhal.resolved import ResolvedModel
from nnhal.types import (
    DataLocation,
    FusedActivation,
    Operand,
    OperandLifeTime,
    OperandType,
    OperationType,
)
from nnhal.types.layout import combine
from nnhal_devices.backend import OptimizationViews, Substitution

_FLOATS = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16)
_ACTIVATIONS: Mapping[int, FusedActivation] = {
    OperationType.RELU: FusedActivation.RELU,
    OperationType.RELU1: FusedActivation.RELU1,
    OperationType.RELU6: FusedActivation.RELU6,
}
_ACTIVATION_INPUTS: Mapping[int, Callable[[OperationContext], int]] = {
    OperationType.ADD: lambda _: BinaryInput.ACTIVATION,
    OperationType.CONV_2D: lambda op: CONV_2D_FORMS.of(op)["ACTIVATION"],
    OperationType.DEPTHWISE_CONV_2D: lambda op: DEPTHWISE_CONV_2D_FORMS.of(op)["ACTIVATION"],
    OperationType.FULLY_CONNECTED: lambda _: FullyConnectedInput.ACTIVATION,
    OperationType.MUL: lambda _: BinaryInput.ACTIVATION,
}
"""The input of each operation that gives its activation."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """Two operations of main that become one: ``operation`` also does what ``activation`` did."""

    operation: int
    activation: int


def fusions(model: ResolvedModel) -> list[Fusion]:
    """Float operations without an activation whose output only an activation reads, each with that activation."""
    graph = model.model.main
    reads = Counter(index for operation in graph.operations for index in operation.inputs)
    activations = {
        operation.inputs[0]: number
        for number, operation in enumerate(graph.operations)
        if operation.type in _ACTIVATIONS and _is_between(graph.operands[operation.inputs[0]])
    }
    found = []
    for number, operation in enumerate(graph.operations):
        between = operation.outputs[0]
        after = activations.get(between)
        if after is None or reads[between] != 1 or not _has_no_activation(model, number):
            continue
        result = graph.operations[after].outputs[0]
        if combine(graph.operands[between].dimensions, graph.operands[result].dimensions) is not None:
            found.append(Fusion(number, after))
    return found


def fuse(model: ResolvedModel, found: Sequence[Fusion]) -> ResolvedModel:
    """The model with activations moved into the scalars of the operations before them."""
    if not found:
        return model
    graph = model.model.main
    operands, operations = list(graph.operands), list(graph.operations)
    constants, values = dict(model.constants[0]), bytearray(model.model.operand_values)
    for fusion in found:
        before, after = operations[fusion.operation], operations[fusion.activation]
        between, result = before.outputs[0], after.outputs[0]
        known = combine(operands[between].dimensions, operands[result].dimensions) or ()
        operands[result] = replace(operands[result], dimensions=known)
        # The old scalar may be shared. The operand in between is unused now, so it becomes the new scalar.
        scalar = np.array(_ACTIVATIONS[after.type], np.int32)
        operands[between], constants[between] = _append(scalar, values), scalar
        inputs = list(before.inputs)
        inputs[_ACTIVATION_INPUTS[before.type](model.context(0, fusion.operation))] = between
        operations[fusion.operation] = replace(before, inputs=tuple(inputs), outputs=(result,))
    fused_away = {fusion.activation for fusion in found}
    main = replace(
        graph,
        operands=tuple(operands),
        operations=tuple(o for number, o in enumerate(operations) if number not in fused_away),
    )
    return replace(
        model,
        model=replace(model.model, main=main, operand_values=bytes(values)),
        constants=(constants, *model.constants[1:]),
    )


def stands_for(model: ResolvedModel, found: Sequence[Fusion]) -> list[tuple[int, ...]]:
    """The operations of the model that each operation of the fused model stands for."""
    activation_of = {fusion.operation: fusion.activation for fusion in found}
    fused_away = set(activation_of.values())
    return [
        (number, activation_of[number]) if number in activation_of else (number,)
        for number in range(len(model.model.main.operations))
        if number not in fused_away
    ]


def _is_between(operand: Operand) -> bool:
    return operand.type in _FLOATS and operand.lifetime == OperandLifeTime.TEMPORARY_VARIABLE


def _has_no_activation(model: ResolvedModel, number: int) -> bool:
    operation = model.model.main.operations[number]
    place = _ACTIVATION_INPUTS.get(operation.type)
    if place is None:
        return False
    value = model.constants[0].get(operation.inputs[place(model.context(0, number))])
    return value is not None and int(value) == FusedActivation.NONE


def _append(scalar: Array, values: bytearray) -> Operand:
    values.extend(bytes(-len(values) % scalar.itemsize))
    location = DataLocation(0, len(values), scalar.nbytes)
    values.extend(scalar.tobytes())
    return Operand(OperandType.INT32, lifetime=OperandLifeTime.CONSTANT_COPY, location=location)


def optimize(model: ResolvedModel) -> OptimizationViews:
    """Fuse activations. No subgraph fails: each supported operation runs, fused or not."""
    operations, found = model.model.main.operations, fusions(model)
    fused = {number for fusion in found for number in (fusion.operation, fusion.activation)}
    return OptimizationViews(
        substitutions=tuple(
            Substitution(
                (fusion.operation, fusion.activation),
                f"{OperationType(operations[fusion.operation].type).name} + "
                f"{OperationType(operations[fusion.activation].type).name} fused",
            )
            for fusion in found
        ),
        untouched=tuple(number for number in range(len(operations)) if number not in fused),
    )
