"""Operators of ONNX which its reference evaluator computes otherwise than the specification says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from onnx.reference.op_run import OpRun
from onnx.reference.ops import (
    op_batch_normalization,
    op_conv_transpose,
    op_dequantize_linear,
    op_dropout,
    op_grid_sample,
    op_loop,
    op_non_max_suppression,
    op_one_hot,
    op_pad,
    op_quantize_linear,
    op_roi_align,
)
from onnx.reference.ops._quant_utils import reshape_input

from nnhal.arrays import Array
from nnhal.extensions.onnx_corners import CORNERS
from nnhal.kernels.reduction import extremum
from nnhal_devices.cpu_ref.onnx_pooling import AveragePool, LpPool, MaxPool
from nnhal_devices.cpu_ref.onnx_recurrent import GRU, LSTM, RNN
from nnhal_devices.cpu_ref.onnx_refusals import ignores_case
from nnhal_devices.cpu_ref.onnx_resize import Resize, Upsample


class Loop(op_loop.Loop):
    """A scan output has an axis for the turns before those of its elements; the evaluator's own joins the elements."""

    op_domain = ""
    body: Any
    _run_body: Any

    def _run(
        self,
        M: Array | None,  # noqa: N803 - the specification's names
        cond: Array | None,
        *args: Any,
        context: dict[str, Any] | None = None,
        body: object = None,
        attributes: object = None,
        bindings: object = None,
    ) -> tuple[Any, ...]:
        number, condition, *carried = self.body.input_names
        values = {**(context or {}), **dict(zip(carried, args, strict=True))}
        turns = None if M is None else int(np.reshape(M, ()))
        goes_on = cond is None or bool(np.reshape(cond, ()))
        elements: list[list[Array]] = [[] for _ in range(self.K)]
        turn = 0
        while goes_on and (turns is None or turn < turns):
            values |= {number: np.array(turn, np.int64), condition: np.array(goes_on)}
            next_condition, *results = self._run_body(values, attributes=attributes, bindings=bindings)
            goes_on = bool(np.reshape(next_condition, ()))
            values |= dict(zip(carried, results, strict=False))
            for scanned, element in zip(elements, results[len(carried) :], strict=True):
                scanned.append(element)
            turn += 1
        return (*(values[name] for name in carried), *map(self._stacked, range(self.K), elements))

    def _stacked(self, index: int, elements: list[Array]) -> Array:
        """A scan output. Without any turn its elements have the shape that the body declares, 0 for unknown lengths."""
        if elements:
            return np.stack(elements)
        kind = self.body.proto_.output[1 + self.N + index].type.tensor_type
        shape = (dim.dim_value for dim in kind.shape.dim)
        return np.empty((0, *shape), helper.tensor_dtype_to_np_dtype(kind.elem_type))


