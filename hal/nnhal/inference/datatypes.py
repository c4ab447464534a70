"""The datatypes of the protocol, as numpy types and as bytes on the wire.

Bytes are little-endian, row-major and without padding (Open Inference Protocol V2, "Tensor Data"; binary tensor data
extension). Arrays of BYTES have dtype object and hold bytes. Arrays of BF16 have dtype ml_dtypes.bfloat16; if that
package is missing, so is BF16.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nnhal import small_types
from nnhal.arrays import Array
from nnhal.errors import NnhalError
from nnhal.inference.byte_strings import decode_byte_strings, encode_byte_strings

Raw = bytes | bytearray | memoryview
"""Elements as bytes."""


class HasElementType(Protocol):
    """An array, or what stands for one."""

    @property
    def dtype(self) -> np.dtype[Any]: ...


class TensorError(NnhalError):
    """A tensor that does not match its description. The message says what was got and what was expected."""


@dataclass(frozen=True, slots=True)
class Datatype:
    """A datatype of the protocol. ``item_size`` is in bytes, 0 if elements differ in size."""

    name: str
    dtype: np.dtype[np.generic]
    item_size: int


BYTES = Datatype("BYTES", np.dtype(object), 0)
_BFLOAT16 = "BF16"
_TYPES: dict[str, type[np.generic]] = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}
_bfloat16 = small_types.find("bfloat16")
DATATYPES = {
    **{name: Datatype(name, np.dtype(kind), np.dtype(kind).itemsize) for name, kind in _TYPES.items()},
    **({_BFLOAT16: Datatype(_BFLOAT16, _bfloat16, _bfloat16.itemsize)} if _bfloat16 is not None else {}),
    BYTES.name: BYTES,
}
"""All datatypes, by name."""
_BY_DTYPE = {kind.dtype: kind for kind in DATATYPES.values()}


def datatype(name: str) -> Datatype:
    """A datatype by its name. Raises TensorError, MissingTypeError if it needs a package that is missing."""
    found = DATATYPES.get(name)
    if found is None:
        if name == _BFLOAT16:
            small_types.require("bfloat16")
        raise TensorError(f"datatype {name!r} is unknown; expected one of {', '.join(DATATYPES)}")
    return found


def datatype_of(array: HasElementType) -> Datatype:
    """Return the datatype of an array; strings of any kind are BYTES. Raises TensorError."""
    if array.dtype.kind in "OSU":
        return BYTES
    found = _BY_DTYPE.get(array.dtype) or _BY_DTYPE.get(array.dtype.newbyteorder("="))
    if found is None:
        raise TensorError(
            f"numpy type {array.dtype} is not a datatype of the protocol, expected one of {', '.join(DATATYPES)}"
        )
    return found


def element_count(shape: Sequence[int]) -> int:
    """Return how many elements a tensor has. Raises TensorError if an axis is negative."""
    if shape and min(shape) < 0:
        raise TensorError(f"shape {list(shape)} has a negative axis")
    return math.prod(shape)


def array_from_raw(kind: Datatype, shape: Sequence[int], raw: Raw) -> Array:
    """View bytes as an array; elements of BYTES are copied.

    Raises TensorError if the number of bytes does not match the shape, or elements of BYTES do not fit the bytes.
    """
    count = element_count(shape)
    if kind is BYTES:
        return reshaped(_byte_strings(raw, count), shape)
    if len(raw) != count * kind.item_size:
        require_bytes(kind, shape, len(raw))
    if kind.dtype.kind == "b" and count and np.frombuffer(raw, np.uint8).max() > 1:
        raise TensorError("got an element of BOOL that is neither 0 nor 1")
    return reshaped(np.frombuffer(raw, kind.dtype), shape)


def require_bytes(kind: Datatype, shape: Sequence[int], size: int) -> None:
    """Raise TensorError unless a tensor of a shape takes ``size`` bytes. Not for BYTES."""
    expected = element_count(shape) * kind.item_size
    if size != expected:
        raise TensorError(f"got {size} bytes, expected {expected} for {kind.name} of shape {list(shape)}")


def raw_from_array(array: Array) -> bytes | memoryview:
    """Return the bytes of an array, without a copy if it has the protocol's layout. Raises TensorError."""
    kind = datatype_of(array)
    if kind is BYTES:
        return encode_byte_strings(array)
    flat = np.ascontiguousarray(array, kind.dtype).reshape(-1)
    return flat.view(np.uint8).data


def _byte_strings(raw: Raw, count: int) -> Array:
    try:
        return decode_byte_strings(raw, count)
    except ValueError as error:
        raise TensorError(str(error)) from error


def reshaped(array: Array, shape: Sequence[int]) -> Array:
    """Give elements a tensor's shape. Raises TensorError if numpy does not support the shape."""
    try:
        return array.reshape(shape)
    except ValueError as error:
        raise TensorError(
            f"a shape of {len(shape)} axes, {list(shape)[:8]} and so on, has too many axes for an array"
        ) from error
