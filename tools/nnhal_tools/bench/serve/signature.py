"""The tensors of a model, and their shapes in a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from nnhal.inference.datatypes import datatype
from nnhal_tools.bench.serve.target import BenchError

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
