"""The tensors of a served model, their shapes in a measurement, and the values that are sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.generators import BenchError
from nnhal.arrays import Array
from nnhal.given_files import MOST_MODEL_BYTES, read_given_text
from nnhal.inference.datatypes import BYTES, datatype

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output as a server describes it; -1 is an unknown dimension."""

    name: str
    datatype: str
    shape: Shape

    def byte_size(self, unknown: int) -> int:
        """Its size in bytes; ``unknown`` if that is not known beforehand."""
        size = datatype(self.datatype).item_size
        return prod(self.shape) * size if size and min(self.shape, default=0) >= 0 else unknown


@dataclass(frozen=True, slots=True)
class ServedSignature:
    """The inputs and outputs of a model."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def of_batch(self, batch: int, shapes: Mapping[str, Shape]) -> ServedSignature:
        """A copy with shapes for unknown dimensions, and the batch for an unknown first one. Shapes may omit the batch.

        Raises BenchError if a shape does not fit, is missing, or belongs to no input.
        """
        unknown = sorted(shapes.keys() - {tensor.name for tensor in self.inputs})
        if unknown:
            names = ", ".join(tensor.name for tensor in self.inputs)
            raise BenchError(f"got a shape for {', '.join(unknown)}, expected one of the model's inputs: {names}")
        inputs = tuple(TensorSpec(t.name, t.datatype, _input_shape(t, batch, shapes.get(t.name))) for t in self.inputs)
        outputs = tuple(TensorSpec(t.name, t.datatype, _batched(t.shape, batch)) for t in self.outputs)
        return ServedSignature(inputs, outputs)


def _input_shape(tensor: TensorSpec, batch: int, given: Shape | None) -> Shape:
    shape = tensor.shape
    if given is not None:
        whole = (batch, *given) if len(given) == len(shape) - 1 else given
        if len(whole) != len(shape) or any(axis not in (-1, got) for axis, got in zip(shape, whole, strict=True)):
            raise BenchError(f"input {tensor.name!r}: got shape {list(given)}, expected {list(shape)}")
        return whole
    if batch > 1 and (not shape or shape[0] not in (-1, batch)):
        raise BenchError(f"input {tensor.name!r}: got batch {batch}, expected shape {list(shape)}, which has no batch")
    whole = _batched(shape, batch)
    if min(whole, default=0) < 0:
        raise BenchError(f"input {tensor.name!r} has shape {list(shape)}: say it with --shape {tensor.name}:…")
    return whole


def _batched(shape: Shape, batch: int) -> Shape:
    return (batch, *shape[1:]) if shape and shape[0] == -1 else shape


_SEED = 0
_LETTERS = 8


def input_data(signature: ServedSignature, source: str) -> dict[str, Array]:
    """An array for each input.

    A file is perf_analyzer's: ``{"data": [{"INPUT": [values…] or {"content": [values…], "shape": […]}}]}``, with one
    entry. Raises BenchError or OSError.
    """
    if source == "zero":
        return {tensor.name: _zeros(tensor) for tensor in signature.inputs}
    if source == "random":
        generator = np.random.default_rng(_SEED)
        return {tensor.name: _random(tensor, generator) for tensor in signature.inputs}
    given = _entry(Path(source))
    missing = [tensor.name for tensor in signature.inputs if tensor.name not in given]
    if missing:
        raise BenchError(f"{source}: got data for {sorted(given)}, expected {', '.join(missing)} too")
    return {tensor.name: _from_json(tensor, given[tensor.name], source) for tensor in signature.inputs}


def _zeros(tensor: TensorSpec) -> Array:
    kind = datatype(tensor.datatype)
    return np.full(tensor.shape, b"", object) if kind is BYTES else np.zeros(tensor.shape, kind.dtype)


def _random(tensor: TensorSpec, generator: np.random.Generator) -> Array:
    kind = datatype(tensor.datatype)
    if kind is BYTES:
        words = np.empty(tensor.shape, object)
        words.reshape(-1)[:] = [generator.bytes(_LETTERS).hex()[:_LETTERS].encode() for _ in range(words.size)]
        return words
    if kind.dtype.kind in "iu":
        return generator.integers(0, 127, tensor.shape).astype(kind.dtype)
    if kind.dtype.kind == "b":
        return generator.integers(0, 2, tensor.shape).astype(np.bool_)
    return generator.random(tensor.shape, np.float32).astype(kind.dtype)


def _entry(path: Path) -> dict[str, Any]:
    try:
        entries = json.loads(read_given_text(path, "values of inputs", MOST_MODEL_BYTES))["data"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BenchError(f'{path}: expected JSON with "data", a list of one object: {error}') from error
    if not isinstance(entries, list) or len(entries) != 1 or not isinstance(entries[0], dict):
        raise BenchError(f'{path}: "data" is {str(entries)[:60]}, expected a list of one object')
    return entries[0]


def _from_json(tensor: TensorSpec, given: Any, source: str) -> Array:
    kind = datatype(tensor.datatype)
    content = given.get("content") if isinstance(given, dict) else given
    try:
        if kind is BYTES:
            words = [str(word).encode() for word in np.asarray(content).reshape(-1)]
            values = np.empty(len(words), object)
            values[:] = words
            return values.reshape(tensor.shape)
        return np.asarray(content).astype(kind.dtype).reshape(tensor.shape)
    except (ValueError, TypeError, OverflowError) as error:
        raise BenchError(
            f"{source}: input {tensor.name!r}: expected {tensor.datatype} of shape {list(tensor.shape)}: {error}"
        ) from error
