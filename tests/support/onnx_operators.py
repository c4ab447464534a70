"""The operators of random models of ONNX: for each the inputs and attributes that it may have, and its limit."""

from __future__ import annotations

from collections.abc import Sequence
from operator import gt
from typing import Any

import numpy as np
import onnx
from onnx import helper

from nnhal.arrays import Array
from tests.support.random_models import FLOATS, INTEGERS, NUMBERS, Drawing, Limit, Makers, Value

_ANY = (*NUMBERS, np.bool_, np.object_)
_REAL = (np.float32, np.float32, np.float16)
_UNSIGNED = (np.uint8, np.uint32)

MAKERS = Makers()


def _if(condition: bool, **attributes: Any) -> dict[str, Any]:
    return attributes if condition else {}


def _unary(name: str, kinds: Any = _REAL, limit: Limit = Limit.FUNCTION, exact: bool = False, **ranges: Any) -> None:
    """A function of one value, whose float attributes are drawn from ranges."""

    @MAKERS.add(name)
    def make(d: Drawing) -> None:
        attributes = {key: d.one_of(*choices) for key, choices in ranges.items() if d.chance()}
        value = d.pick(kinds, exact=exact)
        # ONNX Runtime computes it in floats, of which the largest are no integers.
        if name == "Shrink" and value.array.dtype.kind == "i" and (np.abs(value.array.astype(float)) > 1e6).any():
            return
        d.node(name, [value], limit, **attributes)


for _name in ("Abs", "Neg", "Identity", "Sign"):
    _unary(_name, NUMBERS, Limit.EXACT, exact=_name == "Sign")
for _name in ("Ceil", "Floor", "Round", "Relu"):
    _unary(_name, _REAL, Limit.EXACT, exact=_name != "Relu")
for _name in ("IsNaN", "IsInf"):
    _unary(_name, FLOATS, Limit.EXACT, exact=True)
_unary("Not", (np.bool_,), Limit.EXACT)
_unary("BitwiseNot", INTEGERS, Limit.EXACT)
for _name in ["Sigmoid", "Tanh", "Softplus", "Softsign", "Erf", "Sin", "Cos", "Atan", "Asinh", "HardSwish", "Mish"]:
    _unary(_name)
for _name in ["Sqrt", "Exp", "Log", "Tan", "Reciprocal", "Sinh", "Cosh", "Asin", "Acos", "Acosh", "Atanh"]:
    _unary(_name, exact=True)
_unary("Elu", alpha=(0.5, 2.0))
_unary("Celu", FLOATS, alpha=(0.5, 2.0))
_unary("Selu", alpha=(0.5,), gamma=(2.0,))
_unary("LeakyRelu", limit=Limit.ROUNDED, alpha=(0.25, -0.5, 2.0))
_unary("HardSigmoid", limit=Limit.ROUNDED, alpha=(0.5,), beta=(0.25,))
_unary("ThresholdedRelu", FLOATS, Limit.EXACT, exact=True, alpha=(0.5, -1.0))
_unary("Shrink", (*_REAL, np.int32), Limit.EXACT, exact=True, bias=(0.25,), lambd=(1.0,))
_unary("Gelu", FLOATS, approximate=("tanh", "none"))
_unary("Size", _ANY, Limit.EXACT)


def _binary(name: str, kinds: Any, limit: Limit = Limit.EXACT, exact: bool = False, **attributes: Any) -> None:
    @MAKERS.add(name)
    def make(d: Drawing) -> None:
        left = d.pick(kinds, exact=exact)
        right = d.like(left)
        if exact and right.epsilons:
            return
        if name in ("Div", "Mod") and left.array.dtype.kind != "f" and (right.array == 0).any():
            return
        given = [left, right] if name == "PRelu" or d.chance() else [right, left]
        if name in ("Div", "Mod") and (given[1].array == 0).any() and left.array.dtype.kind != "f":
            return
        d.node(name, given, limit, **{key: d.one_of(*choices) for key, choices in attributes.items()})


for _name in ("Add", "Sub", "Mul"):
    _binary(_name, NUMBERS, Limit.ROUNDED)
_binary("Div", NUMBERS, Limit.ROUNDED, exact=True)
_binary("Pow", (np.float32, np.int32, np.int64), Limit.FUNCTION, exact=True)
_binary("Mod", (*INTEGERS, np.float32), exact=True, fmod=(1, 0))
for _name in ("Min", "Max", "Sum", "Mean"):
    _binary(_name, NUMBERS, Limit.EXACT if _name in ("Min", "Max") else Limit.ROUNDED)
for _name in ("And", "Or", "Xor"):
    _binary(_name, (np.bool_,))
for _name in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
    _binary(_name, NUMBERS, exact=True)
for _name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    _binary(_name, INTEGERS)
_binary("BitShift", _UNSIGNED, direction=("LEFT", "RIGHT"))
_binary("PRelu", (*_REAL, np.int32), Limit.ROUNDED)


@MAKERS.add("Where")
def _where(d: Drawing) -> None:
    left = d.pick(_ANY)
    right = d.like(left)
    d.node("Where", [d.fresh(d.array(left.array.shape, np.bool_)), left, right])


