"""ONNX's Loop for its reference evaluator, whose own joins the elements of scan outputs instead of stacking them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper
from onnx.reference.ops import op_loop

from nnhal.arrays import Array


class Loop(op_loop.Loop):
    """The operator by ONNX's specification: a scan output has an axis for the turns before those of its elements."""

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
