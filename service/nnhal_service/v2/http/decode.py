"""Decoding: from the body of an HTTP inference to the request of a served model.

A body is a JSON object with the binary tensors after it, or a single raw tensor.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from nnhal.arrays import Array
from nnhal.inference.datatypes import BYTES, DATATYPES, Datatype, TensorError, array_from_raw, datatype
from nnhal_service.access import Charge
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.errors import ServingError
from nnhal_service.serving.requests.client_memory import TensorData
from nnhal_service.serving.requests.request import CheckedForm, InferenceRequest, Parameter
from nnhal_service.v2.backend import ModelBackend
from nnhal_service.v2.http.json_cut import cut_json, parsed_json
from nnhal_service.v2.http.tensors_json import array_from_json, array_from_text
from nnhal_service.v2.requested import (
    Caller,
    PlainInput,
    RegionPart,
    RequestedOutput,
    RequestParameters,
    copied_bytes,
    count,
    refuse,
    region_part,
    request_parameters,
    requested_output,
)

BINARY_SIZE, BINARY_DATA, BINARY_OUTPUT = "binary_data_size", "binary_data", "binary_data_output"
_KNOWN = {"id", "parameters", "inputs", "outputs"}
_IN_THE_PATH = {"model_name", "model_version"}
"""KServe's client repeats these in the body."""
MOST_PARSED_JSON = 1 << 14
"""The bytes of JSON that are parsed as they are, which the event loop may do. The lists of longer ones are cut out."""
_LONGEST_SHAPE = 1 << 10
_ID_FIRST = re.compile(rb'\{"id":"([ !#-\[\]-~]*)",')
"""The identifier of a request where most clients write it, if it has no escaped characters. JSON that differs only
there is read once.
"""
_byte_size = attrgetter("byte_size")
_KEPT_HEADS = 1024
_KEPT_BYTES = 2048
"""The longest JSON before binary data that is kept."""


@dataclass(slots=True)
class DecodedRequest:
    """A request, and the form that its response is to have."""

    request: InferenceRequest
    outputs: tuple[RequestedOutput, ...]
    """The requested outputs; empty for all."""
    binary: bool
    """True if outputs are binary data if ``outputs`` is empty."""


def decode_raw(
    body: bytes | bytearray, model: ModelBackend, name: str, cancellation: Cancellation, arrived_ns: int, charge: Charge
) -> DecodedRequest:
    """A request whose body is the model's only input. The charge grows by what is copied of it.

    Raises ServingError or TensorError.
    """
    if len(model.inputs) != 1:
        raise refuse(f"a raw request is for a model with one input; '{name}' has {len(model.inputs)}")
    tensor = model.inputs[0]
    kind = datatype(tensor.datatype)
    shape = list(tensor.shape)
    if model.max_batch_size and shape[0] < 0:
        shape[0] = 1
    unknown = [axis for axis, size in enumerate(shape) if size < 0]
    if kind is BYTES:
        for axis in unknown:
            shape[axis] = 1
    elif len(unknown) == 1:
        rest = kind.item_size * prod(size for size in shape if size >= 0)
        shape[unknown[0]] = len(body) // rest if rest else 0
    elif unknown:
        raise refuse(
            f"input '{tensor.name}' has shape {list(tensor.shape)}: a raw request allows at most one unknown axis"
        )

    try:
        charge.copy(copied_bytes(kind, shape, len(body)))
        inputs: dict[str, TensorData] = {tensor.name: array_from_raw(kind, shape, memoryview(body))}
    except TensorError as error:
        raise _wrong_input(tensor.name, name, error) from error
    request = InferenceRequest(inputs, cancellation=cancellation, arrived_ns=arrived_ns, copying=charge.copy)
    return DecodedRequest(request, (), binary=True)


def decode_known(
    body: bytes | bytearray, json_size: int | None, cancellation: Cancellation, arrived_ns: int, charge: Charge
) -> DecodedRequest | None:
    """A request whose tensors are numbers in binary data, of which its JSON is read once. None if it is any other.

    Raises ServingError or TensorError.
    """
    if not json_size or json_size > min(_KEPT_BYTES, len(body)):
        return None
    text = bytes(body[:json_size])
    named = _ID_FIRST.match(text)
    asked = _kept_asked(text if named is None else b"{" + text[named.end() :])
    plain, start = asked.plain, json_size
    if plain is None or sum(map(_byte_size, plain)) != len(body) - start:
        return None
    inputs: dict[str, TensorData] = {}
    view = memoryview(body)
    for name, dtype, shape, byte_size in plain:
        inputs[name] = np.frombuffer(view[start : start + byte_size], dtype).reshape(shape)
        start += byte_size
    parameters = asked.parameters
    request = InferenceRequest(
        inputs,
        asked.output_names,
        asked.id if named is None else asked.id or named[1].decode(),
        parameters.others,
        parameters.priority,
        parameters.timeout_ns,
        cancellation=cancellation,
        arrived_ns=arrived_ns,
        copying=charge.copy,
        form=asked.form,
    )
    return DecodedRequest(request, asked.outputs, asked.binary)