@MAKERS.add("Clip")
def _clip(d: Drawing) -> None:
    x = d.pick(NUMBERS)
    ends = [
        d.fresh(np.asarray(value, x.array.dtype)) if d.chance() else None for value in (d.number(0, 2), d.number(1, 4))
    ]
    d.node("Clip", [x, *ends])


@MAKERS.add("Cast")
def _cast(d: Drawing) -> None:
    to = d.one_of(1, 6, 7, 10, 11, 2, 3, 9, 12, 13)
    d.node("Cast", [d.pick(_ANY, exact=True)], to=to)


def _reduce(name: str, limit: Limit, kinds: Any = (np.float32, np.int32)) -> None:
    @MAKERS.add(name)
    def make(d: Drawing) -> None:
        x = d.pick(kinds, exact=limit == Limit.FUNCTION)
        if name == "ReduceLogSumExp" and np.isnan(x.array).any():
            return  # beside an infinity, ONNX Runtime finds the one that comes first
        inputs: list[Value | None] = [x]
        if d.chance():
            inputs.append(d.fresh(np.asarray(d.axes(x.array.ndim), np.int64)))
        d.node(name, inputs, limit, keepdims=d.number(0, 1), noop_with_empty_axes=d.number(0, 1))


for _name in ("ReduceMax", "ReduceMin"):
    _reduce(_name, Limit.EXACT, (np.float32, np.int32, np.int64, np.int8, np.uint8))
for _name in ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceSumSquare"):
    _reduce(_name, Limit.SUM)
for _name in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"):
    _reduce(_name, Limit.FUNCTION, FLOATS)


@MAKERS.each("ArgMax", "ArgMin")
def _arg(name: str, d: Drawing) -> None:
    x = d.pick((np.float32, np.int32, np.int8, np.uint8), 1, exact=True)
    d.node(name, [x], axis=d.axis(x.array.ndim), keepdims=d.number(0, 1), select_last_index=d.number(0, 1))


@MAKERS.add("CumSum")
def _cumsum(d: Drawing) -> None:
    x = d.pick((np.float32, np.int32, np.int64), 1)
    axis = d.fresh(np.asarray(d.axis(x.array.ndim), np.int64))
    d.node("CumSum", [x, axis], Limit.SUM, exclusive=d.number(0, 1), reverse=d.number(0, 1))


@MAKERS.add("TopK")
def _topk(d: Drawing) -> None:
    x = d.pick((np.float32, np.int32, np.int64), 1, exact=True)
    axis = d.axis(x.array.ndim)
    k = d.fresh(np.asarray([d.number(0, x.array.shape[axis])], np.int64))
    d.node("TopK", [x, k], outputs=2, axis=axis, largest=d.number(0, 1))


@MAKERS.each("Softmax", "LogSoftmax", "Hardmax")
def _softmax(name: str, d: Drawing) -> None:
    x = d.pick(_REAL, 1, exact=name == "Hardmax")
    d.node(name, [x], Limit.FUNCTION, axis=d.axis(x.array.ndim))


@MAKERS.add("Reshape")
def _reshape(d: Drawing) -> None:
    x = d.pick(_ANY)
    size, target = x.array.size, []
    for _ in range(d.number(0, 3)):
        length = d.one_of(*[n for n in range(1, max(size, 1) + 1) if size and size % n == 0] or [0])
        target.append(length)
        size = size // length if length else 0
    target.append(size)
    if d.chance() and 0 not in target:
        target[d.number(0, len(target) - 1)] = -1
    elif d.chance() and len(target) <= x.array.ndim:
        same = [n for n, length in enumerate(target) if length == x.array.shape[n]]
        target = [0 if n in same else length for n, length in enumerate(target)]
    d.node("Reshape", [x, d.fresh(np.asarray(target, np.int64))], allowzero=int(d.empties and d.chance()))


@MAKERS.add("Transpose")
def _transpose(d: Drawing) -> None:
    x = d.pick(_ANY)
    perm = d.permutation(x.array.ndim)
    d.node("Transpose", [x], **_if(bool(perm) and d.chance(), perm=perm))


@MAKERS.add("Flatten")
def _flatten(d: Drawing) -> None:
    x = d.pick(NUMBERS, 1)
    d.node("Flatten", [x], axis=d.number(-x.array.ndim, x.array.ndim))


@MAKERS.add("Squeeze")
def _squeeze(d: Drawing) -> None:
    x = d.pick(_ANY)
    ones = [n for n, length in enumerate(x.array.shape) if length == 1]
    d.node("Squeeze", [x, d.fresh(np.asarray(ones[: d.number(0, len(ones))], np.int64))] if d.chance() else [x])


@MAKERS.add("Unsqueeze")
def _unsqueeze(d: Drawing) -> None:
    x = d.pick(_ANY, 0, 3)
    d.node("Unsqueeze", [x, d.fresh(np.asarray(d.axes(x.array.ndim + 1, 1)[:1], np.int64))])


