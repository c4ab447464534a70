"""Whole models: names, inputs and outputs, and folded operators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnhal.resolved import propagate_dimensions
from nnhal.types import OperandType
from nnhal_frontends import import_model
from nnhal_frontends.dimensions import with_dimensions
from nnhal_frontends.errors import UnfitShape, UnsupportedInput, UnsupportedNode
from nnhal_frontends.imported import ImportedTensor
from nnhal_frontends.tflite import import_tflite
from tests.support.drawn_values import random
from tests.support.onnx_models import by_cpu_ref, operations
from tests.support.tflite_files import Spec, TfliteFile, booleans, floats, int8, int32
from tests.support.tflite_operators import check, numbers, one


def test_tensors_keep_their_names_and_types() -> None:
    file = TfliteFile()
    image = file.input("serving/image:0", int8(1, 4))
    (index,) = file.operator("ARG_MAX", [image, file.constant(numbers(-1))], {"call:0": Spec([1], np.int64)})
    imported = import_tflite(file.build(index))
    assert imported.inputs == (ImportedTensor("serving/image:0", 0, np.dtype(np.int8), (1, 4), index=0),)
    (output,) = imported.outputs
    assert (output.name, output.element_type, output.shape) == ("call:0", np.dtype(np.int64), (1,))
    assert imported.model.main.operands[output.operand].type == OperandType.TENSOR_INT32
    assert imported.operand_names[0] == "serving/image:0"


def test_operations_are_named_by_operator_index_and_first_output() -> None:
    file = TfliteFile()
    x, weights = file.input("x", floats(2, 3, 4)), file.constant(random(5, 4))
    options = ("FullyConnectedOptions", {"KeepNumDims": True})
    (y,) = file.operator("FULLY_CONNECTED", [x, weights, -1], {"y": floats(2, 3, 5)}, options)
    (z,) = file.operator("RELU", [y], {"block/z": floats(2, 3, 5)})
    imported = import_tflite(file.build(z))
    assert operations(imported) == ["FULLY_CONNECTED", "RESHAPE", "RELU"]
    assert imported.operation_nodes == (("FULLY_CONNECTED_0:y",), ("FULLY_CONNECTED_0:y",), ("RELU_1:block/z",))


@pytest.mark.parametrize("batch", [1, 5])
def test_dimensions_that_a_file_leaves_open_are_open(batch: int) -> None:
    file = TfliteFile()
    x = file.input("x", Spec([1, 4], signature=[-1, 4]))
    (y,) = file.operator("RELU", [x], {"y": Spec([1, 4], signature=[-1, 4])})
    content = file.build(y)
    imported = import_tflite(content)
    assert imported.inputs[0].shape == imported.outputs[0].shape == (0, 4)
    assert imported.inputs[0].usual_shape == (1, 4)
    imported = check(content, {"x": random(batch, 4)})
    assert imported.inputs[0].shape == imported.outputs[0].shape == (batch, 4)
    with pytest.raises(UnfitShape, match=r"shape \[2, 5\] is given for input 'x'"):
        import_model(content, shapes={"x": (2, 5)})


def test_dimensions_that_are_settled_are_not_found_out_again() -> None:
    file = TfliteFile()
    x = file.input("x", floats(1, 4))
    (y,) = file.operator("ADD", [x, file.constant(random(3, 1))], {"y": floats(3, 4)}, ("AddOptions", {}))
    known = import_tflite(file.build(*file.operator("RELU", [y], {"z": floats(3, 4)})))
    assert known.settled is known.model
    assert known.resolved().propagated[0] == propagate_dimensions(replace(known, settled=None).resolved())
    other = with_dimensions(known, {"x": [1, 4]})
    assert other.settled is not other.model
    assert not other.resolved().propagated


def test_dimensions_that_are_unknown_are_not_settled() -> None:
    file = TfliteFile()
    x, shape = file.input("x", floats(2, 3)), file.input("shape", int32(2))
    (y,) = file.operator("RESHAPE", [x, shape], {"y": Spec([3, 2], signature=[-1, -1])}, ("ReshapeOptions", {}))
    imported = import_tflite(file.build(y))
    assert imported.settled is None
    assert not imported.resolved().propagated


def test_names_that_occur_twice_are_told_apart() -> None:
    file = TfliteFile()
    inputs = [file.input("x", floats(2)), file.input("x", floats(2)), file.input("", floats(2))]
    (y,) = file.operator("ADD_N", inputs, {"x": floats(2)})
    imported = import_tflite(file.build(y))
    assert [tensor.name for tensor in imported.inputs + imported.outputs] == ["x", "x_1", "tensor_2", "x_2"]


def test_an_output_that_no_operator_writes_or_that_is_one_already_is_copied() -> None:
    file = TfliteFile()
    x, stored = file.input("x", int8(1, 2)), file.constant(numbers([[3, 4]]), int8(1, 2), "stored")
    (y,) = file.operator("RELU", [x], {"y": int8(1, 2)})
    content = file.build(y, x, stored, y)
    imported = import_tflite(content)
    assert operations(imported) == ["RELU", "CAST", "CAST", "CAST"]
    assert imported.operation_nodes[1:] == ((), (), ())
    given = np.array([[-7, 5]], np.int8)
    outputs = [output.tolist() for output in by_cpu_ref(imported, {"x": given})]
    assert outputs == [[[3, 5]], [[-7, 5]], [[3, 4]], [[3, 5]]]


def test_the_shape_arithmetic_of_a_batch_of_unknown_size_is_done_on_import() -> None:
    file = TfliteFile()
    x = file.input("x", Spec([1, 6], signature=[-1, 6]))
    (shape,) = file.operator("SHAPE", [x], {"shape": int32(2)}, ("ShapeOptions", {"OutType": 2}))
    bounds = [file.constant(numbers(values)) for values in ([0], [1], [1])]
    (batch,) = file.operator(
        "STRIDED_SLICE", [shape, *bounds], {"batch": int32()}, ("StridedSliceOptions", {"ShrinkAxisMask": 1})
    )
    (two,) = file.operator("MUL", [batch, file.constant(numbers(2))], {"two": int32()}, ("MulOptions", {}))
    sizes = [two, file.constant(numbers(3))]
    (wanted,) = file.operator("PACK", sizes, {"wanted": int32(2)}, ("PackOptions", {"ValuesCount": 2}))
    (y,) = file.operator("RESHAPE", [x, wanted], {"y": Spec([2, 3], signature=[-1, 3])}, ("ReshapeOptions", {}))
    imported = check(file.build(y), {"x": random(1, 6)})
    assert operations(imported) == ["RESHAPE"]
    assert len(imported.folded_nodes) == 4


@pytest.mark.parametrize(
    ("code", "reason"),
    [("CUMSUM", "the NN HAL has no operation for this operator"), ("MyOperator", "a custom operator")],
)
def test_an_operator_that_the_hal_has_not_is_named(code: str, reason: str) -> None:
    file = TfliteFile()
    x = file.input("x", floats(2))
    (y,) = file.operator("RELU", [x], {"y": floats(2)})
    content = file.build(*file.operator(code, [y], {"block/z": floats(2)}))
    with pytest.raises(UnsupportedNode, match=reason) as caught:
        import_tflite(content, extension=False)
    name = code if code.isupper() else f"CUSTOM {code}"
    assert (caught.value.op_type, caught.value.node) == (name, f"{name}_1:block/z")


def test_what_the_hal_has_no_type_for_is_named() -> None:
    with pytest.raises(UnsupportedInput, match="input 'x0' has elements of FLOAT64"):
        import_tflite(one("RELU", [Spec([2], np.float64)], Spec([2], np.float64)).file(), extension=False)
    with pytest.raises(UnsupportedNode, match="'y0' has elements of FLOAT64"):
        import_tflite(one("RELU", [floats(2)], Spec([2], np.float64)).file(), extension=False)


def test_an_output_too_many_is_refused() -> None:
    node = one("RELU", [floats(2)], [floats(2), floats(2)])
    assert node.refusal() == "it has 2 outputs"


def test_a_scalar_is_one_element_of_the_hal() -> None:
    imported = check(one("LOGICAL_NOT", [booleans()], booleans()).file(), {"x0": np.array(True)})
    assert imported.inputs[0].shape == imported.outputs[0].shape == ()
    assert imported.model.main.operands[imported.inputs[0].operand].dimensions == (1,)
