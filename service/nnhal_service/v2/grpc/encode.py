"""Encoding: from the response of a served model to the bytes of a ModelInferResponse.

protobuf copies a field of bytes twice on its way out, so the outputs are joined to the message's head here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from nnhal.inference.datatypes import datatype_of, raw_from_array
from nnhal.inference.grpc_service_pb2 import InferParameter, ModelInferResponse
from nnhal_service.serving.requests.client_memory import TensorData, to_array
from nnhal_service.serving.requests.request import InferenceResponse, Parameter
from nnhal_service.v2.backend import ModelBackend
from nnhal_service.v2.requested import (
    SHM_BYTE_SIZE,
    SHM_OFFSET,
    SHM_REGION,
    Caller,
    RegionPart,
    RequestedOutput,
    presented,
    refuse,
)

Raw = bytes | memoryview
"""The bytes of a tensor."""

_KEPT_HEADS = 1024
_LENGTH = 2
_ID_TAG = bytes([ModelInferResponse.ID_FIELD_NUMBER << 3 | _LENGTH])
_RAW_OUTPUT_TAG = bytes([ModelInferResponse.RAW_OUTPUT_CONTENTS_FIELD_NUMBER << 3 | _LENGTH])
_STREAM_RESPONSE_TAG = bytes([2 << 3 | _LENGTH])


_OutputHead = tuple[str, str, tuple[int, ...], RegionPart | None, int]
"""An output without its raw contents: name, datatype, shape, its region, and the bytes that were written there."""


class EncodedAnswer(NamedTuple):
    """The answer to a request but for its identifier. It holds as long as the outputs lie in the same memory, and their
    run is accounted for by the same parameters.
    """

    parameters: Mapping[str, Parameter]
    head: bytes
    """A ModelInferResponse without ``id`` and ``raw_output_contents``."""
    fields: Sequence[Raw]
    """The latter, with views of the response's own outputs."""
    byte_size: int
    """What the outputs take that are copied."""


def response_to_wire(
    response: InferenceResponse,
    outputs: Sequence[RequestedOutput],
    model: ModelBackend,
    caller: Caller,
    further: Sequence[tuple[str, Parameter]] = (),
) -> EncodedAnswer:
    """Encode a response, ``further`` being parameters beside its own. Raises ServingError."""
    raw: list[Raw] = []
    heads: list[_OutputHead] = []
    for output in outputs or map(RequestedOutput, response.outputs):
        if output.name not in response.outputs:
            raise refuse(f"unexpected inference output '{output.name}' for model '{response.model_name}'")
        array = presented(response.outputs[output.name], output, model)
        written, contents = _delivered(array, output, caller)
        raw.append(contents)
        heads.append((output.name, datatype_of(array).name, array.shape, output.part, written))
    parameters = response.parameters
    kinds = tuple(map(type, parameters.values()))
    described = (*parameters.items(), *further), kinds, tuple(heads)
    head = _head(response.model_name, response.model_version, *described)
    return EncodedAnswer(parameters, head, raw_fields(raw), sum(map(len, raw)))


def raw_fields(raw: Sequence[Raw]) -> list[Raw]:
    """Return the parts of the fields of raw contents."""
    return [part for contents in raw for part in (_RAW_OUTPUT_TAG + _varint(len(contents)), contents)]


def encode_response(answer: EncodedAnswer, request_id: str) -> bytes:
    """A ModelInferResponse."""
    if request_id:
        return b"".join((answer.head, _id_field(request_id), *answer.fields))
    return b"".join((answer.head, *answer.fields))


def encode_stream_response(answer: EncodedAnswer, request_id: str) -> bytes:
    """A ModelStreamInferResponse that holds such a response."""
    parts = (answer.head, _id_field(request_id) if request_id else b"", *answer.fields)
    return b"".join((_STREAM_RESPONSE_TAG, _varint(sum(map(len, parts))), *parts))


def _delivered(tensor: TensorData, output: RequestedOutput, caller: Caller) -> tuple[int, Raw]:
    """The bytes that were written to shared memory, and the raw contents of an output."""
    if output.part is None:
        return 0, raw_from_array(to_array(tensor))
    return caller.write(output.part, tensor, output.name), b""


@lru_cache(_KEPT_HEADS)
def _head(
    model_name: str,
    model_version: str,
    parameters: tuple[tuple[str, Parameter], ...],
    _: tuple[type[Parameter], ...],
    outputs: tuple[_OutputHead, ...],
) -> bytes:
    """A ModelInferResponse without identifier and raw contents, mostly the same for all requests of a client.

    The types of the parameters tell True from 1, which are equal but differ on the wire.
    """
    message = ModelInferResponse(model_name=model_name, model_version=model_version)
    for name, value in parameters:
        _set_parameter(message.parameters[name], value)
    for name, datatype, shape, part, written in outputs:
        tensor = message.outputs.add(name=name, datatype=datatype, shape=shape)
        if part is not None:
            tensor.parameters[SHM_REGION].string_param = part.name
            tensor.parameters[SHM_BYTE_SIZE].int64_param = written
            if part.offset:
                tensor.parameters[SHM_OFFSET].int64_param = part.offset
    return message.SerializeToString()


def _set_parameter(message: InferParameter, value: Parameter) -> None:
    if isinstance(value, bool):
        message.bool_param = value
    elif isinstance(value, int):
        if value >= 2**63:
            message.uint64_param = value
        else:
            message.int64_param = value
    elif isinstance(value, float):
        message.double_param = value
    else:
        message.string_param = value


def _id_field(request_id: str) -> bytes:
    identifier = request_id.encode()
    return _ID_TAG + _varint(len(identifier)) + identifier


def _varint(value: int) -> bytes:
    """A number in protobuf's encoding."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