@MAKERS.add("Concat")
def _concat(d: Drawing) -> None:
    first = d.pick(_ANY, 1)
    axis = d.axis(first.array.ndim)
    others = []
    for _ in range(d.number(0, 2)):
        shape = list(first.array.shape)
        shape[axis] = d.number(0 if d.empties else 1, 3)
        others.append(d.fresh(d.array(shape, first.array.dtype)))
    d.node("Concat", [first, *others], axis=axis)


@MAKERS.add("Split")
def _split(d: Drawing) -> None:
    x = d.pick(NUMBERS, 1)
    axis = d.axis(x.array.ndim)
    length = x.array.shape[axis]
    if d.chance():
        parts = d.number(1, 3)
        d.node("Split", [x], outputs=parts, axis=axis, num_outputs=parts)
        return
    first = d.number(0 if d.empties else min(1, length), length)
    sizes = [first, length - first] if d.empties or 0 < first < length else [length]
    d.node("Split", [x, d.constant(sizes, np.int64)], outputs=len(sizes), axis=axis)


@MAKERS.add("Slice")
def _slice(d: Drawing) -> None:
    x = d.pick(_ANY, 1)
    axes = d.axes(x.array.ndim, 1)
    starts = [d.number(-6, 6) for _ in axes]
    steps = [d.one_of(1, -1, 2, -2) for _ in axes]
    ends = [d.one_of(2**31 - 1 if step > 0 else -(2**31), *range(-6, 7)) for step in steps]
    add = d.constant if d.chance() else d.fresh
    d.node("Slice", [x, *(add(np.asarray(v, np.int64)) for v in (starts, ends, axes, steps))])


@MAKERS.add("Pad")
def _pad(d: Drawing) -> None:
    x = d.pick((np.float32, np.int32, np.int8, np.uint8, np.int64), 1)
    axes = d.axes(x.array.ndim, 1) if d.chance() else None
    count = x.array.ndim if axes is None else len(axes)
    pads = [d.number(-1 if min(x.array.shape) > 2 else 0, 2) for _ in range(2 * count)]
    given = [x, d.constant(pads, np.int64), d.constant(d.number(0, 3), x.array.dtype) if d.chance() else None]
    if axes is not None:
        given.append(d.constant(axes, np.int64))
    d.node("Pad", given, mode=d.one_of("constant", "reflect", "edge", "wrap"))


@MAKERS.add("Tile")
def _tile(d: Drawing) -> None:
    x = d.pick(_ANY, 1)
    d.node("Tile", [x, d.fresh(np.asarray([d.number(0 if d.empties else 1, 2) for _ in x.array.shape], np.int64))])


@MAKERS.add("Expand")
def _expand(d: Drawing) -> None:
    x = d.pick(_ANY)
    shape = [d.number(1, 3) if length == 1 else d.one_of(length, 1) for length in x.array.shape]
    extra = [d.number(1, 2) for _ in range(d.number(0, max(0, 4 - len(shape))))]
    d.node("Expand", [x, d.fresh(np.asarray([*extra, *shape], np.int64))])


def _indexes(d: Drawing, shape: Any, length: int) -> Value:
    return d.fresh(d.array(shape, d.one_of(np.int64, np.int32), -length, length - 1))


@MAKERS.add("Gather")
def _gather(d: Drawing) -> None:
    x = d.pick(_ANY, 1)
    axis = d.axis(x.array.ndim)
    length = x.array.shape[axis]
    least = 0 if x.array.dtype == np.object_ else -length  # ONNX Runtime finds no strings from the end
    if length:
        indexes = d.array(d.shape(0, 2, 3), d.one_of(np.int64, np.int32), least, length - 1)
        d.node("Gather", [x, d.fresh(indexes)], axis=axis)


@MAKERS.add("GatherElements")
def _gather_elements(d: Drawing) -> None:
    x = d.pick(NUMBERS, 1)
    axis = d.axis(x.array.ndim)
    if x.array.size:
        shape = [d.number(1, length) for length in x.array.shape]
        d.node("GatherElements", [x, _indexes(d, shape, x.array.shape[axis])], axis=axis)


@MAKERS.add("GatherND")
def _gather_nd(d: Drawing) -> None:
    x = d.pick(NUMBERS, 1)
    if x.array.size:
        depth = d.number(1, x.array.ndim)
        indexes = np.stack(
            [d.array((2, 2), np.int64, -length, length - 1) for length in x.array.shape[:depth]], axis=-1
        )
        d.node("GatherND", [x, d.fresh(indexes)])


@MAKERS.add("ScatterElements")
def _scatter_elements(d: Drawing) -> None:
    x = d.pick((np.float32, np.int32, np.int64), 1)
    axis = d.axis(x.array.ndim)
    if x.array.size:
        reduction = d.one_of("none", "add", "mul", *(() if np.isnan(x.array).any() else ("max", "min")))
        shape = [
            1 if reduction == "none" and n == axis % x.array.ndim else d.number(1, length)
            for n, length in enumerate(x.array.shape)
        ]
        updates = d.fresh(d.array(shape, x.array.dtype))
        limit = Limit.EXACT if reduction in ("none", "max", "min") else Limit.ROUNDED
        indexes = _indexes(d, shape, x.array.shape[axis])
        d.node("ScatterElements", [x, indexes, updates], limit, axis=axis, reduction=reduction)


