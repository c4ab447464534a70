"""Neighbouring nodes that become one operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random, values

IMAGE = {"x": random(1, 4, 9, 7)}
WEIGHTS: dict[str, Any] = {"w": random(6, 4, 3, 3), "b": random(6)}
CONV = make_node("Conv", ["x", "w", "b"], ["c"], "conv")


@pytest.mark.parametrize(
    ("node", "opset", "code"),
    [
        (make_node("Relu", ["c"], ["y"], "act"), 21, 1),
        (make_node("Clip", ["c"], ["y"], "act", min=-1.0, max=1.0), 7, 2),
        (make_node("Clip", ["c", "zero", "six"], ["y"], "act"), 13, 3),
    ],
)
def test_an_activation_goes_into_the_convolution(node: NodeProto, opset: int, code: int) -> None:
    constants = WEIGHTS | {"zero": np.float32(0), "six": np.float32(6)}
    imported = check(onnx_model([CONV, node], {"x": [1, 4, 9, 7]}, ["y"], constants, opset), IMAGE)
    assert imported.operation_nodes == (("conv", "act"),)
    assert values(imported, 0, 9) == [code]


def test_an_activation_stays_if_something_else_reads_the_result_before_it() -> None:
    nodes = [CONV, make_node("Relu", ["c"], ["y"])]
    imported = check(onnx_model(nodes, {"x": [1, 4, 9, 7]}, ["c", "y"], WEIGHTS), IMAGE)
    assert operations(imported) == ["CONV_2D", "RELU"]


@pytest.mark.parametrize("bias", [True, False])
def test_normalization_goes_into_the_convolution(bias: bool) -> None:
    constants = WEIGHTS | {"s": random(6, seed=1), "o": random(6, seed=2), "m": random(6, seed=3)}
    constants["v"] = random(6, seed=4, low=0.1)
    nodes = [
        make_node("Conv", ["x", "w", "b"] if bias else ["x", "w"], ["c"], "conv"),
        make_node("BatchNormalization", ["c", "s", "o", "m", "v"], ["n"], "norm", epsilon=1e-3),
        make_node("Relu", ["n"], ["y"], "act"),
    ]
    imported = check(onnx_model(nodes, {"x": ["N", 4, 9, 7]}, ["y"], constants), IMAGE, tolerance=5e-5)
    assert imported.operation_nodes == (("conv", "norm", "act"),)


def test_zero_padding_goes_into_the_convolution() -> None:
    nodes = [
        make_node("Pad", ["x", "p"], ["d"], "pad"),
        make_node("Conv", ["d", "w"], ["y"], "conv", pads=[1, 1, 1, 1]),
    ]
    constants = WEIGHTS | {"p": np.array([0, 0, 1, 2, 0, 0, 0, 1])}
    imported = check(onnx_model(nodes, {"x": [1, 4, 9, 7]}, ["y"], constants), IMAGE)
    assert imported.operation_nodes == (("pad", "conv"),)


@pytest.mark.parametrize(
    ("pads", "mode", "value"),
    [
        ([0, 1, 1, 1, 0, 0, 0, 0], "constant", 0.0),
        ([0, 0, 1, 1, 0, 0, 0, 0], "constant", 1.0),
        ([0, 0, 1, 1, 0, 0, 0, 0], "reflect", 0.0),
    ],
)
def test_other_padding_stays(pads: list[int], mode: str, value: float) -> None:
    nodes = [make_node("Pad", ["x", "p", "v"], ["d"], mode=mode), make_node("Conv", ["d", "w"], ["y"])]
    constants = {"w": random(6, 4 + pads[1], 3, 3), "p": np.array(pads), "v": np.float32(value)}
    assert len(operations(check(onnx_model(nodes, {"x": [1, 4, 9, 7]}, ["y"], constants), IMAGE))) == 2


@pytest.mark.parametrize("order", [["p", "b"], ["b", "p"]])
def test_a_bias_and_an_activation_go_into_the_product(order: list[str]) -> None:
    nodes = [
        make_node("MatMul", ["x", "w"], ["p"], "product"),
        make_node("Add", order, ["s"], "sum"),
        make_node("Relu", ["s"], ["y"], "act"),
    ]
    imported = check(onnx_model(nodes, {"x": [3, 4]}, ["y"], {"w": random(4, 5), "b": random(5)}), {"x": random(3, 4)})
    assert operations(imported) == ["FULLY_CONNECTED"]
    assert imported.operation_nodes == (("product", "sum", "act"),)


def test_a_sum_that_is_no_bias_stays() -> None:
    nodes = [make_node("MatMul", ["x", "w"], ["p"]), make_node("Add", ["p", "b"], ["y"])]
    model = onnx_model(nodes, {"x": [3, 4]}, ["y"], {"w": random(4, 5), "b": random(3, 5)})
    assert operations(check(model, {"x": random(3, 4)})) == ["FULLY_CONNECTED", "ADD"]


def rearranged(shape: list[Any], between: list[int], perm: list[int], after: list[int]) -> onnx.ModelProto:
    nodes = [
        make_node("Reshape", ["x", "s"], ["a"], "up"),
        make_node("Transpose", ["a"], ["b"], "turn", perm=perm),
        make_node("Reshape", ["b", "t"], ["y"], "down"),
    ]
    return onnx_model(nodes, {"x": shape}, ["y"], {"s": np.array(between), "t": np.array(after)})


@pytest.mark.parametrize(
    ("shape", "between", "perm", "after"),
    [
        ([2, 6, 4, 5], [2, 3, 2, 4, 5], [0, 2, 1, 3, 4], [2, 6, 4, 5]),
        ([1, 6, 4, 5], [1, 2, 3, 4, 5], [0, 2, 1, 3, 4], [1, 6, 4, 5]),
        (["N", 6, 4, 5], [-1, 2, 3, 4, 5], [0, 2, 1, 3, 4], [-1, 6, 4, 5]),
        ([2, 4, 5, 6], [2, 4, 5, 3, 2], [0, 1, 2, 4, 3], [2, 4, 5, 6]),
    ],
)
def test_channels_of_groups_that_are_mixed_are_one_operation(
    shape: list[Any], between: list[int], perm: list[int], after: list[int]
) -> None:
    fixed = [2 if length == "N" else length for length in shape]
    imported = check(rearranged(shape, between, perm, after), {"x": random(*fixed)})
    assert operations(imported) == ["CHANNEL_SHUFFLE"]
    assert imported.operation_nodes == (("up", "turn", "down"),)


@pytest.mark.parametrize(
    ("shape", "between", "perm", "after"),
    [
        ([2, 3, 4], [2, 3, 1, 1, 4], [4, 0, 2, 3, 1], [4, 6]),
        ([4, 6], [2, 2, 1, 3, 2], [0, 1, 2, 3, 4], [6, 4]),
    ],
)
def test_more_axes_than_the_hal_has_are_joined(
    shape: list[Any], between: list[int], perm: list[int], after: list[int]
) -> None:
    model = rearranged(shape, between, perm, after)
    assert operations(check(model, {"x": random(*shape)})) == ["RESHAPE", "TRANSPOSE", "RESHAPE"]


def test_five_axes_that_all_part_are_refused() -> None:
    model = rearranged([1, 8, 3, 5], [1, 2, 2, 2, 3, 5], [0, 1, 4, 2, 5, 3], [1, 2, 6, 10])
    with pytest.raises(UnsupportedNode, match="has rank 6, expected 1 to 4"):
        import_onnx(model, extension=False)


@pytest.mark.parametrize(("op_type", "expected"), [("Sum", ["ADD"]), ("ConvTranspose", ["TRANSPOSE_CONV_2D"])])
def test_more_operations_take_an_activation(op_type: str, expected: list[str]) -> None:
    constants = {"Sum": random(4, 1, 1), "ConvTranspose": random(4, 6, 3, 3)}
    nodes = [make_node(op_type, ["x", "w"], ["a"]), make_node("Relu", ["a"], ["y"])]
    model = onnx_model(nodes, {"x": [1, 4, 9, 7]}, ["y"], {"w": constants[op_type]})
    assert operations(check(model, IMAGE)) == expected


def test_the_sum_of_one_tensor_takes_an_activation() -> None:
    nodes = [make_node("Sum", ["x"], ["a"]), make_node("Relu", ["a"], ["y"])]
    assert operations(check(onnx_model(nodes, {"x": [1, 4, 9, 7]}, ["y"]), IMAGE)) == ["RESHAPE", "RELU"]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("factor", "addend"), [((6, 1, 1), (1, 6, 1, 1)), ((), (1,))])
def test_factors_and_addends_of_channels_go_into_the_convolution(
    factor: tuple[int, ...], addend: tuple[int, ...], bias: bool
) -> None:
    nodes = [
        make_node("Conv", ["x", "w", "b"] if bias else ["x", "w"], ["c"], "conv"),
        make_node("Mul", ["f", "c"], ["m"], "scale"),
        make_node("Add", ["m", "a"], ["s"], "shift"),
        make_node("Relu", ["s"], ["y"], "act"),
    ]
    constants = WEIGHTS | {"f": random(*factor, seed=1), "a": random(*addend, seed=2)}
    imported = check(onnx_model(nodes, {"x": ["N", 4, 9, 7]}, ["y"], constants), IMAGE, tolerance=5e-5)
    assert imported.operation_nodes == (("conv", "scale", "shift", "act"),)


@pytest.mark.parametrize("shape", [(7, 5), (1, 1, 1, 5), (2, 6, 1, 1)])
def test_other_factors_stay(shape: tuple[int, ...]) -> None:
    nodes = [make_node("Conv", ["x", "w"], ["c"]), make_node("Mul", ["c", "f"], ["y"])]
    model = onnx_model(nodes, {"x": [1, 4, 9, 7]}, ["y"], {"w": WEIGHTS["w"], "f": random(*shape)})
    assert operations(check(model, IMAGE)) == ["CONV_2D", "MUL"]