class Pad(op_pad.Pad_18):
    """Negative pads crop, before the others are filled unless it is by a constant."""

    op_domain = ""

    def _run(self, data: Array, *inputs: Array | None, **attributes: Any) -> tuple[Array, ...]:
        mode: Any = attributes.get("mode") or "constant"
        value: Any
        if "pads" in (given := {a.name: a for a in self.onnx_node.attribute}):
            pads, value, axes = list(given["pads"].ints), given["value"].f if "value" in given else 0, None
        else:
            filled_up: list[Array | None] = [*inputs, *[None] * (3 - len(inputs))]
            first, constant, of_axes = filled_up
            assert first is not None
            pads, value, axes = first.tolist(), 0 if constant is None else np.reshape(constant, ()), of_axes
        places = range(data.ndim) if axes is None else [int(axis) % data.ndim for axis in axes]
        widths = [(0, 0)] * data.ndim
        for axis, *width in zip(places, pads[: len(pads) // 2], pads[len(pads) // 2 :], strict=True):
            widths[axis] = (width[0], width[1])
        filled = [(max(b, 0), max(e, 0)) for b, e in widths]
        if mode == "constant":
            return (_cropped(np.pad(data, filled, constant_values=value), widths).astype(data.dtype),)
        return (np.pad(_cropped(data, widths), filled, mode=mode),)


def _cropped(data: Array, widths: Sequence[tuple[int, int]]) -> Array:
    lengths = zip(data.shape, widths, strict=True)
    return data[tuple(slice(max(-before, 0), max(n - max(-after, 0), 0)) for n, (before, after) in lengths)]


class _Reduction(OpRun):
    """A reduction whose axes are an attribute or, in later opsets, an input."""

    op_domain = ""

    def _run(self, data: Array, axes: Any = None, **attributes: Any) -> tuple[Array, ...]:
        given = [] if axes is None else np.asarray(axes).tolist()
        if not given and attributes.get("noop_with_empty_axes"):
            along: tuple[int, ...] | None = ()
        else:
            along = tuple(given) if given else None
        keeps = attributes.get("keepdims") != 0
        return (np.asarray(self._reduced(data, along, keeps)).astype(data.dtype),)

    def _reduced(self, data: Array, axes: tuple[int, ...] | None, keepdims: bool) -> Array:
        raise NotImplementedError


class ReduceSumSquare(_Reduction):
    """The sum of squares, of the type of the input."""

    def _reduced(self, data: Array, axes: tuple[int, ...] | None, keepdims: bool) -> Array:
        return np.sum(np.square(data), axis=axes, keepdims=keepdims)


class _Extremum(_Reduction):
    """An extreme: a NaN that comes first stays, no other is found."""

    extreme: np.ufunc

    def _reduced(self, data: Array, axes: tuple[int, ...] | None, keepdims: bool) -> Array:
        along = range(data.ndim) if axes is None else [axis % data.ndim for axis in axes]
        bounds: tuple[Any, Any] = (False, True) if data.dtype == np.bool_ else (-np.inf, np.inf)
        if data.dtype.kind in "iu":
            bounds = np.iinfo(data.dtype).min, np.iinfo(data.dtype).max
        found = extremum(self.extreme, data, along, bounds[self.extreme is np.fmin])
        return np.expand_dims(found, tuple(along)) if keepdims else found


class ReduceMax(_Extremum):
    """The largest."""

    extreme = np.fmax


class ReduceMin(_Extremum):
    """The smallest."""

    extreme = np.fmin


class ReduceLogSum(_Reduction):
    """The logarithm of the sum."""

    def _reduced(self, data: Array, axes: tuple[int, ...] | None, keepdims: bool) -> Array:
        return np.asarray(np.log(np.sum(data, axis=axes, keepdims=keepdims)))


class ReduceLogSumExp(_Reduction):
    """The logarithm of the sum of exponentials, of what is left after the largest is taken off."""

    def _reduced(self, data: Array, axes: tuple[int, ...] | None, keepdims: bool) -> Array:
        top = np.max(data, axis=axes, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0).astype(data.dtype)
        summed = np.asarray(np.log(np.sum(np.exp(data - top), axis=axes, keepdims=True)) + top)
        return summed if keepdims else summed.reshape(np.sum(data, axis=axes).shape)


class ConvTranspose(op_conv_transpose.ConvTranspose):
    """Groups, each with its part of the channels. SAME pads are those of ONNX Runtime, which are never negative."""

    op_domain = ""

    def _run(self, x: Array, w: Array, b: Array | None = None, **attributes: Any) -> tuple[Array, ...]:  # type: ignore[override] # as its own base
        groups = attributes.pop("group") or 1
        if str(automatic := attributes.get("auto_pad")).startswith("SAME") and not attributes.get("output_shape"):
            attributes |= {"auto_pad": "NOTSET", "pads": self._pads(x, w, automatic == "SAME_LOWER", attributes)}
        batch = np.zeros((1, *x.shape[1:]), x.dtype) if not len(x) else x
        parts = zip(
            np.split(batch, groups, 1),
            np.split(w, groups),
            [None] * groups if b is None else np.split(b, groups),
            strict=True,
        )
        own: Any = super()._run
        return (np.concatenate([own(*part, group=1, **attributes)[0] for part in parts], 1)[: len(x)],)

    def _pads(self, x: Array, w: Array, is_lower: bool, attributes: dict[str, Any]) -> list[int]:
        count = x.ndim - 2
        strides, dilations = (attributes.get(name) or [1] * count for name in ("strides", "dilations"))
        more = attributes.get("output_padding") or [0] * count
        reaches = [(length - 1) * dilation + 1 for length, dilation in zip(w.shape[2:], dilations, strict=True)]
        totals = [max(0, reach + extra - s) for reach, extra, s in zip(reaches, more, strides, strict=True)]
        before = [total - total // 2 if is_lower else total // 2 for total in totals]
        return [*before, *(total - first for total, first in zip(totals, before, strict=True))]


class GridSample(op_grid_sample.GridSample):
    """The names of the modes before opset 20."""

    op_domain = ""

    def _run(self, x: Array, grid: Array, **attributes: Any) -> tuple[Array, ...]:  # type: ignore[override] # as its own base
        mode = attributes.pop("mode") or "linear"
        if not len(x) or not grid.size:
            return (np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype),)
        own: Any = super()._run
        results: tuple[Array, ...] = own(
            x, grid, mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode), **attributes
        )
        return results


class NonMaxSuppression(op_non_max_suppression.NonMaxSuppression):
    """Without a maximum nothing is selected; the thresholds are optional too."""

    op_domain = ""

    def _run(self, boxes: Array, scores: Array, *optional: Array | None, **attributes: Any) -> tuple[Array, ...]:
        filled_up: list[Array | None] = [*optional, *[None] * (3 - len(optional))]
        most, overlap, score = (None if each is None else np.reshape(each, 1) for each in filled_up)
        if most is None or most <= 0:
            return (np.zeros((0, 3), np.int64),)
        none = np.zeros(1, np.float32)
        own: Any = super()._run
        results: tuple[Array, ...] = own(boxes, scores, most, none if overlap is None else overlap, score, **attributes)
        return results


class RoiAlign(op_roi_align.RoiAlign):
    """Opsets before 16 shift no region by half a pixel."""

    op_domain = ""

    def _run(self, *inputs: Array, **attributes: Any) -> tuple[Array, ...]:
        if self.run_params["opsets"][""] < 16:
            attributes["coordinate_transformation_mode"] = "output_half_pixel"
        own: Any = super()._run
        results: tuple[Array, ...] = own(*inputs, **attributes)
        return results


class Dropout(op_dropout.DropoutBase):
    """Opsets before 12 have a mask of zeros, as ONNX Runtime computes it, of the input's type before opset 10."""

    op_domain = ""

    def _run(self, x: Array, ratio: Any = 0.5, training: Any = False, **attributes: Any) -> tuple[Array, ...]:
        opset = self.run_params["opsets"][""]
        if opset >= 12:
            results: tuple[Array, ...] = self._private_run(
                x, ratio=0.5 if ratio is None else ratio, training_mode=bool(training), seed=attributes.get("seed")
            )
            return results
        return (x, np.zeros_like(x, np.bool_ if opset >= 10 else x.dtype))[: self.n_outputs]


class Optional(OpRun):
    """An optional value is the value itself, as ONNX Runtime has it; the evaluator's is a list of it. None is [None],
    since the evaluator takes no None for a result.
    """

    op_domain = ""

    def _run(self, x: Any = None, type: Any = None) -> tuple[Any, ...]:  # noqa: A002 - the specification's name
        del type
        return ([None] if x is None else x,)


class OptionalHasElement(OpRun):
    """Return False for [None], which Optional makes of nothing."""

    op_domain = ""

    def _run(self, x: Any = None) -> tuple[Any, ...]:
        return (np.array(x is not None and not (isinstance(x, list) and any(each is None for each in x))),)


class SequenceInsert(OpRun):
    """A position that is the length of the sequence is its end."""

    op_domain = ""

    def _run(self, sequence: Any, element: Any, position: Array | None = None) -> tuple[Any, ...]:
        values = list(sequence)
        place = len(values) if position is None else int(np.reshape(position, ()))
        if not -len(values) <= place <= len(values):
            raise ValueError(f"position is {place}, expected {-len(values)} to {len(values)}")
        values.insert(place, element)
        return (values,)


class RegexFullMatch(OpRun):
    """Expressions of RE2, whose classes of characters are those of ASCII."""

    op_domain = ""

    def _run(self, x: Array, pattern: str) -> tuple[Array, ...]:
        expression = re.compile(pattern, 0 if ignores_case(pattern) else re.ASCII)
        found = [expression.fullmatch(str(word)) is not None for word in x.reshape(-1)]
        return (np.array(found, np.bool_).reshape(x.shape),)


class OneHot(op_one_hot.OneHot):
    """The depth may be an array of one element; indices that are floats lose their fractions."""

    op_domain = ""

    def _run(self, indices: Array, depth: Array, values: Array, axis: int | None = None) -> tuple[Array, ...]:
        own: Any = super()._run
        results: tuple[Array, ...] = own(indices.astype(np.int64), np.reshape(depth, ()), values, axis=axis)
        return results


class DequantizeLinear(op_dequantize_linear._CommonDequantizeLinear):
    """All versions; the evaluator has those from opset 19."""

    op_domain = ""


class QuantizeLinear(op_quantize_linear._CommonQuantizeLinear):
    """Integers beyond those of 32 bits are clamped, and NaN is the least; the evaluator's wrap around."""

    op_domain = ""

    def _run(self, x: Array, y_scale: Array, zero_point: Array | None = None, **attributes: Any) -> tuple[Array, ...]:  # type: ignore[override] # as its own base
        given = {name: value for name, value in attributes.items() if value}
        own: Any = super()._run
        target = given.get("output_dtype") or TensorProto.UINT8
        if zero_point is not None:
            target = helper.np_dtype_to_tensor_dtype(zero_point.dtype)
        if target not in op_quantize_linear._QUANT_INTEGER_RANGES:
            results: tuple[Array, ...] = own(x, y_scale, zero_point, **attributes)
            return results
        low, high = op_quantize_linear._QUANT_INTEGER_RANGES[target]
        axis = attributes.get("axis")
        place = (x.shape, 1 if axis is None else axis, given.get("block_size"))
        kind = helper.tensor_dtype_to_np_dtype(given["precision"]) if "precision" in given else y_scale.dtype
        scales: Array = reshape_input(y_scale, *place)
        offset: Any = 0 if zero_point is None else reshape_input(zero_point, *place)
        codes = np.rint(x.astype(kind) / scales.astype(kind)).astype(np.float64) + np.asarray(offset, np.float64)
        return (np.minimum(np.fmax(codes, low), high).astype(helper.tensor_dtype_to_np_dtype(target)),)


class StringNormalizer(OpRun):
    """Accents stay, as the specification and ONNX Runtime have it; no locale of the host is needed."""

    op_domain = ""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array, ...]:
        change = {"UPPER": str.upper, "LOWER": str.lower}.get(attributes.get("case_change_action") or "NONE", str)
        sensitive = bool(attributes.get("is_case_sensitive"))
        compared = str if sensitive else str.lower
        stops = {compared(word) for word in attributes.get("stopwords") or ()}
        kept = [change(word) for word in map(str, x.reshape(-1)) if compared(word) not in stops] or [""]
        return (np.array(kept, object).reshape((1, -1) if x.ndim == 2 else -1),)


