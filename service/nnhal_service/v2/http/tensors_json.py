"""Tensors as JSON: numbers, booleans and strings, nested or flat, row-major."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.inference.datatypes import BYTES, Datatype, TensorError, element_count, reshaped

_WITHOUT_JSON = ("FP16", "BF16")
_MAX_DEPTH = 64


def array_from_json(kind: Datatype, shape: Sequence[int], data: object) -> Array:
    """A tensor from JSON. Raises TensorError if its elements do not have the datatype, or the count of the shape."""
    if kind.name in _WITHOUT_JSON:
        raise TensorError(f"{kind.name} has no form in JSON; expected binary data (binary_data_size)")
    items = data if isinstance(data, list) else [data]
    array = _strings(items) if kind is BYTES else _numbers(kind, items)
    count = element_count(shape)
    if array.size != count:
        raise TensorError(f"got {array.size} elements, expected {count} for shape {list(shape)}")
    return reshaped(array, shape)


def json_from_array(kind: Datatype, array: Array) -> Array | list[Any]:
    """The elements for a JSON list. Raises TensorError if they have no form in JSON."""
    if kind.name in _WITHOUT_JSON:
        raise TensorError(f"{kind.name} has no form in JSON; ask for it with parameter 'binary_data'")
    flat = np.ascontiguousarray(array).reshape(-1)
    if kind is not BYTES:
        return flat
    try:
        return [item.decode() if isinstance(item, bytes) else str(item) for item in flat.tolist()]
    except UnicodeDecodeError as error:
        raise TensorError("elements of BYTES that are not UTF-8; ask for them with parameter 'binary_data'") from error


def _numbers(kind: Datatype, items: list[Any]) -> Array:
    try:
        array: Array = np.asarray(items)
    except (ValueError, OverflowError):
        array = np.asarray(list(_leaves(items, 0)), object)
    if array.size == 0:
        return array.astype(kind.dtype)
    wanted = kind.dtype.kind
    if wanted == "b":
        return _booleans(kind, array)
    if wanted == "f":
        if array.dtype.kind not in "iuf":
            raise _wrong(kind, items)
        return array.astype(kind.dtype)
    if array.dtype.kind not in "iu":
        array = _whole_numbers(kind, items)
    limits = np.iinfo(kind.dtype.name)
    low, high = int(array.min()), int(array.max())
    if low < limits.min or high > limits.max:
        raise TensorError(f"got {low if low < limits.min else high}, which {kind.name} cannot hold")
    return array.astype(kind.dtype)


def _whole_numbers(kind: Datatype, items: list[Any]) -> Array:
    """Integers that fit no single type of numpy, such as 2**63 beside -1."""
    leaves = list(_leaves(items, 0))
    if not all(isinstance(leaf, int) and not isinstance(leaf, bool) for leaf in leaves):
        raise _wrong(kind, items)
    return np.asarray(leaves, object)


def _booleans(kind: Datatype, array: Array) -> Array:
    """True and false, or 1 and 0."""
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind not in "iu" or not np.isin(array, (0, 1)).all():
        raise _wrong(kind, array.tolist())
    return array.astype(np.bool_)


def _strings(items: list[Any]) -> Array:
    leaves = []
    for leaf in _leaves(items, 0):
        if not isinstance(leaf, str):
            raise _wrong(BYTES, leaf)
        leaves.append(leaf.encode())
    array = np.empty(len(leaves), object)
    array[:] = leaves
    return array


def _leaves(items: list[Any], depth: int) -> Iterator[Any]:
    if depth > _MAX_DEPTH:
        raise TensorError(f"data is nested more than {_MAX_DEPTH} deep")
    for item in items:
        if isinstance(item, list):
            yield from _leaves(item, depth + 1)
        else:
            yield item


def _wrong(kind: Datatype, got: object) -> TensorError:
    return TensorError(f"got {str(got)[:60]}, expected elements of {kind.name}")
