"""Operators of ONNX that its reference evaluator computes wrongly at corners: empty values, lengths beyond an axis.

cpu_ref computes with them, and so does what folds constants.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_global_average_pool, op_scatter_elements, op_scatternd, op_squeeze

from nnhal.arrays import Array


class _Arg(OpRun):
    """The index of an extreme along an axis; there may be no elements along others."""

    op_domain = ""
    found: Any

    def _run(self, data: Array, **attributes: Any) -> tuple[Array, ...]:
        axis = (attributes.get("axis") or 0) % data.ndim
        if not data.size:
            result = np.zeros((*data.shape[:axis], 1, *data.shape[axis + 1 :]), np.int64)
        elif attributes.get("select_last_index"):
            result = data.shape[axis] - 1 - np.expand_dims(type(self).found(np.flip(data, axis), axis), axis)
        else:
            result = np.expand_dims(type(self).found(data, axis), axis)
        return (np.asarray(result if attributes.get("keepdims") != 0 else result.squeeze(axis), np.int64),)


class ArgMax(_Arg):
    """The index of the largest."""

    found = np.argmax


class ArgMin(_Arg):
    """The index of the smallest."""

    found = np.argmin


class Mean(OpRun):
    """The mean of values that are broadcast."""

    op_domain = ""

    def _run(self, *values: Array) -> tuple[Array, ...]:
        return (np.asarray(sum(values[1:], values[0]) / len(values), values[0].dtype),)


class Softsign(OpRun):
    """Of any rank, also 0."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array, ...]:
        return (np.asarray(x / (1 + np.abs(x)), x.dtype),)


class Compress(OpRun):
    """The condition may be shorter than the axis, and the input empty."""

    op_domain = ""

    def _run(self, x: Array, condition: Array, axis: int | None = None) -> tuple[Array, ...]:
        data = x.reshape(-1) if axis is None else x
        along = 0 if axis is None else axis
        return (np.take(data, np.flatnonzero(condition[: data.shape[along]]), along),)


class DynamicQuantizeLinear(OpRun):
    """Quantise to 8 bits by the range of the values and 0; a range of no width has the scale 1, as in ONNX Runtime."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array, ...]:
        least, largest = x.min(initial=0), x.max(initial=0)
        scale = np.float32(1) if least == largest else (largest - least) / np.float32(255)
        zero_point = np.clip(np.rint(-least / scale), 0, 255).astype(np.uint8)
        quantised = np.clip(np.rint(x / scale) + np.float32(zero_point), 0, 255).astype(np.uint8)
        return quantised, np.asarray(scale, np.float32), np.asarray(zero_point)


class Flatten(OpRun):
    """A matrix, of axes before ``axis`` and those from it on."""

    op_domain = ""

    def _run(self, x: Array, axis: int | None = None) -> tuple[Array, ...]:
        at = 1 if axis is None else axis if axis >= 0 else axis + x.ndim
        return (x.reshape(int(np.prod(x.shape[:at])), int(np.prod(x.shape[at:]))),)


class GatherElements(OpRun):
    """Indices of fewer elements than the input, along all axes."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int | None = None) -> tuple[Array, ...]:
        places: list[Any] = list(np.indices(indices.shape, sparse=True))
        places[axis or 0] = np.where(indices < 0, indices + data.shape[axis or 0], indices)
        return (data[tuple(places)],)


