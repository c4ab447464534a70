"""Encoding: from the response of a served model to a JSON object, with the binary outputs after it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson

from nnhal.inference.datatypes import datatype_of, raw_from_array
from nnhal_service.serving.client_memory import to_array
from nnhal_service.serving.request import InferenceResponse
from nnhal_service.v2.backend import ModelBackend
from nnhal_service.v2.http.decode import BINARY_SIZE, DecodedRequest
from nnhal_service.v2.http.tensors_json import json_from_array
from nnhal_service.v2.requested import (
    SHM_BYTE_SIZE,
    SHM_OFFSET,
    SHM_REGION,
    Caller,
    RequestedOutput,
    presented,
    refuse,
)


def encode(
    decoded: DecodedRequest, response: InferenceResponse, model: ModelBackend, caller: Caller
) -> tuple[bytes, int | None]:
    """The body of a response, and how many bytes of it are JSON, None for all. Raises ServingError or TensorError."""
    header: dict[str, Any] = {"model_name": response.model_name, "model_version": response.model_version}
    if decoded.request.id:
        header["id"] = decoded.request.id
    if response.parameters:
        header["parameters"] = dict(response.parameters)
    outputs: list[dict[str, Any]] = []
    raw: list[bytes | memoryview] = []
    for output in decoded.outputs or [RequestedOutput(name, binary=decoded.binary) for name in response.outputs]:
        name, part = output.name, output.part
        if name not in response.outputs:
            raise refuse(f"unexpected inference output '{name}' for model '{response.model_name}'")
        array = presented(response.outputs[name], output, model)
        kind = datatype_of(array)
        entry: dict[str, Any] = {"name": name, "datatype": kind.name, "shape": list(array.shape)}
        if part is not None:
            size = caller.write(part, array, name)
            entry["parameters"] = {SHM_REGION: part.name, SHM_BYTE_SIZE: size, SHM_OFFSET: part.offset}
        elif output.binary:
            raw.append(raw_from_array(to_array(array)))
            entry["parameters"] = {BINARY_SIZE: len(raw[-1])}
        else:
            entry["data"] = json_from_array(kind, to_array(array))
        outputs.append(entry)
    header["outputs"] = outputs
    encoded = _encoded(header)
    return (b"".join((encoded, *raw)), len(encoded)) if raw else (encoded, None)


def _encoded(header: dict[str, Any]) -> bytes:
    """The JSON object. JSON has no NaN and no infinities: those are written as in JavaScript, as Triton does."""
    arrays = [entry["data"] for entry in header["outputs"] if isinstance(entry.get("data"), np.ndarray)]
    if all(array.dtype.kind != "f" or np.isfinite(array).all() for array in arrays):
        return orjson.dumps(header, option=orjson.OPT_SERIALIZE_NUMPY)
    return json.dumps(header, default=lambda array: array.tolist()).encode()
