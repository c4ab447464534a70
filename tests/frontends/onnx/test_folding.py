"""Nodes with constant results need no operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.helper import make_node
from onnxruntime import InferenceSession

from nnhal.extensions.onnx_corners import CORNERS
from nnhal_devices.cpu_ref.onnx_operators import OPERATORS
from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from nnhal_frontends.onnx.folding import LEFT
from tests.support.onnx_models import by_cpu_ref, check, onnx_model, operations, random

X = {"x": random(2, 3, 4)}


def test_arithmetic_of_constants_is_done_at_import() -> None:
    nodes = [
        make_node("Constant", [], ["k"], "two", value_floats=[1.0, 2.0, 3.0, 4.0]),
        make_node("Mul", ["k", "w"], ["p"], "scaled"),
        make_node("Add", ["x", "p"], ["y"], "sum"),
    ]
    imported = check(onnx_model(nodes, {"x": [2, 3, 4]}, ["y"], {"w": np.float32(0.5)}), X)
    assert imported.operation_nodes == (("sum",),)
    assert imported.folded_nodes == ("two", "scaled")


def test_a_shape_that_is_computed_from_fixed_shapes_is_constant() -> None:
    nodes = [
        make_node("Shape", ["x"], ["s"]),
        make_node("Slice", ["s", "zero", "one"], ["head"]),
        make_node("Concat", ["head", "rest"], ["t"], axis=0),
        make_node("Reshape", ["x", "t"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "one": np.array([1]), "rest": np.array([-1])}
    assert operations(check(onnx_model(nodes, {"x": [2, 3, 4]}, ["y"], constants), X)) == ["RESHAPE"]


def test_identities_disappear_and_are_accounted_for() -> None:
    nodes = [
        make_node("Relu", ["x"], ["a"], "relu"),
        make_node("Identity", ["a"], ["b"], "same"),
        make_node("Dropout", ["b"], ["c"], "dropout"),
        make_node("Tanh", ["c"], ["y"], "tanh"),
    ]
    imported = check(onnx_model(nodes, {"x": [2, 3, 4]}, ["y"], opset=11), X)
    assert imported.operation_nodes == (("relu",), ("tanh",))
    assert imported.folded_nodes == ("same", "dropout")


@pytest.mark.parametrize(
    "node",
    [
        make_node("Shape", ["a"], ["c"], start=-7, end=-2),
        make_node("Shape", ["a"], ["c"], start=-9, end=9),
        make_node("Slice", ["a", "low", "lower", "axis", "back"], ["c"]),
        make_node("Squeeze", ["a", "none"], ["c"]),
        make_node("Pow", ["i", "low"], ["c"]),
        make_node("GatherElements", ["a", "i"], ["c"], axis=1),
    ],
    ids=lambda node: node.op_type,
)
def test_constants_are_computed_as_onnx_runtime_does(node: onnx.NodeProto) -> None:
    constants = {
        "a": random(1, 3, 2, 1),
        "i": np.full((1, 2, 1, 1), 1),
        "low": np.array([-4]),
        "lower": np.array([-6]),
        "axis": np.array([0]),
        "back": np.array([-1]),
        "none": np.zeros(0, np.int64),
    }
    used = {name: constants[name] for name in node.input}
    model = onnx_model([node, make_node("Cast", ["c"], ["y"], to=1)], {}, ["y"], used)
    (folded,) = by_cpu_ref(import_onnx(model), {})
    wanted: Any = InferenceSession(model.SerializeToString()).run(None, {})[0]
    np.testing.assert_array_equal(folded.reshape(np.shape(wanted)), wanted)


def test_operators_that_the_reference_computes_itself_are_not_folded_by_onnx() -> None:
    own = {operator.__name__ for operator in OPERATORS} - {operator.__name__ for operator in CORNERS}
    assert own - LEFT == {"Loop", "QuantizeLinear"}  # graphs are not folded, and weights that are quantised must be


def test_unused_nodes_disappear() -> None:
    nodes = [make_node("Relu", ["x"], ["y"]), make_node("Erf", ["x"], ["z"])]
    assert operations(check(onnx_model(nodes, {"x": [2, 3, 4]}, ["y"]), X)) == ["RELU"]


def test_every_output_has_an_operand_of_its_own() -> None:
    nodes = [
        make_node("Identity", ["x"], ["copy"]),
        make_node("Relu", ["x"], ["a"]),
        make_node("Identity", ["a"], ["b"]),
        make_node("Constant", [], ["k"], value_floats=[1.0, 2.0]),
    ]
    imported = check(onnx_model(nodes, {"x": [2, 3, 4]}, ["copy", "a", "b", "k"]), X)
    assert len({tensor.operand for tensor in imported.outputs}) == 4


def test_dropout_in_training_is_refused() -> None:
    node = make_node("Dropout", ["x", "r", "t"], ["y"], "noise")
    model = onnx_model([node], {"x": [2]}, ["y"], {"r": np.float32(0.5), "t": np.array(True)}, opset=13)
    with pytest.raises(UnsupportedNode, match=r"node 'noise' \(Dropout\)"):
        import_onnx(model, extension=False)