class StringSplit(OpRun):
    """Of any rank. An empty string has no parts, and what a maximum leaves has no white space around it."""

    op_domain = ""

    def _run(self, x: Array, delimiter: str | None = None, maxsplit: int | None = None) -> tuple[Array, ...]:
        most = -1 if maxsplit is None else maxsplit

        def parts(word: str) -> list[str]:
            if delimiter:
                return word.split(delimiter, most) if word else []
            return [part.decode() for part in word.encode().strip().split(None, most)]  # by white space of ASCII

        found = [parts(str(word)) for word in x.reshape(-1)]
        longest = max(map(len, found), default=0)
        padded = np.array([[*each, *[""] * (longest - len(each))] for each in found], object)
        return padded.reshape(*x.shape, longest), np.array([*map(len, found)], np.int64).reshape(x.shape)


class BatchNormalization(op_batch_normalization.BatchNormalization_14):
    """Opsets before 14 normalise by what they are given; the evaluator's do so by the batch."""

    op_domain = ""

    def _run(self, x: Array, *given: Array, **attributes: Any) -> tuple[Array, ...]:
        usual = {"epsilon": 1e-5, "momentum": 0.9, "training_mode": 0}
        own: Any = super()._run
        results: tuple[Array, ...] = own(
            x,
            *given,
            **{name: value if attributes.get(name) is None else attributes[name] for name, value in usual.items()},
        )
        return results


