"""What every replica that clients reach has: the methods of the protocol over gRPC, and one route for all of HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from http import HTTPStatus
from typing import Any

from ray.serve.grpc_util import RayServegRPCContext
from starlette.requests import Request
from starlette.responses import Response

from nnhal_hosting.access import AccessRole, read_tokens
from nnhal_ray.messages import HttpCall, HttpReply, ProtocolCall, ProtocolReply, RefusedCallError, WireMessage
from nnhal_ray.options import ScaleOutOptions
from nnhal_ray.protocol import INFER, SERVICE, STREAM, UNARY
from nnhal_ray.refusals import SHARED_MEMORY, is_registration, refusal_of
from nnhal_ray.replies import refused_over_http
from nnhal_ray.settings_calls import only_reads
from nnhal_ray.streams import streamed, streamed_refusal
from nnhal_service.access import Guard
from nnhal_service.access.roles import role_for_call, role_for_request
from nnhal_service.serving.errors import ServingError
from nnhal_service.v2.grpc.statuses import STATUS as GRPC_STATUS
from nnhal_service.v2.http.statuses import STATUS as HTTP_STATUS

_AUTHORIZATION = "authorization"
_ENDS_STREAM = "triton_grpc_error"

UnaryMethod = Callable[["ProtocolIngress", WireMessage, RayServegRPCContext], Coroutine[Any, Any, WireMessage]]


class ProtocolIngress(ABC):
    """A class that Ray Serve can deploy as the ingress. What it is asked, it has answered by ``answer`` and such."""

    def __init__(self, options: ScaleOutOptions) -> None:
        """Raises TokenFileError if the file of tokens is malformed."""
        self._options = options
        self._guard = Guard(None if options.tokens is None else read_tokens(options.tokens))

    @abstractmethod
    async def answer(self, call: ProtocolCall) -> ProtocolReply:
        """Answer a unary call of a client that may make it."""

    @abstractmethod
    async def answer_http(self, call: HttpCall) -> HttpReply:
        """Answer a request over HTTP of a client that may make it."""

    async def ModelStreamInfer(  # noqa: N802
        self, requests: AsyncIterator[WireMessage], grpc_context: RayServegRPCContext
    ) -> AsyncGenerator[WireMessage, None]:
        """One inference for each request, answered in their order; each is read when the one before is answered."""
        metadata = _metadata(grpc_context)
        refusal = self._refusal(STREAM, b"", metadata, grpc_context.peer())
        if refusal is not None:
            raise _refused(refusal, grpc_context)
        async for request in requests:
            reply = await self.answer(ProtocolCall(INFER, request.data, metadata))
            if reply.is_ok:
                yield WireMessage(streamed(reply.message))
            elif metadata.get(_ENDS_STREAM) == "true":
                raise _refused(reply, grpc_context)
            else:
                yield WireMessage(streamed_refusal(request.data, reply))

    async def __call__(self, request: Request) -> Response:
        """All of HTTP."""
        peer = "" if request.client is None else f"{request.client.host}:{request.client.port}"
        headers = {name.lower(): value for name, value in request.headers.items()}
        reply = self._refusal_over_http(request, headers, peer)
        if reply is None:
            body = await self._body(request)
            if body is None:
                reply = refused_over_http(
                    HTTPStatus.BAD_REQUEST, f"the body is longer than {self._options.max_body} bytes ('max_body')"
                )
            else:
                path = request.scope.get("raw_path", request.url.path.encode()).partition(b"?")[0].decode("latin-1")
                call = HttpCall(request.method, path, request.url.query, headers, body, peer)
                reply = await self.answer_http(call)
        return Response(reply.body, reply.status, dict(reply.headers))

    async def unary(self, method: str, request: WireMessage, context: RayServegRPCContext) -> WireMessage:
        """Answer one call over gRPC. Raises RefusedCallError if it ends with another status than OK."""
        metadata = _metadata(context)
        reply = self._refusal(method, request.data, metadata, context.peer())
        if reply is None:
            reply = await self.answer(ProtocolCall(method, request.data, metadata))
        if not reply.is_ok:
            raise _refused(reply, context)
        return WireMessage(reply.message)

    def _refusal(self, method: str, message: bytes, metadata: dict[str, str], peer: str) -> ProtocolReply | None:
        """What the guard says against a call, and what nobody can do across hosts."""
        role = role_for_call(f"/{SERVICE.full_name}/{method}")
        try:
            self._guard.admit(
                AccessRole.VIEW if only_reads(method, message) else role, metadata.get(_AUTHORIZATION, ""), peer
            )
        except ServingError as error:
            return ProtocolReply(code=GRPC_STATUS[error.kind], details=error.message)
        return refusal_of(method)

    def _refusal_over_http(self, request: Request, headers: dict[str, str], peer: str) -> HttpReply | None:
        path = request.url.path
        try:
            self._guard.admit(role_for_request(request.method, path), headers.get(_AUTHORIZATION, ""), peer)
        except ServingError as error:
            return refused_over_http(HTTP_STATUS.get(error.kind, HTTPStatus.BAD_REQUEST), error.message)
        if is_registration(path):
            return refused_over_http(HTTPStatus.NOT_IMPLEMENTED, SHARED_MEMORY)
        return None

    async def _body(self, request: Request) -> bytes | None:
        """The body; None if it is too long."""
        chunks, size = [], 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > self._options.max_body:
                return None
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _unary_method(name: str) -> UnaryMethod:
    async def method(self: ProtocolIngress, request: WireMessage, grpc_context: RayServegRPCContext) -> WireMessage:
        return await self.unary(name, request, grpc_context)

    method.__name__ = name
    return method


for _name in UNARY:
    setattr(ProtocolIngress, _name, _unary_method(_name))


def _metadata(context: RayServegRPCContext) -> dict[str, str]:
    return {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}


def _refused(reply: ProtocolReply, context: RayServegRPCContext) -> RefusedCallError:
    """The error that ends a call with a status: Serve takes the status from the context."""
    context.set_code(reply.code)
    context.set_details(reply.details)
    return RefusedCallError(f"{reply.code.name}: {reply.details}")
