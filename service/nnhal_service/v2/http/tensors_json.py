"""Tensors as JSON: numbers, booleans and strings, nested or flat, row-major."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson

from nnhal.arrays import Array
from nnhal.inference.datatypes import BYTES, Datatype, TensorError, element_count, reshaped
from nnhal_hosting.interpreter_sharing import in_turns
from nnhal_service.access import Charge
from nnhal_service.v2.http.json_cut import MOST_DEPTH
from nnhal_service.v2.http.json_lists import elements_of
from nnhal_service.v2.requested import copied_bytes

_WITHOUT_JSON = ("FP16", "BF16")
_EMPTY = b" \t\r\n[],"
_WRITTEN = 1 << 11
"""The elements that are written at a time: far less than a millisecond's."""
_STRING_FACTOR = 6
"""A long string in bytes for each of its own: its text, its characters, of four bytes if one is rare, and its UTF-8."""


def array_from_json(kind: Datatype, shape: Sequence[int], data: object) -> Array:
    """A tensor from JSON. Raises TensorError if its elements do not have the datatype, or the count of the shape."""
    _require_form(kind)
    items = data if isinstance(data, list) else [data]
    array = _strings(items) if kind is BYTES else _numbers(kind, items)
    count = element_count(shape)
    if array.size != count:
        raise _wrong_count(array.size, count, shape)
    return reshaped(array, shape)


def array_from_text(kind: Datatype, shape: Sequence[int], text: memoryview, charge: Charge) -> Array:
    """A tensor from the ``text`` of a long list, without its brackets. The charge grows by the tensor.

    Raises as ``array_from_json``, and RESOURCE_EXHAUSTED if all requests together hold too much.
    """
    _require_form(kind)
    count = element_count(shape)
    if not count or 2 * count - 1 > len(text):  # each element has one character at the least, and a comma
        if count or any(octet not in _EMPTY for octet in text[:_WRITTEN]) or len(text) > _WRITTEN:
            raise TensorError(f"data has {len(text)} characters, expected {count} elements for shape {list(shape)}")
        return np.empty(shape, kind.dtype)
    charge.copy(copied_bytes(kind, shape, 0) or count * kind.dtype.itemsize)
    array = np.empty(count, kind.dtype)
    filled = 0
    for part in in_turns(_parts(kind, text, charge)):
        end = filled + len(part)
        if end <= count:
            array[filled:end] = part
        filled = end
    if filled != count:
        raise _wrong_count(filled, count, shape)
    return reshaped(array, shape)


def json_from_array(kind: Datatype, array: Array, charge: Charge) -> list[bytes]:
    """The text of a list of the elements, in parts. JSON has no NaN and no infinities: those are written as in
    JavaScript, as Triton does. The charge grows by the text, and as much again for its copy in a response.

    Raises TensorError if the elements have no form in JSON, RESOURCE_EXHAUSTED if all requests together hold too much.
    """
    if kind.name in _WITHOUT_JSON:
        raise TensorError(f"{kind.name} has no form in JSON; ask for it with parameter 'binary_data'")
    flat = np.ascontiguousarray(array).reshape(-1)
    parts = (_written(kind, flat[start : start + _WRITTEN]) for start in range(0, len(flat), _WRITTEN))
    texts = []
    # Few are written in the event loop, which must not wait.
    for text in in_turns(parts) if len(flat) > _WRITTEN else parts:
        charge.copy(2 * len(text))
        texts += [b",", text]
    return [b"[", *texts[1:], b"]"]


def _require_form(kind: Datatype) -> None:
    if kind.name in _WITHOUT_JSON:
        raise TensorError(f"{kind.name} has no form in JSON; expected binary data (binary_data_size)")


def _wrong_count(got: int, expected: int, shape: Sequence[int]) -> TensorError:
    return TensorError(f"got {got} elements, expected {expected} for shape {list(shape)}")


def _parts(kind: Datatype, text: memoryview, charge: Charge) -> Iterator[Array]:
    """The elements of a list, piece by piece."""

    def grown(size: int) -> None:
        if kind is not BYTES:
            raise TensorError(f"an element of {kind.name} has more than {size} characters")
        charge.copy(_STRING_FACTOR * size)

    for items in elements_of(text, grown):
        if kind is not BYTES:
            yield _numbers(kind, items)
            continue
        strings = _strings(items)
        charge.copy(sum(map(len, strings)))
        yield strings


def _written(kind: Datatype, flat: Array) -> bytes:
    """Elements with commas between them."""
    if kind is BYTES:
        try:
            texts = [item.decode() if isinstance(item, bytes) else str(item) for item in flat.tolist()]
        except UnicodeDecodeError as error:
            message = "elements of BYTES that are not UTF-8; ask for them with parameter 'binary_data'"
            raise TensorError(message) from error
        return orjson.dumps(texts)[1:-1]
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        return json.dumps(flat.tolist()).encode()[1:-1]
    return orjson.dumps(flat, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]


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
    if depth > MOST_DEPTH:
        raise TensorError(f"data is nested more than {MOST_DEPTH} deep")
    for item in items:
        if isinstance(item, list):
            yield from _leaves(item, depth + 1)
        else:
            yield item


def _wrong(kind: Datatype, got: object) -> TensorError:
    return TensorError(f"got {reprlib.repr(got)[:60]}, expected elements of {kind.name}")
