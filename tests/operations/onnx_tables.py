"""Tables of ONNX operators, by family."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from onnx import helper

from nnhal.arrays import Array
from tests.operations.onnx_forms import OnnxForm, becomes, drawn, fed, given, held, of, refused

_FAR = np.iinfo(np.int64).max
_SPECIAL = [-np.inf, -1.5, 0, np.nan, 2, np.inf]
_MASK = [[True], [False]]
_IMAGE, _OPEN_IMAGE = fed(2, 5, 3, 4), fed(1, 4, 9, 7, unknown=0)


def _half(scale: float = 1.0, *shape: int, unknown: int | tuple[int, ...] = ()) -> Any:
    return given(drawn(*shape, seed=0) * scale, np.float16, unknown)


ARITHMETIC: list[OnnxForm] = [
    *(becomes(name.upper(), name, fed(2, 3, 4, unknown=0), fed(3, 1)) for name in ("Add", "Sub", "Mul", "Div")),
    *(becomes(name.upper(), name, held(1.5, np.float32), fed(2, 3), opset=7) for name in ("Add", "Sub", "Mul", "Div")),
    refused("rounds towards zero", "Div", given([1, 2], np.int32), given([1, 2], np.int32)),
    refused("plain uint8, which ONNX wraps around", "Add", given([1, 2], np.uint8), given([1, 2], np.uint8)),
    *(
        becomes(
            "MUL ADD",
            "BatchNormalization",
            fed(2, 5, 3, 4, unknown=0),
            *(drawn(5, seed=seed) for seed in range(3)),
            drawn(5, seed=3, low=0.1),
            opset=opset,
            then="Relu",
            epsilon=1e-3,
        )
        for opset in (7, 9, 15)
    ),
    *(
        becomes("POW", "Pow", fed(2, 3, low=0.1, unknown=0), exponent, opset=13)
        for exponent in (held(2, np.float32), held([2, 3, 0.5], np.float32), held(3))
    ),
    becomes("POW", "Pow", fed(3, low=0.1), fed(2, 3), opset=7),
    refused("a power of int32; supported: floats", "Pow", given([1, 2, 3], np.int32), held(2, np.float32), opset=13),
    # Remainders have the sign of the divisor.
    *(
        becomes("DIV MUL SUB", "Mod", given([-4, 7, 5, 4, -7, 8], kind), held([2, -3, 8, -2, 3, 5], kind))
        for kind in (np.int32, np.int64)
    ),
    *(
        refused("a divisor that is computed, or 0", "Mod", given([1] * 6, kind), given([1] * 6, kind))
        for kind in (np.int32, np.int64)
    ),
    refused("fmod 1 of float32", "Mod", fed(2), fed(2), fmod=1),
    *(
        becomes(expected, name, fed(2, 3), fed(3), fed(2, 1), opset=opset)
        for name, expected in (
            ("Max", "MAXIMUM MAXIMUM"),
            ("Min", "MINIMUM MINIMUM"),
            ("Sum", "ADD ADD"),
            ("Mean", "ADD ADD DIV"),
        )
        for opset in (8, 13)
    ),
    becomes("RESHAPE", "Max", fed(2, 3)),
    becomes("DIV", "Mean", fed(2, 3)),
    becomes("MAXIMUM", "Max", fed(3), held(0.25, np.float32)),
    *(
        becomes("MINIMUM", "Min", given([1, 2, 90], kind), given([100, 0, 30], kind))
        for kind in (np.int32, np.int64, np.uint8, np.int8)
    ),
]

_CLIPS: list[tuple[int, dict[str, Any], str]] = [
    (7, {"min": 0.0, "max": 6.0}, "RELU6"),
    (10, {"min": -1.0, "max": 1.0}, "RELU1"),
    (10, {"min": 0.0}, "RELU"),
    (10, {"min": -0.5, "max": 0.7}, "MAXIMUM MINIMUM"),
    (10, {"max": 0.7}, "MINIMUM"),
    (10, {}, "RESHAPE"),
]

FUNCTIONS = [
    *(
        becomes(expected, name, given(drawn(3, 5, seed=0, low=low), kind, 0), near=near)
        for name, expected, low in (
            ("Abs", "ABS", -2.0),
            ("Ceil", "NEG FLOOR NEG", -2.0),
            ("Exp", "EXP", -2.0),
            ("Floor", "FLOOR", -2.0),
            ("Log", "LOG", 0.1),
            ("Neg", "NEG", -2.0),
            ("Reciprocal", "DIV", -2.0),
            ("Sin", "SIN", -2.0),
            ("Softsign", "ABS ADD DIV", -2.0),
            ("Sqrt", "SQRT", 0.1),
        )
        for kind, near in ((np.float32, 1e-5), (np.float16, 2e-3))
    ),
    *(becomes(name.upper(), name, given([-5, 0, 7], np.int32)) for name in ("Abs", "Neg")),
    refused("ABS: input 0 .* TENSOR_QUANT8_ASYMM_SIGNED", "Abs", given([1, 2, 3], np.int8)),
    becomes("?", "IsNaN", given(_SPECIAL)),
    *(
        becomes("?", "IsInf", given(_SPECIAL), **of(**{f"detect_{side}": 0 for side in sides}))
        for sides in ((), ("negative",), ("positive",), ("positive", "negative"))
    ),
    becomes("LOGICAL_NOT", "Not", given([True, False], np.bool_)),
    becomes("RELU", "Relu", _IMAGE),
    becomes("LOGISTIC", "Sigmoid", _IMAGE),
    becomes("TANH", "Tanh", _IMAGE),
    *(becomes(expected, "Clip", _IMAGE, opset=opset, **bounds) for opset, bounds, expected in _CLIPS),
    *(
        becomes(
            expected,
            "Clip",
            _IMAGE,
            *(held(bounds[name], np.float32) if name in bounds else None for name in ("min", "max")),
        )
        for _, bounds, expected in _CLIPS
    ),
    becomes("RELU", "Clip", given([-3, 0, 3], np.int8), held(0, np.int8), opset=13),
    *(becomes("MAXIMUM", "Clip", given([-3, 0, 3], k), held(0, k), opset=13) for k in (np.int32, np.int64)),
    refused("64-bit values from 1099511627776", "Clip", given([1, 2, 3], np.int64), held(1 << 40), opset=13),
    becomes("?", "Clip", fed(3), given(0.1)),
    *(
        becomes("?", name, _IMAGE, opset=opset, **axis)
        for name in ("Softmax", "LogSoftmax")
        for opset, axis in (
            (13, of(axis=1)),
            (13, of()),
            (11, of()),
            (11, of(axis=3)),
            (11, of(axis=2)),
            (12, of(axis=-1)),
        )
    ),
    becomes("SOFTMAX", "Softmax", fed(2, 5, 1, 1, unknown=0), opset=11),
    *(
        becomes(expected, name, fed(2, 3, 4, low=-5, high=5), **attributes)
        for name, attributes, expected in (
            ("Celu", {}, "ELU"),
            ("Celu", {"alpha": 2.0}, "DIV ELU MUL"),
            ("Elu", {"alpha": 0.7}, "ELU"),
            ("Gelu", {"approximate": "tanh"}, "MUL MUL ADD MUL MUL TANH ADD MUL MUL"),
            ("HardSigmoid", {}, "MUL ADD MINIMUM MAXIMUM"),
            ("HardSigmoid", {"alpha": 0.3, "beta": 0.1}, "MUL ADD MINIMUM MAXIMUM"),
            ("HardSwish", {}, "HARD_SWISH"),
            ("LeakyRelu", {}, "PRELU"),
            ("LeakyRelu", {"alpha": 0.3}, "PRELU"),
            ("Selu", {}, "ELU MUL"),
            ("Selu", {"alpha": 1.5, "gamma": 2.0}, "ELU MUL"),
            ("ThresholdedRelu", {"alpha": 0.5}, "GREATER TILE SELECT"),
        )
    ),
    *(
        becomes("PRELU", "PRelu", fed(2, 3, 4, low=-5, high=5), drawn(*shape), opset=opset)
        for shape, opset in product(((1,), (3, 1), (4,), (2, 3, 4)), (7, 16))
    ),
    refused("the error function; supported: approximate tanh", "Gelu", fed(2)),
    becomes("PRELU", "LeakyRelu", given([-2, 0, 3], np.float16), near=1e-3),
]

LOGIC = [
    *(
        becomes(expected, name, given([[1, 2, 3], [3, 2, 1]], kind, 0), given([2, 2, 2], kind), opset=opset)
        for name, opset, expected in (
            ("Equal", 11, "EQUAL"),
            ("Less", 9, "LESS"),
            ("Greater", 9, "GREATER"),
            ("LessOrEqual", 12, "LESS_EQUAL"),
            ("GreaterOrEqual", 16, "GREATER_EQUAL"),
        )
        for kind in (np.float32, np.int32, np.int64)
    ),
    *(
        becomes(expected, name, given(_MASK, np.bool_), given([True, False], np.bool_))
        for name, expected in (("And", "LOGICAL_AND"), ("Or", "LOGICAL_OR"), ("Xor", "NOT_EQUAL"), ("Equal", "EQUAL"))
    ),
    *(
        becomes(expected, "Where", given(drawn(*mask) > 0, np.bool_), fed(*first), fed(*second))
        for mask, first, second, expected in (
            ((2, 3), (2, 3), (2, 3), "SELECT"),
            ((2, 1), (2, 3), (3,), "LOGICAL_OR RESHAPE TILE SELECT"),
            ((2, 1), (4, 2, 3), (1,), "LOGICAL_OR RESHAPE TILE SELECT"),
        )
    ),
    *(
        becomes("SELECT", "Where", given(drawn(2, 3) > 0, np.bool_), given(drawn(2, 3), k), held(-9, k), near=1e-3)
        for k in (np.int32, np.float16, np.float32)
    ),
    refused(
        "lengths are unknown; supported: fixed shapes",
        "Where",
        given(drawn(2, 3) > 0, np.bool_, 0),
        fed(2, 3, unknown=0),
        fed(3),
    ),
    becomes("?", "Where", given(drawn(2, 3) > 0, np.bool_, 0), fed(2, 3, unknown=0), fed(3), fixed=True),
]


def _cast(expected: str, source: Any, target: Any, values: Any = None) -> OnnxForm:
    usual = [0, 1, 100, 1, 0] if np.dtype(source).kind in "ub" else [-2, 0, 1, 100, -77]
    to = helper.np_dtype_to_tensor_dtype(np.dtype(target))
    return becomes(expected, "Cast", given(usual if values is None else values, source), opset=13, to=to)


CASTS = [
    *(
        _cast(expected, source, target)
        for source, target, expected in (
            (np.float32, np.float16, "CAST"),
            (np.float16, np.float32, "CAST"),
            (np.float32, np.int32, "CAST"),
            (np.float32, np.int64, "CAST"),
            (np.int64, np.float32, "CAST"),
            (np.int64, np.int32, "CAST"),
            (np.float32, np.bool_, "NOT_EQUAL"),
            (np.int32, np.bool_, "NOT_EQUAL"),
            (np.bool_, np.float32, "SELECT"),
            (np.bool_, np.int64, "SELECT"),
            (np.bool_, np.bool_, "CAST"),
            (np.uint8, np.float32, "CAST"),
            (np.uint8, np.int32, "CAST"),
            (np.int8, np.float32, "DEQUANTIZE"),
            (np.int8, np.int32, "DEQUANTIZE CAST"),
        )
    ),
    # Fractions are dropped.
    _cast("CAST", np.float32, np.int32, [-1.9, -0.5, 0, 0.5, 1.5, 2.5, 1e6]),
    *(
        refused(words, "Cast", given([1] * 5, source, axes), opset=13, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))
        for source, to, axes, words in (
            (np.int32, np.uint8, (), "int32 to uint8, for which the HAL saturates"),
            (np.float32, np.float64, (), "float32 to float64; supported"),
            (np.bool_, np.float32, 0, "bool to float32 on axes of unknown length"),
        )
    ),
    becomes("CAST", "CastLike", fed(3), held([1]), opset=15),
]

_WEIGHTS, _SPREAD = drawn(6, 4, 3, 3), drawn(4, 6, 3, 3)
_PIXELS = fed(1, 4, 5, 7)
_WINDOWS: list[dict[str, Any]] = [
    {},
    {"strides": [2, 3], "pads": [1, 0, 1, 1]},
    {"strides": [2, 2], "ceil_mode": 1},
    {"strides": [2, 2], "ceil_mode": 1, "pads": [1, 0, 0, 1]},
    {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
]

WINDOWS = [
    *(
        becomes("CONV_2D", "Conv", _OPEN_IMAGE, _WEIGHTS, drawn(6, seed=0), **attributes)
        for attributes in (
            {"pads": [1, 2, 0, 1], "strides": [2, 1]},
            {"dilations": [2, 2]},
            {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
            {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
            {"auto_pad": "VALID"},
        )
    ),
    refused("2 groups with dilation; .*one group", "Conv", _OPEN_IMAGE, drawn(6, 2, 3, 3), group=2, dilations=[2, 2]),
    becomes("RESHAPE CONV_2D RESHAPE", "Conv", fed(2, 4, 9, unknown=0), drawn(5, 4, 3), pads=[1, 0], strides=[2]),
    becomes("CONV_2D", "Conv", _half(1, 1, 4, 9, 7, unknown=0), _WEIGHTS.astype(np.float16), near=2e-2),
    refused(
        "auto_pad SAME_LOWER on an axis of unknown length",
        "Conv",
        fed(2, 4, 5, 6, unknown=(0, 2, 3)),
        _WEIGHTS,
        auto_pad="SAME_LOWER",
    ),
    becomes("?", "Conv", fed(2, 4, 5, 6, unknown=(0, 2, 3)), _WEIGHTS, fixed=True, auto_pad="SAME_LOWER"),
    *(
        becomes("TRANSPOSE_CONV_2D", "ConvTranspose", _PIXELS, _SPREAD, drawn(6, seed=0), opset=11, **attributes)
        for attributes in (
            {},
            {"strides": [2, 3], "pads": [1, 0, 2, 1]},
            {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
            {"strides": [2, 2], "output_shape": [9, 14]},
            {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
            {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
            {"auto_pad": "VALID"},
        )
    ),
    becomes("TRANSPOSE_CONV_2D", "ConvTranspose", fed(1, 4, 5, 7, unknown=0), _SPREAD, strides=[2, 2]),
    becomes(
        "RESHAPE TRANSPOSE_CONV_2D RESHAPE",
        "ConvTranspose",
        fed(2, 4, 5, unknown=0),
        drawn(4, 6, 3),
        strides=[2],
        pads=[1, 0],
    ),
    refused("2 groups", "ConvTranspose", _PIXELS, drawn(4, 3, 3, 3), group=2),
    refused("dilation", "ConvTranspose", _PIXELS, _SPREAD, dilations=[2, 1]),
    refused("more than its windows reach", "ConvTranspose", _PIXELS, _SPREAD, strides=[2, 2], output_padding=[1, 0]),
    refused("its weights 'x1' is computed at run time", "ConvTranspose", _PIXELS, fed(4, 6, 3, 3)),
    *(
        becomes(expected, name, _OPEN_IMAGE, kernel_shape=[3, 2], **attributes)
        for name, expected in (("MaxPool", "MAX_POOL_2D"), ("AveragePool", "AVERAGE_POOL_2D"))
        for attributes in _WINDOWS
    ),
    # Padding that counts is added before.
    *(
        becomes(
            "PAD AVERAGE_POOL_2D" if "pads" in attributes else "AVERAGE_POOL_2D",
            "AveragePool",
            _OPEN_IMAGE,
            kernel_shape=[3, 2],
            count_include_pad=1,
            **attributes,
        )
        for attributes in _WINDOWS[:4]
    ),
    becomes("?", "MaxPool", fed(2, 3, 9), kernel_shape=[3], strides=[2]),
    refused("indices", "MaxPool", _OPEN_IMAGE, outputs=2, kernel_shape=[2, 2]),
    becomes("MEAN RESHAPE", "GlobalAveragePool", fed(1, 4, 9, 7, unknown=(0, 2, 3)), then="Flatten"),
    becomes("REDUCE_MAX", "GlobalMaxPool", _OPEN_IMAGE),
    becomes("MUL REDUCE_SUM SQRT", "GlobalLpPool", _OPEN_IMAGE),
    becomes("L2_POOL_2D MUL", "LpPool", _OPEN_IMAGE, opset=11, kernel_shape=[2, 3], strides=[2, 1]),
    refused("p 3; supported: p 2", "LpPool", _OPEN_IMAGE, opset=11, kernel_shape=[2, 2], p=3),
    refused("padding", "LpPool", _OPEN_IMAGE, opset=11, kernel_shape=[2, 2], pads=[1] * 4),
]

_REDUCTIONS = {
    "ReduceL1": "ABS REDUCE_SUM",
    "ReduceL2": "MUL REDUCE_SUM SQRT",
    "ReduceLogSum": "REDUCE_SUM LOG",
    "ReduceMax": "REDUCE_MAX",
    "ReduceMean": "MEAN",
    "ReduceMin": "REDUCE_MIN",
    "ReduceProd": "REDUCE_PROD",
    "ReduceSum": "REDUCE_SUM",
    "ReduceSumSquare": "MUL REDUCE_SUM",
}
_AXES: list[tuple[list[int] | None, int]] = [([1], 1), ([-1], 0), ([2, 0], 0), (None, 0), (None, 1)]
_RISEN, _TRUTHS = fed(2, 3, 4, low=0.5), given([[1, 1], [1, 0], [0, 0]], np.bool_)

REDUCTIONS = [
    *(
        form
        for name, expected in _REDUCTIONS.items()
        for axes, keep in _AXES
        for form in (
            becomes(expected, name, _RISEN, opset=11, keepdims=keep, **(of() if axes is None else of(axes=axes))),
            becomes(expected, name, _RISEN, *([] if axes is None else [held(axes)]), opset=18, keepdims=keep),
        )
    ),
    *(becomes("?", name, given(3.0), opset=18, keepdims=keep) for name, keep in product(_REDUCTIONS, (0, 1))),
    *(
        becomes("?", "ReduceMean", fed(1, 4, 9, 7), *axes, opset=opset, **attributes)
        for opset, attributes, axes in (
            (13, {"axes": [2, 3], "keepdims": 0}, []),
            (18, {}, [held([-1])]),
            (18, {"keepdims": 0}, []),
            (18, {"noop_with_empty_axes": 1}, []),
        )
    ),
    becomes("RESHAPE", "ReduceSum", fed(2, 3, 4), noop_with_empty_axes=1),
    refused("noop_with_empty_axes", "ReduceL2", fed(2, 3, 4), noop_with_empty_axes=1),
    becomes("REDUCE_ANY", "ReduceMax", _TRUTHS, held([1]), keepdims=0),
    becomes("REDUCE_ALL", "ReduceMin", _TRUTHS, held([1]), keepdims=0),
    refused("REDUCE_SUM: input 0 .* TENSOR_INT32", "ReduceSum", given([1, 2, 3], np.int32)),
    *(
        becomes(
            f"{name.upper()} RESHAPE" if keep else name.upper(),
            name,
            given(np.rint(drawn(2, 3, 4, seed=0, low=0.5) * 2)),
            opset=opset,
            axis=axis,
            keepdims=keep,
        )
        for name, opset in product(("ArgMax", "ArgMin"), (7, 13))
        for axis, keep in ((0, 1), (2, 0), (-2, 1))
    ),
    refused("select_last_index", "ArgMax", fed(3), select_last_index=1),
]

_SPOTS = fed(2, 6, 3, 4, unknown=0)
_NORMAL = "RESHAPE INSTANCE_NORMALIZATION RESHAPE MUL ADD"

NORMALIZATIONS = [
    *(
        becomes(
            _NORMAL if bias else _NORMAL.removesuffix(" ADD"),
            "LayerNormalization",
            _SPOTS,
            *(drawn(*(2, 6, 3, 4)[axis:], seed=seed) for seed in (1, 2)[: 1 + bias]),
            opset=17,
            near=5e-5,
            axis=axis,
        )
        for axis, bias in product((-1, 2, 1), (True, False))
    ),
    refused("means or deviations are read", "LayerNormalization", fed(2, 3), drawn(3), opset=17, outputs=2),
    becomes("LOCAL_RESPONSE_NORMALIZATION", "LRN", _SPOTS, size=3),
    becomes("LOCAL_RESPONSE_NORMALIZATION", "LRN", _SPOTS, size=5, alpha=0.3, beta=0.5, bias=2.0),
    refused("size 4", "LRN", fed(1, 6, 3, 4), size=4),
    *(
        form
        for axis in (1, -1)
        for form in (
            becomes(
                "L2_NORMALIZATION",
                "LpNormalization",
                given(np.where(np.arange(4) % 2, drawn(2, 6, 3, 4, seed=0), 0), unknown=0),
                axis=axis,
            ),
            refused("p 1; supported: p 2", "LpNormalization", fed(2, 6, 3, 4), axis=axis, p=1),
        )
    ),
]

_FULLY = "FULLY_CONNECTED"

MATRICES = [
    *(
        becomes(expected, "Gemm", fed(3, 4), weights, *added, opset=opset, **attributes)
        for opset, attributes, weights, added, expected in (
            (7, of(transB=1, alpha=0.5, beta=2.0), drawn(5, 4), [drawn(5)], _FULLY),
            (9, of(), drawn(4, 5), [held(0.5, np.float32)], _FULLY),
            (13, of(), drawn(4, 5), [], _FULLY),
            (13, of(), drawn(4, 5), [drawn(1, 5)], _FULLY),
            (13, of(), drawn(4, 5), [drawn(3, 5)], f"{_FULLY} ADD"),
            (13, of(), drawn(4, 3), [drawn(3, 1)], f"{_FULLY} ADD"),
        )
    ),
    becomes(f"TRANSPOSE TRANSPOSE {_FULLY}", "Gemm", fed(4, 3), fed(4, 5), transA=1),
    becomes(_FULLY, "MatMul", fed(3, 4, unknown=0), drawn(4, 5)),
    becomes(f"{_FULLY} RESHAPE", "MatMul", fed(2, 3, 4), drawn(4, 5)),
    becomes(f"{_FULLY} RESHAPE", "MatMul", fed(2, 3, 4, unknown=0), drawn(4, 5)),
    becomes(f"RESHAPE {_FULLY} RESHAPE", "MatMul", fed(4), drawn(4, 5)),
    becomes("BATCH_MATMUL RELU", "MatMul", fed(2, 3, 4), fed(2, 4, 5), then="Relu"),
]

_BORDERS = held([0, 0, 1, 0, 0, 0, 2, 0])

MOVEMENT = [
    *(
        becomes("RESHAPE", name, fed(*shape), *([] if more is None else [held(more)]), opset=opset, **attributes)
        for name, opset, attributes, more, shape in (
            ("Reshape", 13, {}, [0, -1], (1, 4, 3, 1)),
            ("Reshape", 14, {"allowzero": 1}, [3, 4], (1, 4, 3, 1)),
            ("Flatten", 9, {"axis": 2}, None, (1, 4, 3, 1)),
            ("Flatten", 13, {"axis": 0}, None, (1, 4, 3, 1)),
            ("Squeeze", 11, {"axes": [0]}, None, (1, 4, 3, 1)),
            ("Squeeze", 13, {}, [-1], (1, 4, 3, 1)),
            ("Squeeze", 13, {}, None, (1, 4, 3, 1)),
            ("Unsqueeze", 11, {"axes": [0]}, None, (4, 3)),
            ("Unsqueeze", 13, {}, [0], (4, 3)),
        )
    ),
    refused("more than one unknown dimension.*fixed shapes", "Unsqueeze", fed(2, 3, unknown=(0, 1)), held([0])),
    becomes("?", "Unsqueeze", fed(2, 3, unknown=(0, 1)), held([0]), fixed=True),
    becomes("CONCATENATION", "Concat", fed(2, 3), fed(2, 4), drawn(2, 1), axis=-1),
    becomes("TRANSPOSE", "Transpose", fed(1, 4, 3, 1), perm=[0, 2, 3, 1]),
    becomes("TRANSPOSE", "Transpose", fed(1, 4, 3, 1)),
    becomes("PAD", "Pad", fed(1, 4, 3, 1), _BORDERS, held(0, np.float32), mode="constant"),
    becomes("PAD_V2", "Pad", fed(1, 4, 3, 1), _BORDERS, held(1.5, np.float32), mode="constant"),
    becomes("MIRROR_PAD", "Pad", fed(1, 4, 3, 1), _BORDERS, held(0, np.float32), mode="reflect"),
    becomes("PAD", "Pad", fed(1, 4, 3, 1), held([1, 2, 0, 1]), None, held([2, -1])),
    refused("mode edge; supported: mode constant", "Pad", fed(1, 4, 3, 1), held([0, 0, 1, 0, 0, 0, 0, 0]), mode="edge"),
    becomes("DEPTH_TO_SPACE", "DepthToSpace", fed(2, 12, 2, 3, unknown=0), opset=13, blocksize=2, mode="DCR"),
    becomes(
        "RESHAPE TRANSPOSE RESHAPE DEPTH_TO_SPACE",
        "DepthToSpace",
        fed(2, 12, 2, 3, unknown=0),
        opset=13,
        blocksize=2,
        mode="CRD",
    ),
    becomes("SPACE_TO_DEPTH", "SpaceToDepth", fed(2, 3, 4, 6, unknown=0), opset=9, blocksize=2),
    *(
        becomes(expected, "Gather", fed(4, 5), held(indices), axis=axis)
        for indices, axis, expected in (
            ([0, 3, 3], 0, "GATHER"),
            ([[1, -1], [-5, 4]], 1, "GATHER"),
            (2, 0, "GATHER RESHAPE"),
            (-1, -1, "GATHER RESHAPE"),
        )
    ),
    # Words that are looked up may be counted from the end.
    *(
        becomes("LESS ADD SELECT GATHER", "Gather", drawn(4, 5), given([[0, 3, -1], [-4, 2, 1]], kind, 0), opset=13)
        for kind in (np.int32, np.int64)
    ),
    becomes("GATHER", "Gather", fed(4, 5, unknown=0), held([0, 2])),
    refused("axis of unknown length", "Gather", fed(4, 5, unknown=0), held([-1])),
    becomes("GATHER", "Gather", given([[0, 1, 2], [3, 4, 5]], np.int32), held([2, 0]), axis=1),
    *(
        becomes(expected, "Expand", fed(*shape, unknown=axes), held(target), opset=13)
        for shape, axes, target, expected in (
            ((3, 1), (), [3, 4], "TILE"),
            ((3, 1), (), [2, 1, 4], "RESHAPE TILE"),
            ((3,), (), [1], "RESHAPE"),
            ((1, 3), (), [2, 1, 3], "RESHAPE TILE"),
            ((2, 1), 0, [1, 4], "TILE"),
        )
    ),
    becomes("LOGICAL_OR", "Expand", given(_MASK, np.bool_), held([3, 1, 4]), opset=13),
    *(
        becomes("TILE", "Tile", given(np.arange(6).reshape(2, 3), kind, 0), held([2, 3]))
        for kind in (np.float32, np.float16, np.int32, np.uint8)
    ),
    refused("its repeats are computed at run time", "Tile", fed(2), given([2], np.int64)),
]


def _sliced(expected: str, form: Any, **parameters: list[int]) -> OnnxForm:
    names = ("starts", "ends", "axes", "steps")
    return becomes(
        expected, "Slice", form, *(held(parameters[n]) if n in parameters else None for n in names), opset=13
    )


_CUBE = fed(4, 5, 6)

PARTS = [
    _sliced("SLICE", _CUBE, starts=[1, 0, 2], ends=[3, 5, 5]),
    _sliced("SLICE", _CUBE, starts=[-3], ends=[-1], axes=[1]),
    _sliced("SLICE", _CUBE, starts=[2], ends=[_FAR], axes=[-1]),
    _sliced("STRIDED_SLICE", _CUBE, starts=[0], ends=[_FAR], axes=[1], steps=[2]),
    _sliced("STRIDED_SLICE", _CUBE, starts=[_FAR], ends=[-_FAR], axes=[1], steps=[-1]),
    _sliced("STRIDED_SLICE", _CUBE, starts=[-1, 3], ends=[-9, 0], axes=[2, 0], steps=[-2, -1]),
    _sliced("RESHAPE", _CUBE, starts=[0], ends=[_FAR], axes=[1]),
    becomes("SLICE", "Slice", _CUBE, opset=9, starts=[0, -2], ends=[2, 9], axes=[0, 2]),
    _sliced("SLICE", fed(4, 5, 6, unknown=0), starts=[1], ends=[4], axes=[1]),
    # Unknown dimensions are cut from either end.
    *(
        _sliced("STRIDED_SLICE", fed(4, 5, 6, unknown=1), starts=[begin], ends=[end], axes=[1])
        for begin, end in ((-2, _FAR), (1, -1), (0, 2))
    ),
    _sliced("GATHER GATHER", given(np.arange(20).reshape(4, 5), np.int32), starts=[3, 0], ends=[-9, 5], steps=[-2, 2]),
    refused("its starts are computed at run time", "Slice", *(given([1], np.int64) for _ in range(3))),
    becomes("SPLIT", "Split", _CUBE, opset=11, outputs=2, axis=0),
    becomes("SPLIT", "Split", fed(4, 5, 6, unknown=0), opset=18, outputs=3, axis=-1, num_outputs=3),
    becomes("SPLIT RELU", "Split", _CUBE, outputs=2, then="Relu", axis=0, num_outputs=2),
    becomes("SLICE SLICE", "Split", fed(4, 5, 6, unknown=0), opset=11, outputs=2, axis=1, split=[1, 4]),
    becomes("SLICE SLICE", "Split", fed(4, 5, 6, unknown=0), held([1, 4]), opset=13, outputs=2, axis=1),
    becomes("SLICE SLICE", "Split", _CUBE, opset=18, outputs=2, axis=1, num_outputs=2),
]

_SHOWN, _NEAREST, _BILINEAR = fed(1, 2, 4, 6), "RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"
_DOUBLED: tuple[Any, ...] = (None, held([1, 1, 2, 2], np.float32))
_PLACES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


def _sized(*sizes: int) -> tuple[Array | None, ...]:
    return None, None, held(sizes)


RESIZES = [
    *(
        becomes(
            f"? {_NEAREST} GATHER",
            "Resize",
            _SHOWN,
            *_sized(*size),
            opset=13,
            coordinate_transformation_mode=place,
            nearest_mode=rounding,
        )
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        for place in (*_PLACES, "tf_half_pixel_for_nn")
        for size in ((1, 2, 8, 12), (1, 2, 7, 9), (1, 2, 2, 4), (1, 2, 1, 1))
    ),
    *(
        becomes(
            _NEAREST, "Resize", _SHOWN, *_DOUBLED, opset=13, coordinate_transformation_mode=place, nearest_mode=rounding
        )
        for place, rounding in (
            ("asymmetric", "floor"),
            ("half_pixel", "round_prefer_floor"),
            ("half_pixel", "round_prefer_ceil"),
            ("align_corners", "round_prefer_ceil"),
        )
    ),
    # Factors decide if they give no whole sizes.
    becomes(
        "?",
        "Resize",
        _SHOWN,
        None,
        held([1, 1, 1.4, 0.7], np.float32),
        opset=13,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    *(
        becomes(_BILINEAR, "Resize", _SHOWN, *size, opset=13, mode="linear", coordinate_transformation_mode=place)
        for place in _PLACES
        for size in (_sized(1, 2, 8, 12), _sized(1, 2, 7, 9), _sized(1, 2, 2, 3), _DOUBLED)
    ),
    becomes(
        f"RESHAPE {_BILINEAR} RESHAPE",
        "Resize",
        fed(1, 2, 5),
        None,
        held([1, 1, 2], np.float32),
        opset=13,
        mode="linear",
    ),
    becomes(_BILINEAR, "Resize", _SHOWN, *_sized(9, 8), opset=18, axes=[-1, 2], mode="linear"),
    *(
        form
        for mode, expected in (("nearest", _NEAREST), ("linear", _BILINEAR))
        for form in (
            becomes(expected, "Upsample", _SHOWN, opset=7, mode=mode, scales=[1.0, 1.0, 2.0, 3.0]),
            becomes(expected, "Upsample", _SHOWN, held([1, 1, 2, 3], np.float32), opset=9, mode=mode),
            becomes(expected, "Resize", _SHOWN, held([1, 1, 2, 3], np.float32), opset=10, mode=mode),
        )
    ),
    becomes("GATHER GATHER", "Resize", given([[[[0, 1], [2, 3]]]], np.int32), *_sized(1, 1, 4, 6), opset=13),
    *(
        refused(words, "Resize", _SHOWN, *_sized(1, 2, 2, 3), opset=19, **attributes)
        for attributes, words in (
            ({"mode": "cubic"}, "mode cubic; supported: nearest, linear"),
            ({"mode": "linear", "coordinate_transformation_mode": "tf_half_pixel_for_nn"}, "mode linear with tf_half"),
            (
                {"coordinate_transformation_mode": "tf_crop_and_resize"},
                "coordinate_transformation_mode tf_crop_and_resize",
            ),
            ({"mode": "linear", "antialias": 1}, "antialias"),
            ({"keep_aspect_ratio_policy": "not_larger"}, "policy not_larger"),
        )
    ),
]

FORMS = [
    *ARITHMETIC,
    *FUNCTIONS,
    *LOGIC,
    *CASTS,
    *WINDOWS,
    *REDUCTIONS,
    *NORMALIZATIONS,
    *MATRICES,
    *MOVEMENT,
    *PARTS,
    *RESIZES,
]