@MAKERS.add("ScatterND")
def _scatter_nd(d: Drawing) -> None:
    x = d.pick((np.float32, np.int32, np.int64), 1)
    if x.array.size:
        indexes = np.asarray([[d.number(-length, length - 1) for length in x.array.shape[:1]]], np.int64)
        updates = d.fresh(d.array((1, *x.array.shape[1:]), x.array.dtype))
        reduction = d.one_of("none", "add", "mul", *(() if np.isnan(x.array).any() else ("max", "min")))
        d.node("ScatterND", [x, d.fresh(indexes), updates], Limit.ROUNDED, reduction=reduction)


@MAKERS.add("DepthToSpace")
def _depth_to_space(d: Drawing) -> None:
    x = d.fresh(d.array((d.number(1, 2), 4 * d.number(1, 2), d.number(1, 3), d.number(1, 3))))
    d.node("DepthToSpace", [x], blocksize=2, mode=d.one_of("DCR", "CRD"))


@MAKERS.add("SpaceToDepth")
def _space_to_depth(d: Drawing) -> None:
    d.node("SpaceToDepth", [d.fresh(d.array((1, d.number(1, 3), 2 * d.number(1, 2), 4)))], blocksize=2)


@MAKERS.add("OneHot")
def _onehot(d: Drawing) -> None:
    indexes = d.fresh(d.array(d.shape(0, 2, 4), d.one_of(np.int64, np.int32, np.float32), -5, 5))
    values = d.fresh(d.array((2,), d.one_of(np.float32, np.int64, np.int32)))
    d.node("OneHot", [indexes, d.constant(d.number(1, 4), np.int64), values], axis=d.axis(indexes.array.ndim + 1))


@MAKERS.add("Trilu")
def _trilu(d: Drawing) -> None:
    x = d.pick((np.float32, np.int64, np.int32, np.bool_), 2)
    d.node("Trilu", [x, d.fresh(np.asarray(d.number(-4, 4), np.int64))] if d.chance() else [x], upper=d.number(0, 1))


@MAKERS.add("Shape")
def _shape_of(d: Drawing) -> None:
    x = d.pick(_ANY)
    ends: dict[str, Any] = {key: d.number(-5, 5) for key in ("start", "end") if d.chance()}
    d.node("Shape", [x], **ends)


@MAKERS.add("NonZero")
def _nonzero(d: Drawing) -> None:
    d.node("NonZero", [d.pick((np.float32, np.int32, np.bool_, np.int64, np.uint8), 1, exact=True)])


