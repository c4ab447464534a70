"""Decoding: from the bytes of a ModelInferRequest to the request of a served model.

protobuf copies a field of bytes twice on its way in: into the message, then out of it. The tensors are nearly all of a
large request, so they are cut out of its bytes here. What is left, the head, is the same in all requests of a client
but for the identifier; cut without that too, it is parsed only once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from nnhal.inference.datatypes import BYTES, Datatype, TensorError, array_from_raw, datatype
from nnhal.inference.grpc_service_pb2 import InferTensorContents, ModelInferRequest
from nnhal_service.access import Charge
from nnhal_service.serving.requests.client_memory import TensorData
from nnhal_service.serving.requests.request import CheckedForm, InferenceRequest
from nnhal_service.v2.grpc.message_fields import array_from_contents, parameters_from_wire, request_parameters_from_wire
from nnhal_service.v2.requested import (
    SHM_REGION,
    Caller,
    PlainInput,
    RegionPart,
    RequestedOutput,
    RequestParameters,
    copied_bytes,
    refuse,
    region_part,
    requested_output,
)

_KEPT_HEADS = 1024
KEPT_BYTES = 2048
"""The longest head that is kept; longer ones mostly hold elements of tensors, and do not come again."""
_KEY_BYTES = 64
_MOST_KEPT_RAW = 64
"""The most raw contents of a request whose layout is kept."""
_MOST_IN_LOOP = 1 << 14
"""The longest head that is parsed without a thread."""
_MOST_FIELDS_IN_LOOP = 256
_MOST_FIELDS = 1 << 14
"""Fields of a request beside elements of tensors: to parse one takes up to 2.5 us and 250 bytes."""
_MOST_RAW = 1 << 17
"""Raw contents of a request. Each is cut out of the message."""
_MOST_ELEMENT_FIELDS = 1 << 18
"""Fields that are elements of tensors: strings, or numbers that are not packed."""
_MOST_BYTES = 1 << 24
"""The longest head. To parse one takes up to 31 ms for each MiB, during which nothing else runs in the process."""
_MEMORY_FACTOR = 8
"""The memory that a parsed head takes, in bytes for each of its own: numbers of one byte become those of eight."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_RAW_INPUT_TAG = ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER << 3 | _LENGTH
_ID_TAG = ModelInferRequest.ID_FIELD_NUMBER << 3 | _LENGTH
_INPUT_TAG = ModelInferRequest.INPUTS_FIELD_NUMBER << 3 | _LENGTH
_BEFORE_ID = (
    ModelInferRequest.MODEL_NAME_FIELD_NUMBER << 3 | _LENGTH,
    ModelInferRequest.MODEL_VERSION_FIELD_NUMBER << 3 | _LENGTH,
)
"""The fields that most clients write before the identifier, in their order."""
_REGION = SHM_REGION.encode()
_CONTENTS_TAG = ModelInferRequest.InferInputTensor.CONTENTS_FIELD_NUMBER << 3 | _LENGTH


class CutRequest(NamedTuple):
    """A request in its parts."""

    head: bytes
    """A ModelInferRequest without the other parts."""
    id: str
    raw: list[memoryview]
    """The raw input contents, as views of the whole request."""

    @property
    def has_short_head(self) -> bool:
        """Return whether the head is short enough to be parsed in the loop, without a thread."""
        return len(self.head) <= _MOST_IN_LOOP

    @property
    def parsed_bytes(self) -> int:
        """The memory that the parsed head takes, if that is worth counting."""
        return 0 if self.has_short_head else _MEMORY_FACTOR * len(self.head)


class InputHead(NamedTuple):
    """An input without its raw contents: it lies in a region, in ``contents``, or else in the raw contents."""

    name: str
    kind: Datatype
    shape: tuple[int, ...]
    part: RegionPart | None
    contents: InferTensorContents | None
    what: str
    """The names of the input and its model, for errors."""


