"""Fields of inference messages as Python values: the parameters, and the elements of tensors that are not raw bytes."""

from __future__ import annotations

from collections.abc import ItemsView, Sequence
from typing import Any, Protocol, cast

import numpy as np

from nnhal.arrays import Array
from nnhal.inference.datatypes import BYTES, Datatype, TensorError, element_count, reshaped
from nnhal.inference.grpc_service_pb2 import InferParameter, InferTensorContents
from nnhal_service.serving.requests.request import Parameter
from nnhal_service.v2.requested import PRIORITY, SEQUENCE_FLAGS, TIMEOUT, RequestParameters, refuse, request_parameters

_PIECE = 1 << 13
"""The elements that are converted at a time: in far less than a millisecond."""
_EMPTY_FINAL_RESPONSE = "triton_enable_empty_final_response"
_INTEGER, _BOOL = ("int64_param", "uint64_param"), ("bool_param",)
_TYPES = {
    "sequence_id": (*_INTEGER, "string_param"),
    **dict.fromkeys(SEQUENCE_FLAGS, _BOOL),
    PRIORITY: _INTEGER,
    TIMEOUT: _INTEGER,
    _EMPTY_FINAL_RESPONSE: _BOOL,
}
"""The types of the parameters that the protocol defines."""
_NO_PARAMETERS = RequestParameters(0, 0, {})
_CONTENTS = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""The field of InferTensorContents for each datatype."""


class ParameterMap(Protocol):
    """A map of parameters in a message."""

    def items(self) -> ItemsView[str, InferParameter]: ...

    def __len__(self) -> int: ...


def request_parameters_from_wire(message: ParameterMap) -> RequestParameters:
    """A request's parameters. Raises INVALID_ARGUMENT for a reserved name, or a value of the wrong type."""
    if not len(message):
        return _NO_PARAMETERS
    given = {key: _value(key, parameter, _TYPES.get(key)) for key, parameter in message.items()}
    return request_parameters(given, (_EMPTY_FINAL_RESPONSE,))


def parameters_from_wire(message: ParameterMap) -> dict[str, Parameter]:
    """A tensor's parameters. Raises INVALID_ARGUMENT for a parameter without a value."""
    return {key: _value(key, parameter, None) for key, parameter in message.items()} if len(message) else {}


def array_from_contents(kind: Datatype, shape: Sequence[int], contents: InferTensorContents) -> Array:
    """The elements of a tensor.

    Raises TensorError if they are in a field of another datatype, do not have the count of the shape, or are out of
    range.
    """
    field = _CONTENTS.get(kind.name)
    if field is None:
        raise TensorError(f"{kind.name} has no field in contents; expected its elements in raw_input_contents")
    used = [descriptor.name for descriptor, _ in contents.ListFields()]
    if used not in ([], [field]):
        raise TensorError(f"contents has {', '.join(used)}, expected {field} for {kind.name}")
    elements = getattr(contents, field)
    count = element_count(shape)
    if len(elements) != count:
        raise TensorError(f"{field} has {len(elements)} elements, expected {count} for shape {list(shape)}")
    if kind is BYTES:
        array = np.empty(count, object)
        for start in range(0, count, _PIECE):
            array[start : start + _PIECE] = elements[start : start + _PIECE]
        return reshaped(array, shape)
    return reshaped(_numbers(kind, field, elements), shape)


def _numbers(kind: Datatype, field: str, elements: Sequence[int | float]) -> Array:
    if kind.name not in ("INT8", "INT16", "UINT8", "UINT16"):
        return _in_pieces(elements, kind.dtype)
    wide = _in_pieces(elements, np.dtype(np.int64))
    narrow = wide.astype(kind.dtype)
    if not np.array_equal(narrow, wide):
        worst = int(wide[np.argmax(narrow != wide)])
        raise TensorError(f"{field} has {worst}, which {kind.name} cannot hold")
    return narrow


def _in_pieces(elements: Sequence[int | float], dtype: np.dtype[Any]) -> Array:
    """The elements as an array. Between two pieces, other threads run."""
    array = np.empty(len(elements), dtype)
    for start in range(0, len(elements), _PIECE):
        piece = elements[start : start + _PIECE]
        array[start : start + len(piece)] = np.fromiter(piece, dtype, len(piece))
    return array


def _value(key: str, parameter: InferParameter, types: tuple[str, ...] | None) -> Parameter:
    choice = parameter.WhichOneof("parameter_choice")
    if choice is None:
        raise refuse(f"parameter '{key}' has no value")
    if types is not None and choice not in types:
        raise refuse(f"invalid value type for '{key}' parameter, expected {' or '.join(types)}, got {choice}")
    return cast(Parameter, getattr(parameter, choice))
