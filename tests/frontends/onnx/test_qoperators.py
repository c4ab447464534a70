"""Operators on quantised numbers against ONNX Runtime, to within one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto
from onnx.helper import make_node, make_tensor_value_info, np_dtype_to_tensor_dtype

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations

RUNTIME = "com.microsoft"
IMAGE = [1, 4, 6, 5]
PARAMETERS: dict[str, Any] = {
    "xs": np.float32(0.05),
    "zs": np.float32(0.04),
    "ys": np.float32(0.1),
    "fine": np.float32(1 / 256),
}


def quantized(
    node: NodeProto,
    shapes: dict[str, Sequence[int]],
    result: Sequence[int],
    weights: dict[str, Any] | None = None,
    element_type: type[np.generic] = np.uint8,
) -> onnx.ModelProto:
    """A model of one node, whose scales and zero points are xs, xz and so on."""
    middle = 128 if element_type is np.uint8 else 0
    zero_points = {"xz": middle + 3, "zz": middle - 5, "yz": middle, "low": 0 if element_type is np.uint8 else -128}
    constants = PARAMETERS | {name: np.array(value, element_type) for name, value in zero_points.items()}
    constants = {name: value for name, value in (constants | (weights or {})).items() if name in node.input}
    model = onnx_model([node], shapes, ["y"], constants, 13, element_type)
    model.graph.output[0].CopyFrom(
        make_tensor_value_info("y", np_dtype_to_tensor_dtype(np.dtype(element_type)), result)
    )
    return model


def integers(shape: Sequence[int], element_type: type[np.generic], seed: int = 0) -> Any:
    info = np.iinfo(element_type.__name__)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, element_type, endpoint=True)


def run(
    model: onnx.ModelProto, shapes: dict[str, Sequence[int]], element_type: type[np.generic] = np.uint8
) -> list[str]:
    values = {name: integers(shape, element_type, seed) for seed, (name, shape) in enumerate(shapes.items())}
    imported = check(model, values)
    assert {name for names in imported.operation_nodes for name in names} == {"own"}
    return operations(imported)


@pytest.mark.parametrize("element_type", [np.uint8, np.int8])
@pytest.mark.parametrize("scales", [0.02, [0.01, 0.02, 0.03, 0.01, 0.005, 0.02]])
@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_of_integers_agrees_with_onnxruntime(
    element_type: type[np.generic], scales: Any, bias: bool
) -> None:
    weights = {
        "w": integers((6, 4, 3, 3), np.int8) // 2,  # without VNNI, ONNX Runtime adds pairs of products in 16 bits
        "ws": np.array(scales, np.float32),
        "wz": np.zeros(np.shape(scales), np.int8),
        "b": np.arange(-3, 3, dtype=np.int32) * 900,
        "ys": np.float32(0.6),
    }
    inputs = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    node = make_node("QLinearConv", inputs if bias else inputs[:-1], ["y"], "own", pads=[1, 1, 1, 1])
    model = quantized(node, {"x": IMAGE}, [1, 6, 6, 5], weights, element_type)
    assert run(model, {"x": IMAGE}, element_type) == ["CONV_2D"]


def test_product_of_matrices() -> None:
    inputs = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    weights = {"w": integers((5, 7), np.uint8), "ws": np.float32(0.02), "wz": np.uint8(120), "ys": np.float32(0.5)}
    model = quantized(make_node("QLinearMatMul", inputs, ["y"], "own"), {"x": [3, 5]}, [3, 7], weights)
    assert run(model, {"x": [3, 5]}) == ["FULLY_CONNECTED"]


def test_a_layer_of_units() -> None:
    inputs = ["x", "xs", "xz", "w", "ws", "wz", "b", "ys", "yz"]
    weights = {
        "w": integers((7, 5), np.uint8),
        "ws": np.float32(0.02),
        "wz": np.uint8(120),
        "b": np.arange(7, dtype=np.int32) * 500,
        "ys": np.float32(0.5),
    }
    node = make_node("QGemm", inputs, ["y"], "own", domain=RUNTIME, transB=1)
    assert run(quantized(node, {"x": [3, 5]}, [3, 7], weights), {"x": [3, 5]}) == ["FULLY_CONNECTED"]


@pytest.mark.parametrize(("op_type", "expected"), [("QLinearAdd", "ADD"), ("QLinearMul", "MUL")])
@pytest.mark.parametrize("element_type", [np.uint8, np.int8])
def test_arithmetic(op_type: str, expected: str, element_type: type[np.generic]) -> None:
    shapes: dict[str, Sequence[int]] = {"x": [2, 3], "z": [3]}
    node = make_node(op_type, ["x", "xs", "xz", "z", "zs", "zz", "ys", "yz"], ["y"], "own", domain=RUNTIME)
    assert run(quantized(node, shapes, [2, 3], None, element_type), shapes, element_type) == [expected]


@pytest.mark.parametrize(
    ("op_type", "scale", "zero_point", "attributes", "result", "expected"),
    [
        ("QLinearAveragePool", "xs", "xz", {"kernel_shape": [2, 2]}, [1, 4, 5, 4], "AVERAGE_POOL_2D"),
        ("QLinearGlobalAveragePool", "xs", "xz", {}, [1, 4, 1, 1], "MEAN"),
        ("QLinearLeakyRelu", "ys", "yz", {"alpha": 0.2}, IMAGE, "PRELU"),
        ("QLinearSigmoid", "fine", "low", {}, IMAGE, "LOGISTIC"),
        ("QLinearSoftmax", "fine", "low", {"axis": -1, "opset": 13}, IMAGE, "SOFTMAX"),
    ],
)
def test_functions(
    op_type: str, scale: str, zero_point: str, attributes: dict[str, Any], result: list[int], expected: str
) -> None:
    node = make_node(op_type, ["x", "xs", "xz", scale, zero_point], ["y"], "own", domain=RUNTIME, **attributes)
    assert run(quantized(node, {"x": IMAGE}, result), {"x": IMAGE}) == [expected]


def test_joined_tensors() -> None:
    shapes: dict[str, Sequence[int]] = {"x": [2, 3], "z": [2, 4]}
    inputs = ["ys", "yz", "x", "xs", "xz", "z", "zs", "zz"]
    node = make_node("QLinearConcat", inputs, ["y"], "own", domain=RUNTIME, axis=1)
    assert run(quantized(node, shapes, [2, 7]), shapes) == ["CONCATENATION"]


def test_a_chain_has_known_shapes_and_the_names_of_its_nodes() -> None:
    nodes = [  # with one scale the sum is exact: a step in it would be several of the sigmoid's
        make_node("QLinearAdd", ["x", "xs", "xz", "k", "xs", "xz", "xs", "xz"], ["a"], domain=RUNTIME),
        make_node("QLinearSigmoid", ["a", "xs", "xz", "fine", "low"], ["y"], domain=RUNTIME),
    ]
    model = quantized(nodes[0], {"x": [2, 3]}, [2, 3], {"k": np.full((1, 3), 140, np.uint8)})
    more = quantized(nodes[1], {"a": [2, 3]}, [2, 3])
    model.graph.node.extend(more.graph.node)
    model.graph.initializer.extend(t for t in more.graph.initializer if t.name in ("fine", "low"))
    imported = check(model, {"x": integers([2, 3], np.uint8)})
    assert operations(imported) == ["ADD", "LOGISTIC"]
    assert imported.operation_nodes == (("QLinearAdd_0",), ("QLinearSigmoid_1",))


def test_channels_last_are_refused() -> None:
    node = make_node(
        "QLinearGlobalAveragePool", ["x", "xs", "xz", "xs", "xz"], ["y"], "own", domain=RUNTIME, channels_last=1
    )
    with pytest.raises(UnsupportedNode, match=r"'own' \(QLinearGlobalAveragePool\).*of domain com\.microsoft"):
        import_onnx(quantized(node, {"x": IMAGE}, [1, 1, 1, 5]), extension=False)
