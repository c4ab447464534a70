"""The result of each operator: its shape, type and scale. An unknown dimension makes unknown what depends on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from nnhal.types.layout import describe
from nnhal_mlip.flow.graph.flow_graph import Attribute, FlowValue
from nnhal_mlip.flow.graph.inference import Inference
from nnhal_mlip.flow.graph.operators import Operator, permutation
from nnhal_mlip.flow.graph.windows import conv2d, conv2d_transpose, global_pool2d, pool2d, upsampling

_PAD_MODES = ("constant", "edge", "reflect")


def infer(operator: str, inputs: Sequence[FlowValue], attributes: Mapping[str, Attribute], place: str) -> FlowValue:
    """Return the type of an operator's result, in the element type of its first input.

    ``place`` is the user's name of the node. The result has the first input's scale if the operator does not change
    values; otherwise none. Raises FlowError if inputs or attributes do not fit the operator, or it has no rule.
    """
    asked = Inference(operator, inputs, attributes, place)
    if operator not in _RULES:
        asked.refuse("no types of its results", f"them, or one of {', '.join(sorted(_RULES))}")
    rule, count = _RULES[operator]
    if len(inputs) != count if count else not inputs:
        asked.refuse(f"{len(inputs)} inputs", str(count or "at least one"))
    result = rule(asked)
    if operator in _KEEP_VALUES and inputs[0].scales:
        axis = _moved_axis(asked) if len(inputs[0].scales) > 1 else 0
        return FlowValue(result, inputs[0].element_type, inputs[0].scales, axis)
    return FlowValue(result, inputs[0].element_type)


def _like_data(asked: Inference) -> tuple[int, ...]:
    return asked.inputs[0].shape


def _clip(asked: Inference) -> tuple[int, ...]:
    asked.real("a_min")
    asked.real("a_max")
    return asked.inputs[0].shape


def _leaky_relu(asked: Inference) -> tuple[int, ...]:
    asked.real("alpha")
    return asked.inputs[0].shape


def _hard_sigmoid(asked: Inference) -> tuple[int, ...]:
    asked.real("alpha")
    asked.real("beta")
    return asked.inputs[0].shape


def _prelu(asked: Inference) -> tuple[int, ...]:
    result = _broadcast(asked)
    if result != asked.inputs[0].shape:
        asked.refuse(f"alpha of shape {describe(asked.inputs[1].shape)}", "one that broadcasts to the data")
    return result


def _softmax(asked: Inference) -> tuple[int, ...]:
    asked.axis("axis", asked.inputs[0].rank)
    return asked.inputs[0].shape


def _layer_norm(asked: Inference) -> tuple[int, ...]:
    asked.real("epsilon")
    return _softmax(asked)


def _batch_matmul(asked: Inference) -> tuple[int, ...]:
    left, right = (asked.require_ranks(index, 2, 3, 4) for index in (0, 1))
    rows, inner = left[-2:][:: -1 if asked.flag("transpose_a") else 1]
    given, columns = right[-2:][:: -1 if asked.flag("transpose_b") else 1]
    if left[:-2] != right[:-2] or (inner != given and 0 not in (inner, given)):
        asked.refuse(f"shapes {describe(left)} and {describe(right)}", "as many matrices, that can be multiplied")
    return (*left[:-2], rows, columns)


def _broadcast(asked: Inference) -> tuple[int, ...]:
    left, right = (value.shape for value in asked.inputs)
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    result = []
    for one, other in pairs:
        if one != other and 1 not in (one, other) and 0 not in (one, other):
            asked.refuse(f"shapes {describe(left)} and {describe(right)}", "shapes that broadcast")
        result.append(other if one == 1 else one if other in (0, 1) else other)
    return tuple(result)


def _bias_add(asked: Inference) -> tuple[int, ...]:
    data, bias = asked.inputs[0].shape, asked.require_ranks(1, 1)
    _require_length(asked, 1, bias, data[asked.axis("axis", len(data))])
    return data


def _batch_norm(asked: Inference) -> tuple[int, ...]:
    data = asked.inputs[0].shape
    asked.real("epsilon")
    for index in range(1, 5):
        _require_length(asked, index, asked.require_ranks(index, 1), data[asked.axis("axis", len(data))])
    return data


def _require_length(asked: Inference, index: int, shape: tuple[int, ...], channels: int) -> None:
    if shape[0] != channels and 0 not in (shape[0], channels):
        asked.refuse(f"input {index} of shape {describe(shape)}", f"{channels} elements, as many as channels")


def _dense(asked: Inference) -> tuple[int, ...]:
    data, weight = asked.inputs[0].shape, asked.require_ranks(1, 2)
    if not data or (data[-1] != weight[1] and 0 not in (data[-1], weight[1])):
        asked.refuse(
            f"data of shape {describe(data)} and weights of shape {describe(weight)}", "[.., I] and weights [O, I]"
        )
    return (*data[:-1], weight[0])


def _concatenate(asked: Inference) -> tuple[int, ...]:
    first = asked.inputs[0].shape
    axis = asked.axis("axis", len(first))
    merged = list(first)
    for value in asked.inputs[1:]:
        shape = value.shape
        pairs = [(one, other) for place, (one, other) in enumerate(zip(merged, shape, strict=False)) if place != axis]
        if len(shape) != len(first) or any(one != other and 0 not in (one, other) for one, other in pairs):
            shapes = ", ".join(describe(value.shape) for value in asked.inputs)
            asked.refuse(f"shapes {shapes}", f"equal shapes apart from axis {axis}")
        merged = [one or other for one, other in zip(merged, shape, strict=True)]
    lengths = [value.shape[axis] for value in asked.inputs]
    merged[axis] = 0 if 0 in lengths else sum(lengths)
    return tuple(merged)


def _reshape(asked: Inference) -> tuple[int, ...]:
    shape, target = asked.inputs[0].shape, asked.integers("newshape", least=1)
    if 0 not in shape and prod(shape) != prod(target):
        asked.refuse(f"shape {describe(shape)} and newshape {describe(target)}", "equally many elements")
    return target


def _batch_flatten(asked: Inference) -> tuple[int, ...]:
    batch, *rest = asked.require_ranks(0, *range(1, 9))
    return (batch, prod(rest))


def _strided_slice(asked: Inference) -> tuple[int, ...]:
    shape = asked.inputs[0].shape
    axis, begin, end = asked.axis("axis", len(shape)), asked.integer("begin"), asked.integer("end")
    if not 0 <= begin < end or (shape[axis] and end > shape[axis]):
        asked.refuse(f"elements {begin} to {end} of axis {axis} of shape {describe(shape)}", "some that it has")
    return (*shape[:axis], end - begin, *shape[axis + 1 :])


def _squeeze(asked: Inference) -> tuple[int, ...]:
    shape = asked.inputs[0].shape
    axes = asked.axes("axis", len(shape))
    if not axes or any(shape[axis] not in (0, 1) for axis in axes):
        asked.refuse(f"shape {describe(shape)} and axis {asked.attributes['axis']}", "axes of length 1")
    return tuple(length for axis, length in enumerate(shape) if axis not in axes)


def _mean(asked: Inference) -> tuple[int, ...]:
    shape = asked.inputs[0].shape
    axes, keep = asked.axes("axis", len(shape)), asked.flag("keepdims")
    return tuple(1 if axis in axes else length for axis, length in enumerate(shape) if keep or axis not in axes)


def _transpose(asked: Inference) -> tuple[int, ...]:
    shape = asked.inputs[0].shape
    axes = asked.axes("axes", len(shape))
    if len(axes) != len(shape):
        asked.refuse(f"axes {axes} of a shape {describe(shape)}", "each axis once")
    return tuple(shape[axis] for axis in axes)


def _layout_transform(asked: Inference) -> tuple[int, ...]:
    shape = asked.inputs[0].shape
    axes = _layout_axes(asked)
    if len(axes) != len(shape):
        asked.refuse(f"a shape {describe(shape)} in layout {asked.attributes['src_layout']}", f"rank {len(axes)}")
    return tuple(shape[axis] for axis in axes)


def _layout_axes(asked: Inference) -> tuple[int, ...]:
    source, target = asked.attributes.get("src_layout"), asked.attributes.get("dst_layout")
    if not isinstance(source, str) or not isinstance(target, str):
        asked.refuse(f"src_layout {source!r} and dst_layout {target!r}", "two layouts")
    try:
        return permutation(source, target)
    except ValueError as error:
        asked.refuse(f"src_layout {source} and dst_layout {target}", f"layouts with the same letters: {error}")


def _pad(asked: Inference) -> tuple[int, ...]:
    shape = asked.inputs[0].shape
    widths = asked.integers("pad_width", 2 * len(shape), least=0)
    asked.real("pad_value")
    mode = asked.attributes.get("pad_mode")
    if mode not in _PAD_MODES:
        asked.refuse(f"pad_mode {mode!r}", f"one of {', '.join(_PAD_MODES)}")
    if mode == "reflect" and any(
        width >= length > 0 for length, *both in zip(shape, widths[::2], widths[1::2], strict=True) for width in both
    ):
        asked.refuse(f"shape {describe(shape)} and pad_width {widths}", "less than the length of each axis to reflect")
    return tuple(
        length and before + length + after
        for length, before, after in zip(shape, widths[::2], widths[1::2], strict=True)
    )


def _moved_axis(asked: Inference) -> int:
    """Return along which axis a result has scales, if the input has several."""
    axis = asked.inputs[0].axis
    match asked.operator:
        case Operator.TRANSPOSE:
            return asked.axes("axes", asked.inputs[0].rank).index(axis)
        case Operator.LAYOUT_TRANSFORM:
            return _layout_axes(asked).index(axis)
        case Operator.COPY | Operator.DROPOUT | Operator.PAD:
            return axis
    asked.refuse("an input with several scales", "one scale")


_KEEP_VALUES = frozenset(
    {
        Operator.BATCH_FLATTEN,
        Operator.CLIP,
        Operator.COPY,
        Operator.DROPOUT,
        Operator.GLOBAL_MAX_POOL2D,
        Operator.LAYOUT_TRANSFORM,
        Operator.MAX_POOL2D,
        Operator.PAD,
        Operator.RELU,
        Operator.RESHAPE,
        Operator.SQUEEZE,
        Operator.STRIDED_SLICE,
        Operator.TRANSPOSE,
        Operator.UPSAMPLING,
    }
)
"""Operators whose results consist of values of the data, or of a few others."""

_RULES: dict[str, tuple[Callable[[Inference], tuple[int, ...]], int]] = {
    Operator.ADD: (_broadcast, 2),
    Operator.AVG_POOL2D: (pool2d, 1),
    Operator.BATCH_FLATTEN: (_batch_flatten, 1),
    Operator.BATCH_MATMUL: (_batch_matmul, 2),
    Operator.BATCH_NORM: (_batch_norm, 5),
    Operator.BIAS_ADD: (_bias_add, 2),
    Operator.CLIP: (_clip, 1),
    Operator.CONCATENATE: (_concatenate, 0),
    Operator.CONV2D: (conv2d, 2),
    Operator.CONV2D_TRANSPOSE: (conv2d_transpose, 2),
    Operator.COPY: (_like_data, 1),
    Operator.DENSE: (_dense, 2),
    Operator.DIVIDE: (_broadcast, 2),
    Operator.DROPOUT: (_like_data, 1),
    Operator.ERF: (_like_data, 1),
    Operator.GELU: (_like_data, 1),
    Operator.GELU_TANH: (_like_data, 1),
    Operator.GLOBAL_AVG_POOL2D: (global_pool2d, 1),
    Operator.GLOBAL_MAX_POOL2D: (global_pool2d, 1),
    Operator.HARD_SIGMOID: (_hard_sigmoid, 1),
    Operator.HARD_SWISH: (_like_data, 1),
    Operator.LAYER_NORM: (_layer_norm, 1),
    Operator.LAYOUT_TRANSFORM: (_layout_transform, 1),
    Operator.LEAKY_RELU: (_leaky_relu, 1),
    Operator.MAX_POOL2D: (pool2d, 1),
    Operator.MEAN: (_mean, 1),
    Operator.MULTIPLY: (_broadcast, 2),
    Operator.PAD: (_pad, 1),
    Operator.PRELU: (_prelu, 2),
    Operator.RELU: (_like_data, 1),
    Operator.RESHAPE: (_reshape, 1),
    Operator.SIGMOID: (_like_data, 1),
    Operator.SILU: (_like_data, 1),
    Operator.SOFTMAX: (_softmax, 1),
    Operator.SQUEEZE: (_squeeze, 1),
    Operator.STRIDED_SLICE: (_strided_slice, 1),
    Operator.SUBTRACT: (_broadcast, 2),
    Operator.TANH: (_like_data, 1),
    Operator.TRANSPOSE: (_transpose, 1),
    Operator.UPSAMPLING: (upsampling, 1),
}
"""The rule for each operator, and how many inputs it has; 0 for any number from one."""
