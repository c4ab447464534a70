"""Messages of inference as the requests of served models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from nnhal.arrays import Array
from nnhal.inference.datatypes import Datatype, TensorError, array_from_raw, datatype
from nnhal.inference.grpc_service_pb2 import InferTensorContents, ModelInferRequest
from nnhal_service.runtime.cancellation import Cancellation
from nnhal_service.serving.request import InferenceRequest
from nnhal_service.v2.backend import SharedMemory
from nnhal_service.v2.grpc.contents import array_from_contents
from nnhal_service.v2.grpc.parameters import parameters_from_wire, request_parameters
from nnhal_service.v2.grpc.wire import Raw
from nnhal_service.v2.parameters import RequestParameters
from nnhal_service.v2.tensors import RegionPart, WantedOutput, read_part, refuse, region_part, wanted_output

_KEPT_HEADS = 1024
_KEPT_BYTES = 2048
"""Of a head that is kept; one with the elements of tensors in it is mostly larger, and not seen again."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: the owner of regions, and the memory that they are in, None where there is none for clients."""

    owner: str
    memory: SharedMemory | None


class Input(NamedTuple):
    """An input as the head has it: in a region, by its ``contents``, or in the raw contents where it has neither.

    ``what`` is its name, and its model's, in errors.
    """

    name: str
    kind: Datatype
    shape: tuple[int, ...]
    part: RegionPart | None
    contents: InferTensorContents | None
    what: str


class Wanted(NamedTuple):
    """What a request says but for its identifier and its tensors."""

    outputs: tuple[WantedOutput, ...]
    parameters: RequestParameters
    inputs: tuple[Input, ...]


class Head:
    """A request without its identifier and its tensors: which version of which model it is for, empty for any."""

    __slots__ = ("_message", "_wanted", "model_name", "model_version")

    def __init__(self, data: bytes) -> None:
        """Raises google.protobuf.message.DecodeError where it is none."""
        message = ModelInferRequest.FromString(data)
        self._message = message
        self._wanted: Wanted | None = None
        self.model_name: str = message.model_name
        self.model_version: str = message.model_version

    def wanted(self) -> Wanted:
        """What it says beside that. Raises ServingError with INVALID_ARGUMENT."""
        if self._wanted is None:
            self._wanted = _wanted(self._message)
        return self._wanted


_kept_head = lru_cache(_KEPT_HEADS)(Head)


def head_of(data: bytes) -> Head:
    """Raises google.protobuf.message.DecodeError where it is none."""
    return _kept_head(data) if len(data) <= _KEPT_BYTES else Head(data)


def request_from_wire(
    wanted: Wanted,
    request_id: str,
    raw: Sequence[Raw],
    client: Client,
    cancellation: Cancellation,
    deadline_ns: int,
    arrived_ns: int,
) -> InferenceRequest:
    """A request; its inputs are views of ``raw`` where that has them. Raises ServingError."""
    parameters = wanted.parameters
    return InferenceRequest(
        _arrays(wanted.inputs, raw, client),
        [output.name for output in wanted.outputs],
        request_id,
        parameters.others,
        parameters.priority,
        parameters.timeout_ns,
        deadline_ns,
        cancellation,
        arrived_ns,
    )


def _arrays(inputs: Sequence[Input], raw: Sequence[Raw], client: Client) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    used = 0
    for given in inputs:
        try:
            if given.part is not None:
                region = read_part(client.memory, given.part, client.owner)
                arrays[given.name] = array_from_raw(given.kind, given.shape, region)
            elif not raw:
                elements = given.contents or InferTensorContents()
                arrays[given.name] = array_from_contents(given.kind, given.shape, elements)
            elif given.contents is not None:
                raise refuse(
                    f"contents field must not be specified when using raw_input_contents, for input tensor {given.what}"
                )
            elif used == len(raw):
                raise refuse(
                    f"unable to find data for input tensor {given.what}: raw_input_contents has too few entries"
                )
            else:
                arrays[given.name] = array_from_raw(given.kind, given.shape, raw[used])
                used += 1
        except TensorError as error:
            raise refuse(f"input {given.what}: {error}") from error
    if used < len(raw):
        raise refuse(f"raw_input_contents has {len(raw)} entries, expected {used}: one for each input")
    return arrays


def _wanted(message: ModelInferRequest) -> Wanted:
    outputs = tuple(wanted_output(output.name, parameters_from_wire(output.parameters)) for output in message.outputs)
    if len({output.name for output in outputs}) != len(outputs):
        raise refuse(f"outputs {[output.name for output in outputs]}: one is there more than once")
    parameters = request_parameters(message.parameters)
    inputs = tuple(_input(tensor, message.model_name) for tensor in message.inputs)
    names = [given.name for given in inputs]
    for name in names:
        if names.count(name) > 1:
            raise refuse(f"input '{name}' is there more than once")
    return Wanted(outputs, parameters, inputs)


def _input(tensor: ModelInferRequest.InferInputTensor, model: str) -> Input:
    what = f"'{tensor.name}' for model '{model}'"
    try:
        kind = datatype(tensor.datatype)
    except TensorError as error:
        raise refuse(f"input {what}: {error}") from error
    part = (
        region_part(parameters_from_wire(tensor.parameters), f"input tensor {what}") if len(tensor.parameters) else None
    )
    contents = tensor.contents if tensor.HasField("contents") else None
    if part is not None and contents is not None:
        raise refuse(f"unexpected 'content' provided when using shared memory, for input tensor {what}")
    return Input(tensor.name, kind, tuple(tensor.shape), part, contents, what)