class Asked(NamedTuple):
    """Content of a head beside the model."""

    outputs: tuple[RequestedOutput, ...]
    output_names: tuple[str, ...]
    parameters: RequestParameters
    inputs: tuple[InputHead, ...]
    has_strings: bool
    """True if an input has elements of BYTES."""
    has_regions: bool
    """True if an input or an output lies in shared memory."""


class Head:
    """A request without its identifier and its raw contents: what requests that follow one another have in common. An
    empty ``model_version`` stands for any version.
    """

    __slots__ = ("_message", "asked", "form", "model_name", "model_version", "plain")

    def __init__(self, data: bytes) -> None:
        """Raises google.protobuf.message.DecodeError if ``data`` is malformed."""
        message = ModelInferRequest.FromString(data)
        self._message = message
        self.model_name: str = message.model_name
        self.model_version: str = message.model_version
        self.asked: Asked | None = None
        """Content of it beside the model, once it was asked for."""
        self.plain: Sequence[PlainInput] | None = None
        """The inputs if all of them are plain."""
        self.form = CheckedForm()

    def ask(self) -> Asked:
        """Return what it says beside the model. Raises ServingError with INVALID_ARGUMENT."""
        if self.asked is None:
            asked = _asked(self._message)
            self.plain = _plain(asked.inputs)
            self.asked = asked
        return self.asked


kept_head = lru_cache(_KEPT_HEADS)(Head)
"""Returns a head of up to KEPT_BYTES, parsed at most once. Raises google.protobuf.message.DecodeError."""


def cut_request(data: bytes) -> CutRequest:
    """Cut a request into its parts. The head's own contents are not checked.

    Raises google.protobuf.message.DecodeError if its fields are malformed, INVALID_ARGUMENT if they are too many or too
    long beside the raw contents.
    """
    cut = _cut(data, _MOST_RAW, _MOST_BYTES)
    if cut is None:
        raise refuse(
            f"the request has more than {_MOST_RAW} fields, or more than {_MOST_BYTES} bytes beside "
            "raw_input_contents, which may be of any length"
        )
    return cut


def cut_in_loop(data: bytes) -> CutRequest | None:
    """Return the parts as ``cut_request`` does; None if the request is so long that a thread should cut it.

    A malicious request has millions of fields.

    A request that is like an earlier one but for the elements of its tensors is cut as that was. For one thread.
    """
    size, at = len(data), 0
    for tag in _BEFORE_ID:
        if at + 1 < size and data[at] == tag and data[at + 1] < 0x80:
            at += 2 + data[at + 1]
    behind = at
    if at + 1 < size and data[at] == _ID_TAG and data[at + 1] < 0x80:
        behind += 2 + data[at + 1]
    key = size - behind, data[:at], data[behind : behind + _KEY_BYTES]
    like = _kept_layouts.get(key)
    if like is not None:
        raw, last, view = [], behind, memoryview(data)
        for before, start, end in like.raw:
            if data[last : behind + start] != before:
                break
            last = behind + end
            raw.append(view[behind + start : last])
        else:
            if data[last:] == like.rest:
                identifier = _text(data[at + 2 : behind]) if behind > at else ""
                return CutRequest(like.head, identifier, raw)
    cut = _cut(data, _MOST_FIELDS_IN_LOOP, _MOST_IN_LOOP)
    if cut is not None and _comes_again(cut) and (layout := _layout_of(data, cut.head, behind)) is not None:
        if len(_kept_layouts) == _KEPT_HEADS:
            _kept_layouts.clear()
        _kept_layouts[key] = layout
    return cut


def _comes_again(cut: CutRequest) -> bool:
    """True if requests may follow with the same layout: not if they differ in elements in the head.

    The tensors of other requests are in ``raw``, or in regions.
    """
    has_tensors_apart = bool(cut.raw) or _REGION in cut.head
    return has_tensors_apart and len(cut.raw) <= _MOST_KEPT_RAW and len(cut.head) <= KEPT_BYTES


