"""Encoding: from the response of a served model to a JSON object, with the binary outputs after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from nnhal.inference.datatypes import datatype_of, raw_from_array
from nnhal_service.access import Charge
from nnhal_service.serving.requests.client_memory import to_array
from nnhal_service.serving.requests.request import InferenceResponse
from nnhal_service.v2.backend import ModelBackend
from nnhal_service.v2.http.decode import BINARY_SIZE, DecodedRequest
from nnhal_service.v2.http.tensors_json import json_from_array
from nnhal_service.v2.requested import (
    Caller,
    RequestedOutput,
    presented,
    refuse,
)


def encode(
    decoded: DecodedRequest, response: InferenceResponse, model: ModelBackend, caller: Caller, charge: Charge
) -> tuple[bytes, int | None]:
    """The body of a response, and how many bytes of it are JSON, None for all. The charge grows by what is copied.

    Raises ServingError or TensorError.
    """
    header: dict[str, Any] = {"model_name": response.model_name, "model_version": response.model_version}
    if decoded.request.id:
        header["id"] = decoded.request.id
    if response.parameters:
        header["parameters"] = dict(response.parameters)
    outputs: list[dict[str, Any]] = []
    raw: list[bytes | memoryview] = []
    data: dict[int, list[bytes]] = {}
    for output in decoded.outputs or [RequestedOutput(name, binary=decoded.binary) for name in response.outputs]:
        name, part = output.name, output.part
        if name not in response.outputs:
            raise refuse(f"unexpected inference output '{name}' for model '{response.model_name}'")
        array = presented(response.outputs[name], output, model)
        kind = datatype_of(array)
        entry: dict[str, Any] = {"name": name, "datatype": kind.name, "shape": list(array.shape)}
        if part is not None:
            # No parameters, as with Triton, whose C++ client takes an output that has some for one with binary data.
            caller.write(part, array, name)
        elif output.binary:
            charge.copy(array.nbytes)
            raw.append(raw_from_array(to_array(array)))
            entry["parameters"] = {BINARY_SIZE: len(raw[-1])}
        else:
            data[len(outputs)] = json_from_array(kind, to_array(array), charge)
        outputs.append(entry)
    header["outputs"] = outputs
    encoded = _encoded(header, data)
    size = sum(map(len, encoded))
    return b"".join((*encoded, *raw)), size if raw else None


def _encoded(header: dict[str, Any], data: Mapping[int, Sequence[bytes]]) -> list[bytes]:
    """The JSON object in parts. ``data`` are the lists of the outputs that are not binary, each in parts."""
    if not data:
        return [orjson.dumps(header)]
    outputs = header.pop("outputs")
    parts = [orjson.dumps(header)[:-1], b',"outputs":[']
    for index, entry in enumerate(outputs):
        parts += [b"," * bool(index), orjson.dumps(entry)]
        if index in data:
            parts[-1] = parts[-1][:-1]
            parts += [b',"data":', *data[index], b"}"]
    return [*parts, b"]}"]
