"""Responses of served models as messages of inference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from nnhal.arrays import Array
from nnhal.inference.datatypes import datatype_of, raw_from_array
from nnhal.inference.grpc_service_pb2 import ModelInferResponse
from nnhal_service.serving.request import InferenceResponse, Parameter
from nnhal_service.v2.backend import Model
from nnhal_service.v2.grpc.parameters import set_parameter
from nnhal_service.v2.grpc.requests import Client
from nnhal_service.v2.grpc.wire import Raw
from nnhal_service.v2.tensors import (
    SHM_BYTE_SIZE,
    SHM_OFFSET,
    SHM_REGION,
    RegionPart,
    WantedOutput,
    presented,
    refuse,
    write_part,
)

_KEPT_HEADS = 1024


class _Output(NamedTuple):
    """An output as the head has it; ``byte_size`` is what was written to a region."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    part: RegionPart | None
    byte_size: int


class _Typed(NamedTuple):
    """A parameter. True and 1 are equal, but not of one type on the wire."""

    name: str
    kind: type[Parameter]
    value: Parameter


def response_to_wire(
    response: InferenceResponse,
    outputs: Sequence[WantedOutput],
    model: Model,
    client: Client,
    further: Sequence[tuple[str, Parameter]] = (),
) -> tuple[bytes, list[Raw]]:
    """The head of a response and its ``raw_output_contents``, views of the response's own outputs.

    ``further`` are parameters beside the response's own. Raises ServingError.
    """
    raw: list[Raw] = []
    described: list[_Output] = []
    for output in outputs or map(WantedOutput, response.outputs):
        if output.name not in response.outputs:
            raise refuse(f"unexpected inference output '{output.name}' for model '{response.model_name}'")
        array = presented(response.outputs[output.name], output, model)
        written, contents = _delivered(array, output, client)
        raw.append(contents)
        described.append(_Output(output.name, datatype_of(array).name, array.shape, output.part, written))
    parameters = [_Typed(name, type(value), value) for name, value in (*response.parameters.items(), *further)]
    return _head(response.model_name, response.model_version, tuple(parameters), tuple(described)), raw


def _delivered(array: Array, output: WantedOutput, client: Client) -> tuple[int, Raw]:
    """What has gone into shared memory, and else the raw contents of an output."""
    if output.part is None:
        return 0, raw_from_array(array)
    return write_part(client.memory, output.part, array, output.name, client.owner), b""


@lru_cache(_KEPT_HEADS)
def _head(model_name: str, model_version: str, parameters: tuple[_Typed, ...], outputs: tuple[_Output, ...]) -> bytes:
    """A ModelInferResponse without an identifier and raw contents: mostly the same for all requests that are alike."""
    message = ModelInferResponse(model_name=model_name, model_version=model_version)
    for parameter in parameters:
        set_parameter(message.parameters[parameter.name], parameter.value)
    for output in outputs:
        tensor = message.outputs.add(name=output.name, datatype=output.datatype, shape=output.shape)
        if output.part is not None:
            tensor.parameters[SHM_REGION].string_param = output.part.name
            tensor.parameters[SHM_BYTE_SIZE].int64_param = output.byte_size
            if output.part.offset:
                tensor.parameters[SHM_OFFSET].int64_param = output.part.offset
    return message.SerializeToString()