class GlobalAveragePool(op_global_average_pool.GlobalAveragePool):
    """A batch of 0 too."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array, ...]:
        own: Any = super()._run
        return own(x) if x.size else (np.zeros((*x.shape[:2], *[1] * (x.ndim - 2)), x.dtype),)


class Pow(OpRun):
    """Integers as ONNX Runtime raises them: squares and cubes by products that wrap around, others in float64: what is
    too large becomes the least integer.
    """

    op_domain = ""

    def _run(self, x: Array, y: Array) -> tuple[Array, ...]:
        if x.dtype.kind not in "iu":
            return (np.power(x, y).astype(x.dtype),)
        if y.size == 1 and y.item() in (2, 3):
            return (np.power(x, np.asarray(y, x.dtype)),)
        with np.errstate(all="ignore"):
            return (np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype),)


class ReduceMean(OpRun):
    """The mean of nothing, which ONNX leaves open, is 0, as in ONNX Runtime."""

    op_domain = ""

    def _run(self, data: Array, axes: Any = None, **attributes: Any) -> tuple[Array, ...]:
        given = [] if axes is None else np.asarray(axes).tolist()
        if not given and attributes.get("noop_with_empty_axes"):
            return (data,)
        along = tuple(given) if given else tuple(range(data.ndim))
        keeps = attributes.get("keepdims") != 0
        count = int(np.prod([data.shape[axis] for axis in along]))
        if not count:
            return (np.zeros_like(np.sum(data, along, keepdims=keeps), data.dtype),)
        return (np.asarray(np.mean(data, along, keepdims=keeps)).astype(data.dtype),)


def _extremes(data: Array, updates: Array, places: Iterable[tuple[Any, Any]], reduction: str) -> Array:
    """Return data with updates at places, where they are no less extreme: NaN replaces all, and all replace it."""
    result, before = np.copy(data), np.greater if reduction == "max" else np.less
    for to, at in places:
        result[to] = np.where(before(result[to], updates[at]), result[to], updates[at])
    return result


class ScatterElements(op_scatter_elements.ScatterElements):
    """Extremes with NaN as ONNX Runtime finds them."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, updates: Array, axis: Any = None, reduction: Any = None) -> Any:
        own: Any = super()._run
        if reduction not in ("max", "min"):
            return own(data, indices, updates, axis, reduction)
        axis %= data.ndim
        places = (((*at[:axis], indices[at], *at[axis + 1 :]), at) for at in np.ndindex(indices.shape))
        return (_extremes(data, updates, places, reduction),)


class ScatterND(op_scatternd.ScatterND):
    """Extremes with NaN as ONNX Runtime finds them."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, updates: Array, reduction: Any = None) -> Any:
        own: Any = super()._run
        if reduction not in ("max", "min"):
            return own(data, indices, updates, reduction)
        places = ((tuple(indices[at]), at) for at in np.ndindex(indices.shape[:-1]))
        return (_extremes(data, updates, places, reduction),)


class NonZero(OpRun):
    """The indices of an element of rank 0 are those of a vector of one, as ONNX Runtime has it."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array, ...]:
        return (np.array(np.nonzero(np.atleast_1d(x)), np.int64),)


class Shape(OpRun):
    """The lengths from ``start`` to ``end``, which are clamped to the rank."""

    op_domain = ""

    def _run(self, data: Array, start: int | None = None, end: int | None = None) -> tuple[Array, ...]:
        return (np.array(data.shape[start or 0 : end], np.int64),)


class Slice(OpRun):
    """Starts and ends are clamped to the axis before any step is taken, as the specification has it."""

    op_domain = ""

    def _run(self, data: Array, *inputs: Array | None, **attributes: Any) -> tuple[Array, ...]:
        filled_up: list[Any] = [*inputs, *[None] * (4 - len(inputs))]
        if not inputs:
            filled_up[:3] = [attributes.get(name) for name in ("starts", "ends", "axes")]
        starts, ends, axes, steps = ([] if each is None else np.asarray(each).tolist() for each in filled_up)
        chosen = [slice(None)] * data.ndim
        for n, (start, end) in enumerate(zip(starts, ends, strict=True)):
            axis, step = axes[n] if axes else n, steps[n] if steps else 1
            length = data.shape[axis]
            lowest, highest = (0, length) if step > 0 else (-1, length - 1)
            first = min(max(start + length * (start < 0), max(lowest, 0)), highest)
            last = min(max(end + length * (end < 0), lowest), highest)
            chosen[axis] = slice(first, None if last < 0 else last, step) if length else slice(None)
        return (data[tuple(chosen)],)


class Squeeze(op_squeeze.Squeeze_13):
    """Without axes, or with an empty list of them, as in ONNX Runtime, all axes of length 1 go."""

    op_domain = ""

    def _run(self, data: Array, axes: Array | None = None) -> tuple[Array, ...]:
        own: Any = super()._run
        given = next((list(a.ints) for a in self.onnx_node.attribute if a.name == "axes"), axes)
        results: tuple[Array, ...] = own(data, None if given is None or not len(given) else np.asarray(given))
        return results


CORNERS = (
    ArgMax,
    ArgMin,
    Compress,
    DynamicQuantizeLinear,
    Flatten,
    GatherElements,
    GlobalAveragePool,
    Mean,
    NonZero,
    Pow,
    ReduceMean,
    ScatterElements,
    ScatterND,
    Shape,
    Slice,
    Softsign,
    Squeeze,
)
"""These operators, in every opset."""
