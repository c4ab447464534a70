"""Messages of inference to the requests and responses of served models, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nnhal.arrays import Array
from nnhal.inference.datatypes import TensorError, array_from_raw, datatype, datatype_of, raw_from_array
from nnhal.inference.grpc_service_pb2 import ModelInferRequest, ModelInferResponse
from nnhal_service.serving.request import Cancellation, InferenceRequest, InferenceResponse
from nnhal_service.v2.backend import Model, SharedMemory
from nnhal_service.v2.grpc.contents import array_from_contents
from nnhal_service.v2.grpc.parameters import parameters_from_wire, request_parameters, set_parameter
from nnhal_service.v2.grpc.wire import Raw
from nnhal_service.v2.tensors import (
    SHM_BYTE_SIZE,
    SHM_OFFSET,
    SHM_REGION,
    WantedOutput,
    presented,
    read_part,
    refuse,
    region_part,
    wanted_output,
    write_part,
)

InputTensor = ModelInferRequest.InferInputTensor


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: the owner of regions, and the memory that they are in, None where there is none for clients."""

    owner: str
    memory: SharedMemory | None


def wanted_outputs(message: ModelInferRequest) -> tuple[WantedOutput, ...]:
    """The outputs that a request asks for. Raises INVALID_ARGUMENT."""
    outputs = tuple(wanted_output(output.name, parameters_from_wire(output.parameters)) for output in message.outputs)
    if len({output.name for output in outputs}) != len(outputs):
        raise refuse(f"outputs {[output.name for output in outputs]}: one is there more than once")
    return outputs


def request_from_wire(
    message: ModelInferRequest,
    raw: Sequence[Raw],
    outputs: Sequence[WantedOutput],
    client: Client,
    cancellation: Cancellation,
    deadline_ns: int,
    arrived_ns: int,
) -> InferenceRequest:
    """A request; its inputs are views of ``raw`` where that has them. Raises ServingError."""
    parameters = request_parameters(message.parameters)
    return InferenceRequest(
        _inputs(message, raw, client),
        [output.name for output in outputs],
        message.id,
        parameters.others,
        parameters.priority,
        parameters.timeout_ns,
        deadline_ns,
        cancellation,
        arrived_ns,
    )


def response_to_wire(
    request_id: str, response: InferenceResponse, outputs: Sequence[WantedOutput], model: Model, client: Client
) -> tuple[ModelInferResponse, list[Raw]]:
    """A response and its ``raw_output_contents``, views of the response's own outputs. Raises ServingError."""
    message = ModelInferResponse(model_name=response.model_name, model_version=response.model_version, id=request_id)
    for key, value in response.parameters.items():
        set_parameter(message.parameters[key], value)
    raw: list[Raw] = []
    for output in outputs or map(WantedOutput, response.outputs):
        if output.name not in response.outputs:
            raise refuse(f"unexpected inference output '{output.name}' for model '{response.model_name}'")
        array = presented(response.outputs[output.name], output, model)
        tensor = message.outputs.add(name=output.name, datatype=datatype_of(array).name, shape=array.shape)
        raw.append(_delivered(array, output, tensor, client))
    return message, raw


def _inputs(message: ModelInferRequest, raw: Sequence[Raw], client: Client) -> dict[str, Array]:
    inputs: dict[str, Array] = {}
    entries = iter(raw)
    for tensor in message.inputs:
        if tensor.name in inputs:
            raise refuse(f"input '{tensor.name}' is there more than once")
        try:
            inputs[tensor.name] = _array(message, tensor, entries, bool(raw), client)
        except TensorError as error:
            raise refuse(f"input '{tensor.name}' for model '{message.model_name}': {error}") from error
    left = sum(1 for _ in entries)
    if left:
        raise refuse(f"raw_input_contents has {len(raw)} entries, expected {len(raw) - left}: one for each input")
    return inputs


def _array(
    message: ModelInferRequest, tensor: InputTensor, entries: Iterator[Raw], all_raw: bool, client: Client
) -> Array:
    kind, shape = datatype(tensor.datatype), tuple(tensor.shape)
    what = f"input tensor '{tensor.name}' for model '{message.model_name}'"
    part = region_part(parameters_from_wire(tensor.parameters), what) if len(tensor.parameters) else None
    if part:
        if tensor.HasField("contents"):
            raise refuse(f"unexpected 'content' provided when using shared memory, for {what}")
        return array_from_raw(kind, shape, read_part(client.memory, part, client.owner))
    if not all_raw:
        return array_from_contents(kind, shape, tensor.contents)
    if tensor.HasField("contents"):
        raise refuse(f"contents field must not be specified when using raw_input_contents, for {what}")
    contents = next(entries, None)
    if contents is None:
        raise refuse(f"unable to find data for {what}: raw_input_contents has too few entries")
    return array_from_raw(kind, shape, contents)


def _delivered(array: Array, output: WantedOutput, tensor: ModelInferResponse.InferOutputTensor, client: Client) -> Raw:
    """The raw contents of an output; empty for one that has gone into shared memory."""
    part = output.part
    if part is None:
        return raw_from_array(array)
    size = write_part(client.memory, part, array, output.name, client.owner)
    tensor.parameters[SHM_REGION].string_param = part.name
    tensor.parameters[SHM_BYTE_SIZE].int64_param = size
    if part.offset:
        tensor.parameters[SHM_OFFSET].int64_param = part.offset
    return b""
