"""Whole ONNX models become flow graphs under the user's names, or are refused by them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal_frontends.errors import InvalidModel
from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.reference import evaluate
from tests.support.flow_graphs import operators
from tests.support.onnx_flow import as_it_is, checked, node
from tests.support.onnx_models import onnx_model, random


def test_float16() -> None:
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("GlobalAveragePool", ["r"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "m"], ["d"], alpha=0.5, transB=1),
        node("Erf", ["d"], ["y"]),
    ]
    constants = {
        name: value.astype(np.float16)
        for name, value in {"w": random(4, 3, 3, 3), "b": random(4), "m": random(5, 4)}.items()
    }
    model = onnx_model(nodes, {"x": (1, 3, 8, 8)}, ["y"], constants, element_type=np.float16)
    graph = checked(model, 1e-2)
    assert operators(graph) == ["conv2d", "bias_add", "relu", "global_avg_pool2d", "batch_flatten", "dense", "erf"]
    assert {value.element_type for value in graph.values.values()} == {np.dtype(np.float16)}


def test_other_types_are_for_the_host() -> None:
    nodes = [
        node("Cast", ["x"], ["i"], to=onnx.TensorProto.INT64),
        node("Add", ["i", "i"], ["j"]),
        node("Reshape", ["j", "shape"], ["k"]),
        node("Cast", ["k"], ["d"], to=onnx.TensorProto.DOUBLE),
        node("Relu", ["d"], ["y"]),
    ]
    graph = checked(onnx_model(nodes, {"x": (2, 3)}, ["y"], {"shape": np.array([3, 2])}))
    assert operators(graph) == ["onnx.Cast", "onnx.Add", "onnx.Reshape", "onnx.Cast", "onnx.Relu"]
    assert graph.values["j"].element_type == np.int64


def test_shapes_that_the_model_computes_are_resolved() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Concat", ["n", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "rest": np.array([-1])}
    model = onnx_model(nodes, {"x": ("n", 3, 4)}, ["y"], constants)
    graph = as_it_is(model, {"x": (2, 3, 4)})
    assert operators(graph) == ["reshape"]
    assert graph.shape("y") == (2, 12)
    assert graph.nodes[0].sources[0].number == 3


def test_unknown_dimensions_are_refused_with_what_to_do() -> None:
    model = onnx_model([node("Relu", ["x"], ["y"])], {"x": ("n", 3, "h", 4)}, ["y"])
    with pytest.raises(FlowError, match=r"input 'x': got shape \[\?, 3, \?, 4\], expected .* such as x=1,3,1,4"):
        as_it_is(model)
    with pytest.raises(InvalidModel, match="'z'"):
        as_it_is(model, {"z": (1,)})
    assert as_it_is(model, {"x": (5, 3, 2, 4)}).shape("y") == (5, 3, 2, 4)


def test_results_of_unknown_shape_and_what_reads_them_are_for_the_host() -> None:
    nodes = [node("NonZero", ["x"], ["i"]), node("Cast", ["i"], ["f"], to=1), node("Relu", ["f"], ["y"])]
    graph = as_it_is(onnx_model(nodes, {"x": (2, 3)}, ["y"]))
    assert operators(graph) == ["onnx.NonZero", "onnx.Cast", "hal.RELU"]
    assert graph.shape("y") == (2, 0)


def test_control_flow_is_for_the_host_with_what_it_captures() -> None:
    def branch(op_type: str) -> onnx.GraphProto:
        result = helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, [2, 3])
        return helper.make_graph([node(op_type, ["a"], ["r"])], op_type, [], [result])

    nodes = [
        node("Relu", ["x"], ["a"]),
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("Greater", ["m", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branch("Tanh"), else_branch=branch("Neg")),
    ]
    graph = checked(onnx_model(nodes, {"x": (2, 3)}, ["y"], {"zero": np.float32(0)}))
    assert operators(graph)[-1] == "onnx.If"
    assert graph.nodes[-1].inputs == ("c", "a")


def test_nodes_without_names_are_numbered() -> None:
    model = onnx_model([node("Relu", ["x"], ["a"]), node("Tanh", ["a"], ["y"])], {"x": (2,)}, ["y"])
    assert [each.name for each in as_it_is(model).nodes] == ["Relu_0", "Tanh_1"]


def test_tensors_of_users_keep_their_names_beside_those_of_steps() -> None:
    nodes = [node("Conv", ["x", "w", "b"], ["y"]), node("Relu", ["y"], ["y/conv2d"])]
    graph = checked(
        onnx_model(nodes, {"x": (1, 2, 3, 3)}, ["y", "y/conv2d"], {"w": random(3, 2, 1, 1), "b": random(3)})
    )
    assert list(graph.outputs) == ["y", "y/conv2d"]


def test_constants_and_inputs_may_be_outputs() -> None:
    nodes = [node("Add", ["a", "a"], ["sum"]), node("Identity", ["x"], ["same"])]
    graph = checked(onnx_model(nodes, {"x": (2,)}, ["sum", "same"], {"a": random(2)}))
    assert list(graph.outputs) == ["sum", "same"]


def test_quantised_constants_become_floats_and_the_rest_is_for_the_host() -> None:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["f"]),
        node("DequantizeLinear", ["wq", "s", "z"], ["w"]),
        node("Conv", ["f", "w"], ["y"]),
    ]
    weight = np.arange(-27, 27, dtype=np.int8).reshape(2, 3, 3, 3)
    constants = {"s": np.float32(0.05), "z": np.int8(0), "wq": weight}
    graph = checked(onnx_model(nodes, {"x": (1, 3, 5, 5)}, ["y"], constants))
    assert operators(graph) == ["hal.QUANTIZE", "hal.DEQUANTIZE", "conv2d"]
    assert graph.nodes[-1].inputs[1] in graph.constants


def test_a_model_with_a_result_without_a_type_is_one_node_for_the_host() -> None:
    nodes = [node("Gizmo", ["x"], ["y"], name="my gizmo", domain="acme"), node("Relu", ["y"], ["z"])]
    model = onnx_model(nodes, {"x": (1,)}, [])
    model.graph.output.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [1]))
    (whole,) = as_it_is(model).nodes
    assert (whole.operator, [source.name for source in whole.sources]) == ("onnx.Model", ["my gizmo", "Relu_1"])


def test_a_node_that_onnx_runtime_lacks_is_refused_when_it_is_computed() -> None:
    model = onnx_model([node("Gizmo", ["x"], ["y"], name="my gizmo", domain="acme")], {"x": (1,)}, [])
    model.graph.output.append(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1]))
    graph = as_it_is(model)
    assert operators(graph) == ["onnx.acme.Gizmo"]
    with pytest.raises(FlowError, match="my gizmo"):
        evaluate(graph, {"x": np.zeros(1, np.float32)})
