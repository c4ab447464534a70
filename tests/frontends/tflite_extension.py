"""TFLite files with operations of the extension nnhal.tflite, run by cpu_ref in this process and by LiteRT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.extensions.tflite import ELEMENT_TYPES, OPERATION, STRING, number_of
from nnhal.extensions.values import strings_from_bytes, value_to_bytes
from nnhal.support import SUPPORTED
from nnhal.types import OperationType
from nnhal.types.layout import ELEMENT_TYPES as BASE_TYPES
from nnhal.types.layout import is_extension
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Argument, Control, PrepareOptions
from nnhal_frontends.imported import ImportedModel
from nnhal_frontends.tflite import import_tflite
from tests.support.onnx_models import resolved
from tests.support.tflite_operators import OPTIMISED, by_litert

RUN = "RUN"
_ROOM = 1 << 16
"""Bytes reserved for an output."""


def names_of(imported: ImportedModel) -> list[str]:
    """Return the names of a model's operations; RUN is that of the extension."""
    codes = (operation.type for operation in imported.model.main.operations)
    return [RUN if code == OPERATION else OperationType(code).name for code in codes]


def element_type(imported: ImportedModel, operand: int) -> np.dtype[Any]:
    """Return the type of an operand's elements in memory."""
    code = imported.model.main.operands[operand].type
    if not is_extension(code):
        return BASE_TYPES[code]
    return ELEMENT_TYPES.get(number_of(imported.model, code) or 0, np.dtype(np.uint8))


def is_text(imported: ImportedModel, operand: int) -> bool:
    """Return whether an operand has strings."""
    return number_of(imported.model, imported.model.main.operands[operand].type) == STRING


def run(imported: ImportedModel, inputs: Mapping[str, Any]) -> list[Array]:
    """Return the outputs that cpu_ref computes."""
    driver, model = CpuRef(), resolved(imported.model)
    assert set(driver.supported_operations(model)) <= {SUPPORTED}, driver.supported_operations(model)
    given = [_argument(imported, tensor.operand, inputs[tensor.name]) for tensor in imported.inputs]
    results = [
        Argument(np.zeros(_ROOM, np.uint8), imported.model.main.operands[tensor.operand].dimensions)
        for tensor in imported.outputs
    ]
    outcome = driver.prepare(model, PrepareOptions()).bind(given, results).run(Control())
    found = []
    for tensor, argument, dimensions in zip(imported.outputs, results, outcome.dimensions, strict=True):
        element = element_type(imported, tensor.operand)
        assert argument.data is not None
        array: Array = argument.data[: element.itemsize * int(np.prod(dimensions))].view(element).reshape(dimensions)
        found.append(strings_from_bytes(array) if is_text(imported, tensor.operand) else array)
    return found


def check(content: bytes, inputs: Mapping[str, Any], tolerance: float = 1e-5) -> ImportedModel:
    """Import a file and check that cpu_ref's outputs are LiteRT's."""
    imported = import_tflite(content)
    found, expected = run(imported, inputs), by_litert(content, inputs, OPTIMISED)
    for got, wanted, tensor in zip(found, expected, imported.outputs, strict=True):
        assert got.shape == (wanted.shape or (1,))
        if wanted.dtype.kind in "OS":
            assert got.tolist() == wanted.tolist()
            continue
        assert tensor.element_type == wanted.dtype
        np.testing.assert_allclose(got, np.atleast_1d(wanted), rtol=tolerance, atol=tolerance)
    return imported


def messages(imported: ImportedModel) -> Sequence[bytes]:
    """Return the messages of a model's extension operations, in order."""
    constants = resolved(imported.model).constants[0]
    return [constants[o.inputs[0]].tobytes() for o in imported.model.main.operations if o.type == OPERATION]


def _argument(imported: ImportedModel, operand: int, value: Any) -> Argument:
    if is_text(imported, operand):
        array = np.frombuffer(value_to_bytes(np.asarray(value)), np.uint8)
    else:
        array = np.atleast_1d(value).astype(element_type(imported, operand))
    raw = np.zeros(max(1, array.nbytes), np.uint8)
    raw[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return Argument(raw, array.shape)
