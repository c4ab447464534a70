"""Inference over HTTP, as a plain ASGI application: it is served in the event loop, by few calls."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from starlette.types import Receive, Scope, Send

from nnhal.whole_numbers import whole_number
from nnhal_hosting.http import while_connected
from nnhal_service.access import FREE_COPIES, Charge
from nnhal_service.observability import TRACEPARENT, RequestScope
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.instances.loop_runner import MOST_BYTES_IN_LOOP
from nnhal_service.serving.requests.request import InferenceResponse
from nnhal_service.v2.backend import ModelBackend
from nnhal_service.v2.http.body import compressed, headers_of, read_body
from nnhal_service.v2.http.decode import MOST_PARSED_JSON, DecodedRequest, decode_body, decode_raw
from nnhal_service.v2.http.encode import encode
from nnhal_service.v2.http.middleware import peer_of
from nnhal_service.v2.http.services import Services
from nnhal_service.v2.http.statuses import response_for
from nnhal_service.v2.requested import SHM_REGION, Caller, refuse

JSON_SIZE = "Inference-Header-Content-Length"
_JSON_SIZE = JSON_SIZE.lower().encode()
_TRACEPARENT = TRACEPARENT.encode()
_REGION = SHM_REGION.encode()
_ESCAPE = b"\\u"
_PATH = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?/infer")
_KEPT_TARGETS = 128
_SENT_AT_ONCE = 1 << 18
_LEAST_COMPRESSED = 1024
"""The bytes from which on a response is compressed."""
_MOST_JSON_IN_LOOP = 1 << 14
"""The bytes of outputs that are written as JSON in the loop: it takes some ten times as long as copying them."""


class InferenceTarget(NamedTuple):
    """What a path names. An empty ``version`` leaves the choice to the server."""

    model: str
    version: str


class _Answer(NamedTuple):
    """The body of a response, and its headers beside the length."""

    content: bytes
    headers: list[tuple[bytes, bytes]]


@lru_cache(_KEPT_TARGETS)
def inference_target(path: str) -> InferenceTarget | None:
    """The model whose inference a path names; None for any other path."""
    found = _PATH.fullmatch(path)
    return InferenceTarget(found[1], found[2] or "") if found is not None else None


class Inferences:
    """Serves ``POST /v2/models/…/infer``."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._loop = services.loop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request whose path is an ``inference_target``."""
        arrived_ns = time.monotonic_ns()
        headers = headers_of(scope)
        traceparent = headers.get(_TRACEPARENT, b"").decode("latin-1")
        with RequestScope(traceparent) as named:
            try:
                answer = await self._answer(scope, headers, receive, named, arrived_ns)
            except Exception as error:  # caught within the scope, so that the log names the request
                await response_for(error, scope["path"])(scope, receive, send)
                return
        length = (b"content-length", b"%d" % len(answer.content))
        await send({"type": "http.response.start", "status": 200, "headers": [length, *answer.headers]})
        if len(answer.content) <= _SENT_AT_ONCE:
            await send({"type": "http.response.body", "body": answer.content})
            return
        with self._services.budget.hold(max(0, len(answer.content) - FREE_COPIES)):
            await _send_in_pieces(answer.content, send)

    async def _answer(
        self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, named: RequestScope, arrived_ns: int
    ) -> _Answer:
        services, target = self._services, inference_target(scope["path"])
        if target is None:
            raise TypeError("the path names no inference")
        named.name(target.model, "")
        cancellation = Cancellation()
        with services.budget.charge() as charge, while_connected(cancellation.cancel):
            body = await read_body(receive, headers, services.max_bytes, charge, self._loop)
            json_size, caller = _json_size(headers), Caller(peer_of(scope), services.memory)
            with services.repository.model(*target) as lease:
                model = lease.model
                # To find out whose regions are, and to read and write large ones, takes long.
                has_slow_regions = not caller.is_prompt and _may_name_regions(body, json_size)
                slowly = has_slow_regions or _is_large(body, json_size)
                arguments = body, json_size, target.model, model, caller, cancellation, arrived_ns, charge
                decoded = await self._loop.compute(_decode, *arguments) if slowly else _decode(*arguments)
                named.name(target.model, decoded.request.id)
                with await model.infer(decoded.request, caller.owner) as response:
                    slowly = has_slow_regions or _is_large_response(response, decoded)
                    answer = decoded, response, model, caller, charge
                    content, header_size = await self._loop.compute(encode, *answer) if slowly else encode(*answer)
        return await self._compressed(content, header_size, headers)

    async def _compressed(self, content: bytes, header_size: int | None, headers: Mapping[bytes, bytes]) -> _Answer:
        media_type = b"application/json" if header_size is None else b"application/octet-stream"
        described = [(b"content-type", media_type)]
        if header_size is not None:
            described.append((_JSON_SIZE, b"%d" % header_size))
        accepted = headers.get(b"accept-encoding", b"").decode("latin-1")
        if accepted and _is_worth_it(accepted, content, header_size is not None):
            content, encoding = await self._loop.compute(compressed, content, accepted)
            if encoding:
                described.append((b"content-encoding", encoding.encode()))
        return _Answer(content, described)


def _may_name_regions(body: bytes | bytearray, json_size: int | None) -> bool:
    """Whether the JSON of a request has the key of regions, perhaps in escaped characters."""
    return body.find(_REGION, 0, json_size) >= 0 or body.find(_ESCAPE, 0, json_size) >= 0


async def _send_in_pieces(content: bytes, send: Send) -> None:
    """Send a body as its client takes it, so that all but a piece of it has left when this returns."""
    for start in range(0, len(content), _SENT_AT_ONCE):
        piece = content[start : start + _SENT_AT_ONCE]
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _decode(
    body: bytes | bytearray,
    json_size: int | None,
    name: str,
    model: ModelBackend,
    caller: Caller,
    cancellation: Cancellation,
    arrived_ns: int,
    charge: Charge,
) -> DecodedRequest:
    if json_size == 0:
        return decode_raw(body, model, name, cancellation, arrived_ns, charge)
    return decode_body(body, json_size, name, caller, cancellation, arrived_ns, charge)


def _is_large(body: bytes | bytearray, json_size: int | None) -> bool:
    """Whether to decode a body would take the loop too long."""
    size = len(body) if json_size is None else json_size
    return size > MOST_PARSED_JSON or len(body) > MOST_BYTES_IN_LOOP


def _is_large_response(response: InferenceResponse, decoded: DecodedRequest) -> bool:
    """Whether to encode a response would take the loop too long."""
    binary = decoded.binary or (bool(decoded.outputs) and all(output.binary for output in decoded.outputs))
    most = MOST_BYTES_IN_LOOP if binary else _MOST_JSON_IN_LOOP
    return sum([array.nbytes for array in response.outputs.values()]) > most


def _is_worth_it(accepted: str, content: bytes, binary: bool) -> bool:
    """Whether to compress a response.

    Libraries accept several encodings by default; a client that names a single one wants it, for binary tensors too.
    """
    return len(content) >= _LEAST_COMPRESSED and (not binary or "," not in accepted)


def _json_size(headers: Mapping[bytes, bytes]) -> int | None:
    given = headers.get(_JSON_SIZE)
    if given is None:
        return None
    text = given.decode("latin-1")
    size = whole_number(text)
    if size is None:
        raise refuse(f"{JSON_SIZE} is {text[:40]!r}, expected a number of bytes")
    return size
