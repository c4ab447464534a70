"""Encoding: from the response of a served model to a JSON object, with the binary outputs after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from nnhal.inference.datatypes import datatype_of, raw_from_array
from nnhal_service.access import Charge
from nnhal_service.serving.requests.client_memory import to_array
from nnhal_service.serving.requests.request import InferenceResponse, Parameter, ShownOutputs
from nnhal_service.v2.backend import ModelBackend
from nnhal_service.v2.http.decode import BINARY_SIZE, DecodedRequest
from nnhal_service.v2.http.tensors_json import json_from_array
from nnhal_service.v2.requested import (
    Caller,
    RequestedOutput,
    is_kept,
    presented,
    refuse,
)

_KEPT_HEADS = 1024


class EncodedBody(NamedTuple):
    """The body of a response but for its identifier. It holds as long as the outputs lie in the same memory, and their
    run is accounted for by the same parameters.
    """

    parameters: Mapping[str, Parameter]
    start: bytes
    """The JSON before the identifier."""
    rest: bytes
    """And behind it."""
    raw: Sequence[bytes | memoryview]
    """The binary outputs: views of the response's own."""
    byte_size: int
    """What the outputs take that are copied."""

    def with_id(self, request_id: str) -> tuple[bytes, int | None]:
        """Return the body, and how many bytes of it are JSON, None for all."""
        written = b',"id":' + orjson.dumps(request_id) if request_id else b""
        json_size = len(self.start) + len(written) + len(self.rest) if self.raw else None
        return b"".join((self.start, written, self.rest, *self.raw)), json_size


def encode(
    decoded: DecodedRequest, response: InferenceResponse, model: ModelBackend, caller: Caller, charge: Charge
) -> EncodedBody:
    """Encode a response. The charge grows by what is copied.

    Raises ServingError or TensorError.
    """
    heads: list[_OutputHead] = []
    raw: list[bytes | memoryview] = []
    data: dict[int, list[bytes]] = {}
    for output in decoded.outputs or [RequestedOutput(name, binary=decoded.binary) for name in response.outputs]:
        name, part, size = output.name, output.part, None
        if name not in response.outputs:
            raise refuse(f"unexpected inference output '{name}' for model '{response.model_name}'")
        array = presented(response.outputs[name], output, model)
        kind = datatype_of(array)
        if part is not None:
            # No parameters, as with Triton, whose C++ client takes an output that has some for one with binary data.
            caller.write(part, array, name)
        elif output.binary:
            charge.copy(array.nbytes)
            raw.append(raw_from_array(to_array(array)))
            size = len(raw[-1])
        else:
            data[len(heads)] = json_from_array(kind, to_array(array), charge)
        heads.append((name, kind.name, array.shape, size))
    parameters = response.parameters
    kinds = tuple(map(type, parameters.values()))
    described = tuple(parameters.items()), kinds, tuple(heads)
    start, rest, entries = _head(response.model_name, response.model_version, *described)
    parts = [rest]
    for index, entry in enumerate(entries):
        parts += (entry, b',"data":', *data[index]) if index in data else (entry,)
    parts.append(b"}]}" if entries else b"]}")
    return EncodedBody(parameters, start, b"".join(parts), raw, sum(map(len, raw)))


def keep_answer(answer: EncodedBody, decoded: DecodedRequest, response: InferenceResponse) -> None:
    """Keep an answer for the next request with the same outputs, if that is answered alike."""
    outputs = response.outputs
    is_binary = len(answer.raw) == len(decoded.outputs or outputs)
    if isinstance(outputs, ShownOutputs) and is_binary and is_kept(response, decoded.outputs):
        outputs.keep((decoded.binary, decoded.outputs), answer)


def kept_answer(decoded: DecodedRequest, response: InferenceResponse) -> EncodedBody | None:
    """Return how an earlier request with the same outputs was answered, if this one is answered alike."""
    outputs = response.outputs
    found = outputs.answers.get((decoded.binary, decoded.outputs)) if isinstance(outputs, ShownOutputs) else None
    return found if found is not None and found.parameters is response.parameters else None


_OutputHead = tuple[str, str, tuple[int, ...], int | None]
"""An output without its elements: name, datatype, shape, and its bytes of binary data."""


@lru_cache(_KEPT_HEADS)
def _head(
    model_name: str,
    model_version: str,
    parameters: tuple[tuple[str, Parameter], ...],
    _: tuple[type[Parameter], ...],
    outputs: tuple[_OutputHead, ...],
) -> tuple[bytes, bytes, tuple[bytes, ...]]:
    """The JSON of a response, mostly the same for all requests of a client: what is before the identifier, what follows
    it, and for each output what is between the elements of the one before it and its own.

    The types of the parameters tell True from 1.
    """
    start = orjson.dumps({"model_name": model_name, "model_version": model_version})[:-1]
    rest = b',"parameters":' + orjson.dumps(dict(parameters)) if parameters else b""
    entries: list[bytes] = []
    for name, datatype, shape, size in outputs:
        entry: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
        if size is not None:
            entry["parameters"] = {BINARY_SIZE: size}
        entries.append((b"}," if entries else b"") + orjson.dumps(entry)[:-1])
    return start, rest + b',"outputs":[', tuple(entries)
