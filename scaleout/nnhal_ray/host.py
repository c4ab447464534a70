"""A replica that is one host: a whole nnhal, and the protocol's methods, which its framework answers.

Ray Serve looks the methods of gRPC up by their names, so there is one for each.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import grpc
import ray
from ray import serve
from ray.serve.exceptions import RayServeException
from ray.serve.grpc_util import RayServegRPCContext
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request
from starlette.responses import Response

from nnhal.errors import NnhalError
from nnhal_hosting.access import AccessRole, read_tokens
from nnhal_ray.changes import Change, HostReply, change_of, joined, newest, reads_settings
from nnhal_ray.framework import HostFramework
from nnhal_ray.messages import Call, HttpCall, HttpReply, ProtocolCall, ProtocolReply, Reply, WireMessage, refused
from nnhal_ray.options import ScaleOutOptions
from nnhal_ray.protocol import INFER, SERVICE, STREAM, UNARY
from nnhal_ray.sequences import StreamSequences, require_alone
from nnhal_ray.testbed import HostTestbed
from nnhal_service.access import Guard, RequestMemoryBudget
from nnhal_service.access.roles import role_for_call, role_for_request
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.grpc.statuses import STATUS
from nnhal_service.v2.http.body import decompress
from nnhal_service.v2.http.infer import inference_target

_log = logging.getLogger(__name__)
_NO_LIMIT = RequestMemoryBudget()
"""The framework limits the memory of requests."""
_CHANGE_SECONDS = 600.0
"""As long as a framework may take to load a model."""
_ASK_SECONDS = 10.0
_READY_SECONDS = 10.0
_LOOKS_AT_OTHERS = 3
"""How often a new host asks the others for changes: one may be made after its first question, before it serves."""

UnaryMethod = Callable[["HostReplica", WireMessage, RayServegRPCContext], Coroutine[Any, Any, WireMessage]]


class RefusedCallError(NnhalError):
    """A call that ends with a status of gRPC, which the context of the call has."""


class UnhealthyHostError(NnhalError):
    """The host's nnhal has ended, or does not say that it is ready. Ray Serve replaces the replica."""


