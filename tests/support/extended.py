"""ONNX models with operations of the extension nnhal.onnx, run on drivers in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from nnhal.arrays import Array
from nnhal.extensions.onnx import ELEMENT_TYPES, OPERATION, number_of
from nnhal.extensions.values import value_from_bytes, value_to_bytes
from nnhal.types.layout import ELEMENT_TYPES as BASE_TYPES
from nnhal.types.layout import is_extension
from nnhal_devices.driver import Argument, Control, Driver, PrepareOptions
from nnhal_frontends.imported import ImportedModel
from tests.support.onnx_models import resolved

_ROOM = 4096
"""Bytes reserved for an output."""


def run_extended(driver: Driver, imported: ImportedModel, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Import a model, run it, and return its outputs."""
    main = imported.model.main
    given = [_argument(inputs[tensor.name], tensor.element_type.kind == "O") for tensor in imported.inputs]
    results = [
        Argument(np.zeros(_ROOM, np.uint8), main.operands[tensor.operand].dimensions) for tensor in imported.outputs
    ]
    workload = driver.prepare(resolved(imported.model), PrepareOptions())
    outcome = workload.bind(given, results).run(Control())
    found = outcome.dimensions or tuple(argument.dimensions for argument in results)
    outputs = {}
    for tensor, argument, dimensions in zip(imported.outputs, results, found, strict=True):
        assert argument.data is not None
        code = main.operands[tensor.operand].type
        number = number_of(imported.model, code) or 0
        element = ELEMENT_TYPES.get(number, np.dtype(np.uint8)) if is_extension(code) else BASE_TYPES[code]
        raw = argument.data[: element.itemsize * int(np.prod(dimensions))]
        array: Array = raw.view(element).reshape(dimensions)
        outputs[tensor.name] = value_from_bytes(array) if tensor.element_type.kind == "O" else array
    return outputs


def messages(imported: ImportedModel) -> list[onnx.ModelProto]:
    """Return the messages of a model's extension operations, in order."""
    constants = resolved(imported.model).constants[0]
    return [
        onnx.ModelProto.FromString(constants[operation.inputs[0]].tobytes())
        for operation in imported.model.main.operations
        if operation.type == OPERATION
    ]


def _argument(value: Any, encoded: bool) -> Argument:
    array = np.frombuffer(value_to_bytes(value), np.uint8) if encoded else np.ascontiguousarray(value)
    raw = np.zeros(max(1, array.nbytes), np.uint8)
    raw[: array.nbytes] = array.reshape(-1).view(np.uint8)
    return Argument(raw, array.shape)
