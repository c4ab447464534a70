"""Operands that are invalid by themselves: VM-02 to VM-05."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from nnhal.types import Model, OperandType
from nnhal.types.layout import SCALAR_TYPES
from tests.support.model_mutations.mutation import Mutation, place
from tests.support.mutations import subgraphs, with_operand

WITHOUT_SCALE = (
    *SCALAR_TYPES,
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_FLOAT16,
    OperandType.TENSOR_BOOL8,
    OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
    OperandType.SUBGRAPH,
)
WRONG_SCALES = {
    **dict.fromkeys(WITHOUT_SCALE, 1.0),
    OperandType.TENSOR_INT32: -1.0,
    OperandType.TENSOR_QUANT8_ASYMM: 0.0,
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: 0.0,
    OperandType.TENSOR_QUANT8_SYMM: 0.0,
    OperandType.TENSOR_QUANT16_ASYMM: 0.0,
    OperandType.TENSOR_QUANT16_SYMM: 0.0,
}
WRONG_ZERO_POINTS = {
    **dict.fromkeys((*WITHOUT_SCALE, OperandType.TENSOR_INT32), (1,)),
    OperandType.TENSOR_QUANT8_ASYMM: (-1, 256),
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: (-129, 128),
    OperandType.TENSOR_QUANT8_SYMM: (-129, -1, 1, 128),
    OperandType.TENSOR_QUANT16_ASYMM: (-1, 65536),
    OperandType.TENSOR_QUANT16_SYMM: (-32769, -1, 1, 32768),
}


def no_types(model: Model) -> Iterator[Mutation]:
    """VM-02: a code that is not a type's."""
    for number, index, _ in _operands(model):
        yield from _changed(model, number, index, ({"type": -1}, {"type": max(OperandType) + 1}))


def ranked_scalars(model: Model) -> Iterator[Mutation]:
    """VM-03: scalars have no dimensions."""
    for number, index, code in _operands(model):
        if code in SCALAR_TYPES:
            yield from _changed(model, number, index, ({"dimensions": (0,)}, {"dimensions": (1,)}))


def wrong_scales(model: Model) -> Iterator[Mutation]:
    """VM-04: a scale that the type cannot have."""
    for number, index, code in _operands(model):
        yield from _changed(model, number, index, ({"scale": WRONG_SCALES[code]},))


def wrong_zero_points(model: Model) -> Iterator[Mutation]:
    """VM-05: a zero point that the type cannot have."""
    for number, index, code in _operands(model):
        yield from _changed(model, number, index, ({"zero_point": value} for value in WRONG_ZERO_POINTS[code]))


def _operands(model: Model) -> Iterator[tuple[int, int, OperandType]]:
    for number, graph in enumerate(subgraphs(model)):
        for index, operand in enumerate(graph.operands):
            yield number, index, OperandType(operand.type)


def _changed(model: Model, number: int, index: int, changes: Iterable[dict[str, Any]]) -> Iterator[Mutation]:
    for change in changes:
        what = f"{place(number, f'operand {index}')} has {change}"
        yield Mutation(what, with_operand(model, index, number, **change))