class _Layout(NamedTuple):
    """Places of the parts of a request behind its identifier, from there on."""

    head: bytes
    raw: list[tuple[bytes, int, int]]
    """For each of the raw contents the bytes between it and the one before, its start and its end."""
    rest: bytes
    """What follows them."""


_kept_layouts: dict[tuple[int, bytes, bytes], _Layout] = {}
"""By the bytes behind the identifier: how many they are, those before it, and the first of them."""


def _layout_of(data: bytes, head: bytes, behind: int) -> _Layout | None:
    """The layout of a request, what precedes ``behind`` being short and first; None if an identifier follows it."""
    raw, last = [], behind
    for tag, start, body, end in _fields(data):
        if tag == _ID_TAG and start >= behind:
            return None
        if tag == _RAW_INPUT_TAG:
            raw.append((data[last:body], body - behind, end - behind))
            last = end
    return _Layout(head, raw, data[last:])


def _cut(data: bytes, most_fields: int, most_bytes: int) -> CutRequest | None:
    """The parts of a request. Returns None if it has more fields than that, or a longer head or identifier."""
    view = memoryview(data)
    head, raw = [], []
    identifier = b""
    beside = 0
    for count, (tag, start, body, end) in enumerate(_fields(data)):
        beside += end - start if tag != _RAW_INPUT_TAG else 0
        if count == most_fields or beside > most_bytes:
            return None
        if tag == _RAW_INPUT_TAG:
            raw.append(view[body:end])
        elif tag == _ID_TAG:
            identifier = data[body:end]
        else:
            head.append(data[start:end])
    return CutRequest(b"".join(head), _text(identifier), raw)


def _text(identifier: bytes) -> str:
    try:
        return identifier.decode()
    except UnicodeDecodeError as error:
        raise DecodeError("the id is not UTF-8") from error


def head_of(data: bytes) -> Head:
    """A head, parsed at most once.

    Raises google.protobuf.message.DecodeError if it is malformed, INVALID_ARGUMENT if it has too many fields.
    """
    if len(data) <= KEPT_BYTES:
        return kept_head(data)
    if len(data) > _MOST_IN_LOOP:
        _require_few_fields(data)
    return Head(data)


def _require_few_fields(head: bytes) -> None:
    fields = elements = 0
    for tag, _, body, end in _fields(head):
        fields += 1
        if tag != _INPUT_TAG:
            continue
        for tag_of_input, _, start, stop in _fields(head[body:end]):
            fields += 1
            if tag_of_input == _CONTENTS_TAG:
                for _ in _fields(head[body + start : body + stop]):
                    elements += 1
                    if elements > _MOST_ELEMENT_FIELDS:
                        raise refuse(
                            f"the contents of the inputs have more than {_MOST_ELEMENT_FIELDS} elements that are not "
                            "packed; raw_input_contents may have any number"
                        )
            if fields > _MOST_FIELDS:
                raise refuse(f"the request has more than {_MOST_FIELDS} fields beside elements of tensors")


def request_from_wire(
    head: Head,
    cut: CutRequest,
    caller: Caller,
    deadline_ns: int,
    arrived_ns: int,
    charge: Charge,
) -> InferenceRequest:
    """The request of a served model; its inputs are views of the raw contents, or in memory of the client. The charge
    grows by what is copied.

    Raises ServingError.
    """
    asked, plain = head.ask() if head.asked is None else head.asked, head.plain
    parameters = asked.parameters
    inputs: dict[str, TensorData] | None = None
    if plain is not None and len(plain) == len(cut.raw):
        inputs = {}
        for raw, (name, dtype, shape, byte_size) in zip(cut.raw, plain, strict=True):
            if len(raw) != byte_size:
                inputs = None
                break
            inputs[name] = np.frombuffer(raw, dtype).reshape(shape)
    return InferenceRequest(
        _arrays(asked.inputs, cut.raw, caller, charge) if inputs is None else inputs,
        asked.output_names,
        cut.id,
        parameters.others,
        parameters.priority,
        parameters.timeout_ns,
        deadline_ns,
        arrived_ns=arrived_ns,
        output_places=caller.output_places(asked.outputs) if asked.has_regions else {},
        copying=charge.copy,
        form=head.form,
    )