def decode_body(
    body: bytes | bytearray,
    json_size: int | None,
    name: str,
    caller: Caller,
    cancellation: Cancellation,
    arrived_ns: int,
    charge: Charge,
) -> DecodedRequest:
    """A request whose first ``json_size`` bytes are JSON; all of them if it is None. The charge grows by its tensors.

    Raises ServingError or TensorError.
    """
    if json_size is not None and json_size > len(body):
        raise refuse(f"Inference-Header-Content-Length is {json_size}, and the body has {len(body)} bytes")
    view, start = memoryview(body), len(body) if json_size is None else json_size
    # Without binary data, a head has the elements of the tensors, and does not come again.
    kept = json_size is not None and json_size <= _KEPT_BYTES
    asked, lists = (_kept_asked(bytes(view[:start])), _NO_LISTS) if kept else _asked_of(view[:start])
    inputs: dict[str, TensorData] = {}
    for given in asked.inputs:
        end = start + (given.size or 0)
        if end > len(body):
            left = len(body) - start
            raise refuse(f"input '{given.name}' has {given.size} bytes of binary data, and {left} are left in the body")
        try:
            inputs[given.name] = _input(given, view[start:end], lists, caller, charge)
        except TensorError as error:
            raise _wrong_input(given.name, name, error) from error
        start = end
    if start < len(body):
        raise refuse(f"{len(body) - start} bytes of binary data belong to no input")
    parameters = asked.parameters
    request = InferenceRequest(
        inputs,
        asked.output_names,
        asked.id,
        parameters.others,
        parameters.priority,
        parameters.timeout_ns,
        cancellation=cancellation,
        arrived_ns=arrived_ns,
        output_places=caller.output_places(asked.outputs),
        copying=charge.copy,
    )
    return DecodedRequest(request, asked.outputs, asked.binary)


class _InputHead(NamedTuple):
    """An input without its binary data: it has ``size`` bytes of that, or lies in a region, or is ``data``."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    size: int | None
    part: RegionPart | None
    data: object


class _Asked(NamedTuple):
    """Content of a request's JSON."""

    id: str
    inputs: tuple[_InputHead, ...]
    outputs: tuple[RequestedOutput, ...]
    output_names: tuple[str, ...]
    parameters: RequestParameters
    binary: bool
    """True if outputs are binary data if ``outputs`` is empty."""
    plain: Sequence[PlainInput] | None
    """The inputs if all of them are numbers in binary data, and no output lies in a region."""
    form: CheckedForm


def _asked_of(text: memoryview) -> tuple[_Asked, _Lists]:
    """Return what the JSON of a request says, and the lists that were cut out of it."""
    header, lists = _header(text)
    unknown = header.keys() - _KNOWN - _IN_THE_PATH
    if unknown:
        raise refuse(f"the request has {sorted(unknown)}, expected only {', '.join(sorted(_KNOWN))}")
    inputs: dict[str, _InputHead] = {}
    for entry in _list(header, "inputs", required=True):
        tensor = _object(entry, "an input")
        tensor_name = _text(tensor, "name", "an input")
        if tensor_name in inputs:
            raise refuse(f"input '{tensor_name}' is repeated")
        inputs[tensor_name] = _input_head(tensor, tensor_name, lists)
    given = _parameters(header, "the request")
    parameters = request_parameters(given, (BINARY_OUTPUT,))
    default = bool(given.get(BINARY_OUTPUT, False))
    outputs = tuple(_output(_object(entry, "an output"), default) for entry in _list(header, "outputs"))
    names = tuple(output.name for output in outputs)
    if len(set(names)) != len(names):
        raise refuse("one of the outputs is repeated")
    request_id = _text(header, "id", "the request") if "id" in header else ""
    plain = None if any(output.part for output in outputs) else _plain(inputs.values())
    form = CheckedForm()
    return _Asked(request_id, tuple(inputs.values()), outputs, names, parameters, default, plain, form), lists


def _plain(inputs: Collection[_InputHead]) -> Sequence[PlainInput] | None:
    """The inputs as plain ones, if all of them are."""
    found = []
    for given in inputs:
        kind = DATATYPES.get(given.datatype)
        plain = PlainInput.of(given.name, kind, given.shape) if kind is not None and given.size is not None else None
        if plain is None or plain.byte_size != given.size:
            return None
        found.append(plain)
    return found


@lru_cache(_KEPT_HEADS)
def _kept_asked(text: bytes) -> _Asked:
    return _asked_of(memoryview(text))[0]