class _Flattened(OpRun):
    """Opsets before 13: over all axes from ``axis`` on, 1 unless it is given; then along one axis, the last."""

    op_domain = ""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array, ...]:
        given = next((a.i for a in self.onnx_node.attribute if a.name == "axis"), None)
        if self.run_params["opsets"][""] >= 13:
            return (self._along(x, -1 if given is None else given),)
        axis = (1 if given is None else given) % max(x.ndim, 1)
        rows = int(np.prod(x.shape[:axis]))
        return (self._along(x.reshape(rows, -1 if rows else 1), 1).reshape(x.shape),)

    def _along(self, x: Array, axis: int) -> Array:
        raise NotImplementedError


class Softmax(_Flattened):
    """Exponentials over their sum."""

    def _along(self, x: Array, axis: int) -> Array:
        exponentials = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
        return np.asarray(exponentials / exponentials.sum(axis, keepdims=True))


class LogSoftmax(_Flattened):
    """The logarithm of Softmax."""

    def _along(self, x: Array, axis: int) -> Array:
        lowered = x - x.max(axis, keepdims=True, initial=-np.inf)
        return np.asarray(lowered - np.log(np.exp(lowered).sum(axis, keepdims=True)))


class Hardmax(_Flattened):
    """1 for the first of the largest, else 0. A NaN is the largest if it comes first, and equal to nothing."""

    def _along(self, x: Array, axis: int) -> Array:
        if not x.size:
            return x
        largest = np.expand_dims(extremum(np.fmax, x, [axis % x.ndim], -np.inf), axis)
        equal = x == largest
        result = np.zeros_like(x)
        np.put_along_axis(result, np.expand_dims(equal.argmax(axis), axis), 1, axis)
        return np.where(equal, result, 0).astype(x.dtype)


