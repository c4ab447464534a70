"""Compute a message of the extension nnhal.onnx: by ONNX Runtime, or by ONNX's reference for what the runtime lacks.

The reference comes second, since it takes some operators of older opsets for today's: Softmax before 13, say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

from nnhal.arrays import Array
from nnhal_mlip.flow.errors import FlowError

_FATAL = 4


class MessageEvaluation:
    """Computes a message."""

    def __init__(self, message: onnx.ModelProto, constants: Mapping[str, Array], place: str) -> None:
        """``constants`` are inputs of its graph; ``place`` is the user's name of the node, for errors."""
        self._message, self._constants, self._place = message, constants, place
        self._session: onnxruntime.InferenceSession | None = None
        self._reference: ReferenceEvaluator | None = None

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Compute the results from the inputs of the graph that are no constants.

        Raises FlowError if neither the runtime nor the reference can.
        """
        given = (value for value in self._message.graph.input if value.name not in self._constants)
        arrays = dict(self._constants) | {
            value.name: as_declared(value, array) for value, array in zip(given, inputs, strict=True)
        }
        try:
            results: Any = self._by_runtime(arrays) if self._reference is None else self._by_reference(arrays)
        except Exception:  # neither raises errors of a type of its own
            try:
                results = self._by_reference(arrays)
            except Exception as error:
                raise FlowError(f"{self._place}: ONNX's reference cannot compute it: {error}") from error
        return [np.atleast_1d(result) for result in results]

    def _by_runtime(self, arrays: dict[str, Array]) -> Any:
        if self._session is None:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            options.log_severity_level = _FATAL
            content = self._message.SerializeToString()
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        return self._session.run(None, arrays)

    def _by_reference(self, arrays: dict[str, Array]) -> Any:
        if self._reference is None:
            self._reference = ReferenceEvaluator(self._message)
        return self._reference.run(None, arrays)


def as_declared(value: onnx.ValueInfoProto, array: Array) -> Array:
    """Return an array in the type that the graph has for it, without the axis that the HAL gives to scalars."""
    kind = value.type.tensor_type
    scalar = kind.HasField("shape") and not kind.shape.dim and array.size == 1
    shaped = array.reshape(()) if scalar else array
    return shaped.astype(helper.tensor_dtype_to_np_dtype(kind.elem_type), copy=False) if kind.elem_type else shaped
