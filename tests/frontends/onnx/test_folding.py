"""Nodes with constant results need no operation."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random

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
