"""Resize and Upsample of ONNX, in float32 and in the order of ONNX Runtime, so that integers are cut to the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import ceil
from typing import Any

import numpy as np
from onnx import helper
from onnx.reference.op_run import OpRun

from nnhal.arrays import Array
from nnhal.extensions.resizing import HALF, SIMPLE, Indices, Places, ResizedAxis

Attributes = dict[str, Any]

_FIRST_WITH_MODES = 11
_IMAGES: dict[int, Sequence[tuple[int, ...]]] = {2: [(0, 1)], 3: [(0, 1, 2)], 4: [(2, 3), (1, 2)], 5: [(2, 3, 4)]}
"""The axes of an image by the rank, those with channels first before those with channels last."""
_FRACTION_BITS, _WEIGHT_BITS = 10, 22
"""The bits behind the point of linear interpolation in images with channels last, and of antialiased bytes."""


class Resize(OpRun):
    """All modes and attributes, in all opsets."""

    op_domain = ""

    def _run(self, x: Array, *inputs: Array | None, **overridden: Any) -> tuple[Array, ...]:
        given = {a.name: helper.get_attribute_value(a) for a in self.onnx_node.attribute if not a.ref_attr_name}
        attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in {**given, **overridden}.items()}
        attributes = {name: value for name, value in attributes.items() if value is not None}
        if self.run_params["opsets"][""] < _FIRST_WITH_MODES:
            inputs = (None, np.array(attributes["scales"], np.float32) if "scales" in attributes else inputs[0])
            attributes = {"mode": attributes.get("mode", "nearest"), "coordinate_transformation_mode": "asymmetric"}
            attributes["nearest_mode"] = SIMPLE
        axes = resized_axes(x.shape, attributes, *inputs)
        shape = list(x.shape)
        for axis in axes:
            shape[axis.index] = axis.resized
        if x.shape == tuple(shape):  # as in ONNX Runtime, whatever the factors are
            return (x.copy(),)
        if 0 in shape:
            return (np.zeros(shape, x.dtype),)
        return (_resized(x, axes, attributes),)


class Upsample(Resize):
    """The name of Resize in opsets 7 to 9."""


def resized_axes(
    shape: Sequence[int],
    attributes: Attributes,
    roi: Array | None = None,
    scales: Array | None = None,
    sizes: Array | None = None,
) -> list[ResizedAxis]:
    """Return all axes of an input, with their factors."""
    rank = len(shape)
    chosen = [axis % rank for axis in attributes.get("axes") or range(rank)]
    lengths = [shape[axis] for axis in chosen]
    if scales is not None and scales.size:
        factors = [np.float32(factor) for factor in scales]
        resized = [int(factor * np.float32(length)) for factor, length in zip(factors, lengths, strict=True)]
    else:
        assert sizes is not None
        resized = [int(size) for size in sizes]
        factors = [
            np.float32(size) / np.float32(length) if length else np.float32(1)
            for size, length in zip(resized, lengths, strict=True)
        ]
        policy = attributes.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factors = [(min if policy == "not_larger" else max)(factors)] * len(chosen)
            resized = [int(factor * np.float32(n) + HALF) for factor, n in zip(factors, lengths, strict=True)]
    region = np.array([0, 1], np.float32).repeat(len(chosen)) if roi is None or not roi.size else roi
    starts, ends = region.astype(np.float32).reshape(2, -1)
    axes = [ResizedAxis(index, n, n, np.float32(1), np.float32(0), np.float32(1)) for index, n in enumerate(shape)]
    for each in zip(chosen, lengths, resized, factors, starts, ends, strict=True):
        axes[each[0]] = ResizedAxis(*each)
    return axes


def _interpolated(axes: Sequence[ResizedAxis]) -> list[ResizedAxis]:
    """Return the axes of images, as ONNX Runtime has them; those that change if it has no such images."""
    changed = {axis.index for axis in axes if axis.factor != 1}
    for images in _IMAGES.get(len(axes), ()):
        if changed <= {*images}:
            return [axes[index] for index in images]
    return [axes[index] for index in sorted(changed)]


def _resized(x: Array, axes: Sequence[ResizedAxis], attributes: Attributes) -> Array:
    transformation = attributes.get("coordinate_transformation_mode", "half_pixel")
    mode = attributes.get("mode", "nearest")
    chosen = [axis for axis in axes if axis.factor != 1] if mode == "nearest" else _interpolated(axes)
    places = [axis.places(transformation) for axis in chosen]
    channels_last = x.ndim == 4 and [axis.index for axis in chosen] == [1, 2]
    filters = mode != "nearest" and (attributes.get("antialias") or (mode == "cubic" and channels_last))
    result = x
    if mode == "nearest":
        for axis, positions in zip(chosen, places, strict=True):
            pixels = axis.nearest(positions, attributes.get("nearest_mode", "round_prefer_floor"))
            result = result.take(pixels, axis.index)
    elif filters:
        result = _antialiased(x, chosen, places, attributes)
    elif mode == "linear":
        result = _linear(x, chosen, places, whole=channels_last and x.dtype.itemsize == 1)
    else:
        result = _cubic(x, chosen, places, attributes)
    if transformation == "tf_crop_and_resize" and not (filters and channels_last):
        for axis, positions in zip(chosen, places, strict=True):
            outside = _along(axis, result, (positions < 0) | (positions > axis.length - 1))
            value = np.asarray(attributes.get("extrapolation_value", 0.0), np.float32).astype(x.dtype)
            result = np.where(outside, value, result)
    return result


def _along(axis: ResizedAxis, like: Array, values: Array) -> Array:
    """Return values, one for each index of an axis, that broadcast with an array."""
    return values.reshape([-1 if index == axis.index else 1 for index in range(like.ndim)])


def _real(x: Array) -> Array:
    return x if x.dtype == np.float64 else x.astype(np.float32)


def _linear(x: Array, axes: Sequence[ResizedAxis], places: Sequence[Places], whole: bool) -> Array:
    """Return sums of the elements around each place; if ``whole``, with weights in fixed point."""
    corners: list[list[tuple[Indices, Array]]] = []
    for axis, positions in zip(axes, places, strict=True):
        inside = np.clip(positions, np.float32(0), np.float32(axis.length - 1))
        lower = inside.astype(np.int64)
        upper = np.minimum(lower + 1, axis.length - 1)
        fraction: Array = inside - lower.astype(np.float32)
        if whole:
            fraction = (inside * (1 << _FRACTION_BITS)).astype(np.int32) - (lower << _FRACTION_BITS).astype(np.int32)
        one = fraction.dtype.type(1 << _FRACTION_BITS if whole else 1)
        halves = lower == upper
        weights = [np.where(halves, one / 2, each).astype(fraction.dtype) for each in (one - fraction, fraction)]
        corners.append([(lower, weights[0]), (upper, weights[1])])
    values = x.astype(np.int32) if whole else _real(x)
    total: Array | None = None
    for chosen in product(*corners):
        picked, weight = values, values.dtype.type(1)
        for axis, (indices, factor) in reversed([*zip(axes, chosen, strict=True)]):
            picked, weight = picked.take(indices, axis.index), weight * _along(axis, x, factor)
        term = weight * picked
        total = term if total is None else total + term
    assert total is not None
    return (total / (1 << _FRACTION_BITS * len(axes)) if whole else total).astype(x.dtype)


def _cubic(x: Array, axes: Sequence[ResizedAxis], places: Sequence[Places], attributes: Attributes) -> Array:
    values, a = _real(x), np.float32(attributes.get("cubic_coeff_a", -0.75))
    for axis, positions in reversed([*zip(axes, places, strict=True)]):
        first = np.floor(positions).astype(np.int64) - 1
        s = positions - np.floor(positions)
        weights = [_outer_cubic(s + 1, a), _inner_cubic(s, a), _inner_cubic(1 - s, a), _outer_cubic(2 - s, a)]
        if attributes.get("exclude_outside"):
            inside = [(first + k >= 0) & (first + k < axis.length) for k in range(4)]
            weights = [np.where(within, weight, np.float32(0)) for within, weight in zip(inside, weights, strict=True)]
            total = weights[0] + weights[1] + weights[2] + weights[3]
            weights = [weight / total for weight in weights]
        values = _weighted(values, axis, first, weights)
    return values.astype(x.dtype)


def _inner_cubic(x: Places, a: np.float32) -> Places:
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _outer_cubic(x: Places, a: np.float32) -> Places:
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def _weighted(values: Array, axis: ResizedAxis, first: Indices, weights: Sequence[Array]) -> Array:
    """Return sums along an axis of the elements from ``first`` on times their weights; those outside are clamped."""
    total: Array | None = None
    for number, weight in enumerate(weights):
        picked = values.take(np.clip(first + number, 0, axis.length - 1), axis.index)
        term = _along(axis, values, weight) * picked
        total = term if total is None else total + term
    assert total is not None
    return total


def _antialiased(x: Array, axes: Sequence[ResizedAxis], places: Sequence[Places], attributes: Attributes) -> Array:
    """Return what filters give that are as wide as the pixels of the result, axis after axis from the last on."""
    cubic, a = attributes.get("mode") == "cubic", np.float32(attributes.get("cubic_coeff_a", -0.75))
    result = x
    for axis, positions in reversed([*zip(axes, places, strict=True)]):
        if axis.length == axis.resized:  # as in ONNX Runtime, whatever the factor is
            continue
        filtered: Callable[[Places], Places] = (lambda d: _cubic_filter(d, a)) if cubic else _linear_filter
        first, weights = _filter(axis, positions, 2 if cubic else 1, filtered, bool(attributes.get("exclude_outside")))
        if x.dtype.itemsize == 1:  # fixed point, with a half for the rounding
            whole = [_half_away(weight * np.float32(1 << _WEIGHT_BITS)).astype(np.int64) for weight in weights]
            sums = _weighted(result.astype(np.int64), axis, first, whole) + (1 << _WEIGHT_BITS - 1)
            result = np.clip(sums >> _WEIGHT_BITS, 0, 255).astype(x.dtype)
        else:
            sums = _weighted(_real(result), axis, first, weights)
            rounded = _half_away(sums) if x.dtype.kind in "iu" else sums
            result = rounded.astype(x.dtype)
    return result


def _half_away(values: Array) -> Array:
    wide = values.astype(np.float64)  # in which adding a half is exact
    return np.trunc(wide + np.copysign(0.5, wide))


def _linear_filter(distance: Places) -> Places:
    weights: Places = np.maximum(1 - np.abs(distance), np.float32(0))
    return weights


def _cubic_filter(distance: Places, a: np.float32) -> Places:
    x = np.abs(distance)
    far = np.where(x < 2, (((x - 5) * x + 8) * x - 4) * a, np.float32(0))
    return np.where(x < 1, _inner_cubic(x, a), far)


def _filter(
    axis: ResizedAxis, places: Places, radius: int, filtered: Callable[[Places], Places], excludes: bool
) -> tuple[Indices, list[Places]]:
    """Return the first index that each element of the result reads, and the weights from there on."""
    scale = 1 / axis.factor
    stretch = max(scale, np.float32(1))
    support = np.float32(radius) * stretch
    window = ceil(support) * 2 + 1
    centre = places + HALF
    first = np.floor(centre - support + HALF).astype(np.int64)
    count = np.clip(np.floor(centre + support + HALF).astype(np.int64) - first, 0, window)
    weights = np.zeros((window, axis.resized), np.float32)
    for number in range(window):
        index = first + number
        counted = (number < count) & ((index >= 0) & (index < axis.length) if excludes else True)
        distance = (index.astype(np.float32) - centre + HALF) * (1 / stretch)
        weights[number] = np.where(counted, filtered(distance), np.float32(0))
    total = np.add.accumulate(weights, 0)[-1]  # one after another, unlike sum
    begin = np.clip(first, 0, axis.length - 1)
    inside, every = np.zeros_like(weights), np.arange(axis.resized)
    for outside in (False, True):  # what is outside counts as the element at the border, and is added last
        for number in range(window):
            place = np.clip(first + number, 0, axis.length - 1)
            counted = (place != first + number) == outside
            np.add.at(inside, (place - begin, every), np.where(counted, weights[number], np.float32(0)))
    return begin, [*(inside * (1 / np.where(total == 0, np.float32(1), total)))]