def _plain(inputs: Sequence[InputHead]) -> list[PlainInput] | None:
    """The inputs as plain ones, if all of them are."""
    plain = [PlainInput.of(given.name, given.kind, given.shape) for given in inputs]
    is_raw = all(given.part is None and given.contents is None for given in inputs)
    found = [given for given in plain if given is not None]
    return found if is_raw and len(found) == len(inputs) else None


def _arrays(
    inputs: Sequence[InputHead], raw: Sequence[memoryview], caller: Caller, charge: Charge
) -> dict[str, TensorData]:
    arrays: dict[str, TensorData] = {}
    used = 0
    for given in inputs:
        try:
            if given.part is not None:
                arrays[given.name] = caller.input(given.kind, given.shape, given.part, charge)
            elif not raw:
                elements = given.contents or InferTensorContents()
                charge.copy(copied_bytes(given.kind, given.shape, len(elements.bytes_contents)))
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
                charge.copy(copied_bytes(given.kind, given.shape, len(raw[used])))
                arrays[given.name] = array_from_raw(given.kind, given.shape, raw[used])
                used += 1
        except TensorError as error:
            raise refuse(f"input {given.what}: {error}") from error
    if used < len(raw):
        raise refuse(f"raw_input_contents has {len(raw)} entries, expected {used}: one for each input")
    return arrays


def _asked(message: ModelInferRequest) -> Asked:
    outputs = tuple(
        requested_output(output.name, parameters_from_wire(output.parameters)) for output in message.outputs
    )
    output_names = tuple(output.name for output in outputs)
    if len(set(output_names)) != len(outputs):
        raise refuse(f"outputs {list(output_names)}: one is repeated")
    parameters = request_parameters_from_wire(message.parameters)
    inputs = tuple(_input(tensor, message.model_name) for tensor in message.inputs)
    names: set[str] = set()
    for given in inputs:
        if given.name in names:
            raise refuse(f"input '{given.name}' is repeated")
        names.add(given.name)
    return Asked(
        outputs,
        output_names,
        parameters,
        inputs,
        any(given.kind is BYTES for given in inputs),
        any(given.part is not None for given in inputs) or any(output.part is not None for output in outputs),
    )


def _input(tensor: ModelInferRequest.InferInputTensor, model: str) -> InputHead:
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
    return InputHead(tensor.name, kind, tuple(tensor.shape), part, contents, what)


def _fields(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message: tag, start of the field, start of its contents, and end."""
    position, size = 0, len(data)
    while position < size:
        start = position
        tag, position = data[position], position + 1
        if tag > 0x7F:
            tag, position = _read_varint(data, start)
        body = position
        kind = tag & 7
        if kind == _LENGTH:
            length, body = _read_varint(data, position)
            position = body + length
        elif kind == _VARINT:
            _, position = _read_varint(data, position)
        elif kind == _FIXED64:
            position += 8
        elif kind == _FIXED32:
            position += 4
        else:
            raise DecodeError(f"a field of wire type {kind} at byte {start}")
        if position > size:
            raise DecodeError(f"a field at byte {start} ends at byte {position} of {size}")
        yield tag, start, body, position


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    if position < len(data) and data[position] < 0x80:  # as most are
        return data[position], position + 1
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise DecodeError(f"a number at byte {position} of {len(data)} is cut off")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise DecodeError(f"a number at byte {position} has more than ten bytes")
