"""Whole models, and how an imported model relates to the user's model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.helper import make_node, make_opsetid, make_tensor_value_info

from nnhal.types import OperandType
from nnhal_frontends.errors import UnsupportedInput, UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import by_cpu_ref, check, input_types, onnx_model, operations

DIGITS = Path(__file__).parents[3] / "tools" / "nnhal_tools" / "demo" / "data"


def test_the_digits_network_agrees_with_onnxruntime() -> None:
    image = np.load(DIGITS / "digits_heldout.npz")["images"][:1]
    imported = check(onnx.load(DIGITS / "digits.onnx"), {"image": image})
    assert operations(imported) == [
        "CONV_2D",
        "CONV_2D",
        "MAX_POOL_2D",
        "CONV_2D",
        "RESHAPE",
        "FULLY_CONNECTED",
        "SOFTMAX",
    ]
    assert imported.operation_nodes[0] == ("conv1", "relu1")
    assert imported.folded_nodes == ()


def test_the_int8_digits_network_is_integers_from_end_to_end_and_reads_digits() -> None:
    imported = import_onnx(onnx.load(DIGITS / "digits_int8.onnx"), extension=False)
    assert operations(imported)[0] == "QUANTIZE"
    assert operations(imported)[-1] == "DEQUANTIZE"
    signed = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
    assert all(input_types(imported, index)[0] == signed for index in range(1, len(operations(imported))))
    held_out = np.load(DIGITS / "digits_heldout.npz")
    read = [by_cpu_ref(imported, {"image": image[None]})[0].argmax() for image in held_out["images"][:40]]
    assert np.mean(read == held_out["labels"][:40]) >= 0.95


def test_unnamed_nodes_are_named_by_operator_and_place() -> None:
    model = onnx_model([make_node("Relu", ["x"], ["a"]), make_node("Tanh", ["a"], ["y"])], {"x": [2]}, ["y"])
    assert import_onnx(model, extension=False).operation_nodes == (("Relu_0",), ("Tanh_1",))


def test_operands_have_the_names_of_tensors() -> None:
    model = onnx_model([make_node("Add", ["x", "k"], ["y"])], {"x": [2]}, ["y"], {"k": np.ones(2, np.float32)})
    imported = import_onnx(model, extension=False)
    add = imported.model.main.operations[0]
    names = [imported.operand_names[index] for index in (*add.inputs, *add.outputs)]
    assert names == ["x", "k", "", "y"]


def test_wide_integers_and_scalars_are_narrowed_and_the_user_is_told() -> None:
    model = onnx_model(
        [make_node("Add", ["x", "k"], ["y"])], {"x": []}, ["y"], {"k": np.array(2)}, element_type=np.int64
    )
    imported = check(model, {"x": np.array(40)})
    (tensor,) = imported.inputs
    assert (tensor.element_type, tensor.shape) == (np.dtype(np.int64), ())
    operand = imported.model.main.operands[tensor.operand]
    assert (operand.type, operand.dimensions) == (OperandType.TENSOR_INT32, (1,))


def test_element_types_that_the_hal_has_not_are_refused() -> None:
    model = onnx_model([make_node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"], element_type=np.float64)
    with pytest.raises(
        UnsupportedInput, match="input 'x' has elements of type float64, expected bool, float16, float32"
    ):
        import_onnx(model, extension=False)


def test_ranks_above_four_are_refused_in_the_words_of_the_operation() -> None:
    model = onnx_model([make_node("Relu", ["x"], ["y"], "deep")], {"x": [1, 2, 3, 4, 5]}, ["y"])
    with pytest.raises(UnsupportedNode, match=r"node 'deep' \(Relu\): RELU: input 0 .* has rank 5, expected 1 to 4"):
        import_onnx(model, extension=False)


def test_an_unknown_operator_is_refused_with_what_there_is() -> None:
    model = onnx_model([make_node("Erf", ["x"], ["y"], "gelu")], {"x": [2]}, ["y"])
    message = r"node 'gelu' \(Erf\): the NN HAL has no operation .*; supported: Abs, Add, And"
    with pytest.raises(UnsupportedNode, match=message) as e:
        import_onnx(model, extension=False)
    assert (e.value.node, e.value.op_type) == ("gelu", "Erf")


def test_an_operator_of_another_domain_is_refused() -> None:
    model = onnx_model([make_node("Relu", ["x"], ["y"], "own")], {"x": [2]}, ["y"])
    model.graph.node[0].domain = "com.example"
    model.graph.output[0].CopyFrom(make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2]))
    model.opset_import.append(make_opsetid("com.example", 1))
    with pytest.raises(UnsupportedNode, match=r"of domain com\.example"):
        import_onnx(model, extension=False)
