"""Operators of ONNX which its reference evaluator computes otherwise than the specification says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import helper
from onnx.reference.ops import op_loop, op_max_pool

from nnhal.arrays import Array


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


class MaxPool(op_max_pool.MaxPool):
    """Indices are those of the maxima, and SAME_LOWER pads more at the begin; with the evaluator's own operator neither
    holds: windows at steps of 1 have other indices.
    """

    op_domain = ""
    onnx_node: Any
    _max_pool: Any

    def _run(self, x: Array, **attributes: Any) -> tuple[Array, ...]:  # type: ignore[override] # as its own base
        if attributes.get("auto_pad") == "SAME_LOWER":
            attributes |= {"auto_pad": "NOTSET", "pads": _pads_of_same_lower(x.shape[2:], attributes)}
        pooled: Any = self._max_pool if len(self.onnx_node.output) > 1 else super()._run
        results: tuple[Array, ...] = pooled(x, **attributes)
        return results


def _pads_of_same_lower(shape: Sequence[int], attributes: Mapping[str, Any]) -> list[int]:
    """The pads before each spatial axis, and then those behind it."""
    ones = [1] * len(shape)
    strides, dilations = attributes.get("strides") or ones, attributes.get("dilations") or ones
    windows = [(kernel - 1) * step + 1 for kernel, step in zip(attributes["kernel_shape"], dilations, strict=True)]
    totals = [
        max((-(-length // stride) - 1) * stride + window - length, 0)
        for length, stride, window in zip(shape, strides, windows, strict=True)
    ]
    return [*((total + 1) // 2 for total in totals), *(total // 2 for total in totals)]
