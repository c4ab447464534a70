"""Operands of operations with other types: VM-09."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nnhal.types import ChannelQuant, Model, Operand, OperandLifeTime, OperandType
from nnhal.types.layout import is_scalar
from nnhal.types.memory import NOWHERE
from tests.support.model_mutations.exceptions import channel_dim_of, other_types, unsettled
from tests.support.model_mutations.mutation import Mutation, place, with_copied_zeros, with_other
from tests.support.mutations import subgraphs

_CONSTANTS = (OperandLifeTime.CONSTANT_COPY, OperandLifeTime.CONSTANT_POOL)
_ZERO_POINTS = {
    OperandType.TENSOR_QUANT8_ASYMM: (0, 255),
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: (-128, 127),
    OperandType.TENSOR_QUANT16_ASYMM: (0, 65535),
}
_SCALED = (*_ZERO_POINTS, OperandType.TENSOR_QUANT8_SYMM, OperandType.TENSOR_QUANT16_SYMM)


def refused(model: Model) -> Iterator[Mutation]:
    """VM-09: a type that the operation does not take. The operand itself is valid for its new type."""
    for number, index, code in _others(model):
        if code not in other_types(model, number, index) and not unsettled(model, number, index, code):
            yield _changed(model, number, index, code)


def accepted(model: Model) -> Iterator[Mutation]:
    """The exceptions of VM-09: types that all operations which use the operand also take."""
    for number, index, code in _others(model):
        if code in other_types(model, number, index):
            yield _changed(model, number, index, code)


def _others(model: Model) -> Iterator[tuple[int, int, OperandType]]:
    for number, graph in enumerate(subgraphs(model)):
        used = {index for operation in graph.operations for index in (*operation.inputs, *operation.outputs)}
        for index in sorted(used):
            for code in OperandType:
                if code != graph.operands[index].type:
                    yield number, index, code


def _changed(model: Model, number: int, index: int, code: OperandType) -> Mutation:
    operand = _as_type(subgraphs(model)[number].operands[index], code, channel_dim_of(model, number, index))
    if operand.lifetime in _CONSTANTS and code != OperandType.SUBGRAPH:
        model, operand = with_copied_zeros(model, operand)
    return Mutation(f"{place(number, f'operand {index}')} is {code.name}", with_other(model, number, index, operand))


def _as_type(operand: Operand, code: OperandType, channel_dim: int) -> Operand:
    """Return the operand with another type, and the nearest other properties that the type allows."""
    lifetime, location = operand.lifetime, operand.location
    if operand.type == OperandType.SUBGRAPH:
        lifetime, location = OperandLifeTime.CONSTANT_COPY, NOWHERE
    dimensions = () if is_scalar(code) or code == OperandType.SUBGRAPH else operand.dimensions
    needed = lifetime in _CONSTANTS and not is_scalar(code) and code != OperandType.SUBGRAPH
    if not dimensions and (needed or (is_scalar(operand.type) and not is_scalar(code))):
        dimensions = () if code == OperandType.SUBGRAPH else (1,)
    channels = None
    if code == OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        dimensions = dimensions or (1,)
        axis = channel_dim if channel_dim < len(dimensions) else 0
        dimensions = (*dimensions[:axis], dimensions[axis] or 1, *dimensions[axis + 1 :])
        channels = ChannelQuant((1.0,) * dimensions[axis], axis)
    low, high = _ZERO_POINTS.get(code, (0, 0))
    return replace(
        operand,
        type=code,
        dimensions=dimensions,
        scale=(operand.scale or 1.0) if code in _SCALED else operand.scale if code == OperandType.TENSOR_INT32 else 0.0,
        zero_point=min(max(operand.zero_point, low), high),
        lifetime=lifetime,
        location=location,
        extra_params=channels,
    )
