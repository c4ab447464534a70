"""Imported ONNX models compute what ONNX Runtime computes, under the user's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal_devices.mlip.flow.graph.errors import FlowError
from nnhal_devices.mlip.flow.graph.flow_graph import FlowGraph, SourceNode
from nnhal_devices.mlip.flow.graph.reference import evaluate
from nnhal_devices.mlip.flow.passes.simplify import simplify
from nnhal_frontends.errors import InvalidModel
from nnhal_tools.mlip.onnx_import import import_onnx_graph
from tests.support.flow_graphs import operators, random_inputs
from tests.support.onnx_models import by_onnxruntime, onnx_model, random

Node = onnx.NodeProto
node = helper.make_node


def checked(model: onnx.ModelProto, tolerance: float = 1e-5) -> FlowGraph:
    """The imported model, which must compute what ONNX Runtime does, before and after simplification."""
    graph = import_onnx_graph(model.SerializeToString())
    inputs = random_inputs(graph)
    wanted = by_onnxruntime(model, inputs)
    for each in (graph, simplify(graph)):
        values = evaluate(each, inputs)
        assert list(each.outputs) == [output.name for output in model.graph.output]
        for name, array in zip(each.outputs.values(), wanted, strict=True):
            assert values[name].shape == array.shape
            assert each.values[name].element_type == array.dtype
            np.testing.assert_allclose(values[name], array, rtol=tolerance, atol=tolerance)
    return graph


def one(
    op_type: str,
    *shape: int,
    constants: Sequence[Any] = (),
    opset: int = 21,
    more: Sequence[str] = (),
    **attributes: Any,
) -> FlowGraph:
    """A checked model of one node with an input of a shape, constants, and ``more`` inputs of the same shape."""
    named = {f"c{index}": value for index, value in enumerate(constants) if value is not None}
    names = [f"c{index}" if value is not None else "" for index, value in enumerate(constants)]
    made = node(op_type, ["x", *more, *names], ["y"], name="the node", **attributes)
    return checked(onnx_model([made], dict.fromkeys(("x", *more), shape), ["y"], named, opset))


CONVOLUTIONS: list[tuple[dict[str, Any], int, tuple[int, ...]]] = [
    ({}, 4, (6, 4, 3, 3)),
    ({"strides": [2, 1], "pads": [1, 0, 2, 3]}, 4, (6, 4, 3, 2)),
    ({"dilations": [2, 3], "pads": [2, 2, 2, 2]}, 3, (2, 3, 3, 2)),
    ({"group": 2, "pads": [1, 1, 1, 1]}, 4, (6, 2, 3, 3)),
    ({"group": 4, "strides": [2, 2]}, 4, (4, 1, 3, 3)),
    ({"group": 4}, 4, (8, 1, 2, 2)),
    ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, 3, (5, 3, 3, 3)),
    ({"auto_pad": "SAME_LOWER", "strides": [2, 3]}, 3, (5, 3, 4, 2)),
    ({"auto_pad": "VALID"}, 3, (5, 3, 4, 2)),
]


@pytest.mark.parametrize(("attributes", "channels", "weight"), CONVOLUTIONS)
@pytest.mark.parametrize("bias", [False, True])
def test_convolutions(attributes: dict[str, Any], channels: int, weight: tuple[int, ...], bias: bool) -> None:
    constants = [random(*weight), random(weight[0])] if bias else [random(*weight)]
    graph = one("Conv", 2, channels, 9, 11, constants=constants, **attributes)
    assert operators(graph) == (["conv2d", "bias_add"] if bias else ["conv2d"])
    assert graph.nodes[0].sources == (SourceNode(0, "the node", "Conv"),)
    assert graph.nodes[-1].outputs == ("y",)


def test_weights_that_are_computed_are_no_constants() -> None:
    model = onnx_model([node("Conv", ["x", "w"], ["y"])], {"x": (1, 3, 5, 5), "w": (2, 3, 3, 3)}, ["y"])
    assert checked(model).nodes[0].inputs == ("x", "w")


WINDOWS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [1, 2], "pads": [1, 0, 2, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [3, 3], "strides": [2, 3], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 1, 0, 1], "ceil_mode": 1},
    {"kernel_shape": [1, 1], "strides": [3, 3], "ceil_mode": 1},
    {"kernel_shape": [2, 3], "dilations": [2, 2], "strides": [1, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [2, 3], "dilations": [3, 2], "strides": [2, 2], "ceil_mode": 1},
]


@pytest.mark.parametrize("side", [9, 10, 11])
@pytest.mark.parametrize("attributes", WINDOWS)
def test_max_pools(attributes: dict[str, Any], side: int) -> None:
    graph = one("MaxPool", 2, 3, side, 10, **attributes)
    assert operators(graph) == ["max_pool2d"]
    assert not graph.nodes[0].attributes["ceil_mode"]


@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("side", [9, 10, 11])
@pytest.mark.parametrize("attributes", WINDOWS)
def test_average_pools(attributes: dict[str, Any], side: int, counted: int) -> None:
    assert operators(one("AveragePool", 2, 3, side, 10, count_include_pad=counted, **attributes)) == ["avg_pool2d"]


def test_the_indices_of_maxima_are_for_the_host() -> None:
    pool = node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2])
    graph = checked(onnx_model([pool], {"x": (1, 2, 5, 5)}, ["y", "i"]))
    assert operators(graph) == ["onnx.MaxPool"]
    assert graph.nodes[0].outputs == ("y", "i")


@pytest.mark.parametrize("last", ["Relu", "Erf", "Concat"])
def test_a_window_that_begins_in_the_padding_is_left_out_whatever_onnx_infers(last: str) -> None:
    # ONNX infers four rows before opset 22. Nobody computes them.
    nodes = [node("MaxPool", ["x"], ["p"], kernel_shape=[1, 1], strides=[3, 3], ceil_mode=1)]
    if last == "Concat":
        nodes.append(node("Concat", ["p", "z"], ["y"], axis=0))
    else:
        nodes.append(node(last, ["p"], ["y"]))
    inputs = {"x": (1, 1, 9, 9)} | ({"z": (1, 1, 4, 4)} if last == "Concat" else {})
    model = onnx_model(nodes, inputs, ["y"], opset=21)
    if last == "Concat":
        with pytest.raises(FlowError, match="Concat_1"):
            import_onnx_graph(model)
    else:
        assert checked(model).shape("y") == (1, 1, 3, 3)


@pytest.mark.parametrize(
    ("op_type", "word"), [("GlobalAveragePool", "global_avg_pool2d"), ("GlobalMaxPool", "global_max_pool2d")]
)
def test_global_pools(op_type: str, word: str) -> None:
    assert operators(one(op_type, 2, 3, 5, 4)) == [word]


@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool", "MaxPool", "AveragePool", "Conv"])
@pytest.mark.parametrize("axes", [1, 3])
def test_images_of_other_than_two_axes_are_for_the_host(op_type: str, axes: int) -> None:
    attributes = {"kernel_shape": [2] * axes} if op_type in ("MaxPool", "AveragePool") else {}
    constants = [random(2, 3, *[2] * axes)] if op_type == "Conv" else []
    graph = one(op_type, 1, 3, *[5] * axes, constants=constants, **attributes)
    assert operators(graph) == [f"onnx.{op_type}"]


ONE_INPUT: list[tuple[str, tuple[int, ...], list[Any], int, dict[str, Any], str]] = [
    ("Relu", (2, 3), [], 21, {}, "relu"),
    ("Sigmoid", (2, 3), [], 21, {}, "sigmoid"),
    ("Tanh", (2, 3), [], 21, {}, "tanh"),
    ("LeakyRelu", (2, 3), [], 21, {}, "leaky_relu"),
    ("LeakyRelu", (2, 3), [], 21, {"alpha": 0.25}, "leaky_relu"),
    ("Clip", (2, 3), [np.float32(-0.5), np.float32(0.75)], 21, {}, "clip"),
    ("Clip", (2, 3), [None, np.float32(0.75)], 21, {}, "clip"),
    ("Clip", (2, 3), [np.float32(0)], 21, {}, "clip"),
    ("Clip", (2, 3), [], 7, {"min": -0.5, "max": 0.25}, "clip"),
    ("Clip", (2, 3), [], 7, {"max": 0.25}, "clip"),
    ("Softmax", (2, 3, 4), [], 21, {}, "softmax"),
    ("Softmax", (2, 3, 4), [], 21, {"axis": 1}, "softmax"),
    ("Softmax", (2, 3), [], 11, {}, "softmax"),
    ("Softmax", (2, 3, 1, 1), [], 11, {}, "softmax"),
    ("Softmax", (2, 3, 4), [], 11, {"axis": -1}, "softmax"),
    ("Softmax", (2, 3, 4), [], 11, {}, "onnx.Softmax"),
    ("Identity", (2, 3), [], 21, {}, "copy"),
    ("Dropout", (2, 3), [], 21, {}, "dropout"),
    ("Dropout", (2, 3), [np.float32(0.5), np.array(False)], 21, {}, "dropout"),
    ("Dropout", (2, 3), [], 11, {"ratio": 0.3}, "dropout"),
    ("Flatten", (2, 3, 4), [], 21, {}, "batch_flatten"),
    ("Flatten", (2, 3, 4), [], 21, {"axis": 0}, "reshape"),
    ("Flatten", (2, 3, 4), [], 21, {"axis": 2}, "reshape"),
    ("Flatten", (2, 3, 4), [], 21, {"axis": -1}, "reshape"),
    ("Flatten", (2, 3, 4), [], 21, {"axis": 3}, "reshape"),
    ("Flatten", (3,), [], 21, {}, "reshape"),
    ("Squeeze", (1, 3, 1, 2), [], 21, {}, "squeeze"),
    ("Squeeze", (1, 3, 1, 2), [np.array([-2])], 21, {}, "squeeze"),
    ("Squeeze", (1, 3, 1, 2), [], 11, {"axes": [0, 2]}, "squeeze"),
    ("Squeeze", (2, 3), [], 21, {}, "copy"),
    ("Unsqueeze", (2, 3), [np.array([0, -1])], 21, {}, "reshape"),
    ("Unsqueeze", (2, 3), [], 11, {"axes": [1, 3]}, "reshape"),
    ("Transpose", (2, 3, 4), [], 21, {}, "transpose"),
    ("Transpose", (2, 3, 4), [], 21, {"perm": [1, 2, 0]}, "transpose"),
    ("Reshape", (2, 3, 4), [np.array([4, -1])], 21, {}, "reshape"),
    ("Reshape", (2, 3, 4), [np.array([0, 0, 2, -1])], 21, {}, "reshape"),
    ("Pad", (2, 3, 4), [np.array([0, 1, 2, 1, 0, 3])], 21, {}, "pad"),
    ("Pad", (2, 3, 4), [np.array([0, 1, 2, 1, 0, 3]), np.float32(2.5)], 21, {}, "pad"),
    ("Pad", (2, 3, 4), [np.array([1, 2]), None, np.array([-1])], 21, {}, "pad"),
    ("Pad", (2, 3, 4), [np.array([0, 1, 2, 1, 0, 3])], 21, {"mode": "edge"}, "pad"),
    ("Pad", (2, 3, 4), [np.array([0, 1, 2, 1, 0, 3])], 21, {"mode": "reflect"}, "pad"),
    ("Pad", (2, 3, 4), [np.array([0, 1, 2, 1, 0, 3])], 21, {"mode": "wrap"}, "onnx.Pad"),
    ("Pad", (2, 3, 4), [np.array([0, -1, 2, 1, 0, -1])], 21, {}, "onnx.Pad"),
    ("Pad", (2, 3, 4), [], 10, {"pads": [0, 1, 2, 1, 0, 3], "value": 1.5}, "pad"),
    ("ReduceMean", (2, 3, 4, 5), [np.array([2, 3])], 21, {}, "mean"),
    ("ReduceMean", (2, 3, 4, 5), [np.array([-1])], 21, {"keepdims": 0}, "mean"),
    ("ReduceMean", (2, 3, 4, 5), [], 21, {"keepdims": 0}, "mean"),
    ("ReduceMean", (2, 3, 4, 5), [], 21, {"noop_with_empty_axes": 1}, "copy"),
    ("ReduceMean", (2, 3, 4, 5), [], 13, {"axes": [1, 2]}, "mean"),
    ("BatchNormalization", (2, 3, 4, 5), [random(3), random(3), random(3), random(3, low=0.5)], 21, {}, "batch_norm"),
    (
        "BatchNormalization",
        (2, 3),
        [random(3), random(3), random(3), random(3, low=0.5)],
        21,
        {"epsilon": 0.1},
        "batch_norm",
    ),
    ("BatchNormalization", (2, 3), [random(3), random(3), random(3), random(3, low=0.5)], 7, {}, "batch_norm"),
    ("Add", (2, 3, 4), [random(3, 1)], 21, {}, "add"),
    ("Sub", (2, 3, 4), [random(4)], 21, {}, "subtract"),
    ("Mul", (2, 3, 4), [random(5, 1, 1, 1)], 21, {}, "multiply"),
    ("Div", (2, 3, 4), [random(3, 4, low=0.5)], 21, {}, "divide"),
    ("MatMul", (2, 3), [random(3, 5)], 21, {}, "dense"),
    ("MatMul", (4, 2, 3), [random(3, 5)], 21, {}, "dense"),
    ("MatMul", (3,), [random(3, 5)], 21, {}, "onnx.MatMul"),
    ("MatMul", (4, 2, 3), [random(4, 3, 5)], 21, {}, "onnx.MatMul"),
    ("Sum", (2, 3), [], 21, {}, "copy"),
    ("Erf", (2, 3), [], 21, {}, "onnx.Erf"),
    ("PRelu", (2, 3), [random(3)], 21, {}, "onnx.PRelu"),
]


@pytest.mark.parametrize(("op_type", "shape", "constants", "opset", "attributes", "word"), ONE_INPUT)
def test_operators_of_one_input(
    op_type: str, shape: tuple[int, ...], constants: list[Any], opset: int, attributes: dict[str, Any], word: str
) -> None:
    graph = one(op_type, *shape, constants=constants, opset=opset, **attributes)
    assert operators(graph) == [word]
    assert graph.nodes[0].name == "the node"
    assert graph.outputs == {"y": "y"}


@pytest.mark.parametrize(
    ("op_type", "words"),
    [("Add", ["add"]), ("Sub", ["subtract"]), ("Mul", ["multiply"]), ("Div", ["divide"]), ("Sum", ["add"])],
)
def test_operators_of_two_inputs(op_type: str, words: list[str]) -> None:
    assert operators(one(op_type, 2, 3, more=["z"])) == words


def test_a_sum_of_several_is_added_from_the_left() -> None:
    assert operators(one("Sum", 2, 3, more=["a", "b", "c"])) == ["add", "add", "add"]


def test_concatenations_may_have_constants() -> None:
    graph = one("Concat", 2, 3, more=["z"], constants=[random(2, 3)], axis=-1)
    assert operators(graph) == ["concatenate"]
    assert graph.nodes[0].attributes["axis"] == 1


C_SHAPES: list[tuple[int, ...] | None] = [None, (5,), (1, 5), (1,), (), (2, 1), (2, 5), (1, 1)]


@pytest.mark.parametrize("c_shape", C_SHAPES)
@pytest.mark.parametrize("attributes", [{}, {"transB": 1}, {"transA": 1, "alpha": 0.5, "beta": 2.0}, {"beta": 0.0}])
def test_gemm_of_constants(c_shape: tuple[int, ...] | None, attributes: dict[str, Any]) -> None:
    x = (3, 2) if attributes.get("transA") else (2, 3)
    w = (5, 3) if attributes.get("transB") else (3, 5)
    graph = one("Gemm", *x, constants=[random(*w), *([] if c_shape is None else [random(*c_shape)])], **attributes)
    words = ["transpose"] * bool(attributes.get("transA")) + ["dense"]
    if c_shape is not None and attributes.get("beta") != 0:
        words.append("add" if c_shape in ((2, 1), (2, 5)) else "bias_add")
    assert operators(graph) == words


@pytest.mark.parametrize(
    "attributes", [{}, {"transB": 1}, {"transA": 1, "alpha": 0.5, "beta": 2.0}, {"alpha": 3.0, "beta": 0.0}]
)
def test_gemm_of_computed_factors(attributes: dict[str, Any]) -> None:
    shapes = {
        "x": (3, 2) if attributes.get("transA") else (2, 3),
        "w": (5, 3) if attributes.get("transB") else (3, 5),
        "c": (5,),
    }
    graph = checked(onnx_model([node("Gemm", ["x", "w", "c"], ["y"], **attributes)], shapes, ["y"]))
    assert "dense" in operators(graph)


def test_two_nodes_share_one_transposed_matrix() -> None:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["z", "w"], ["b"])]
    graph = checked(onnx_model(nodes, {"x": (2, 3), "z": (4, 3)}, ["a", "b"], {"w": random(3, 5)}))
    assert list(graph.constants) == ["w/transposed"]


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
    assert operators(graph) == ["conv2d", "bias_add", "relu", "global_avg_pool2d", "batch_flatten", "dense", "onnx.Erf"]
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
    graph = import_onnx_graph(model, {"x": (2, 3, 4)})
    assert operators(graph) == ["reshape"]
    assert graph.shape("y") == (2, 12)
    assert graph.nodes[0].sources[0].number == 3


def test_unknown_dimensions_are_refused_with_what_to_do() -> None:
    model = onnx_model([node("Relu", ["x"], ["y"])], {"x": ("n", 3, "h", 4)}, ["y"])
    with pytest.raises(FlowError, match=r"input 'x': got shape \[\?, 3, \?, 4\], expected .* such as x=1,3,1,4"):
        import_onnx_graph(model)
    with pytest.raises(InvalidModel, match="'z'"):
        import_onnx_graph(model, {"z": (1,)})
    assert import_onnx_graph(model, {"x": (5, 3, 2, 4)}).shape("y") == (5, 3, 2, 4)


def test_results_of_unknown_shape_and_what_reads_them_are_for_the_host() -> None:
    nodes = [node("NonZero", ["x"], ["i"]), node("Cast", ["i"], ["f"], to=1), node("Relu", ["f"], ["y"])]
    graph = import_onnx_graph(onnx_model(nodes, {"x": (2, 3)}, ["y"]))
    assert operators(graph) == ["onnx.NonZero", "onnx.Cast", "onnx.Relu"]
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
    assert [each.name for each in import_onnx_graph(model).nodes] == ["Relu_0", "Tanh_1"]


def test_tensors_of_users_keep_their_names_beside_those_of_steps() -> None:
    nodes = [node("Conv", ["x", "w", "b"], ["y"]), node("Relu", ["y"], ["y/conv2d"])]
    graph = checked(
        onnx_model(nodes, {"x": (1, 2, 3, 3)}, ["y", "y/conv2d"], {"w": random(3, 2, 1, 1), "b": random(3)})
    )
    assert list(graph.outputs) == ["y", "y/conv2d"]


def test_constants_and_inputs_may_be_outputs() -> None:
    nodes = [node("Add", ["a", "a"], ["sum"]), node("Identity", ["x"], ["same"])]
    graph = checked(onnx_model(nodes, {"x": (2,)}, ["sum", "same"], {"a": random(2)}))
    assert graph.outputs == {"sum": "sum", "same": "same"}


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
    assert operators(graph) == ["onnx.QuantizeLinear", "onnx.DequantizeLinear", "conv2d"]
    assert graph.nodes[-1].inputs[1] in graph.constants


def test_files_are_read_with_external_data(tmp_path: Path) -> None:
    model = onnx_model([node("MatMul", ["x", "w"], ["y"])], {"x": (2, 64)}, ["y"], {"w": random(64, 32)})
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    assert import_onnx_graph(tmp_path / "m.onnx").shape("y") == (2, 32)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match="7 bytes"):
        import_onnx_graph(b"nothing")
    (tmp_path / "n.onnx").write_bytes(b"nothing")
    with pytest.raises(InvalidModel, match=r"n\.onnx"):
        import_onnx_graph(tmp_path / "n.onnx")
    old = onnx_model([node("Relu", ["x"], ["y"])], {"x": (1,)}, ["y"], opset=6)
    with pytest.raises(InvalidModel, match="opset 6, expected 7"):
        import_onnx_graph(old)


def test_results_without_a_type_are_refused_by_name() -> None:
    nodes = [node("Gizmo", ["x"], ["y"], name="my gizmo", domain="acme"), node("Relu", ["y"], ["z"])]
    model = onnx_model(nodes, {"x": (1,)}, [])
    model.graph.output.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [1]))
    with pytest.raises(FlowError, match=r"node 'my gizmo' \(Gizmo\): got no type for its result 'y'"):
        import_onnx_graph(model)


def test_a_node_that_the_reference_lacks_is_refused_when_it_is_computed() -> None:
    model = onnx_model([node("Gizmo", ["x"], ["y"], name="my gizmo", domain="acme")], {"x": (1,)}, [])
    model.graph.output.append(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1]))
    graph = import_onnx_graph(model)
    assert operators(graph) == ["onnx.acme.Gizmo"]
    with pytest.raises(FlowError, match="my gizmo"):
        evaluate(graph, {"x": np.zeros(1, np.float32)})


def results(graph: FlowGraph, inputs: Mapping[str, Array]) -> list[Array]:
    values = evaluate(graph, inputs)
    return [values[name] for name in graph.outputs.values()]


@pytest.mark.parametrize("seed", range(30))
def test_random_networks(seed: int) -> None:
    checked(random_network(np.random.default_rng(seed)), 1e-4)


def random_network(random_: np.random.Generator) -> onnx.ModelProto:
    """A network of some layers on an image, and a classifier."""
    nodes: list[Node] = []
    constants: dict[str, Array] = {}
    shape = [int(random_.integers(1, 3)), int(random_.integers(1, 5)), 12, 12]
    first = list(shape)
    last = "x"

    def layer(op_type: str, *given: Array, others: Sequence[str] = (), **attributes: Any) -> str:
        names = [f"k{len(constants) + i}" for i in range(len(given))]
        constants.update(zip(names, given, strict=True))
        nodes.append(node(op_type, [last, *others, *names], [f"t{len(nodes)}"], **attributes))
        return f"t{len(nodes) - 1}"

    for _ in range(int(random_.integers(2, 7))):
        channels = shape[1]
        match random_.integers(9):
            case 0 | 1:
                made, kernel = int(random_.integers(1, 6)), int(random_.choice([1, 3]))
                weight = random_.normal(0, 0.5, (made, channels, kernel, kernel)).astype(np.float32)
                bias = random_.normal(0, 1, made).astype(np.float32)
                last = layer("Conv", weight, bias, pads=[kernel // 2] * 4)
                shape[1] = made
            case 2:
                last = layer(
                    "Conv", random_.normal(0, 0.5, (channels, 1, 3, 3)).astype(np.float32), group=channels, pads=[1] * 4
                )
            case 3:
                parameters = [random_.uniform(0.5, 2, channels).astype(np.float32) for _ in range(4)]
                last = layer("BatchNormalization", *parameters)
            case 4:
                last = layer(str(random_.choice(["Relu", "Sigmoid", "Tanh", "LeakyRelu", "Dropout", "Identity"])))
            case 5:
                last = layer(str(random_.choice(["MaxPool", "AveragePool"])), kernel_shape=[3, 3], pads=[1] * 4)
            case 6:
                last = layer("Add", others=[layer("Relu")])
            case 7:
                last = layer("Concat", others=[layer("Tanh")], axis=1)
                shape[1] *= 2
            case 8:
                last = layer("Transpose", perm=[0, 1, 3, 2])
    last = layer("Flatten")
    last = layer("Gemm", random_.normal(0, 0.1, (3, shape[1] * 144)).astype(np.float32), transB=1)
    last = layer("Softmax")
    return onnx_model(nodes, {"x": first}, [last], constants)
