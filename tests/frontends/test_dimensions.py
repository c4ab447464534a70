"""The names of dimensions in a file."""

from __future__ import annotations

from onnx import TensorProto, helper

from nnhal_frontends.dimensions import dimension_names
from tests.support.onnx_models import onnx_model


def test_each_dimension_of_an_input_has_its_name() -> None:
    model = onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["batch", 3, None, "seq"]}, ["y"])
    assert dimension_names(model.SerializeToString()) == {"x": ("batch", "", "", "seq")}


def test_an_input_of_unknown_rank_has_none() -> None:
    model = onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["batch"]}, ["y"])
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, None))
    assert dimension_names(model.SerializeToString()) == {}


def test_tflite_has_no_names() -> None:
    assert dimension_names(b"\x1c\0\0\0TFL3") == {}
