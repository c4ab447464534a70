"""What follows from a row: the same form in other types and layouts, with less known, and as a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from nnhal.arrays import Array
from nnhal.operations.operand_types import F16, F32, FLOAT16, FLOAT32, I32, Q16A, Q16S, QUANT8
from nnhal.resolved import ResolvedModel
from nnhal.types import ChannelQuant, Operand, OperandLifeTime, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from tests.operations.rows import Anchors, Bias, Boxes, Constant, Layout, Numbers, Row, Verb
from tests.support.agreement import QUANTIZATION, random
from tests.support.models import Recipe
from tests.support.operations import Given, boolean

SCALARS = (OperandType.INT32, FLOAT32, FLOAT16, OperandType.BOOL)


def in_type(row: Row, code: OperandType) -> Row:
    """Return a row in another type than float32: tensors and float parameters, biases and quantisations."""
    return replace(
        row,
        inputs=tuple(_in_type(each, code) for each in row.inputs),
        outputs=tuple(_in_type(each, code, row.out) for each in row.outputs),
        levels={},
        level=row.levels.get(code),
        declined=row.declined & {code},
    )


def _in_type(given: Given, code: OperandType, scale: float | None = None) -> Given:
    operand = given.operand
    if operand.type == FLOAT32 and code == F16:
        operand = replace(operand, type=FLOAT16)
    elif operand.type == F32 and isinstance(given, Bias) and code in QUANT8:
        product = np.square(np.float32(QUANTIZATION[code][0]))
        operand = replace(operand, type=I32, scale=float(product))
    elif operand.type == F32 and isinstance(given, Boxes | Anchors) and code in QUANT8:
        operand = replace(operand, type=Q16A if isinstance(given, Boxes) else Q16S, scale=0.125)
    elif operand.type == F32:
        usual, zero_point = QUANTIZATION.get(code, (0.0, 0))
        operand = replace(operand, type=code, scale=scale if scale and usual else usual, zero_point=zero_point)
    value = given.value if given.value is None else given.value.astype(ELEMENT_TYPES[operand.type])
    return replace(given, operand=operand, value=value)


def types_of(row: Row) -> Iterator[tuple[OperandType, Row]]:
    """Yield a row in each of its types; one that names none as it is, under the type of its first tensor."""
    if not row.levels:
        yield OperandType(next(each.operand.type for each in row.inputs if each.operand.type not in SCALARS)), row
    for code in row.levels:
        yield code, in_type(row, code)


def in_halves(row: Row) -> Row | None:
    """Return a row of values in float16, or None if that is another one."""
    tensors = [each for each in row.inputs if each.operand.type in (F32, FLOAT32)]
    known = [each.value for each in tensors if each.value is not None]
    with np.errstate(over="ignore"):
        exact = all(np.array_equal(value.astype(np.float16), value, equal_nan=True) for value in known)
    return in_type(row, F16) if tensors and exact else None


def channels_first(row: Row) -> Row | None:
    """Return a row of images with their channels first, or None if it has no flag for that."""
    if not any(isinstance(each, Layout) for each in row.inputs):
        return None
    inputs = [boolean(True) if isinstance(each, Layout) else each for each in row.inputs]
    inputs[: row.images] = [_moved(each) for each in inputs[: row.images]]
    outputs = tuple(_moved(each) for each in row.outputs)
    return replace(row, inputs=tuple(inputs), outputs=outputs)


def _moved(given: Given) -> Given:
    dimensions = given.operand.dimensions
    if len(dimensions) != 4:
        return given
    moved = tuple(dimensions[axis] for axis in (0, 3, 1, 2))
    value = None if given.value is None else np.ascontiguousarray(given.value.transpose(0, 3, 1, 2))
    return replace(given, operand=replace(given.operand, dimensions=moved), value=value)


def with_less_known(row: Row) -> Iterator[Row]:
    """Yield a row with inputs of unknown lengths, of unknown rank, and with unknown values."""
    for position, given in enumerate(row.inputs):
        is_tensor = given.operand.type not in SCALARS and given.operand.lifetime != OperandLifeTime.NO_VALUE
        unknown = (0,) * len(given.operand.dimensions)
        for dimensions in (unknown, ()) if is_tensor else (given.operand.dimensions,):
            less = Given(replace(given.operand, dimensions=dimensions))
            yield replace(row, inputs=(*row.inputs[:position], less, *row.inputs[position + 1 :]))


def with_open_axes(row: Row) -> Iterator[tuple[int, Row]]:
    """Yield a row with each axis of its first input of unknown length."""
    first = row.inputs[0]
    for axis in range(len(first.operand.dimensions)):
        opened = tuple(0 if other == axis else n for other, n in enumerate(first.operand.dimensions))
        given = replace(first, operand=replace(first.operand, dimensions=opened))
        yield axis, replace(row, inputs=(given, *row.inputs[1:]))


def is_known(row: Row) -> bool:
    """Return whether a model of a row can run: all lengths are known."""
    tensors = [each for each in row.inputs if each.operand.type not in SCALARS]
    return all(
        each.value is not None or each.operand.lifetime == OperandLifeTime.NO_VALUE or all(each.operand.dimensions)
        for each in tensors
    ) and all(each.operand.dimensions or each.value is not None for each in tensors)


def has_weights(row: Row) -> bool:
    return any(isinstance(each, Constant) and not isinstance(each, Numbers) for each in row.inputs)


def values_of(row: Row, shapes: Sequence[Dimensions] = ()) -> list[Array | None]:
    """Return the values of a row's inputs, random ones for those that are unknown, and None for those left out."""
    return [
        each.value
        if each.value is not None or each.operand.lifetime == OperandLifeTime.NO_VALUE
        else _random(row, each.operand, shapes[seed] if shapes else each.operand.dimensions, seed)
        for seed, each in enumerate(row.inputs)
    ]


