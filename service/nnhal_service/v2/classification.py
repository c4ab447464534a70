"""The classification extension: an output as its highest elements, each "value:index" or "value:index:label"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal_service.serving.errors import ErrorKind, ServingError


def classify(array: Array, count: int, batched: bool, labels: Sequence[str], name: str) -> Array:
    """The ``count`` highest elements, or all where there are fewer, highest first, as BYTES of shape [count].

    Of a batched output, those of each item: [batch, count]. Elements that are equal come in the order of their indices.
    Raises INVALID_ARGUMENT where the output has no order.
    """
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise ServingError(ErrorKind.INVALID_ARGUMENT, f"output {name!r} has elements that are no numbers to classify")
    rows = array.reshape(array.shape[0] if batched and array.ndim else 1, -1) if array.size else array.reshape(0, 0)
    chosen = [_classes(row, count, labels) for row in rows]
    shape = (len(chosen), min(count, rows.shape[1]))
    answer = np.empty(shape, object)
    for number, row in enumerate(chosen):
        answer[number, :] = row
    return answer if batched else answer.reshape(-1)


def _classes(row: Array, count: int, labels: Sequence[str]) -> list[bytes]:
    """NaN is the lowest."""
    order = np.argsort(_descending(row), kind="stable")[:count]
    number = "{:d}" if row.dtype.kind in "iu" else "{:f}"
    chosen = zip(order.tolist(), row[order].tolist(), strict=True)
    return [_entry(number.format(value), index, labels) for index, value in chosen]


def _descending(row: Array) -> Array:
    """Keys whose ascending order is the elements' descending one."""
    return ~row if row.dtype.kind in "iu" else -row.astype(np.float64)


def _entry(value: str, index: int, labels: Sequence[str]) -> bytes:
    label = f":{labels[index]}" if index < len(labels) and labels[index] else ""
    return f"{value}:{index}{label}".encode()
