"""Quantised operations between DequantizeLinear and QuantizeLinear, against ONNX Runtime to within one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import NodeProto
from onnx.helper import make_node

from nnhal.arrays import Array
from nnhal.types import OperandType
from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.imported import ImportedModel
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, input_types, onnx_model, operations

Q8A, Q8AS = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
Q8C, I32 = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, OperandType.TENSOR_INT32
INT8, UINT8 = np.dtype(np.int8), np.dtype(np.uint8)


class Q(NamedTuple):
    """A scale and zero point, or one of them for each index along an axis."""

    scale: Any
    zero_point: Any
    element_type: np.dtype[Any] = INT8
    axis: int = 0

    def nodes(self, op_type: str, source: str, result: str) -> list[NodeProto]:
        attributes: dict[str, Any] = {} if np.ndim(self.scale) == 0 else {"axis": self.axis}
        return [
            make_node(op_type, [source, f"{result}.s", f"{result}.z"], [result], f"{op_type} {result}", **attributes)
        ]

    def constants(self, result: str) -> dict[str, Array]:
        return {
            f"{result}.s": np.array(self.scale, np.float32),
            f"{result}.z": np.array(self.zero_point, self.element_type),
        }


def integers(shape: Sequence[int], element_type: np.dtype[Any] = INT8, seed: int = 0) -> Array:
    info = np.iinfo(element_type)
    values: Array = np.random.default_rng(seed).integers(info.min, info.max, shape, element_type, endpoint=True)
    return values


def quantized_model(
    node: NodeProto,
    inputs: Mapping[str, tuple[Sequence[int], Q]],
    output: Q,
    weights: Mapping[str, tuple[Array, Q]] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> onnx.ModelProto:
    """``node`` between integers: its inputs x, w, … come from the tensors x.q, w.q, …, and its output is y.q."""
    nodes, known = [], dict(constants or {})
    sources = {name: q for name, (_, q) in inputs.items()} | {name: q for name, (_, q) in (weights or {}).items()}
    for name, q in sources.items():
        nodes += q.nodes("DequantizeLinear", f"{name}.q", name)
        known |= q.constants(name)
    known |= {f"{name}.q": values for name, (values, _) in (weights or {}).items()}
    nodes += [node, *output.nodes("QuantizeLinear", node.output[0], "y.q")]
    known |= output.constants("y.q")
    element_type = next(iter(inputs.values()))[1].element_type
    shapes = {f"{name}.q": shape for name, (shape, _) in inputs.items()}
    return onnx_model(nodes, shapes, ["y.q"], known, element_type=element_type.type)


def run(model: onnx.ModelProto) -> ImportedModel:
    shapes = {
        value.name: ([dim.dim_value for dim in value.type.tensor_type.shape.dim], value.type.tensor_type.elem_type)
        for value in model.graph.input
    }
    return check(
        model,
        {
            name: integers(shape, np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind)), seed)
            for seed, (name, (shape, kind)) in enumerate(shapes.items())
        },
    )


IMAGE = (1, 4, 6, 5)
WEIGHTS = (6, 4, 3, 3)
CONV = make_node("Conv", ["x", "w", "b"], ["y"], "conv", pads=[1, 1, 1, 1])
CHANNEL_SCALES = [0.01, 0.02, 0.03, 0.01, 0.005, 0.02]


@pytest.mark.parametrize(
    ("source", "weights", "filter_type"),
    [
        (Q(0.05, -3), Q(0.02, 0), Q8AS),
        (Q(0.05, -3), Q(0.02, 5), Q8AS),
        (Q(0.05, 120, UINT8), Q(0.02, 130, UINT8), Q8A),
        (Q(0.05, 120, UINT8), Q(0.02, 0), Q8A),
        (Q(0.05, -3), Q(0.02, 128, UINT8), Q8AS),
        (Q(0.05, -3), Q(CHANNEL_SCALES, [0] * 6), Q8C),
        (Q(0.05, 120, UINT8), Q(CHANNEL_SCALES, [0] * 6), Q8C),
        (Q(0.05, -3), Q(CHANNEL_SCALES, [128] * 6, UINT8), Q8C),
    ],
)
def test_convolution_takes_integers(source: Q, weights: Q, filter_type: OperandType) -> None:
    bias_scale = np.float32(source.scale) * np.array(weights.scale, np.float32)
    bias = Q(bias_scale, np.zeros(np.shape(bias_scale)), np.dtype(np.int32))
    model = quantized_model(
        CONV,
        {"x": (IMAGE, source)},
        Q(0.6, 4 if source.element_type == INT8 else 124, source.element_type),
        {"w": (integers(WEIGHTS, weights.element_type), weights), "b": (np.arange(-3, 3, dtype=np.int32) * 900, bias)},
    )
    imported = run(model)
    assert operations(imported) == ["CONV_2D"]
    assert input_types(imported, 0)[1:3] == [filter_type, I32]
    assert imported.operation_nodes[0][0] == "conv"
    assert set(imported.operation_nodes[0]) == {node.name for node in model.graph.node}


def test_a_float_bias_becomes_integers() -> None:
    weights = {"w": (integers(WEIGHTS), Q(0.02, 0))}
    bias = {"b": np.linspace(-3, 3, 6, dtype=np.float32)}
    imported = run(quantized_model(CONV, {"x": (IMAGE, Q(0.05, -3))}, Q(0.6, 4), weights, bias))
    assert operations(imported) == ["CONV_2D"]


def test_depthwise_channels_are_the_last_axis() -> None:
    node = make_node("Conv", ["x", "w"], ["y"], group=4)
    weights = {"w": (integers((4, 1, 3, 3)), Q(CHANNEL_SCALES[:4], [0] * 4))}
    imported = run(quantized_model(node, {"x": (IMAGE, Q(0.05, -3))}, Q(0.3, 4), weights))
    assert operations(imported) == ["DEPTHWISE_CONV_2D"]


def test_weights_that_the_hal_cannot_hold_are_floats() -> None:
    weights = {"w": (integers(WEIGHTS), Q(CHANNEL_SCALES, [1] * 6))}
    node = make_node("Conv", ["x", "w"], ["y"])
    imported = run(quantized_model(node, {"x": (IMAGE, Q(0.05, -3))}, Q(0.6, 4), weights))
    assert operations(imported) == ["DEQUANTIZE", "CONV_2D", "QUANTIZE"]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (Q(0.02, 3), ["FULLY_CONNECTED"]),
        (Q([0.01, 0.02, 0.03, 0.04, 0.05], [0] * 5), ["RESHAPE", "CONV_2D", "RESHAPE"]),
    ],
)
def test_fully_connected_takes_integers(weights: Q, expected: list[str]) -> None:
    node = make_node("Gemm", ["x", "w"], ["y"], transB=1)
    given = {"w": (integers((5, 8)), weights)}
    assert operations(run(quantized_model(node, {"x": ((3, 8), Q(0.05, 2))}, Q(0.4, 1), given))) == expected
    node = make_node("MatMul", ["x", "w"], ["y"])
    given = {"w": (np.ascontiguousarray(integers((5, 8)).T), weights._replace(axis=1))}
    assert operations(run(quantized_model(node, {"x": ((3, 8), Q(0.05, 2))}, Q(0.4, 1), given))) == expected


def test_a_quantised_product_takes_its_bias_along() -> None:
    weights, output = Q(0.02, 3), Q(0.4, 1)
    nodes = [
        *Q(0.05, 2).nodes("DequantizeLinear", "x.q", "x"),
        *weights.nodes("DequantizeLinear", "w.q", "w"),
        make_node("MatMul", ["x", "w"], ["p"], "product"),
        make_node("Add", ["p", "b"], ["s"], "sum"),
        *output.nodes("QuantizeLinear", "s", "y"),
    ]
    constants = Q(0.05, 2).constants("x") | weights.constants("w") | output.constants("y")
    constants |= {"w.q": integers((8, 5)), "b": np.linspace(-3, 3, 5, dtype=np.float32)}
    imported = run(onnx_model(nodes, {"x.q": [3, 8]}, ["y"], constants, element_type=np.int8))
    assert operations(imported) == ["FULLY_CONNECTED"]
    assert imported.operation_nodes[0][:2] == ("product", "sum")


@pytest.mark.parametrize("element_type", [INT8, UINT8])
@pytest.mark.parametrize(
    ("op_type", "scale", "expected"),
    [
        ("Add", 0.1, ["ADD"]),
        ("Sub", 0.1, ["SUB"]),
        ("Mul", 0.2, ["MUL"]),
        ("Mul", 0.001, ["DEQUANTIZE", "DEQUANTIZE", "MUL", "QUANTIZE"]),
        ("Div", 0.1, ["DEQUANTIZE", "DEQUANTIZE", "DIV", "QUANTIZE"]),
    ],
)
def test_arithmetic(op_type: str, scale: float, expected: list[str], element_type: np.dtype[Any]) -> None:
    inputs = {"x": ((2, 3, 4), Q(0.05, 3, element_type)), "z": ((3, 1), Q(0.04, 7, element_type))}
    model = quantized_model(make_node(op_type, ["x", "z"], ["y"]), inputs, Q(scale, 9, element_type))
    if op_type == "Div":  # a quotient of zeros has no quantised value
        assert operations(import_onnx(model, extension=False)) == expected
    else:
        assert operations(run(model)) == expected


def test_joined_tensors_may_differ_in_scale() -> None:
    inputs = {"x": ((2, 3), Q(0.05, 3)), "z": ((2, 4), Q(0.04, 7))}
    model = quantized_model(make_node("Concat", ["x", "z"], ["y"], axis=1), inputs, Q(0.06, 9))
    assert operations(run(model)) == ["CONCATENATION"]


@pytest.mark.parametrize(
    ("op_type", "output", "expected"),
    [
        ("Sigmoid", Q(1 / 256, -128), ["LOGISTIC"]),
        ("Sigmoid", Q(1 / 255, -128), ["LOGISTIC", "ADD"]),
        ("Sigmoid", Q(0.0012, 3), ["DEQUANTIZE", "LOGISTIC", "QUANTIZE"]),
        ("Tanh", Q(1 / 128, 0), ["TANH"]),
        ("Tanh", Q(0.01, 1), ["TANH", "ADD"]),
        ("Softmax", Q(1 / 256, -128), ["SOFTMAX"]),
        ("LogSoftmax", Q(0.1, 100), ["DEQUANTIZE", "LOG_SOFTMAX", "QUANTIZE"]),
    ],
)
def test_functions_whose_scale_the_hal_fixes(op_type: str, output: Q, expected: list[str]) -> None:
    model = quantized_model(make_node(op_type, ["x"], ["y"]), {"x": ((3, 8), Q(0.03, 4))}, output)
    assert operations(run(model)) == expected


@pytest.mark.parametrize(
    ("node", "output", "expected"),
    [
        (make_node("GlobalAveragePool", ["x"], ["y"]), Q(0.05, 3), ["MEAN"]),
        (make_node("GlobalAveragePool", ["x"], ["y"]), Q(0.01, -9), ["DEPTHWISE_CONV_2D"]),
        (make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0), Q(0.01, -9), ["DEPTHWISE_CONV_2D", "RESHAPE"]),
        (make_node("ReduceMean", ["x"], ["y"]), Q(0.01, -9), ["DEQUANTIZE", "MEAN", "QUANTIZE"]),
        (make_node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2]), Q(0.05, 3), ["AVERAGE_POOL_2D"]),
        (make_node("AveragePool", ["x"], ["y"], kernel_shape=[2, 3]), Q(0.02, 1), ["DEPTHWISE_CONV_2D"]),
        (
            make_node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1),
            Q(0.02, 1),
            ["DEPTHWISE_CONV_2D"],
        ),
        (
            make_node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], pads=[1, 1, 0, 0]),
            Q(0.02, 1),
            ["DEQUANTIZE", "AVERAGE_POOL_2D", "QUANTIZE"],
        ),
    ],
)
def test_means_in_another_scale_are_convolutions(node: NodeProto, output: Q, expected: list[str]) -> None:
    constants = {"axes": np.array([2, 3])} if node.op_type == "ReduceMean" and len(node.input) > 1 else {}
    model = quantized_model(node, {"x": (IMAGE, Q(0.05, 3))}, output, constants=constants)
    assert operations(run(model)) == expected


@pytest.mark.parametrize(
    ("node", "operation"),
    [
        (make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2]), "MAX_POOL_2D"),
        (make_node("Relu", ["x"], ["y"]), "RELU"),
        (make_node("Transpose", ["x"], ["y"]), "TRANSPOSE"),
        (make_node("Flatten", ["x"], ["y"]), "RESHAPE"),
        (make_node("Pad", ["x", "pads"], ["y"]), "PAD"),
    ],
)
def test_what_moves_values_does_it_with_integers(node: NodeProto, operation: str) -> None:
    constants = {"pads": np.array([0, 0, 1, 0, 0, 0, 1, 0])} if node.op_type == "Pad" else {}
    source = {"x": (IMAGE, Q(0.05, 3))}
    assert operations(run(quantized_model(node, source, Q(0.05, 3), constants=constants))) == [operation]
    assert operations(run(quantized_model(node, source, Q(0.07, -5), constants=constants))) == [operation, "ADD"]


def test_clip_bounds_are_quantised() -> None:
    constants = {"low": np.float32(-0.33), "high": np.float32(2.5)}
    node = make_node("Clip", ["x", "low", "high"], ["y"])
    model = quantized_model(node, {"x": (IMAGE, Q(0.05, 3))}, Q(0.05, 3), constants=constants)
    assert operations(run(model)) == ["MAXIMUM", "MINIMUM"]


def test_moves_between_operations_need_no_quantisation_of_their_own() -> None:
    source, hidden, output, weights = Q(0.05, 3), Q(0.06, -4), Q(0.4, 1), Q(0.02, 0)
    nodes = [
        *source.nodes("DequantizeLinear", "x.q", "x"),
        make_node("MaxPool", ["x"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        make_node("Flatten", ["p"], ["f"], "flat"),
        *weights.nodes("DequantizeLinear", "w.q", "w"),
        make_node("Gemm", ["f", "w"], ["g"], "dense"),
        *hidden.nodes("QuantizeLinear", "g", "g.q"),
        *hidden.nodes("DequantizeLinear", "g.q", "h"),
        make_node("Relu", ["h"], ["r"], "relu"),
        *output.nodes("QuantizeLinear", "r", "y"),
    ]
    constants = {"w.q": integers((24, 5))}
    for q, name in ((source, "x"), (weights, "w"), (hidden, "g.q"), (hidden, "h"), (output, "y")):
        constants |= q.constants(name)
    imported = run(onnx_model(nodes, {"x.q": IMAGE}, ["y"], constants, element_type=np.int8))
    assert operations(imported) == ["MAX_POOL_2D", "RESHAPE", "FULLY_CONNECTED", "RELU", "ADD"]
    assert imported.operation_nodes[3:] == (("relu",), ("DequantizeLinear h", "QuantizeLinear y"))
    assert imported.folded_nodes == ()


def test_floats_outside_are_quantised_and_dequantised() -> None:
    q = Q(0.05, 3)
    nodes = [
        *q.nodes("QuantizeLinear", "x", "x.q"),
        *q.nodes("DequantizeLinear", "x.q", "d"),
        make_node("Relu", ["d"], ["r"]),
        *q.nodes("QuantizeLinear", "r", "r.q"),
        *q.nodes("DequantizeLinear", "r.q", "y"),
    ]
    constants = {key: value for name in ("x.q", "d", "r.q", "y") for key, value in q.constants(name).items()}
    model = onnx_model(nodes, {"x": ["N", 3]}, ["y"], constants)
    imported = check(model, {"x": np.array([[-1, 0.33, 2], [9, -9, 0.12]], np.float32)}, tolerance=1e-4)
    assert operations(imported) == ["QUANTIZE", "RELU", "DEQUANTIZE"]


def test_a_result_that_is_read_as_floats_too_stays_float() -> None:
    q = Q(0.05, 3)
    nodes = [
        *q.nodes("DequantizeLinear", "x", "d"),
        make_node("Sigmoid", ["d"], ["s"]),
        *Q(1 / 256, -128).nodes("QuantizeLinear", "s", "y"),
    ]
    constants = q.constants("d") | Q(1 / 256, -128).constants("y")
    model = onnx_model(nodes, {"x": [4]}, ["y", "s"], constants, element_type=np.int8)
    assert operations(import_onnx(model, extension=False)) == ["DEQUANTIZE", "LOGISTIC", "QUANTIZE"]


def test_float_weights_that_are_quantised_in_the_model_are_constant() -> None:
    scale = Q(0.02, 0)
    quantize = scale.nodes("QuantizeLinear", "w.f", "w.q")
    model = quantized_model(
        make_node("Conv", ["x", "w"], ["y"]), {"x": (IMAGE, Q(0.05, -3))}, Q(0.6, 4), {"w": (integers(WEIGHTS), scale)}
    )
    (stored,) = [tensor for tensor in model.graph.initializer if tensor.name == "w.q"]
    floats = onnx.numpy_helper.to_array(stored).astype(np.float32) * np.float32(0.02)
    stored.CopyFrom(onnx.numpy_helper.from_array(floats, "w.f"))
    model.graph.initializer.extend(onnx.numpy_helper.from_array(v, n) for n, v in scale.constants("w.q").items())
    nodes = [*quantize, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    assert operations(run(model)) == ["CONV_2D"]


def test_two_meanings_of_one_tensor_are_refused() -> None:
    nodes = [*Q(0.05, 3).nodes("DequantizeLinear", "x", "a"), *Q(0.06, 3).nodes("DequantizeLinear", "x", "b")]
    constants = Q(0.05, 3).constants("a") | Q(0.06, 3).constants("b")
    model = onnx_model(nodes, {"x": [4]}, ["a", "b"], constants, element_type=np.int8)
    with pytest.raises(UnsupportedNode, match="'x' is read with another scale or zero point"):
        import_onnx(model, extension=False)


def test_parameters_that_are_computed_at_run_time_are_refused() -> None:
    nodes = [make_node("QuantizeLinear", ["x", "s"], ["y"], "live")]
    with pytest.raises(UnsupportedNode, match=r"'live' \(QuantizeLinear\): a scale or zero point .* run time"):
        import_onnx(onnx_model(nodes, {"x": [4], "s": []}, ["y"]), extension=False)


@pytest.mark.parametrize(
    ("node", "constants", "operation"),
    [
        (make_node("DepthToSpace", ["x"], ["y"], blocksize=2), {}, "DEPTH_TO_SPACE"),
        (make_node("Expand", ["x", "k"], ["y"]), {"k": np.array([3, 1, 1, 1])}, "TILE"),
        (make_node("Gather", ["x", "k"], ["y"], axis=1), {"k": np.array([2, 0])}, "GATHER"),
        (make_node("GlobalMaxPool", ["x"], ["y"]), {}, "REDUCE_MAX"),
        (make_node("ReduceMin", ["x", "k"], ["y"]), {"k": np.array([1])}, "REDUCE_MIN"),
        (
            make_node("Resize", ["x", "", "k"], ["y"]),
            {"k": np.array([1, 1, 2, 2], np.float32)},
            "RESIZE_NEAREST_NEIGHBOR",
        ),
        (make_node("Slice", ["x", "b", "e"], ["y"]), {"b": np.array([0, 1]), "e": np.array([1, 3])}, "SLICE"),
        (make_node("Tile", ["x", "k"], ["y"]), {"k": np.array([1, 2, 1, 1])}, "TILE"),
    ],
)
def test_what_picks_and_repeats_values_does_it_with_integers(
    node: NodeProto, constants: dict[str, Array], operation: str
) -> None:
    source = {"x": (IMAGE, Q(0.05, 3))}
    assert operations(run(quantized_model(node, source, Q(0.05, 3), constants=constants))) == [operation]
    assert operations(run(quantized_model(node, source, Q(0.07, -5), constants=constants))) == [operation, "ADD"]


def test_parts_are_integers_too() -> None:
    source, first, second = Q(0.05, 3), Q(0.05, 3), Q(0.07, -5)
    nodes = [
        *source.nodes("DequantizeLinear", "x", "d"),
        make_node("Split", ["d"], ["a", "b"], "split", axis=1, num_outputs=2),
        *first.nodes("QuantizeLinear", "a", "a.q"),
        *second.nodes("QuantizeLinear", "b", "b.q"),
    ]
    constants = source.constants("d") | first.constants("a.q") | second.constants("b.q")
    model = onnx_model(nodes, {"x": IMAGE}, ["a.q", "b.q"], constants, element_type=np.int8)
    assert operations(run(model)) == ["SPLIT", "ADD"]


@pytest.mark.parametrize(
    ("node", "output", "operation"),
    [
        (make_node("HardSwish", ["x"], ["y"]), Q(0.04, -100), "HARD_SWISH"),
        (make_node("LeakyRelu", ["x"], ["y"], alpha=0.2), Q(0.04, -80), "PRELU"),
        (make_node("Max", ["x", "x"], ["y"]), Q(0.05, 3), "MAXIMUM"),
        (make_node("Sum", ["x", "x"], ["y"]), Q(0.1, 3), "ADD"),
        (make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2]), Q(0.6, 4), "TRANSPOSE_CONV_2D"),
    ],
)
def test_functions_of_integers(node: NodeProto, output: Q, operation: str) -> None:
    weights = {"w": (integers((4, 6, 3, 3)), Q(0.02, 0))} if "w" in node.input else {}
    assert operations(run(quantized_model(node, {"x": (IMAGE, Q(0.05, 3))}, output, weights))) == [operation]


def test_transposed_convolution_may_have_a_scale_for_each_channel() -> None:
    weights = {"w": (integers((4, 6, 3, 3)), Q(CHANNEL_SCALES, [0] * 6, axis=1))}
    node = make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])
    imported = run(quantized_model(node, {"x": (IMAGE, Q(0.05, 3))}, Q(0.6, 4), weights))
    assert operations(imported) == ["TRANSPOSE_CONV_2D"]
    assert input_types(imported, 0)[1] == Q8C


def test_slopes_are_integers() -> None:
    slopes = {"s": (integers((4, 1, 1)), Q(0.01, -20))}
    model = quantized_model(make_node("PRelu", ["x", "s"], ["y"]), {"x": (IMAGE, Q(0.05, 3))}, Q(0.1, -20), slopes)
    assert operations(run(model)) == ["PRELU"]


@pytest.mark.parametrize("zero_point", [-128, 127])
def test_a_leaky_relu_may_have_its_zero_point_at_an_end_of_the_range(zero_point: int) -> None:
    node = make_node("LeakyRelu", ["x"], ["y"], alpha=0.2)
    model = quantized_model(node, {"x": (IMAGE, Q(0.05, zero_point))}, Q(0.06, 40))
    assert operations(run(model)) == ["PRELU"]


def test_interpolation_between_integers() -> None:
    node = make_node("Resize", ["x", "", "k"], ["y"], mode="linear")
    constants = {"k": np.array([1, 1, 2, 2], np.float32)}
    model = quantized_model(node, {"x": (IMAGE, Q(0.05, 3))}, Q(0.05, 3), constants=constants)
    assert operations(run(model)) == ["RESIZE_BILINEAR"]


def test_a_choice_between_integers() -> None:
    node = make_node("Where", ["c", "x", "z"], ["y"])
    constants = {"c": np.arange(6).reshape(2, 3) % 2 == 0}
    inputs = {"x": ((2, 3), Q(0.05, 3)), "z": ((2, 3), Q(0.02, -7))}
    assert operations(run(quantized_model(node, inputs, Q(0.06, 0), constants=constants))) == ["SELECT"]


def moved_integers(
    *nodes: NodeProto, inputs: Mapping[str, Sequence[int]], output: str, **constants: Any
) -> ImportedModel:
    """Nodes on integers of which only a DequantizeLinear behind them says what they stand for."""
    known = {"s": np.float32(0.05), "z": np.array(3, np.int8), **constants}
    last = make_node("DequantizeLinear", [output, "s", "z"], ["r"], "last")
    model = onnx_model([*nodes, last], inputs, ["r"], known, element_type=np.int8)
    return check(model, {name: integers(shape, seed=seed) for seed, (name, shape) in enumerate(inputs.items())})


def test_integers_that_are_only_moved_have_the_scale_of_what_they_become() -> None:
    nodes = [
        make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        make_node("Concat", ["t", "w"], ["c"], axis=1),
        make_node("Reshape", ["c", "k"], ["y"]),
    ]
    shapes = {"x": (1, 4, 5, 3), "w": (1, 2, 4, 5)}
    imported = moved_integers(*nodes, inputs=shapes, output="y", k=np.array([5, -1]))
    assert operations(imported) == ["TRANSPOSE", "CONCATENATION", "RESHAPE", "DEQUANTIZE"]
    assert {imported.model.main.operands[tensor.operand].scale for tensor in imported.inputs} == {np.float32(0.05)}


def test_integers_that_two_nodes_read_may_have_two_scales() -> None:
    nodes = [
        make_node("Reshape", ["x", "k"], ["y"]),
        make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        make_node("DequantizeLinear", ["t", "other", "z"], ["o"], "other"),
    ]
    imported = moved_integers(*nodes, inputs={"x": (4, 6)}, output="y", k=np.array([3, 8]), other=np.float32(0.5))
    assert operations(imported).count("DEQUANTIZE") >= 1


def test_a_shuffle_of_channels_is_one_operation_between_quantisations_too() -> None:
    nodes, known, given = list[NodeProto](), dict[str, Any](), "x.q"
    shuffle = [("Reshape", "first"), ("Transpose", ""), ("Reshape", "last")]
    for number, (kind, shape) in enumerate(shuffle):
        q, name = Q(0.05, 3), f"v{number}"
        nodes += q.nodes("DequantizeLinear", given, name)
        attributes: dict[str, Any] = {} if shape else {"perm": [0, 2, 1, 3, 4]}
        nodes.append(make_node(kind, [name, *filter(None, [shape])], [f"{name}.r"], **attributes))
        nodes += q.nodes("QuantizeLinear", f"{name}.r", f"{name}.q")
        known |= q.constants(name) | q.constants(f"{name}.q")
        given = f"{name}.q"
    known |= {"first": np.array([1, 2, 3, 4, 5]), "last": np.array([1, 6, 4, 5])}
    model = onnx_model(nodes, {"x.q": (1, 6, 4, 5)}, [given], known, element_type=np.int8)
    assert operations(run(model)) == ["CHANNEL_SHUFFLE"]


def test_an_average_over_the_whole_image_has_no_stride() -> None:
    node = make_node("AveragePool", ["x"], ["y"], kernel_shape=[6, 5], strides=[6, 5])
    imported = run(quantized_model(node, {"x": (IMAGE, Q(0.05, 3))}, Q(0.02, 1)))
    (operation,) = imported.model.main.operations
    constants = imported.resolved().constants[0]
    strides = [int(constants[operation.inputs[position]]) for position in (7, 8)]
    assert (operations(imported), strides) == (["DEPTHWISE_CONV_2D"], [1, 1])


@pytest.mark.parametrize(("divisor", "q"), [(100, Q(0.06, 0)), (120, Q(0.06, 20)), (1, Q(50.0, 0))])
def test_a_quotient_by_a_number_is_a_product(divisor: int, q: Q) -> None:
    by = (divisor - q.zero_point) * q.scale
    model = quantized_model(
        make_node("Div", ["x", "w"], ["y"]),
        {"x": (IMAGE, Q(0.05, 3))},
        Q(0.05 / by, 3),
        {"w": (np.array([divisor], np.int8), q)},
    )
    assert operations(run(model)) == ["MUL"]


def test_a_quotient_by_several_numbers_is_of_floats() -> None:
    weights = {"w": (np.array([3, 4, 5, 6], np.int8).reshape(4, 1, 1), Q(0.5, 0))}
    model = quantized_model(make_node("Div", ["x", "w"], ["y"]), {"x": (IMAGE, Q(0.05, 3))}, Q(0.05, 3), weights)
    assert "DIV" in operations(run(model))
