"""Conditions of an operation that the flow can have: types, quantisation, constants, known dimensions.

The conditions of the flow itself, such as the limits of batches and groups, are those of its patterns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nnhal.operations import OperationContext, type_name
from nnhal.operations.operand_types import F16, F32, QUANT8
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import allowed_rank, known_dimensions
from nnhal.support.rules import first_objection
from nnhal.types import Operand
from nnhal.types.layout import Dimensions, is_scalar
from nnhal_mlip.importing.hal_operation import is_symmetric
from nnhal_mlip.importing.rules import ImportRule

ACCEPTED_TYPES = (
    "TENSOR_FLOAT16, TENSOR_FLOAT32 of a relaxed model, or 8-bit values around 0 "
    "(TENSOR_QUANT8_ASYMM_SIGNED, TENSOR_QUANT8_ASYMM)"
)
ACCEPTED_FLOATS = "TENSOR_FLOAT16, or TENSOR_FLOAT32 of a relaxed model"
_ZERO_POINTS = "zero point 0 of signed values, 128 of unsigned ones"
_RELAX = "relax the model's computation to float16 (relaxComputationFloat32toFloat16): the accelerator has no float32"
_LARGEST_HALF = float(np.finfo(np.float16).max)
_HALF = f"magnitudes of at most {_LARGEST_HALF:g}, as float16 has them"
_KNOWN = "fix the dimensions in the model: it is compiled for them"
_SYMMETRIC = "quantise the network symmetrically: the accelerator's zero point is always 0"


def condition(op: OperationContext, rule: ImportRule, outputs: Sequence[Dimensions]) -> Support:
    """Return the first condition that an operation fails. ``outputs`` are the dimensions of its outputs."""
    return first_objection(_conditions(op, rule, outputs))


def _conditions(op: OperationContext, rule: ImportRule, outputs: Sequence[Dimensions]) -> Iterator[Support]:
    """The conditions, in an order in which each may rely on those before it."""
    inputs = rule.tensors(op)
    tensors = [(f"input {index}", op.inputs[index], op.dimensions(index)) for index in inputs]
    tensors += [
        (f"output {index}", operand, found)
        for index, (operand, found) in enumerate(zip(op.outputs, outputs, strict=True))
    ]
    quantised = [(f"input {index}", op.inputs[index]) for index in rule.constants if op.inputs[index].type in QUANT8]
    for name, operand, _ in tensors:
        yield _typed(name, operand, op.relaxed)
        if rule.floats:
            yield _float(name, operand)
    for name, operand in [*((name, operand) for name, operand, _ in tensors), *quantised]:
        yield _symmetric(name, operand)
    yield from _constants(op, rule)
    yield from _half(op)
    for name, _, dimensions in tensors:
        yield known_dimensions(name, dimensions, _KNOWN)
        yield allowed_rank(name, dimensions)
    yield _computed(op, inputs)
    yield rule.check(op)


def _typed(name: str, operand: Operand, relaxed: bool) -> Support:
    if operand.type in QUANT8 or operand.type == F16 or (operand.type == F32 and relaxed):
        return SUPPORTED
    if operand.type == F32:
        return Unsupported("DTYPE", f"{name} of TENSOR_FLOAT32 in a model that is not relaxed", ACCEPTED_TYPES, _RELAX)
    hint = "convert the tensor before, on a CPU or GPU device"
    return Unsupported("DTYPE", f"{name} of {type_name(operand.type)}", ACCEPTED_TYPES, hint)


def _float(name: str, operand: Operand) -> Support:
    if operand.type in (F16, F32):
        return SUPPORTED
    hint = "quantise and dequantise on a CPU or GPU device"
    return Unsupported("DTYPE", f"{name} of {type_name(operand.type)}", ACCEPTED_FLOATS, hint)


def _symmetric(name: str, operand: Operand) -> Support:
    if operand.type not in QUANT8 or is_symmetric(operand):
        return SUPPORTED
    got = f"{name} of {type_name(operand.type)} with zero point {operand.zero_point}"
    return Unsupported("QUANT", got, _ZERO_POINTS, _SYMMETRIC)


def _constants(op: OperationContext, rule: ImportRule) -> Iterator[Support]:
    for index, operand in enumerate(op.inputs):
        parameter = index in rule.constants or is_scalar(operand.type)
        if parameter and op.has(index) and not op.is_known(index):
            hint = "store it in the model: weights and parameters are compiled when the model is prepared"
            yield Unsupported("CONSTANT", f"input {index} that is computed or fed at run time", "a constant", hint)


def _half(op: OperationContext) -> Iterator[Support]:
    """Refuse constant floats that float16 cannot hold."""
    for index, operand in enumerate(op.inputs):
        if operand.type in (F16, F32) and op.is_known(index):
            largest = np.abs(op.value(index)).max(initial=0)
            if not largest <= _LARGEST_HALF:
                hint = "scale the network's weights down"
                yield Unsupported("DTYPE", f"input {index} with the constant {largest:g}", _HALF, hint)


def _computed(op: OperationContext, inputs: Sequence[int]) -> Support:
    if not all(op.is_known(index) for index in inputs):
        return SUPPORTED
    hint = "fold constants when the network is exported"
    return Unsupported("CONSTANT", "constants as the only inputs", "an input that is computed or fed", hint)