class GlobalMaxPool(OpRun):
    """Any number of spatial axes."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array, ...]:
        spatial = tuple(range(2, x.ndim))
        lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
        return (np.expand_dims(extremum(np.fmax, x, spatial, lowest), spatial),)


class LpNormalization(OpRun):
    """Norms of absolute values."""

    op_domain = ""

    def _run(self, x: Array, axis: int | None = None, p: int | None = None) -> tuple[Array, ...]:
        norms = np.linalg.norm(x, p, -1 if axis is None else axis, keepdims=True).astype(x.dtype)
        return (np.divide(x, norms, out=np.zeros_like(x), where=norms != 0),)


class LRN(OpRun):
    """Channels around each, as many before it as behind it, or one more behind it."""

    op_domain = ""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array, ...]:
        size = attributes["size"]
        widths = [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)]
        squares = np.pad(np.square(x), widths)
        sums = sum(squares[:, first : first + x.shape[1]] for first in range(size))
        scaled = attributes["bias"] + attributes["alpha"] / size * sums
        return ((x / scaled ** attributes["beta"]).astype(x.dtype),)


OPERATORS = (
    *(AveragePool, LpPool, MaxPool),
    *(Loop, RNN, GRU, LSTM, Pad, ReduceSumSquare, ReduceLogSum, ReduceLogSumExp, ConvTranspose, GridSample),
    *(NonMaxSuppression, OneHot, DequantizeLinear, StringNormalizer, Softmax, LogSoftmax, Hardmax),
    *(BatchNormalization, Dropout, Optional, OptionalHasElement, SequenceInsert, RegexFullMatch, RoiAlign, StringSplit),
    *(QuantizeLinear, ReduceMax, ReduceMin, GlobalMaxPool, LpNormalization, LRN, Resize, Upsample),
    *CORNERS,
)
"""The operators that cpu_ref computes itself, in every opset."""
