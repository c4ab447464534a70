"""Values of other runtimes in the form that operands have, and the other way round."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal.types import OperandLifeTime
from nnhal.types.layout import fits
from nnhal_frontends.imported import ImportedTensor
from nnhal_tools.diff.subject import Subject, Values
from nnhal_tools.element_types import number_type_of

QUANTISED_SUFFIX = "/quantized"
"""The ONNX front end adds it to the name of a tensor in floats that it has in 8 bits."""


def source_name(subject: Subject, operand: int) -> str:
    """Return the name of an operand's tensor in the user's file; empty if it has none."""
    name = subject.imported.operand_names[operand]
    used = subject.operand(operand).lifetime != OperandLifeTime.NO_VALUE
    return name.removesuffix(QUANTISED_SUFFIX) if used else ""


def user_inputs(subject: Subject, sample: Values) -> dict[str, Array]:
    """Return a sample as the user's file has its inputs: names, element types, scalars."""
    return {tensor.name: _as_user(tensor, sample[tensor.operand]) for tensor in subject.imported.inputs}


def _as_user(tensor: ImportedTensor, array: Array) -> Array:
    given = array.astype(tensor.element_type)
    return given.reshape(()) if tensor.shape == () and given.size == 1 else given


def as_operand(subject: Subject, index: int, values: Array) -> Array | None:
    """Return another runtime's tensor in an operand's form; None if it is none of the operand's."""
    operand = subject.operand(index)
    wanted = number_type_of(subject.model, operand.type)
    if wanted is None or values.dtype.kind not in "biuf":
        return None
    array = np.atleast_1d(values)
    if subject.dimensions[index] and not fits(array.shape, subject.dimensions[index]):
        return None
    if array.dtype.kind == "f" and wanted.kind in "iu":
        if not operand.scale:
            return None
        least, most = _range_of(wanted)
        steps = np.rint(array.astype(np.float64) / operand.scale) + operand.zero_point
        return np.asarray(np.clip(np.nan_to_num(steps), least, most).astype(wanted))
    if array.dtype.kind in "iu" and wanted.kind in "iu":
        least, most = _range_of(wanted)
        if array.size and not least <= int(array.min()) <= int(array.max()) <= most:
            return None
    elif array.dtype.kind != wanted.kind and array.dtype.kind != "b":
        return None
    return array.astype(wanted, copy=False)


def _range_of(integer: np.dtype[np.generic]) -> tuple[int, int]:
    bits = 8 * integer.itemsize
    return (0, (1 << bits) - 1) if integer.kind == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