class HostReplica:
    """One host. It starts its nnhal, and ends it."""

    def __init__(self, options: ScaleOutOptions) -> None:
        """Wait until its nnhal serves. Raises StartError if it does not, TokenFileError if tokens are malformed."""
        context = serve.get_replica_context()
        self._options = options
        self._guard = Guard(None if options.tokens is None else read_tokens(options.tokens))
        self._node = ray.get_runtime_context().get_node_id()
        self._hosts: DeploymentHandle[Any] = serve.get_deployment_handle(context.deployment, context.app_name)
        self._changes: dict[str, Change] = {}
        self._changing = asyncio.Lock()
        self._looks = 0
        self._catching_up: asyncio.Future[None] | None = None
        self._framework_pid = 0
        self._testbed = HostTestbed(options)
        self._framework = HostFramework(self._testbed.framework, self._testbed.http_address)

    async def unary(self, method: str, request: WireMessage, context: RayServegRPCContext) -> WireMessage:
        """Answer one call over gRPC. Raises RefusedCallError if it ends with another status than OK."""
        call = ProtocolCall(method, request.data, _headers(context), context.peer())
        try:
            self._admit(call)
            reply = await self._answer(call)
        except ServingError as error:
            reply = refused(call, error)
        assert isinstance(reply, ProtocolReply)
        if not reply.is_ok:
            raise _refused(reply.code, reply.text, context)
        return WireMessage(reply.message)

    async def ModelStreamInfer(  # noqa: N802
        self, requests: AsyncIterator[WireMessage], grpc_context: RayServegRPCContext
    ) -> AsyncGenerator[WireMessage, None]:
        """Pass a stream on to the framework, which answers one request after the other."""
        call = ProtocolCall(STREAM, b"", _headers(grpc_context), grpc_context.peer())
        sequences = StreamSequences() if self._options.max_hosts > 1 else None

        async def checked() -> AsyncIterator[bytes]:
            async for request in requests:
                if sequences is not None:
                    sequences.require_started(request.data)
                yield request.data

        try:
            self._admit(call)
            async with aclosing(self._framework.stream(checked(), call.headers)) as answers:
                async for answer in answers:
                    yield WireMessage(answer)
        except ServingError as error:
            raise _refused(STATUS[error.kind], error.message, grpc_context) from None
        except grpc.aio.AioRpcError as error:
            raise _refused(error.code(), error.details() or "", grpc_context) from None

    async def __call__(self, request: Request) -> Response:
        """Answer any request over HTTP."""
        peer = "" if request.client is None else f"{request.client.host}:{request.client.port}"
        path = request.scope.get("raw_path", request.url.path.encode()).partition(b"?")[0].decode("latin-1")
        headers = {name.lower(): value for name, value in request.headers.items()}
        encoding = headers.pop("content-encoding", "")
        call = HttpCall(request.method, path, request.url.query, headers, b"", peer)
        try:
            self._admit(call)
            call = replace(call, body=await self._body(request, encoding))
            reply = await self._answer(call)
        except ServingError as error:
            reply = refused(call, error)
        assert isinstance(reply, HttpReply)
        return Response(reply.body, reply.status, dict(reply.headers))

    async def perform(self, change: Change) -> HostReply:
        """Make a change on this host alone, and remember it for hosts that join later."""
        async with self._changing:
            reply = await self._framework.forward(change.call)
            if change.model and reply.is_ok:
                self._changes[change.model] = change
            return HostReply(self._node, reply)

    async def changes(self) -> list[Change]:
        """Return the last change of each model that this host has made."""
        return newest(self._changes.values())

    async def check_health(self) -> None:
        """Ray Serve asks this at the start, and again and again. Raises UnhealthyHostError."""
        if self._testbed.has_ended:
            raise UnhealthyHostError(f"the supervisor of {self._testbed.directory} has ended")
        if not await self._framework.is_ready(_READY_SECONDS):
            raise UnhealthyHostError(f"the framework of {self._testbed.directory} does not say that it is ready")
        earlier = self._catching_up
        if earlier is not None and not earlier.done():  # a model may take long to load
            return
        self._catching_up = asyncio.ensure_future(self._catch_up())
        if earlier is None:
            await self._catching_up  # before the first request
        else:
            earlier.result()  # what has failed counts now

    async def __del__(self) -> None:
        """End the host's nnhal. Ray Serve awaits this once the replica has no requests any more."""
        await self._framework.close()
        await asyncio.to_thread(self._testbed.close)

    def _admit(self, call: Call) -> None:
        """Raise ServingError if the client may not make a call."""
        if isinstance(call, HttpCall):
            role = role_for_request(call.method, call.route)
        else:
            role = AccessRole.VIEW if reads_settings(call) else role_for_call(f"/{SERVICE.full_name}/{call.method}")
        self._guard.admit(role, call.headers.get("authorization", ""), call.peer)

    async def _answer(self, call: Call) -> Reply:
        """Answer a call here; one that changes something, on all hosts. Raises ServingError."""
        is_inference = (
            call.method == INFER
            if isinstance(call, ProtocolCall)
            else call.method == "POST" and inference_target(call.route) is not None
        )
        if is_inference:
            if self._options.max_hosts > 1:
                require_alone(call)
            return await self._framework.infer(call)
        change = change_of(call, time.time_ns())
        if change is None:
            return await self._framework.forward(call)
        try:
            return joined(call, await self._broadcast(_CHANGE_SECONDS, "perform", change))
        except TimeoutError:
            text = f"not all hosts have answered within {_CHANGE_SECONDS:.0f} s"
            raise ServingError(ErrorKind.UNAVAILABLE, text) from None

    async def _broadcast(self, seconds: float, method: str, *arguments: object) -> list[Any]:
        """Return what a method of each host returns, but for hosts that have ended meanwhile. Raises TimeoutError."""
        try:
            answers = await self._hosts.broadcast(method, *arguments).results_async(
                timeout_s=seconds, return_exceptions=True
            )
        except RayServeException:  # no host serves
            return []
        return [answer for answer in answers if not isinstance(answer, BaseException)]

    async def _body(self, request: Request, encoding: str) -> bytes:
        """Return a request's body without its encoding. Raises ServingError if it is too long, or not in that."""
        chunks, size, most = [], 0, self._options.max_body
        async for chunk in request.stream():
            size += len(chunk)
            if size > most:
                text = f"the body is longer than {most} bytes ('max_body')"
                raise ServingError(ErrorKind.INVALID_ARGUMENT, text)
            chunks.append(chunk)
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if not encoding:
            return body
        return bytes(await asyncio.to_thread(decompress, body, encoding, most, _NO_LIMIT.charge()))

    async def _catch_up(self) -> None:
        """Make the changes that other hosts know of, and anew those of a framework that was started again."""
        pid = await asyncio.to_thread(self._testbed.framework_pid)
        missed: list[Change] = []
        if pid != self._framework_pid:
            missed, self._changes, self._framework_pid = list(self._changes.values()), {}, pid
        if self._looks < _LOOKS_AT_OTHERS:
            self._looks += 1
            try:
                known = await self._broadcast(_ASK_SECONDS, "changes")
            except TimeoutError:
                known = []
            missed += [change for changes in known for change in changes]
        for change in newest(missed):
            made = self._changes.get(change.model)
            if made is None or made.made_ns < change.made_ns:
                done = await self.perform(change)
                if not done.reply.is_ok:
                    _log.warning("model %s is not as on other hosts: %s", change.model, done.reply.text)


def _unary_method(name: str) -> UnaryMethod:
    async def method(self: HostReplica, request: WireMessage, grpc_context: RayServegRPCContext) -> WireMessage:
        return await self.unary(name, request, grpc_context)

    method.__name__ = name
    return method


for _name in UNARY:
    setattr(HostReplica, _name, _unary_method(_name))


def _headers(context: RayServegRPCContext) -> dict[str, str]:
    return {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}


def _refused(code: grpc.StatusCode, text: str, context: RayServegRPCContext) -> RefusedCallError:
    """The error that ends a call with a status: Serve takes the status from the context."""
    context.set_code(code)
    context.set_details(text)
    return RefusedCallError(f"{code.name}: {text}")
