"""Inference over HTTP, served in the event loop, by few calls: as a plain ASGI application, or without one."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from starlette.types import Receive, Scope, Send

from nnhal.whole_numbers import whole_number
from nnhal_hosting.access import AccessRole, objection_to_page
from nnhal_hosting.http import while_connected
from nnhal_hosting.whole_requests import Responder
from nnhal_service.access import FREE_COPIES, Charge
from nnhal_service.observability import TRACEPARENT, RequestScope
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.errors import ServingError
from nnhal_service.serving.loop import MOST_BYTES_IN_LOOP
from nnhal_service.serving.requests.request import InferenceResponse
from nnhal_service.v2.backend import ModelBackend
from nnhal_service.v2.http.body import compressed, headers_of, read_body
from nnhal_service.v2.http.decode import MOST_PARSED_JSON, DecodedRequest, decode_body, decode_known, decode_raw
from nnhal_service.v2.http.encode import encode, keep_answer, kept_answer
from nnhal_service.v2.http.middleware import note_refused, peer_of
from nnhal_service.v2.http.services import Services
from nnhal_service.v2.http.statuses import response_for
from nnhal_service.v2.requested import SHM_REGION, WITHOUT_REGIONS, Caller, refuse

JSON_SIZE = "Inference-Header-Content-Length"
_JSON_SIZE = JSON_SIZE.lower().encode()
_TRACEPARENT = TRACEPARENT.encode()
_REGION = SHM_REGION.encode()
_ESCAPE = b"\\u"
_JSON_HEADERS = ((b"content-type", b"application/json"),)
_BINARY_HEADERS = ((b"content-type", b"application/octet-stream"),)
_PATH = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?/infer")
_KEPT_TARGETS = 128
_SENT_AT_ONCE = 1 << 18
_LEAST_COMPRESSED = 1024
"""The bytes from which on a response is compressed."""
_MOST_JSON_IN_LOOP = 1 << 14
"""The bytes of outputs that are written as JSON in the loop: it takes some ten times as long as copying them."""


class InferenceTarget(NamedTuple):
    """Model that a path names. An empty ``version`` leaves the choice to the server."""

    model: str
    version: str
    path: str


class InferenceHead(NamedTuple):
    """Path and headers of an inference."""

    target: InferenceTarget
    json_size: int | None
    """The bytes of the body that are JSON; None for all."""
    traceparent: str
    accepted: str
    """The encodings of a response that the client accepts."""
    authorization: str


class _Answer(NamedTuple):
    """The body of a response, and its headers beside the length."""

    content: bytes
    headers: Sequence[tuple[bytes, bytes]]


@lru_cache(_KEPT_TARGETS)
def inference_target(path: str) -> InferenceTarget | None:
    """The model whose inference a path names; None for any other path."""
    found = _PATH.fullmatch(path)
    return InferenceTarget(found[1], found[2] or "", path) if found is not None else None


def _head_of(path: str, headers: Mapping[bytes, bytes]) -> InferenceHead:
    """The head of an inference. Raises INVALID_ARGUMENT, and TypeError if the path names none."""
    target = inference_target(path)
    if target is None:
        raise TypeError("the path names no inference")
    traceparent, accepted, authorization = (
        headers.get(name, b"").decode("latin-1") for name in (_TRACEPARENT, b"accept-encoding", b"authorization")
    )
    return InferenceHead(target, _json_size(headers), traceparent, accepted, authorization)


class Inferences:
    """Serves ``POST /v2/models/…/infer``: as an ASGI application, and requests that come whole without one."""

    start = b"POST /v2/models/"

    def __init__(self, services: Services) -> None:
        self._services = services
        self._loop = services.loop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request whose path is an ``inference_target``. The guard has admitted it."""
        services, arrived_ns = self._services, time.monotonic_ns()
        headers = headers_of(scope)
        with RequestScope(headers.get(_TRACEPARENT, b"").decode("latin-1")) as named:
            try:
                cancellation = Cancellation()
                with services.budget.charge() as charge, while_connected(scope, cancellation.cancel):
                    body = await read_body(receive, headers, services.max_bytes, charge, self._loop)
                    head = _head_of(scope["path"], headers)
                    answer = await self._answer(head, body, peer_of(scope), named, cancellation, arrived_ns, charge)
            except Exception as error:  # caught within the scope, so that the log names the request
                note_refused(services.guard, error, scope)
                await response_for(error, scope["path"])(scope, receive, send)
                return
        length = (b"content-length", b"%d" % len(answer.content))
        await send({"type": "http.response.start", "status": 200, "headers": [length, *answer.headers]})
        if len(answer.content) <= _SENT_AT_ONCE:
            await send({"type": "http.response.body", "body": answer.content})
            return
        with self._held(answer.content):
            await _send_in_pieces(answer.content, send)

    def known(self, path: str, headers: Mapping[bytes, bytes]) -> InferenceHead | None:
        """The head of requests that are served without an application; None if it is none, or is to be refused."""
        if inference_target(path) is None or objection_to_page("POST", headers, self._services.hosts):
            return None
        try:
            return _head_of(path, headers)
        except ServingError:
            return None

    def admit(self, known: InferenceHead, length: int, connection: Responder) -> Charge | None:
        """The charge of a request whose body is so long; None if the guard or the budget refuses it."""
        services = self._services
        if length > services.max_bytes:
            return None
        charge = Charge(services.budget, 0)
        try:
            charge.grow(length)
            is_admitted = connection.user_is_admitted
            services.guard.admit(AccessRole.INFER, known.authorization, connection.peer, is_admitted)
        except ServingError:
            charge.release()
            return None
        connection.user_is_admitted = True
        return charge

    async def serve(self, known: InferenceHead, held: Charge, body: bytes, connection: Responder) -> None:
        """Serve a request that has been admitted."""
        arrived_ns, cancellation = time.monotonic_ns(), Cancellation()
        connection.on_lost(cancellation.cancel)
        named = RequestScope(known.traceparent)
        try:
            try:
                answer = await self._answer(known, body, connection.peer, named, cancellation, arrived_ns, held)
            finally:
                held.release()
        except Exception as error:  # caught within the scope, so that the log names the request
            self._services.guard.note_refused(error, known.authorization, connection.peer)
            refusal = response_for(error, known.target.path)
            headers = [header for header in refusal.raw_headers if header[0] != b"content-length"]
            connection.respond(refusal.status_code, headers, bytes(refusal.body))
            return
        finally:
            named.leave()
        if len(answer.content) <= _SENT_AT_ONCE:
            connection.respond(200, answer.headers, answer.content)
            return
        with self._held(answer.content):
            await connection.respond_in_pieces(200, answer.headers, answer.content, _SENT_AT_ONCE)

    async def _answer(
        self,
        head: InferenceHead,
        body: bytes | bytearray,
        peer: str,
        named: RequestScope,
        cancellation: Cancellation,
        arrived_ns: int,
        charge: Charge,
    ) -> _Answer:
        services, target, json_size = self._services, head.target, head.json_size
        named.name(target.model, "")
        lease = services.repository.model(target.model, target.version)
        try:
            model, caller, has_slow_regions = lease.model, WITHOUT_REGIONS, False
            decoded = decode_known(body, json_size, cancellation, arrived_ns, charge)
            if decoded is None:
                caller = Caller(peer, services.memory)
                # To find out whose regions are, and to read and write large ones, takes long.
                has_slow_regions = not caller.is_prompt and _may_name_regions(body, json_size)
                slowly = has_slow_regions or _is_large(body, json_size)
                arguments = body, json_size, target.model, model, caller, cancellation, arrived_ns, charge
                decoded = await self._loop.compute(_decode, *arguments) if slowly else _decode(*arguments)
            if decoded.request.id:
                named.name(target.model, decoded.request.id)
            response = await model.infer(decoded.request, peer)
            try:
                answer, given = kept_answer(decoded, response), (decoded, response, model, caller, charge)
                if answer is not None:
                    charge.copy(answer.byte_size)
                    content, json_size = answer.with_id(decoded.request.id)
                elif has_slow_regions or _is_large_response(response, decoded):
                    content, json_size = await self._loop.compute(_encoded, *given)
                else:
                    answer = encode(*given)
                    keep_answer(answer, decoded, response)
                    content, json_size = answer.with_id(decoded.request.id)
            finally:
                response.release()
        finally:
            lease.release()
        headers = _JSON_HEADERS if json_size is None else (*_BINARY_HEADERS, (_JSON_SIZE, b"%d" % json_size))
        if head.accepted and _is_worth_it(head.accepted, content, json_size is not None):
            content, encoding = await self._loop.compute(compressed, content, head.accepted)
            if encoding:
                headers = (*headers, (b"content-encoding", encoding.encode()))
        return _Answer(content, headers)

    def _held(self, content: bytes) -> Charge:
        """Charge a large response until the client has taken it."""
        return self._services.budget.hold(max(0, len(content) - FREE_COPIES))


def _may_name_regions(body: bytes | bytearray, json_size: int | None) -> bool:
    """Return whether the JSON of a request has the key of regions, perhaps in escaped characters."""
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


def _encoded(decoded: DecodedRequest, *given: Any) -> tuple[bytes, int | None]:
    return encode(decoded, *given).with_id(decoded.request.id)


def _is_large(body: bytes | bytearray, json_size: int | None) -> bool:
    """Return whether to decode a body would take the loop too long."""
    size = len(body) if json_size is None else json_size
    return size > MOST_PARSED_JSON or len(body) > MOST_BYTES_IN_LOOP


def _is_large_response(response: InferenceResponse, decoded: DecodedRequest) -> bool:
    """Return whether to encode a response would take the loop too long."""
    binary = decoded.binary or (bool(decoded.outputs) and all(output.binary for output in decoded.outputs))
    most = MOST_BYTES_IN_LOOP if binary else _MOST_JSON_IN_LOOP
    return sum([array.nbytes for array in response.outputs.values()]) > most


def _is_worth_it(accepted: str, content: bytes, binary: bool) -> bool:
    """Return whether to compress a response.

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
