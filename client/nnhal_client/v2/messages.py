"""The messages of the protocol, made from arrays and decoded to arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import TransportError
from nnhal.extensions.values import Value
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.inference.datatypes import BYTES, Datatype, TensorError, array_from_raw, datatype, raw_from_array
from nnhal.tensors import mismatch
from nnhal.types.layout import Dimensions, describe


@dataclass(frozen=True, slots=True)
class V2Tensor:
    """An input or output of a model; an unknown dimension is 0. Elements of BYTES are objects that hold bytes."""

    name: str
    dimensions: Dimensions
    datatype: Datatype

    @property
    def is_open(self) -> bool:
        """Return whether some of its dimensions are unknown before a run."""
        return 0 in self.dimensions

    @property
    def element_type(self) -> np.dtype[np.generic]:
        return self.datatype.dtype

    def array(self, value: Value) -> Array:
        """A value as an array of the model's type. Raises ValueError if it is not what the model takes."""
        given = np.asarray(value)
        is_text = self.datatype is BYTES and given.dtype.kind in "OSU"
        fits = given.ndim == len(self.dimensions) and all(
            wanted in (0, got) for wanted, got in zip(self.dimensions, given.shape, strict=True)
        )
        if not fits or not (is_text or given.dtype == self.element_type):
            raise ValueError(mismatch(self.name, given, self.element_type, describe(self.dimensions)))
        return given


def tensor_of(message: wire.ModelMetadataResponse.TensorMetadata) -> V2Tensor:
    """Decode a tensor. Raises TransportError if its datatype is unknown."""
    try:
        return V2Tensor(message.name, tuple(max(0, axis) for axis in message.shape), datatype(message.datatype))
    except TensorError as error:
        raise TransportError(f"tensor {message.name!r}: {error}") from error


def request_of(
    name: str, version: str, tensors: Sequence[V2Tensor], inputs: Mapping[str, Value]
) -> wire.ModelInferRequest:
    """The request of an inference. Raises ValueError if the inputs are not what the model takes."""
    expected = sorted(tensor.name for tensor in tensors)
    if sorted(inputs) != expected:
        raise ValueError(f"got inputs {sorted(inputs)}, expected {expected}")
    request = wire.ModelInferRequest(model_name=name, model_version=version)
    for tensor in tensors:
        array = tensor.array(inputs[tensor.name])
        request.inputs.add(name=tensor.name, datatype=tensor.datatype.name, shape=array.shape)
        request.raw_input_contents.append(bytes(raw_from_array(array)))
    return request


def outputs_of(response: wire.ModelInferResponse) -> dict[str, Value]:
    """The outputs, read-only, in the memory of the response. Raises TransportError if they are malformed."""
    try:
        return {
            output.name: array_from_raw(datatype(output.datatype), output.shape, raw)
            for output, raw in zip(response.outputs, response.raw_output_contents, strict=True)
        }
    except (TensorError, ValueError) as error:
        raise TransportError(f"the answer has malformed outputs: {error}") from error
