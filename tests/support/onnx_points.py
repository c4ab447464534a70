"""Points at which operators of ONNX and the HAL's operations could differ: ties, NaN, infinities, signs of zeros, the
order of equals, borders of integers, negative axes and indices, windows at borders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from nnhal.arrays import Array
from nnhal.extensions.onnx import NAME
from nnhal.types import OperationType
from nnhal.types.layout import is_extension
from nnhal_frontends.onnx import import_onnx


class Point(NamedTuple):
    """A use of an operator."""

    operator: str
    what: str
    inputs: Sequence[Array]
    attributes: Mapping[str, Any]
    opset: int
    outputs: int
    constants: Mapping[int, Array]
    """Inputs that are initializers, by their place."""
    open: str
    """The reason why devices differ there, if they do."""


def point(
    operator: str,
    what: str,
    *inputs: Any,
    opset: int = 17,
    outputs: int = 1,
    constants: Mapping[int, Any] | None = None,
    differs: str = "",
    **attributes: Any,
) -> Point:
    known = {place: np.asarray(value) for place, value in (constants or {}).items()}
    return Point(operator, what, [np.asarray(x) for x in inputs], attributes, opset, outputs, known, differs)


NAN, INF = np.nan, np.inf


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def i32(*values: int) -> Array:
    return np.array(values, np.int32)


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


SPECIALS = f32(-INF, -3.5, -2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, 3.5, INF, NAN)
LEFT, RIGHT = f32(NAN, 1, INF, -INF, NAN, 0.0, -0.0), f32(1, NAN, INF, INF, NAN, -0.0, 0.0)
SIGNS, DIVISORS = i64(-7, 7, -7, 7, -8, 0), i64(2, 2, -2, -2, 3, 5)
BEYOND = f32(-300.7, -129.9, -128.5, -1.9, -0.5, 0.5, 1.9, 127.9, 255.9, 256.4, 300.2)
COUNT = np.arange(6, dtype=np.float32)
IMAGE = np.random.default_rng(0).standard_normal((1, 2, 5, 6)).astype(np.float32)
REALS = f32(0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 127.5, 3.49, NAN, INF, -INF, 1e20, -1e20, 300, -300)
_PROCESSOR = "ONNX leaves it open, and processors differ"
_NAN = "ONNX leaves NaN open, and ONNX Runtime's vectorised kernels differ by position"


def unary() -> Iterator[Point]:
    names = (
        "Relu Abs Neg Floor Ceil Round Sign Sigmoid Tanh Exp Sqrt Log Erf Softsign Softplus Elu Selu LeakyRelu "
        "HardSigmoid HardSwish Celu ThresholdedRelu Reciprocal Sin Cos IsNaN IsInf Identity"
    )
    for operator in names.split():
        yield point(operator, "halves, zeros, infinities, NaN", SPECIALS)
    for approximate in ("none", "tanh"):
        yield point("Gelu", "infinities, NaN", SPECIALS, opset=20, approximate=approximate)
    for slope in (-0.5, 2.0):
        yield point("LeakyRelu", f"slope {slope}", SPECIALS, alpha=slope)
        yield point("PRelu", f"slope {slope}", SPECIALS, constants={1: f32(slope)})
    for low, high in ((0, 6), (-1, 1), (2, 1)):
        yield point("Clip", f"{low} to {high}", SPECIALS, constants={1: np.float32(low), 2: np.float32(high)})
    yield point(
        "Clip",
        "infinity, no upper bound",
        f32(INF),
        constants={1: np.float32(-2)},
        differs="an infinity stays; ONNX Runtime's bound is the largest float",
    )
    yield point("Clip", "integers", i32(-5, 0, 7), constants={1: np.int32(-1), 2: np.int32(3)})
    for exponent in (2, 0.5, -1, 0):
        yield point("Pow", f"to the {exponent}", SPECIALS, constants={1: f32(exponent)})


def binary() -> Iterator[Point]:
    names = "Add Sub Mul Div Max Min Pow Equal Greater GreaterOrEqual Less LessOrEqual Mean Sum"
    for operator in names.split():
        yield point(operator, "NaN, infinities, zeros with a sign", LEFT, RIGHT)
    for operator in ("Div", "Mod", "Mul", "Max", "Min", "Sub", "Equal", "Greater"):
        for kind in (np.int32, np.int64, np.int8, np.uint8):
            yield point(operator, f"signs of {np.dtype(kind)}", SIGNS.astype(kind), DIVISORS.astype(kind))
    yield point("Mod", "fmod of floats", f32(-7.5, 7.5, -7.5, 7.5), f32(2, 2, -2, -2), fmod=1)
    yield point("Mod", "fmod of integers", i32(-7, 7, -7, 7), i32(2, 2, -2, -2), fmod=1)
    yield point("Add", "overflow", i32(2**31 - 1, -(2**31)), i32(1, -1))
    yield point("Mul", "overflow", i32(2**30, -(2**31)), i32(4, -1))
    yield point("Neg", "the least integer", i32(-(2**31), 5))
    yield point("Abs", "the least integer", i32(-(2**31), -5))
    yield point(
        "Pow",
        "zeros, negative bases, infinities",
        f32(-2, -2, -2, 0, 0, 2, INF, 1),
        f32(2, 3, 0.5, 0, -1, -INF, 0, NAN),
    )
    yield point("Pow", "integers", i32(2, -2, 3, 7, 10, -3, 0), i32(3, 3, 0, 10, 12, 25, -1))
    for operator in ("Equal", "Greater"):
        yield point(operator, "beyond 2^53", i64(2**53, 2**53 + 1), i64(2**53 + 1, 2**53))
    yield point("Where", "NaN", np.array([True, False]), f32(NAN, 1), f32(2, INF))
    yield point("MatMul", "infinity times zero", f32(INF, 0, 1, 2).reshape(2, 2), f32(0, 1, 1, 1).reshape(2, 2))
    yield point(
        "Gemm", "beta 0 and NaN", np.ones((2, 3), np.float32), np.ones((3, 2), np.float32), f32(NAN, 1), beta=0.0
    )


def conversions() -> Iterator[Point]:
    for to in (T.INT32, T.INT64, T.INT8, T.UINT8, T.INT16, T.UINT16, T.UINT32, T.BOOL, T.FLOAT16):
        beyond = BEYOND if to in (T.INT32, T.INT64, T.BOOL, T.FLOAT16) else f32(0, 0.5, 1.9, 126.9)
        yield point("Cast", f"fractions to {T.DataType.Name(to)}", beyond, to=to)
    yield point("Cast", "NaN and beyond 2^31 to INT32", f32(NAN, INF, -INF, 3e9), to=T.INT32, differs=_PROCESSOR)
    yield point("Cast", "INT32 to UINT8, wraps", i32(-1, 255, 256, -129, 300, 2**31 - 1), to=T.UINT8)
    yield point("Cast", "INT32 to INT8, wraps", i32(-1, 255, 256, -129, 300), to=T.INT8)
    yield point("Cast", "INT64 to INT32, wraps", i64(2**31, -(2**31) - 1, 5, 2**40), to=T.INT32)
    yield point("Cast", "INT32 to BOOL", i32(0, 2, -1), to=T.BOOL)
    yield point("Cast", "beyond 2^24 to FLOAT", i32(2**24 + 1, -(2**31)), to=T.FLOAT)
    for kind in (np.uint8, np.int8, np.int16, np.uint16):
        opset = 21 if kind in (np.int16, np.uint16) else 17
        for scale in (1.0, 0.5, 0.1, 1e-40):
            uses = {1: np.float32(scale), 2: kind(3)}
            yield point(
                "QuantizeLinear", f"halves, NaN, {np.dtype(kind)}, scale {scale}", REALS, constants=uses, opset=opset
            )
        stored = np.array([0, 1, 100, 127], kind)
        uses = {1: np.float32(0.3), 2: kind(3)}
        yield point("DequantizeLinear", f"{np.dtype(kind)}", stored, constants=uses, opset=opset)
    rows = {1: f32(0.5, 1), 2: np.array([0, 5], np.int8)}
    yield point("QuantizeLinear", "halves, by row", REALS[:6].reshape(2, 3), constants=rows, axis=0)
    half = {1: np.float16(0.1), 2: np.int8(0)}
    yield point("QuantizeLinear", "FLOAT16", REALS[:6].astype(np.float16), constants=half, opset=19)
    yield point("DequantizeLinear", "beyond 2^24", i32(1, -(2**31), 2**24 + 1), constants={1: np.float32(0.3)})
    yield point("DynamicQuantizeLinear", "halves", f32(-1, 0.5, 2, 3.7), outputs=3)


def orders() -> Iterator[Point]:
    equals = f32(3, 1, 3, 2, 3)
    for operator in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            yield point(operator, f"equals, select_last_index {last}", equals, axis=0, select_last_index=last)
        yield point(operator, "NaN", f32(1, NAN, 3, NAN), axis=0)
        yield point(operator, "NaN first", f32(NAN, 1, 3), axis=0)
        yield point(operator, "axis -1", f32(1, 2, 2, 1).reshape(2, 2), axis=-1)
    for largest in (0, 1):
        uses: dict[str, Any] = {"outputs": 2, "largest": largest}
        yield point("TopK", f"equals, largest {largest}", f32(3, 1, 3, 2, 3, 1), constants={1: i64(4)}, **uses)
        yield point("TopK", f"NaN, largest {largest}", f32(3, NAN, 1, NAN, 2), constants={1: i64(3)}, **uses)
        yield point("TopK", f"integers, largest {largest}", i32(3, 1, 3, 2, 3, 1), constants={1: i64(4)}, **uses)
    yield point("TopK", "zeros with a sign", f32(0.0, -0.0, 0.0, -0.0), constants={1: i64(3)}, outputs=2)
    rows = f32(-INF, -INF, INF, 1, NAN, 1, -INF, 0, 100, -100, 1, 1).reshape(6, 2)
    for operator in ("Softmax", "LogSoftmax", "Hardmax"):
        yield point(operator, "rows of infinities, NaN", rows, axis=-1)
        yield point(operator, "axis 0", f32(1, 2, 3, 4).reshape(2, 2), axis=0)
        yield point(
            operator,
            "opset 11, over the axes behind",
            np.arange(8, dtype=np.float32).reshape(2, 2, 2),
            opset=11,
            axis=1,
        )
    values = f32(1, NAN, 3, INF, -INF, 2, -1, -2, -3).reshape(3, 3)
    names = "Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare"
    for operator in (f"Reduce{name}" for name in names.split()):
        axes: dict[str, Any] = {"constants": {1: i64(-1)}} if operator == "ReduceSum" else {"axes": [-1]}
        yield point(operator, "NaN, infinities, axis -1", values, **axes)
        yield point(operator, "negative, keepdims 0", values[2:], keepdims=0, **axes)
        yield point(operator, "rank 0", np.float32(3))
    yield point("ReduceMax", "NaN first", f32(NAN, 1, 3), keepdims=0)
    yield point("ReduceMin", "NaN first", f32(NAN, 1, 3), keepdims=0)
    for operator in ("ReduceMean", "ReduceMax", "ReduceMin"):
        yield point(operator, "integers", i32(2, 3, -2, -3, 5), keepdims=0)


def places() -> Iterator[Point]:
    rows = COUNT.reshape(2, 3)
    yield point("Gather", "negative indices", COUNT, i64(-1, 0, -6, 5))
    yield point("Gather", "constant negative indices, axis -1", rows, constants={1: i64(-1)}, axis=-1)
    yield point("Gather", "an index of rank 0", rows, constants={1: np.int64(-1)}, axis=1)
    yield point("GatherElements", "negative, fewer rows", rows, i64(-1, 0, 1).reshape(1, 3), axis=1)
    yield point("GatherND", "negative indices", rows, i64(-1, 0).reshape(1, 2))
    yield point("ScatterElements", "negative indices", COUNT, i64(-1, 1), f32(9, 8))
    yield point("ScatterND", "negative indices", COUNT, i64(-1).reshape(1, 1), f32(9))
    for reduction in ("max", "min"):
        given, updates = f32(NAN, 1, NAN, 1, 3), f32(1, NAN, NAN, 2, 2)
        yield point("ScatterElements", f"{reduction}, NaN", given, i64(0, 1, 2, 3, 4), updates, reduction=reduction)
        places = i64(0, 1, 2, 3, 4).reshape(5, 1)
        yield point("ScatterND", f"{reduction}, NaN", given, places, updates, reduction=reduction)
    yield point("OneHot", "negative and beyond", i64(0, -1, 3, -4), constants={1: i64(3), 2: f32(0, 1)})
    for start, end, step in (
        (1, 100, 1),
        (-100, 3, 1),
        (5, -100, -1),
        (100, -100, -2),
        (-1, -7, -1),
        (4, 2, 1),
        (2**40, 2**62, 1),
        (-2, 2**63 - 1, 1),
        (-1, -(2**63), -1),
    ):
        uses = {1: i64(start), 2: i64(end), 3: i64(-1), 4: i64(step)}
        yield point("Slice", f"{start} to {end} by {step}", COUNT, constants=uses)
    for mode in ("constant", "reflect", "edge"):
        yield point("Pad", mode, rows, constants={1: i64(1, 2, 0, 1)}, mode=mode)
        yield point("Pad", f"{mode}, negative", rows, constants={1: i64(-1, 0, 0, 1)}, mode=mode)
    yield point("Pad", "wrap", COUNT, constants={1: i64(1, 3)}, mode="wrap", opset=19)
    for value in (NAN, -INF):
        yield point("Pad", f"{value}", rows, constants={1: i64(1, 0, 0, 1), 2: np.float32(value)})
    yield point("Split", "axis -1", COUNT, constants={1: i64(2, 4)}, outputs=2, axis=-1)
    yield point("Squeeze", "axis -2", COUNT.reshape(1, 6), constants={1: i64(-2)})
    yield point("Unsqueeze", "axis -1", COUNT, constants={1: i64(-1)})
    yield point("Flatten", "axis -1", COUNT.reshape(1, 2, 3), axis=-1)
    yield point("Concat", "axis -1, NaN", COUNT, f32(NAN), axis=-1)
    yield point("CumSum", "NaN, backwards", f32(1, NAN, 2, 3), constants={1: np.int32(-1)}, reverse=1, exclusive=1)
    for mode in ("DCR", "CRD"):
        yield point("DepthToSpace", mode, np.arange(16, dtype=np.float32).reshape(1, 8, 1, 2), blocksize=2, mode=mode)


def windows() -> Iterator[Point]:
    uses: list[dict[str, Any]] = [
        {},
        {"pads": [1, 1, 1, 1]},
        {"ceil_mode": 1, "strides": [2, 2]},
        {"ceil_mode": 1, "strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"ceil_mode": 1, "strides": [3, 3], "pads": [1, 0, 1, 0]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER"},
        {"dilations": [2, 2]},
    ]
    for use in uses:
        words = ", ".join(f"{name} {value}" for name, value in use.items()) or "no attributes"
        for operator in ("AveragePool", "MaxPool"):
            yield point(operator, words, IMAGE, kernel_shape=[2, 3], opset=19, **use)
        yield point(
            "AveragePool", f"{words}, pads count", IMAGE, kernel_shape=[2, 3], opset=19, count_include_pad=1, **use
        )
    hole = np.where(np.arange(60).reshape(IMAGE.shape) == 14, np.float32(NAN), IMAGE)
    yield point("AveragePool", "NaN", hole, kernel_shape=[2, 2])
    yield point("MaxPool", "NaN", hole, kernel_shape=[2, 2], differs=_NAN)
    yield point("GlobalAveragePool", "NaN", hole)
    yield point("GlobalMaxPool", "NaN", hole)
    for p in (1, 2, 3):
        yield point("LpPool", f"p {p}", IMAGE, kernel_shape=[2, 2], p=p)
    scale: dict[int, Any] = {1: f32(1, 2), 2: f32(0, 1)}
    yield point("InstanceNormalization", "equal elements", np.full((1, 2, 3, 3), 5, np.float32), constants=scale)
    yield point(
        "InstanceNormalization", "one element", np.full((1, 2, 1, 1), 5, np.float32), constants=scale, epsilon=1e-12
    )
    yield point("LayerNormalization", "equal elements", np.ones((2, 4), np.float32), constants={1: f32(1, 1, 2, 1)})
    yield point("GroupNormalization", "a group a channel", IMAGE, constants=scale, num_groups=2, opset=21)
    for p in (1, 2):
        yield point("LpNormalization", f"a row of zeros, p {p}", f32(0, 0, 3, 4, -3, 4).reshape(3, 2), p=p, axis=-1)
    yield point("BatchNormalization", "variance 0", IMAGE, constants={**scale, 3: f32(0.5, -0.5), 4: f32(0, 1)})
    yield point("LRN", "three channels", IMAGE, size=3)
    for mode in ("nearest", "linear", "cubic"):
        for transformation in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"):
            for height, width in ((3, 4), (10, 12), (1, 1), (7, 3)):
                given = {3: i64(1, 2, height, width)}
                name: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transformation}
                yield point(
                    "Resize", f"{mode}, {transformation}, to {height} x {width}", IMAGE, constants=given, **name
                )
        line = np.arange(10, dtype=np.float32).reshape(1, 1, 1, 10)
        yield point("Resize", f"{mode}, a length of 12.99…", line, constants={2: f32(1, 1, 1, 1.3)}, mode=mode)
    near = {2: f32(1, 1, 1, 1.9999998)}
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        nearest: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": rounding}
        yield point("Resize", f"places near a half, {rounding}", IMAGE, constants=near, **nearest)


POINTS = [*unary(), *binary(), *conversions(), *orders(), *places(), *windows()]
"""All points, with what devices other than ONNX Runtime's compute there."""


