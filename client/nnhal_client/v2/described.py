"""Models of a server, as it describes them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Literal

from nnhal.extensions.values import Value
from nnhal.inference import grpc_service_pb2 as wire
from nnhal_client.v2.messages import V2Tensor, request_of, tensor_of


class V2Description:
    """The name and tensors that ``V2Model`` and ``AsyncV2Model`` have in common, and requests made from them."""

    transport: Literal["v2"] = "v2"
    """The way that tensors travel: as bytes."""

    def __init__(self, description: wire.ModelMetadataResponse, config: wire.ModelConfigResponse, version: str) -> None:
        """``version`` is the one that the caller named, empty if the server chooses.

        Raises TransportError for a datatype that is unknown.
        """
        optional = {entry.name for entry in config.config.input if entry.optional}
        inputs = [tensor_of(tensor) for tensor in description.inputs]
        self.name = description.name
        self.version = version or (description.versions[-1] if description.versions else "")
        self.inputs = tuple(tensor for tensor in inputs if tensor.name not in optional)
        self.optional_inputs = tuple(tensor for tensor in inputs if tensor.name in optional)
        self.outputs = tuple(tensor_of(tensor) for tensor in description.outputs)
        self._asked_version = version

    def chosen(self, given: Container[str]) -> tuple[V2Tensor, ...]:
        """The inputs of a request: those that the model requires, and the optional ones that are given."""
        return (*self.inputs, *(tensor for tensor in self.optional_inputs if tensor.name in given))

    def request(self, inputs: Mapping[str, Value]) -> wire.ModelInferRequest:
        """The request of an inference. Raises ValueError if the inputs are not what the model takes."""
        return request_of(self.name, self._asked_version, self.chosen(inputs), inputs)