@MAKERS.add("Compress")
def _compress(d: Drawing) -> None:
    x = d.pick(NUMBERS, 1)
    if d.chance():
        axis = d.axis(x.array.ndim)
        d.node("Compress", [x, d.fresh(d.array((x.array.shape[axis],), np.bool_))], axis=axis)
    else:
        d.node("Compress", [x, d.fresh(d.array((max(1, x.array.size // 2),), np.bool_))])


@MAKERS.add("ReverseSequence")
def _reverse_sequence(d: Drawing) -> None:
    x = d.pick((np.float32, np.int32, np.int64), 2)
    batch = d.number(0, 1)
    lengths = d.fresh(d.array((x.array.shape[batch],), np.int64, 1, max(1, x.array.shape[1 - batch])))
    d.node("ReverseSequence", [x, lengths], batch_axis=batch, time_axis=1 - batch)


@MAKERS.add("Range")
def _range(d: Drawing) -> None:
    kind = d.one_of(np.int64, np.int32, np.float32)
    ends = [d.fresh(np.asarray(value, kind)) for value in (d.number(-3, 3), d.number(-3, 9), d.one_of(1, 2, -1))]
    d.node("Range", ends)


def _windows(d: Drawing, rank: int, kernel: list[int], ceil: bool) -> dict[str, Any]:
    """Strides, dilations and pads of a window."""
    found: dict[str, Any] = {}
    if d.chance():
        found["strides"] = [d.number(1, 3) for _ in range(rank)]
    if d.chance():
        found["dilations"] = [d.number(1, 2) for _ in range(rank)]
    padding = d.number(0, 3)
    if padding == 1:
        found["auto_pad"] = d.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
    elif padding > 1:
        found["pads"] = [d.number(0, max(0, kernel[n % rank] - 1)) for n in range(2 * rank)]
    if ceil:
        found["ceil_mode"] = d.number(0, 1)
    return found


def _image(d: Drawing, channels: int, rank: int, kinds: Any = FLOATS) -> Value:
    return d.input(
        d.array(
            (d.number(0 if d.empties else 1, 2), channels, *(d.number(3, 7) for _ in range(rank))), d.one_of(*kinds)
        )
    )


@MAKERS.add("Conv")
def _conv(d: Drawing) -> None:
    rank, groups, per_group = d.one_of(2, 1, 3), d.one_of(1, 2, 3), d.number(1, 3)
    kernel = [d.number(1, 3) for _ in range(rank)]
    x = _image(d, groups * per_group, rank)
    made = groups * d.number(1, 2)
    w = d.fresh(d.array((made, per_group, *kernel)))
    bias = [d.fresh(d.array((made,)))] if d.chance() else []
    d.node("Conv", [x, w, *bias], Limit.SUM, group=groups, **_windows(d, rank, kernel, False))


@MAKERS.add("ConvTranspose")
def _conv_transpose(d: Drawing) -> None:
    rank, groups, per_group = d.one_of(2, 1), d.one_of(1, 2), d.number(1, 2)
    kernel = [d.number(1, 3) for _ in range(rank)]
    x = _image(d, groups * per_group, rank)
    made = d.number(1, 2)
    w = d.fresh(d.array((groups * per_group, made, *kernel)))
    bias = [d.fresh(d.array((made * groups,)))] if d.chance() else []
    more = _windows(d, rank, kernel, False)
    if "strides" in more and d.chance():
        more["output_padding"] = [d.number(0, stride - 1) for stride in more["strides"]]
    d.node("ConvTranspose", [x, w, *bias], Limit.SUM, group=groups, **more)


@MAKERS.each("MaxPool", "AveragePool", "LpPool")
def _pool(name: str, d: Drawing) -> None:
    rank = d.one_of(2, 1, 3)
    kernel = [d.number(1, 3) for _ in range(rank)]
    x = _image(d, d.number(1, 3), rank)
    more: dict[str, Any] = _windows(d, rank, kernel, True)
    reaches = [(k - 1) * n + 1 for k, n in zip(kernel, more.get("dilations", [1] * rank), strict=True)]
    if any(map(gt, reaches, x.array.shape[2:])) or any(map(gt, more.get("strides", [1]), kernel)):
        return  # ONNX Runtime may then count a window beyond the image, or lay it before its own pads
    if name == "AveragePool":
        more["count_include_pad"] = d.number(0, 1)
    d.node(name, [x], Limit.EXACT if name == "MaxPool" else Limit.SUM, kernel_shape=kernel, **more)


_NORMALIZATIONS = ("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization")
_OTHERS = ("LRN", "LpNormalization", "GlobalAveragePool", "GlobalMaxPool", "MeanVarianceNormalization")


@MAKERS.each(*_NORMALIZATIONS, *_OTHERS)
def _normalization(name: str, d: Drawing) -> None:
    x = _image(d, d.one_of(4, 2), d.one_of(2, 1) if name != "MeanVarianceNormalization" else 2)
    channels = x.array.shape[1]
    per_channel = [d.fresh(d.array((channels,), low=0.25, high=2)) for _ in range(4)]
    if name == "BatchNormalization":
        d.node(name, [x, *per_channel], Limit.SUM, epsilon=d.one_of(1e-5, 0.25))
    elif name == "InstanceNormalization":
        d.node(name, [x, *per_channel[:2]], Limit.SUM, epsilon=d.one_of(0.01, 0.25))
    elif name == "GroupNormalization":
        d.node(name, [x, *per_channel[:2]], Limit.SUM, num_groups=d.one_of(1, 2), epsilon=0.25)
    elif name == "LRN":
        d.node(
            name, [x], Limit.SUM, size=d.one_of(3, 1, 5), alpha=0.25, beta=d.one_of(0.75, 0.5), bias=d.one_of(1.0, 2.0)
        )
    elif name == "LpNormalization":
        d.node(name, [x], Limit.SUM, axis=d.axis(x.array.ndim), p=d.number(1, 2))
    elif name == "LayerNormalization":
        axis = d.axis(x.array.ndim)
        shape = x.array.shape[axis:]
        bias = [d.fresh(d.array(shape))] if d.chance() else []
        d.node(name, [x, d.fresh(d.array(shape)), *bias], Limit.FUNCTION, axis=axis, epsilon=0.25)
    else:
        d.node(name, [x], Limit.SUM)


@MAKERS.add("Gemm")
def _gemm(d: Drawing) -> None:
    turned, other = d.number(0, 1), d.number(0, 1)
    rows, inner, columns = d.number(1, 4), d.number(0 if d.empties else 1, 4), d.number(1, 4)
    a = d.input(d.array((inner, rows) if turned else (rows, inner)))
    b = d.fresh(d.array((columns, inner) if other else (inner, columns)))
    c = [d.fresh(d.array(d.one_of((columns,), (1, columns), (rows, 1), (rows, columns), ())))] if d.chance() else []
    d.node(
        "Gemm", [a, b, *c], Limit.SUM, transA=turned, transB=other, alpha=d.one_of(1.0, 0.5), beta=d.one_of(1.0, 0.25)
    )


@MAKERS.add("MatMul")
def _matmul(d: Drawing) -> None:
    a = d.pick((np.float32, np.float32, np.int32, np.float64), 1)
    inner = a.array.shape[-1]
    batch = a.array.shape[:-2] if d.chance() else d.one_of((), (1,), (2,))
    shape = (inner,) if d.number(0, 4) == 4 else (*batch, inner, d.number(1, 4))
    d.node("MatMul", [a, d.fresh(d.array(shape, a.array.dtype))], Limit.SUM)


@MAKERS.add("Einsum")
def _einsum(d: Drawing) -> None:
    equation = d.one_of("ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->i", "ii->i", "bij,bkj->bik", "i,j->ij")
    lengths = {letter: 3 if equation == "ii->i" else d.number(1, 4) for letter in "bijk"}
    terms = equation.split("->")[0].split(",")
    d.node("Einsum", [d.fresh(d.array([lengths[c] for c in term])) for term in terms], Limit.SUM, equation=equation)


@MAKERS.add("GridSample")
def _grid_sample(d: Drawing) -> None:
    x = _image(d, d.number(1, 2), 2)
    grid = d.fresh(d.array((x.array.shape[0], d.number(1, 3), d.number(1, 3), 2), low=-1.5, high=1.5))
    mode = d.one_of("linear", "nearest", "cubic")
    padding = d.one_of("zeros", "border", "reflection")
    d.node("GridSample", [x, grid], Limit.SUM, mode=mode, padding_mode=padding, align_corners=d.number(0, 1))


@MAKERS.add("Resize")
def _resize(d: Drawing) -> None:
    x = _image(d, d.number(1, 2), 2)
    sizes = [*x.array.shape[:2], d.number(1, 9), d.number(1, 9)]
    mode = d.one_of("nearest", "linear", "cubic")
    more: dict[str, Any] = {"mode": mode}
    more["coordinate_transformation_mode"] = d.one_of(
        "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"
    )
    if mode == "nearest":
        more["nearest_mode"] = d.one_of("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        more |= {"cubic_coeff_a": d.one_of(-0.75, -0.5), "exclude_outside": d.number(0, 1)}
    if d.chance():
        scales = [1.0, 1.0, d.one_of(2.0, 0.5, 1.5, 0.75), d.one_of(2.0, 0.5, 3.0)]
        d.node("Resize", [x, None, d.constant(scales, np.float32)], Limit.SUM, **more)
    else:
        d.node("Resize", [x, None, None, d.constant(sizes, np.int64)], Limit.SUM, **more)


def _scale_of(d: Drawing, x: Value, kind: Any, axis: int | None) -> list[Value]:
    shape = () if axis is None else (x.array.shape[axis],)
    scale = d.fresh(d.array(shape, np.float32, 0.25, 2))
    low, high = (-9, 9) if np.dtype(kind).kind == "i" else (0, 99)
    return [scale, d.fresh(d.array(shape, kind, low, high))]


@MAKERS.add("QuantizeLinear")
def _quantize(d: Drawing) -> None:
    x = d.pick(FLOATS, 1, exact=True)
    axis = d.axis(x.array.ndim) if d.chance() else None
    kind = d.one_of(np.uint8, np.int8, np.int16, np.uint16)
    d.node("QuantizeLinear", [x, *_scale_of(d, x, kind, axis)], **_if(axis is not None, axis=axis))


@MAKERS.add("DequantizeLinear")
def _dequantize(d: Drawing) -> None:
    x = d.pick((np.uint8, np.int8), 1)
    axis = d.axis(x.array.ndim) if d.chance() else None
    given = [x, *_scale_of(d, x, x.array.dtype, axis)]
    d.node("DequantizeLinear", given, Limit.ROUNDED, **_if(axis is not None, axis=axis))


@MAKERS.add("DynamicQuantizeLinear")
def _dynamic_quantize(d: Drawing) -> None:
    x = d.pick(FLOATS, 1, exact=True)
    if np.isfinite(x.array).all():  # ONNX Runtime finds those NaN of a range that lie in certain places
        d.node("DynamicQuantizeLinear", [x], Limit.ROUNDED, outputs=3)


@MAKERS.add("MatMulInteger")
def _matmul_integer(d: Drawing) -> None:
    a = d.pick((np.uint8, np.int8), 2, 3)
    b = d.fresh(d.array((a.array.shape[-1], d.number(1, 4)), d.one_of(np.int8, np.uint8), -4, 9))
    zeros = [d.constant(d.number(0, 3), v.array.dtype) for v in (a, b)] if d.chance() else []
    if a.array.shape[-1]:  # else ONNX Runtime gives what is in its memory
        d.node("MatMulInteger", [a, b, *zeros])


@MAKERS.add("QLinearMatMul")
def _qlinear_matmul(d: Drawing) -> None:
    kind = d.one_of(np.uint8, np.int8)
    a, b = d.fresh(d.array((2, 3), kind, 0, 99)), d.fresh(d.array((3, 4), kind, 0, 99))
    scales = [[d.constant(d.one_of(0.5, 0.25), np.float32), d.constant(d.number(0, 5), kind)] for _ in range(3)]
    given = [a, *scales[0], b, *scales[1], d.constant(64.0, np.float32), scales[2][1]]
    d.node("QLinearMatMul", given, Limit.STEP)


def _recurrent(name: str, gates: int) -> None:
    @MAKERS.add(name)
    def make(d: Drawing) -> None:
        steps, batch, size, hidden = d.number(1, 4), d.number(1, 2), d.number(1, 3), d.number(1, 3)
        direction = d.one_of("forward", "reverse", "bidirectional")
        ways = 2 if direction == "bidirectional" else 1
        x = d.input(d.array((steps, batch, size), low=-1, high=1))
        w = d.constant(d.array((ways, gates * hidden, size), low=-1, high=1))
        r = d.constant(d.array((ways, gates * hidden, hidden), low=-1, high=1))
        b = d.constant(d.array((ways, 2 * gates * hidden), low=-1, high=1)) if d.chance() else None
        lengths = d.fresh(d.array((batch,), np.int32, 1, steps)) if d.chance() else None
        states = [
            d.fresh(d.array((ways, batch, hidden), low=-1, high=1)) if d.chance() else None
            for _ in range(2 if name == "LSTM" else 1)
        ]
        more: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
        if d.chance():
            more["clip"] = d.one_of(0.5, 2.0)
        if name == "GRU":
            more["linear_before_reset"] = d.number(0, 1)
        if name == "LSTM" and d.chance():
            states.append(d.constant(d.array((ways, 3 * hidden), low=-1, high=1)))
        outputs = 3 if name == "LSTM" else 2
        d.node(name, [x, w, r, b, lengths, *states], Limit.FUNCTION, outputs=outputs, **more)


_recurrent("RNN", 1)
_recurrent("GRU", 3)
_recurrent("LSTM", 4)


def _inner(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], **inputs: Array) -> onnx.GraphProto:
    """A graph of an attribute; its inputs have these types and dimensions."""
    taken = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    return helper.make_graph(nodes, "inner", taken, [onnx.ValueInfoProto(name=name) for name in outputs])


@MAKERS.add("If")
def _if_else(d: Drawing) -> None:
    condition, x = d.fresh(d.array((), np.bool_)), d.pick(FLOATS)
    other = d.pick(FLOATS)  # of another rank, it may be
    then = _inner([helper.make_node("Add", [x.name, x.name], ["t"])], ["t"])
    otherwise = _inner([helper.make_node(d.one_of("Neg", "Relu", "Identity"), [other.name], ["e"])], ["e"])
    d.node("If", [condition], Limit.ROUNDED, outer=[x, other], then_branch=then, else_branch=otherwise)


@MAKERS.add("Loop")
def _loop(d: Drawing) -> None:
    x = d.pick((np.float32, np.int64, np.int32))
    more = d.like(x)
    trips = d.fresh(np.asarray(d.number(0 if d.empties else 1, 4), np.int64)) if d.chance() else None
    end = d.one_of(3, 1, 9)
    steps = [
        helper.make_node(d.one_of("Add", "Sub", "Max"), ["v", more.name], ["w"]),
        helper.make_node("Identity", ["w"], ["s"]),
        helper.make_node("Constant", [], ["end"], value_int=end),
        helper.make_node("Less", ["i", "end"], ["go"]),
    ]
    body = _inner(steps, ["go", "w", "s"], i=np.zeros((), np.int64), c=np.zeros((), bool), v=x.array)
    start = d.fresh(d.array((), np.bool_)) if d.chance() else None
    d.node("Loop", [trips, start, x], Limit.SUM, outputs=2, outer=[more], body=body)


@MAKERS.add("Scan")
def _scan(d: Drawing) -> None:
    x = d.pick(FLOATS, 1)
    row = x.array[:1].reshape(x.array.shape[1:]) if len(x.array) else np.zeros(x.array.shape[1:], np.float32)
    start = d.fresh(d.array(row.shape))
    steps = [helper.make_node("Add", ["s", "r"], ["t"]), helper.make_node(d.one_of("Neg", "Relu"), ["t"], ["o"])]
    ways: dict[str, Any] = {
        key: [d.number(0, 1)] for key in ("scan_input_directions", "scan_output_directions") if d.chance()
    }
    body = _inner(steps, ["t", "o"], s=start.array, r=row)
    d.node("Scan", [start, x], Limit.SUM, outputs=2, body=body, num_scan_inputs=1, **ways)


@MAKERS.add("quantised")
def _dequantised_sum(d: Drawing) -> None:
    """DequantizeLinear, operator, QuantizeLinear, which devices make one."""
    x = d.fresh(d.array((2, 3, 4, 4), d.one_of(np.uint8, np.int8), -99, 99))
    scale, zero = d.constant(0.25, np.float32), d.constant(d.number(0, 9), x.array.dtype)
    d.node("DequantizeLinear", [x, scale, zero], Limit.EXACT)
    if not d.values:
        return
    real = d.values[-1]
    weights = d.constant(d.array((2, 3, 3, 3), np.int8, -99, 99))
    d.node("DequantizeLinear", [weights, d.constant(0.125, np.float32)], Limit.EXACT)
    operator = d.one_of("Conv", "Add", "Relu", "AveragePool", "Sigmoid", "Concat", "MatMul")
    given = {"Conv": [real, d.values[-1]], "Add": [real, real], "MatMul": [real, real], "Concat": [real, real]}
    more: dict[str, Any] = {"AveragePool": {"kernel_shape": [2, 2]}, "Concat": {"axis": 1}}
    limits = {"Sigmoid": Limit.FUNCTION, "AveragePool": Limit.ROUNDED, "Conv": Limit.SUM, "MatMul": Limit.SUM}
    d.node(operator, given.get(operator, [real]), limits.get(operator, Limit.EXACT), **more.get(operator, {}))
    out = d.one_of(np.uint8, np.int8)
    d.node("QuantizeLinear", [d.values[-1], d.constant(4.0, np.float32), d.constant(3, out)], Limit.STEP)


@MAKERS.add("sequence")
def _sequence(d: Drawing) -> None:
    """Operators over a sequence, of which the last gives an array."""
    x = d.pick((np.float32, np.int64, np.object_), 1)
    members = [x, *(d.fresh(d.value(x.array.shape, x.array.dtype)) for _ in range(d.number(0, 2)))]
    name = f"s{len(d.nodes)}"
    nodes, count = [helper.make_node("SequenceConstruct", [m.name for m in members], [name])], len(members)
    if d.chance():
        place = d.constant(np.int64(d.number(-count, count)))
        nodes.append(helper.make_node("SequenceInsert", [name, x.name, place.name], [f"{name}i"]))
        members, name, count = [*members, place], f"{name}i", count + 1
    if d.chance():
        nodes.append(helper.make_node("SequenceErase", [name], [f"{name}e"]))
        name, count = f"{name}e", count - 1
    way = d.one_of("ConcatFromSequence", "SequenceAt", "SequenceLength")
    if way == "SequenceLength":
        d.node(way, [name], outer=members, before=nodes)
    elif count and way == "SequenceAt":
        d.node(way, [name, d.fresh(np.asarray(d.number(-count, count - 1)))], outer=members, before=nodes)
    elif count:
        axis, added = d.axis(x.array.ndim), d.number(0, 1)
        d.node("ConcatFromSequence", [name], outer=members, before=nodes, axis=axis, new_axis=added)


@MAKERS.add("SplitToSequence")
def _pieces(d: Drawing) -> None:
    x = d.pick((np.float32, np.int64), 1)
    axis = d.axis(x.array.ndim)
    name, pieces = f"s{len(d.nodes)}", d.constant(np.int64(d.number(1, 3))) if d.chance() else None
    nodes = [helper.make_node("SplitToSequence", [x.name, *([pieces.name] if pieces else [])], [name], axis=axis)]
    d.node("SequenceAt", [name, d.constant(np.int64(0))], outer=[x, *([pieces] if pieces else [])], before=nodes)


@MAKERS.add("Optional")
def _optional(d: Drawing) -> None:
    x, name = d.pick((np.float32, np.int64)), f"s{len(d.nodes)}"
    way = d.one_of("OptionalGetElement", "OptionalHasElement")
    d.node(way, [name], outer=[x], before=[helper.make_node("Optional", [x.name], [name])])


@MAKERS.add("BFLOAT16")
def _bfloat16(d: Drawing) -> None:
    """To BFLOAT16 and back, by which a float is rounded."""
    x, name = d.pick(FLOATS, exact=True), f"s{len(d.nodes)}"
    moved = d.one_of("Identity", "Transpose", "Flatten", "")
    nodes = [helper.make_node("Cast", [x.name], [name], to=onnx.TensorProto.BFLOAT16)]
    if moved:
        nodes.append(helper.make_node(moved, [name], [f"{name}m"]))
        name = f"{name}m"
    d.node("Cast", [name], outer=[x], before=nodes, to=onnx.TensorProto.FLOAT)


@MAKERS.add("StringConcat")
def _string_concat(d: Drawing) -> None:
    x = d.pick((np.object_,))
    d.node("StringConcat", [x, d.like(x)])


@MAKERS.add("StringNormalizer")
def _string_normalizer(d: Drawing) -> None:
    x = d.fresh(d.array((d.number(1, 5),), np.object_))
    more: dict[str, Any] = {"case_change_action": d.one_of("NONE", "LOWER", "UPPER")}
    if d.chance():
        more |= {"stopwords": ["a", "BB"], "is_case_sensitive": d.number(0, 1)}
    d.node("StringNormalizer", [x], **more)


@MAKERS.add("RegexFullMatch")
def _regex(d: Drawing) -> None:
    d.node("RegexFullMatch", [d.pick((np.object_,))], pattern=d.one_of("[a-z]+", ".*", "", "[0-9]+|a b"))


@MAKERS.add("StringSplit")
def _string_split(d: Drawing) -> None:
    more: dict[str, Any] = {"delimiter": d.one_of("", " ", "s")} if d.chance() else {}
    d.node("StringSplit", [d.pick((np.object_,))], outputs=2, **more, **_if(d.chance(), maxsplit=1))