def model_of(points: Sequence[Point]) -> tuple[onnx.ModelProto, dict[str, Array], list[list[str]]]:
    """Return a model with a node for each point, all of one opset, its inputs, and the outputs of each node."""
    nodes, inputs, constants, names = [], {}, {}, []
    for number, each in enumerate(points):
        given = iter(each.inputs)
        read: list[str] = []
        for place in range(max([len(each.inputs) + len(each.constants), *(place + 1 for place in each.constants)])):
            name = f"x{number}_{place}"
            if place in each.constants:
                constants[name] = each.constants[place]
            elif (value := next(given, None)) is not None:
                inputs[name] = value
            else:
                name = ""
            read.append(name)
        made = [f"y{number}_{output}" for output in range(each.outputs)]
        nodes.append(helper.make_node(each.operator, read, made, **each.attributes))
        names.append(made)
    graph = helper.make_graph(
        nodes,
        "points",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for made in names for name in made],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opset = helper.make_opsetid("", points[0].opset)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10), inputs, names


def lowered(each: Point) -> str:
    operations = import_onnx(model_of([each])[0]).model.main.operations
    names = [f"`{NAME}`" if is_extension(o.type) else OperationType(o.type).name for o in operations]
    return ", ".join(dict.fromkeys(names)) or "nothing"


def table() -> str:
    by_way: dict[tuple[str, str], list[Point]] = {}
    for each in POINTS:
        by_way.setdefault((each.operator, lowered(each)), []).append(each)
    rows = ["| operator | becomes | equal at | open |", "|---|---|---|---|"]
    for (operator, way), points in sorted(by_way.items()):
        equal = "; ".join(each.what for each in points if not each.open)
        differing = "; ".join(f"{each.what}: {each.open}" for each in points if each.open)
        rows.append(f"| {operator} | {way} | {equal} | {differing} |")
    return "\n".join(rows)