def _header(text: memoryview) -> tuple[dict[str, Any], _Lists]:
    """The JSON object of a request. Its lists are cut out if it is long."""
    if len(text) <= MOST_PARSED_JSON:
        return _object(parsed_json(text, "the request is not JSON"), "the request"), _Lists(None)
    head, lists = cut_json(text)
    return _object(parsed_json(head, "the request is not JSON"), "the request"), _Lists(lists)


class _Lists:
    """The lists of the tensors of a request."""

    def __init__(self, cut: Sequence[memoryview] | None) -> None:
        """``cut`` are the texts of those that were cut out; None if none was."""
        self._cut = cut

    def small(self, found: object) -> object:
        """A list that is to be small, such as a shape, or what else was found in its place."""
        text = self._text(found)
        if text is not None and len(text) > _LONGEST_SHAPE:
            raise refuse(f"the shape of an input has {len(text)} characters, expected {_LONGEST_SHAPE} at the most")
        return found if text is None else parsed_json(b"".join((b"[", text, b"]")), "the request is not JSON")

    def array(self, kind: Datatype, shape: Sequence[int], found: object, charge: Charge) -> Array:
        """A tensor by its data. Raises TensorError or ServingError."""
        text = self._text(found)
        if text is not None:
            return array_from_text(kind, shape, text, charge)
        array = array_from_json(kind, shape, found)
        charge.copy(array.nbytes)
        return array

    def _text(self, found: object) -> memoryview | None:
        return self._cut[found[0]] if self._cut is not None and isinstance(found, list) else None


_NO_LISTS = _Lists(None)


def _input_head(tensor: Mapping[str, Any], name: str, lists: _Lists) -> _InputHead:
    what = f"input '{name}'"
    kind_name, shape = _text(tensor, "datatype", what), _shape(lists.small(tensor.get("shape")), what)
    parameters = _parameters(tensor, what)
    part = region_part(parameters, what)
    is_binary = BINARY_SIZE in parameters
    if sum((part is not None, is_binary, "data" in tensor)) != 1:
        raise refuse(f"{what}: expected exactly one of data, {BINARY_SIZE} and shared_memory_region")
    size = count(parameters, BINARY_SIZE, f"{what}: ") if is_binary else None
    return _InputHead(name, kind_name, shape, size, part, tensor.get("data"))


def _input(given: _InputHead, raw: memoryview, lists: _Lists, caller: Caller, charge: Charge) -> TensorData:
    kind, shape = datatype(given.datatype), given.shape
    if given.part is not None:
        return caller.input(kind, shape, given.part, charge)
    if given.size is None:
        return lists.array(kind, shape, given.data, charge)
    charge.copy(copied_bytes(kind, shape, len(raw)))
    return array_from_raw(kind, shape, raw)


def _wrong_input(name: str, model: str, error: TensorError) -> ServingError:
    return refuse(f"input '{name}' for model '{model}': {error}")


def _output(entry: Mapping[str, Any], binary: bool) -> RequestedOutput:
    name = _text(entry, "name", "an output")
    parameters = dict(_parameters(entry, f"output '{name}'"))
    asked = parameters.pop(BINARY_DATA, binary)
    if not isinstance(asked, bool):
        raise refuse(f"output '{name}': parameter '{BINARY_DATA}' is {asked!r}, expected true or false")
    return requested_output(name, parameters, asked)


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refuse(f"{what} is {_named(value)}, expected a JSON object")
    return value


def _list(holder: Mapping[str, Any], key: str, required: bool = False) -> Sequence[object]:
    value = holder.get(key, None if required else [])
    if not isinstance(value, list):
        raise refuse(f"'{key}' is {_named(value)}, expected a list")
    return value


def _text(holder: Mapping[str, Any], key: str, what: str) -> str:
    value = holder.get(key)
    if not isinstance(value, str):
        raise refuse(f"'{key}' of {what} is {_named(value)}, expected a string")
    return value


def _shape(shape: object, what: str) -> tuple[int, ...]:
    if not isinstance(shape, list) or not all(type(axis) is int and 0 <= axis < 2**63 for axis in shape):
        raise refuse(f"'shape' of {what} is {reprlib.repr(shape)[:60]}, expected a list of integers of 0 and more")
    return tuple(shape)


def _parameters(holder: Mapping[str, Any], what: str) -> Mapping[str, Parameter]:
    if "parameters" not in holder:
        return {}
    found = _object(holder["parameters"], f"'parameters' of {what}")
    for key, value in found.items():
        if not isinstance(value, bool | int | float | str):
            raise refuse(f"parameter '{key}' of {what} is {_named(value)}, expected a boolean, number or string")
    return found


def _named(value: object) -> str:
    return "missing or null" if value is None else f"{_brief(value)[:60]!r}"


def _brief(value: object) -> str:
    """A value of JSON, shortened if it is long or nested."""
    return value if isinstance(value, str) else reprlib.repr(value)
