"""Operations that gpu_acc supports, and its reasons to refuse the others: those of cpu_acc, on floats, with up to four
axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnhal.errors import HalError
from nnhal.extensions import type_in_words
from nnhal.operations import type_name
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.support import SUPPORTED, OperationLimit, Support, Supported, Unsupported, types_of
from nnhal.types import Model, Operand, OperandType, Operation, OperationType
from nnhal.types.layout import Dimensions, describe, is_extension, is_scalar
from nnhal_devices.cpu_acc.table import TABLE
from nnhal_devices.driver import Driver

MAX_RANK = 4
_FLOATS = frozenset({OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16, OperandType.FLOAT32, OperandType.FLOAT16})
_AUXILIARY = frozenset({OperandType.TENSOR_INT32, OperandType.TENSOR_BOOL8})
"""Other types of operands of operations on floats: indexes, shapes, conditions."""
_QUANTISED = frozenset({OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED})
_CONVERSIONS = (OperationType.QUANTIZE, OperationType.DEQUANTIZE)
"""Kernels that convert 8-bit values to floats and back; they compute with floats."""
_ALLOWED = "TENSOR_FLOAT32, TENSOR_FLOAT16, and TENSOR_INT32 or TENSOR_BOOL8 as indexes or conditions"


def operation_limits() -> list[OperationLimit]:
    """Return what is left of cpu_acc's operations, which do the arithmetic."""
    limits = []
    for code, row in sorted(TABLE.items()):
        types = row.rule.types & (_FLOATS if code not in _CONVERSIONS else _FLOATS | _QUANTISED)
        if types:
            taken = f"{types_of(types)} as input {row.rule.main}"
            limits.append(row.rule.limit(code, taken, f"known ranks of up to {MAX_RANK}"))
    return limits


def supported_operations(model: ResolvedModel, arithmetic: Driver) -> list[Support]:
    """An answer for each operation of main. Operations that ``arithmetic`` declines are declined with its reason."""
    # Without their names, extensions are not examined: they are declined anyway.
    base = replace(model, model=replace(model.model, extension_name_to_prefix=()))
    answers, dimensions = arithmetic.supported_operations(base), _dimensions(model)
    return [
        _answer(model.model, operation, dimensions, answer)
        for operation, answer in zip(model.model.main.operations, answers, strict=True)
    ]


def _dimensions(model: ResolvedModel) -> Sequence[Dimensions]:
    try:
        return propagate_dimensions(model)
    except HalError:  # preparation refuses operands that contradict one another
        return [operand.dimensions for operand in model.model.main.operands]


def _answer(model: Model, operation: Operation, dimensions: Sequence[Dimensions], answer: Support) -> Support:
    if is_extension(operation.type):
        return Unsupported("OP", f"operation {type_in_words(model, operation.type)}", "operations of the base set")
    if not isinstance(answer, Supported):
        return answer
    operands = model.main.operands
    typed = _typed(operation, operands)
    return typed if isinstance(typed, Unsupported) else _ranked(operation, operands, dimensions)


def _typed(operation: Operation, operands: Sequence[Operand]) -> Support:
    codes = [operands[index].type for index in (*operation.inputs, *operation.outputs)]
    if operation.type in _CONVERSIONS and _FLOATS.intersection(codes) and set(codes) <= _FLOATS | _QUANTISED:
        return SUPPORTED
    for code in codes:
        if not is_scalar(code) and code not in _FLOATS | _AUXILIARY:
            hint = "dequantise it first" if type_name(code).startswith("TENSOR_QUANT") else ""
            return Unsupported("DTYPE", type_name(code), _ALLOWED, hint)
    given = [operands[index].type for index in operation.inputs]
    if not _FLOATS.intersection(given):
        return Unsupported("DTYPE", type_name(given[0]), "floats to compute with", "integers are indexes here")
    made = operands[operation.outputs[0]].type
    if operation.type == OperationType.CAST and made not in _FLOATS:
        return Unsupported("DTYPE", f"{type_name(given[0])} to {type_name(made)}", "floats to floats")
    return SUPPORTED


def _ranked(operation: Operation, operands: Sequence[Operand], dimensions: Sequence[Dimensions]) -> Support:
    for index in (*operation.inputs, *operation.outputs):
        if len(dimensions[index]) > MAX_RANK:
            got = f"{type_name(operands[index].type)} of {describe(dimensions[index])}"
            return Unsupported("RANK", got, f"up to {MAX_RANK} axes", "reshape it")
    return SUPPORTED
