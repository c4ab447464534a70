"""Lookups: rows by index, by key, and by a hash."""

from __future__ import annotations

from math import prod

import numpy as np

from nnhal.kernels.array_types import Array
from nnhal.kernels.fingerprint import fingerprint
from nnhal.kernels.quantization import to_real
from nnhal.operations import OperationContext
from nnhal.operations.lookup import (
    EmbeddingLookupInput,
    GatherInput,
    HashtableLookupInput,
    LshProjectionInput,
    Projection,
    prepare_hashtable_lookup,
    projection_of,
)


def gather(op: OperationContext) -> tuple[Array, ...]:
    return (np.take(op.value(GatherInput.INPUT), op.value(GatherInput.INDICES), op.integer(GatherInput.AXIS)),)


def embedding_lookup(op: OperationContext) -> tuple[Array, ...]:
    return (np.take(op.value(EmbeddingLookupInput.VALUES), op.value(EmbeddingLookupInput.LOOKUPS), 0),)


def hashtable_lookup(op: OperationContext) -> tuple[Array, ...]:
    """The values of the keys, with zeros for unknown keys, and whether each key is known."""
    lookups, keys, values = (op.value(index) for index in HashtableLookupInput)
    hits = np.isin(lookups, keys)
    result = np.zeros(prepare_hashtable_lookup(op)[0], values.dtype)
    order = np.argsort(keys, kind="stable")
    result[hits] = values[order[np.searchsorted(keys, lookups[hits], sorter=order)]]
    return result, hits.astype(np.uint8)


def lsh_projection(op: OperationContext) -> tuple[Array, ...]:
    """The bits of each hash function, or for each row of bits a number whose highest bit is the first."""
    bits, projection = _bits(op), projection_of(op)
    if projection == Projection.DENSE:
        return (bits.reshape(-1).astype(np.int32),)
    rows, width = bits.shape
    signatures = bits @ (np.int64(1) << np.arange(width)[::-1])
    if projection == Projection.SPARSE:
        signatures += np.arange(rows) << width
    return (signatures.astype(np.int32),)


def _bits(op: OperationContext) -> Array:
    """For each seed whether the weighted sum over all slices of the fingerprint of seed and slice is positive.

    A key is the bytes of the seed, always as float32, and those of the slice as they are.
    """
    seeds, values = to_real(op, LshProjectionInput.HASH), op.value(LshProjectionInput.INPUT)
    items, width = len(values), prod(values.shape[1:]) * values.itemsize
    keys = np.empty((items, seeds.itemsize + width), np.uint8)
    keys[:, seeds.itemsize :] = np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(items, width)
    weights = (
        op.value(LshProjectionInput.WEIGHT).astype(np.float64) if op.has(LshProjectionInput.WEIGHT) else np.ones(items)
    )
    scores = np.empty(seeds.size)
    for number, seed in enumerate(np.ascontiguousarray(seeds).reshape(-1, 1).view(np.uint8)):
        keys[:, : seeds.itemsize] = seed
        scores[number] = weights @ fingerprint(keys).view(np.int64).astype(np.float64)
    return (scores > 0).astype(np.int64).reshape(seeds.shape)
