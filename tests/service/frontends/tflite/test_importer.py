"""The model as a whole: names, inputs and outputs, what is folded."""

from __future__ import annotations

import numpy as np

from nnhal.types import OperandType
from nnhal_service.frontends.imported import ImportedTensor
from nnhal_service.frontends.tflite import import_tflite
from tests.support.onnx_models import operations
from tests.support.tflite_files import Spec, TfliteFile, floats, int8
from tests.support.tflite_operators import numbers, random


def test_tensors_keep_their_names_and_types() -> None:
    file = TfliteFile()
    image = file.input("serving/image:0", int8(1, 4))
    (index,) = file.operator("ARG_MAX", [image, file.constant(numbers(-1))], {"call:0": Spec([1], np.int64)})
    imported = import_tflite(file.build(index))
    assert imported.inputs == (ImportedTensor("serving/image:0", 0, np.dtype(np.int8), (1, 4)),)
    (output,) = imported.outputs
    assert (output.name, output.element_type, output.shape) == ("call:0", np.dtype(np.int64), (1,))
    assert imported.model.main.operands[output.operand].type == OperandType.TENSOR_INT32
    assert imported.operand_names[0] == "serving/image:0"


def test_operations_are_named_by_operator_index_and_first_output() -> None:
    file = TfliteFile()
    x = file.input("x", floats(2, 6))
    weights = file.constant(random(4, 3))
    (y,) = file.operator("FULLY_CONNECTED", [x, weights, -1], {"y": floats(2, 2, 4)}, ("FullyConnectedOptions", {}))
    (z,) = file.operator("RELU", [y], {"block/z": floats(4, 4)})
    imported = import_tflite(file.build(z))
    assert imported.operation_nodes == (("FULLY_CONNECTED_0:y",), ("RELU_1:block/z",))
    assert operations(imported) == ["FULLY_CONNECTED", "RELU"]
