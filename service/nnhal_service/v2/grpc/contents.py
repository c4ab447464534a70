"""Tensors whose elements are in the message, in the field for their datatype."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.inference.datatypes import BYTES, Datatype, TensorError, element_count, reshaped
from nnhal.inference.grpc_service_pb2 import InferTensorContents

_FIELDS = {
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


def array_from_contents(kind: Datatype, shape: Sequence[int], contents: InferTensorContents) -> Array:
    """Raises TensorError where they are in another field, not as many as the shape says, or out of range."""
    field = _FIELDS.get(kind.name)
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
        array[:] = list(elements)
        return reshaped(array, shape)
    return reshaped(_numbers(kind, field, elements), shape)


def _numbers(kind: Datatype, field: str, elements: Sequence[int | float]) -> Array:
    if kind.name not in ("INT8", "INT16", "UINT8", "UINT16"):
        return np.fromiter(elements, kind.dtype, len(elements))
    wide = np.fromiter(elements, np.int64, len(elements))
    narrow = wide.astype(kind.dtype)
    if not np.array_equal(narrow, wide):
        worst = int(wide[np.argmax(narrow != wide)])
        raise TensorError(f"{field} has {worst}, which is no {kind.name}")
    return narrow
