"""The answer to an inference: a JSON object, and after it the outputs that are wanted as binary data."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson

from nnhal.inference.datatypes import datatype_of, raw_from_array
from nnhal_service.serving.request import InferenceResponse
from nnhal_service.v2.backend import Model
from nnhal_service.v2.http.inference_request import BINARY_SIZE, Call, Origin, Wanted
from nnhal_service.v2.http.tensors_json import json_from_array
from nnhal_service.v2.tensors import (
    SHM_BYTE_SIZE,
    SHM_OFFSET,
    SHM_REGION,
    WantedOutput,
    presented,
    refuse,
    write_part,
)


def answer_to(call: Call, response: InferenceResponse, model: Model, origin: Origin) -> tuple[bytes, int | None]:
    """The body, and how many bytes of it are JSON where not all are. Raises ServingError or TensorError."""
    header: dict[str, Any] = {"model_name": response.model_name, "model_version": response.model_version}
    if call.request.id:
        header["id"] = call.request.id
    if response.parameters:
        header["parameters"] = dict(response.parameters)
    outputs: list[dict[str, Any]] = []
    raw: list[bytes | memoryview] = []
    for wanted in call.outputs or [Wanted(WantedOutput(name), call.binary) for name in response.outputs]:
        name, part = wanted.output.name, wanted.output.part
        if name not in response.outputs:
            raise refuse(f"unexpected inference output '{name}' for model '{response.model_name}'")
        array = presented(response.outputs[name], wanted.output, model)
        kind = datatype_of(array)
        entry: dict[str, Any] = {"name": name, "datatype": kind.name, "shape": list(array.shape)}
        if part is not None:
            size = write_part(origin.memory, part, array, name, origin.peer)
            entry["parameters"] = {SHM_REGION: part.name, SHM_BYTE_SIZE: size, SHM_OFFSET: part.offset}
        elif wanted.binary:
            raw.append(raw_from_array(array))
            entry["parameters"] = {BINARY_SIZE: len(raw[-1])}
        else:
            entry["data"] = json_from_array(kind, array)
        outputs.append(entry)
    header["outputs"] = outputs
    encoded = _encoded(header)
    return (b"".join((encoded, *raw)), len(encoded)) if raw else (encoded, None)


def _encoded(header: dict[str, Any]) -> bytes:
    """JSON has no numbers that are not finite; those are written as JavaScript has them, as Triton does."""
    arrays = [entry["data"] for entry in header["outputs"] if isinstance(entry.get("data"), np.ndarray)]
    if all(array.dtype.kind != "f" or np.isfinite(array).all() for array in arrays):
        return orjson.dumps(header, option=orjson.OPT_SERIALIZE_NUMPY)
    return json.dumps(header, default=lambda array: array.tolist()).encode()
