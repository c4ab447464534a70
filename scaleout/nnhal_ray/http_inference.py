"""Inferences over HTTP at one host: those with binary tensors run by the native client, all others in its framework."""

from __future__ import annotations

import time
from http import HTTPStatus

import orjson

from nnhal.inference.datatypes import BYTES, TensorError, datatype_of, raw_from_array
from nnhal_ray.colleagues import Colleagues
from nnhal_ray.http_forwarding import HttpForwarder
from nnhal_ray.inference import FELL_BACK
from nnhal_ray.messages import HttpCall, HttpReply, Reply
from nnhal_ray.native_models import NativeModels, NativeOutputs
from nnhal_ray.refusals import SHARED_MEMORY
from nnhal_ray.replies import refused_over_http
from nnhal_ray.sequences import turn_over_http
from nnhal_service.access import RequestMemoryBudget
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.errors import ServingError
from nnhal_service.serving.requests.client_memory import to_array
from nnhal_service.v2.http.decode import BINARY_SIZE, MOST_PARSED_JSON, DecodedRequest, decode_body
from nnhal_service.v2.http.infer import JSON_SIZE, inference_target
from nnhal_service.v2.http.json_cut import cut_json
from nnhal_service.v2.requested import SHM_REGION, Caller, RequestedOutput

_JSON_SIZE = JSON_SIZE.lower()
_OF_PAGES = ("origin", "sec-fetch-site")
"""Headers by which a web page is told from a program: the framework judges those."""
_NO_LIMIT = RequestMemoryBudget()
"""The framework limits the memory of requests."""
_NOBODY = Caller("", None)
_REGION = SHM_REGION.encode()


class HttpInferences:
    """The requests of one host over HTTP."""

    def __init__(self, forwarder: HttpForwarder, models: NativeModels | None, colleagues: Colleagues) -> None:
        """Without ``models`` every request is passed on."""
        self._forwarder = forwarder
        self._models = models
        self._colleagues = colleagues

    async def answer(self, call: HttpCall) -> Reply:
        """Answer a request. What is wrong with one, the framework says."""
        target = inference_target(call.path) if call.method == "POST" else None
        if target is None:
            return await self._forwarder.forward(call)
        size = call.headers.get(_JSON_SIZE, "")
        json_size = int(size) if size.isdecimal() else len(call.body)
        if call.body.find(_REGION, 0, json_size) >= 0 and _names_region(call.body[:json_size]):
            return refused_over_http(HTTPStatus.NOT_IMPLEMENTED, SHARED_MEMORY)
        turn = turn_over_http(target.model, call.body[:json_size])
        if turn is not None:
            return await self._colleagues.in_sequence(turn, call)
        has_binary = 0 < json_size < len(call.body) and json_size <= MOST_PARSED_JSON
        decoded = self._decoded(call, target.model, json_size) if has_binary else None
        if decoded is not None and self._models is not None:
            arrays = {name: to_array(tensor) for name, tensor in decoded.request.inputs.items()}
            found = await self._models.run(target.model, target.version, arrays)
            names = [output.name for output in decoded.outputs]
            if found is not None and found.outputs.keys() >= set(names):
                return _encoded(target.model, decoded, found)
        reply = await self._forwarder.forward(call)
        return await self._colleagues.again(call, reply) if reply.is_unanswered else reply

    def _decoded(self, call: HttpCall, model: str, json_size: int) -> DecodedRequest | None:
        """A request whose inputs and outputs are binary tensors of numbers; None for any other."""
        headers = call.headers
        if self._models is None or "content-encoding" in headers or any(name in headers for name in _OF_PAGES):
            return None
        if _wants_compression(headers.get("accept-encoding", "")):
            return None
        try:
            decoded = decode_body(
                call.body, json_size, model, _NOBODY, Cancellation(), time.monotonic_ns(), _NO_LIMIT.charge()
            )
        except (ServingError, TensorError):
            return None
        request = decoded.request
        given = bool(request.parameters or request.priority or request.timeout_ns)
        outputs = decoded.outputs or [RequestedOutput("", binary=decoded.binary)]
        if given or any(output.classes or not output.binary for output in outputs):
            return None
        return None if any(datatype_of(array) is BYTES for array in request.inputs.values()) else decoded


def _encoded(model: str, decoded: DecodedRequest, found: NativeOutputs) -> HttpReply:
    names = [output.name for output in decoded.outputs] or list(found.outputs)
    arrays = {name: found.outputs[name] for name in names}
    raw = [raw_from_array(array) for array in arrays.values()]
    header = {
        "model_name": model,
        "model_version": found.version,
        **({"id": decoded.request.id} if decoded.request.id else {}),
        "parameters": {FELL_BACK: found.fell_back},
        "outputs": [
            {
                "name": name,
                "datatype": datatype_of(array).name,
                "shape": list(array.shape),
                "parameters": {BINARY_SIZE: len(contents)},
            }
            for (name, array), contents in zip(arrays.items(), raw, strict=True)
        ],
    }
    encoded = orjson.dumps(header)
    headers = {"content-type": "application/octet-stream", _JSON_SIZE: str(len(encoded))}
    return HttpReply(HTTPStatus.OK, headers, b"".join((encoded, *raw)))


def _wants_compression(accepted: str) -> bool:
    """Whether a client names a single encoding, which the framework then uses for binary tensors too."""
    return accepted not in ("", "identity") and "," not in accepted


def _names_region(header: bytes) -> bool:
    """Whether a tensor of a request lies in a region of shared memory.

    It is false for a malformed request: that is passed on, and the framework says what is wrong with it.
    """
    try:
        head = cut_json(memoryview(header)).head if len(header) > MOST_PARSED_JSON else header
        tensors = [entry for key in ("inputs", "outputs") for entry in orjson.loads(head).get(key, ())]
        return any(SHM_REGION in entry.get("parameters", ()) for entry in tensors)
    except (TensorError, orjson.JSONDecodeError, AttributeError, TypeError):
        return False
