"""Pooling of ONNX, of any element type, with every attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from onnx.reference.op_run import OpRun

from nnhal.arrays import Array


class _Windows(NamedTuple):
    """The windows of all planes, one after the other: arrays [windows, elements]."""

    values: Array
    """The values, [batch, channels, windows, elements], of which only those ``within`` count."""
    indices: Array
    """The place of each element in its plane."""
    within: Array
    """True if an element lies in the input."""
    padded: Array
    """True if it lies in the input or its padding."""
    shape: tuple[int, ...]
    """The dimensions of the result."""


class _Pool(OpRun):
    op_domain = ""

    def _windows(self, x: Array, attributes: Mapping[str, Any]) -> _Windows:
        lengths, kernel = x.shape[2:], attributes["kernel_shape"]
        ones = [1] * len(kernel)
        strides, dilations = attributes.get("strides") or ones, attributes.get("dilations") or ones
        pads = _pads(lengths, strides, attributes)
        indices, within, padded = np.zeros((1, 1), np.int64), np.ones((1, 1), bool), np.ones((1, 1), bool)
        shape = []
        for axis, (length, size, stride, step) in enumerate(zip(lengths, kernel, strides, dilations, strict=True)):
            begin, end = pads[axis], pads[axis + len(kernel)]
            room = length + begin + end - (size - 1) * step - 1
            count = (-(-room // stride) if attributes.get("ceil_mode") else room // stride) + 1
            if attributes.get("ceil_mode") and (count - 1) * stride >= length + begin:
                count -= 1  # a window may not begin behind the input
            place = np.arange(count)[:, None] * stride + np.arange(size) * step - begin
            inside = (place >= 0) & (place < length)
            indices = _outer(np.add, indices * length, np.where(inside, place, 0))
            within, padded = (
                _outer(np.logical_and, within, inside),
                _outer(np.logical_and, padded, place < length + end),
            )
            shape.append(max(count, 0))
        values = x.reshape(*x.shape[:2], prod(lengths))[:, :, indices]
        return _Windows(values, indices, within, padded, (*x.shape[:2], *shape))


def _pads(lengths: Sequence[int], strides: Sequence[int], attributes: Mapping[str, Any]) -> Sequence[int]:
    """The pads before each spatial axis, and then those behind it."""
    if attributes.get("auto_pad") not in ("SAME_UPPER", "SAME_LOWER"):
        return attributes.get("pads") or [0] * 2 * len(lengths)
    totals = [
        max((-(-length // stride) - 1) * stride + size - length, 0)
        for length, stride, size in zip(lengths, strides, attributes["kernel_shape"], strict=True)
    ]
    smaller, larger = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return [*larger, *smaller] if attributes["auto_pad"] == "SAME_LOWER" else [*smaller, *larger]


def _outer(combine: Any, a: Array, b: Array) -> Array:
    """Combine places of some axes, [windows, elements], with those of the next."""
    joined: Array = combine(a[:, None, :, None], b[None, :, None, :])
    return joined.reshape(a.shape[0] * b.shape[0], a.shape[1] * b.shape[1])


class MaxPool(_Pool):
    """Maxima of windows, and their indices in the whole input."""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array, ...]:
        values, indices, within, _, shape = self._windows(x, attributes)
        lengths = x.shape[2:]
        lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf  # bfloat16 is of no kind of numpy's
        windows = np.where(within, values, np.asarray(lowest, x.dtype))
        chosen = windows.argmax(-1)
        maxima = np.take_along_axis(windows, chosen[..., None], -1).reshape(shape)
        if len(self.onnx_node.output) == 1:
            return (maxima,)
        found = np.take_along_axis(np.broadcast_to(indices, windows.shape), chosen[..., None], -1)[..., 0]
        if attributes.get("storage_order"):
            found = np.ravel_multi_index(np.unravel_index(found, lengths)[::-1], lengths[::-1])
        before = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], 1) * prod(lengths)
        return maxima, (found + before).reshape(shape)


class AveragePool(_Pool):
    """Means of windows, in which padding counts as zeros, or not at all."""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array, ...]:
        values, _, within, padded, shape = self._windows(x, attributes)
        counts = (padded if attributes.get("count_include_pad") else within).sum(-1)
        return ((np.where(within, values, 0).sum(-1) / counts).astype(x.dtype).reshape(shape),)


class LpPool(_Pool):
    """Norms of windows."""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array, ...]:
        values, _, within, _, shape = self._windows(x, attributes)
        p = attributes.get("p") or 2
        powers = np.where(within, np.abs(values), 0) ** p
        return ((powers.sum(-1) ** (1 / p)).astype(x.dtype).reshape(shape),)