def _random(row: Row, operand: Operand, dimensions: Dimensions, seed: int) -> Array:
    element = ELEMENT_TYPES[operand.type]
    if element.kind in "iu" and element.itemsize == 2:
        return np.random.default_rng(seed).integers(0, 1 << 15, dimensions).astype(element)
    values = random(OperandType(operand.type), dimensions, seed)
    if row.low is None or values.dtype.kind != "f":
        return values
    return np.asarray(np.abs(values) + row.low).astype(values.dtype)


def model_of(
    row: Row, values: Sequence[Array | None], variables: bool = False, relaxed: bool = False
) -> tuple[ResolvedModel, list[Array]]:
    """Return a model of a row and the values of its inputs: all tensors but constants, with ``variables`` those too.

    Scalars and the lists of numbers that rows write are always constants.
    """
    recipe, inputs, fed = Recipe(), [], []
    for given, value in zip(row.inputs, values, strict=True):
        operand = given.operand
        is_held = not variables or isinstance(given, Numbers)
        held = isinstance(given, Constant) and is_held and value is not None and value.size > 0
        if value is None:
            inputs.append(recipe.omitted(OperandType(operand.type)))
        elif operand.type in SCALARS or held or operand.extra_params:
            channels = operand.extra_params if isinstance(operand.extra_params, ChannelQuant) else None
            inputs.append(
                recipe.constant(OperandType(operand.type), value, operand.scale, operand.zero_point, channels)
            )
        else:
            dimensions = operand.dimensions
            inputs.append(recipe.input(OperandType(operand.type), dimensions, operand.scale, operand.zero_point))
            fed.append(value)
    outputs = [replace(each.operand, dimensions=()) for each in row.outputs]
    first = recipe.operation(OperationType(row.operation), inputs, *outputs)
    return recipe.build(*range(first, first + len(outputs)), relaxed=relaxed), fed


def name_of(row: Row) -> str:
    return f"{row.operation.name}-{row.verb.value}"


def rows_of(rows: Sequence[Row], *verbs: Verb) -> list[Row]:
    return [row for row in rows if row.verb in verbs]
