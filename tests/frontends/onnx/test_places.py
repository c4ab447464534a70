"""Node of the file that each operation stands for, whatever the nodes are called."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from nnhal_frontends.onnx import import_onnx

FLOATS = TensorProto.FLOAT


def model_of(nodes: Sequence[NodeProto], output: str, functions: Sequence[object] = ()) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOATS, [1, 8])],
        [helper.make_tensor_value_info(output, FLOATS, None)],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=10)


def test_nodes_with_repeated_names_and_none_are_told_apart() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "same"),
        helper.make_node("Tanh", ["a"], ["b"], "same"),
        helper.make_node("Abs", ["b"], ["c"]),
        helper.make_node("Relu", ["c"], ["y"], "same_1"),
    ]
    model = model_of(nodes, "y")
    imported = import_onnx(model)
    assert imported.operation_places == ((0,), (1,), (2,), (3,))
    assert imported.operation_nodes == (("same",), ("same",), ("Abs_2",), ("same_1",))
    assert imported.node_count == 4
    assert [node.name for node in model.graph.node] == ["same", "same", "", "same_1"]


def test_a_node_that_an_operation_has_taken_up_and_one_without_operation_are_known() -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["a"]),
        helper.make_node("Add", ["a", "a"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    imported = import_onnx(model_of(nodes, "y"))
    assert [sorted(places) for places in imported.operation_places] == [[1, 2]]
    assert imported.node_count == 3


def test_a_large_constant_node_is_one_node() -> None:
    value = numpy_helper.from_array(np.ones((1024, 8), np.float32))
    nodes = [
        helper.make_node("Constant", [], ["w"], value=value),
        helper.make_node("Mul", ["x", "w"], ["y"]),
    ]
    imported = import_onnx(model_of(nodes, "y"))
    assert imported.operation_places == ((1,),)
    assert imported.folded_nodes == ("Constant_0",)


def test_what_a_function_consists_of_is_the_node_that_calls_it() -> None:
    opset = [helper.make_opsetid("", 17)]
    inner = [helper.make_node("Relu", ["a"], ["t"], "inner"), helper.make_node("Tanh", ["t"], ["b"])]
    function = helper.make_function("own", "F", ["a"], ["b"], inner, opset)
    nodes = [
        helper.make_node("F", ["x"], ["p"], "call", domain="own"),
        helper.make_node("Abs", ["p"], ["q"], "abs"),
        helper.make_node("F", ["q"], ["y"], "call", domain="own"),
    ]
    imported = import_onnx(model_of(nodes, "y", [function]))
    assert imported.operation_places == ((0,), (0,), (1,), (2,), (2,))
    assert imported.node_count == 3
