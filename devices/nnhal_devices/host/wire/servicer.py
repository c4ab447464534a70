"""WireService over gRPC."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

import grpc

from nnhal.clock import now_ns
from nnhal.errors import HalError, NnhalError, invalid_argument
from nnhal.link.tenants import ON_BEHALF_METADATA, tenant_from_wire
from nnhal.shares import Level, Shares, Tenant, act_for, acting_for
from nnhal.types import ErrorStatus
from nnhal.v1 import wire_pb2 as wire
from nnhal.v1 import wire_pb2_grpc
from nnhal_devices.host.wire.constants import KeptConstants, MissingConstantsError
from nnhal_devices.host.wire.door import WireDoor
from nnhal_devices.host.wire.limits import WireLimits
from nnhal_devices.host.wire.own_device import OwnDevice
from nnhal_devices.host.wire.session import FarSession
from nnhal_devices.wire import CHUNK_BYTES, PROTOCOL_VERSION, SESSION_TOKEN_METADATA, chunks_of, joined
from nnhal_hosting.calls import CallAdmission
from nnhal_hosting.logs import get_logger
from nnhal_hosting.rpc import abort, answered_error

_log = get_logger(__name__)
_LOOK_SECONDS = 0.5
S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - input
O = TypeVar("O")  # noqa: E741 - output


def _answers(method: Callable[[S, I, grpc.ServicerContext], O]) -> Callable[[S, I, grpc.ServicerContext], O]:
    """Wrap a unary method: errors become statuses."""

    @functools.wraps(method)
    def call(self: S, request: I, context: grpc.ServicerContext) -> O:
        try:
            return method(self, request, context)
        except Exception as error:
            _end(context, error, method.__name__)

    return call


def _streams(
    method: Callable[[S, I, grpc.ServicerContext], Iterator[O]],
) -> Callable[[S, I, grpc.ServicerContext], Iterator[O]]:
    """Wrap a method that answers with a stream: errors become statuses."""

    @functools.wraps(method)
    def call(self: S, request: I, context: grpc.ServicerContext) -> Iterator[O]:
        try:
            yield from method(self, request, context)
        except Exception as error:
            _end(context, error, method.__name__)

    return call


class WireServicer(wire_pb2_grpc.WireServiceServicer):
    """The sessions of a wire, and what is asked in each."""

    def __init__(self, own: OwnDevice, door: WireDoor, limits: WireLimits, admission: CallAdmission) -> None:
        """``admission`` serves the calls of each session, which it is told of."""
        self._own = own
        self._admission = admission
        self._door = door
        self._limits = limits
        self._kept = KeptConstants(limits.constant_bytes)
        self._lock = threading.Lock()
        self._sessions: dict[str, FarSession] = {}
        self._opened = Shares(limits.sessions, "sessions", "NNHAL_DEVICE_WIRE_SESSIONS", leaves=8)

    def close(self) -> None:
        """End all sessions."""
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            session.ended.set()

    def admit(self, context: grpc.ServicerContext, opens: bool) -> None:
        """Aborts or raises as a call would that ``opens`` a session or is of one, if its client may not make it."""
        if opens:
            self._door.admit(context)
        else:
            self._session(context)

    @_streams
    def OpenSession(
        self, request: wire.OpenSessionRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.OpenSessionResponse]:
        caller = self._door.admit(context)
        if request.protocol_version != PROTOCOL_VERSION:
            invalid_argument(f"protocol version {request.protocol_version}, expected {PROTOCOL_VERSION}")
        name = caller.titled(request.client_name)
        client = Tenant((Level(caller.name or caller.host, name),))
        with acting_for(client), self._opened.taken(1, "a session of another host"):
            session = FarSession(self._own, name, caller.name, self._kept, self._limits, client)
            try:
                yield from self._serve(session, context)
            finally:
                with self._lock:
                    self._sessions.pop(session.token, None)
                self._admission.closed(session.token)
                session.close()
                _log.info("a session of the wire ended", client=session.name)

    def _serve(self, session: FarSession, context: grpc.ServicerContext) -> Iterator[wire.OpenSessionResponse]:
        with self._lock:
            self._sessions[session.token] = session
        self._admission.opened(session.token)
        if not context.add_callback(session.ended.set):
            return
        _log.info("a session of the wire began", client=session.name)
        yield session.introduction()
        while not session.ended.wait(_LOOK_SECONDS):
            if session.gone:
                return

    @_answers
    def Probe(self, request: wire.ProbeRequest, context: grpc.ServicerContext) -> wire.ProbeResponse:
        received = now_ns()
        self._session(context)
        if not 0 <= request.answer_bytes <= CHUNK_BYTES:
            invalid_argument(f"a probe for {request.answer_bytes} bytes, expected 0 to {CHUNK_BYTES}")
        return wire.ProbeResponse(payload=bytes(request.answer_bytes), received_ns=received, sent_ns=now_ns())

    @_answers
    def Assess(self, request: wire.AssessRequest, context: grpc.ServicerContext) -> wire.AssessResponse:
        try:
            return wire.AssessResponse(assessment=self._session(context).assess(request.model))
        except MissingConstantsError as error:
            return wire.AssessResponse(missing=error.missing)

    @_answers
    def Optimize(self, request: wire.OptimizeRequest, context: grpc.ServicerContext) -> wire.OptimizeResponse:
        try:
            return wire.OptimizeResponse(views=self._session(context).optimize(request.model))
        except MissingConstantsError as error:
            return wire.OptimizeResponse(missing=error.missing)

    @_answers
    def PutConstant(
        self, request: Iterator[wire.PutConstantRequest], context: grpc.ServicerContext
    ) -> wire.PutConstantResponse:
        session = self._session(context)
        first = _first(request)
        chunks = (part.chunk for part in _chain(first, request))
        received = session.uploads.receive(first.digest, first.length, first.offset, chunks)
        return wire.PutConstantResponse(received_bytes=received)

    @_answers
    def Prepare(self, request: wire.PrepareRequest, context: grpc.ServicerContext) -> wire.PrepareResponse:
        received = now_ns()
        try:
            return self._session(context).prepare(request, received)
        except MissingConstantsError as error:
            return wire.PrepareResponse(missing=error.missing)

    @_answers
    def BindExecution(
        self, request: wire.BindExecutionRequest, context: grpc.ServicerContext
    ) -> wire.BindExecutionResponse:
        return wire.BindExecutionResponse(execution=self._session(context).bind(request))

    @_answers
    def Run(self, request: wire.WireServiceRunRequest, context: grpc.ServicerContext) -> wire.WireServiceRunResponse:
        received = now_ns()
        outcome, outputs = self._session(context).runs.run(request.start, iter((request.inputs,)), received)
        return wire.WireServiceRunResponse(outcome=outcome, outputs=joined(outputs))

    @_streams
    def RunInChunks(
        self, request: Iterator[wire.RunInChunksRequest], context: grpc.ServicerContext
    ) -> Iterator[wire.RunInChunksResponse]:
        received = now_ns()
        session = self._session(context)
        start = _first(request).start
        outcome, outputs = session.runs.run(start, (part.chunk for part in request), received)
        yield wire.RunInChunksResponse(outcome=outcome)
        for chunk in chunks_of(outputs):
            yield wire.RunInChunksResponse(chunk=chunk)

    @_answers
    def CancelRun(self, request: wire.CancelRunRequest, context: grpc.ServicerContext) -> wire.CancelRunResponse:
        self._session(context).runs.cancel(request.run)
        return wire.CancelRunResponse()

    @_answers
    def AllocateBuffer(
        self, request: wire.AllocateBufferRequest, context: grpc.ServicerContext
    ) -> wire.AllocateBufferResponse:
        return wire.AllocateBufferResponse(buffer=self._session(context).allocate(request.size))

    @_streams
    def FetchBuffer(
        self, request: wire.FetchBufferRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.FetchBufferResponse]:
        for chunk in self._session(context).fetch(request.buffer, request.length):
            yield wire.FetchBufferResponse(chunk=chunk)

    @_answers
    def StoreBuffer(
        self, request: Iterator[wire.StoreBufferRequest], context: grpc.ServicerContext
    ) -> wire.StoreBufferResponse:
        session = self._session(context)
        first = _first(request)
        session.store(first.buffer, (part.chunk for part in _chain(first, request)))
        return wire.StoreBufferResponse()

    @_answers
    def Drop(self, request: wire.WireServiceDropRequest, context: grpc.ServicerContext) -> wire.WireServiceDropResponse:
        self._session(context).drop(iter(request.objects))
        return wire.WireServiceDropResponse()

    @_answers
    def Notify(self, request: wire.NotifyRequest, context: grpc.ServicerContext) -> wire.NotifyResponse:
        self._session(context).notify(request)
        return wire.NotifyResponse()

    @_answers
    def GetWorkloadFigures(
        self, request: wire.GetWorkloadFiguresRequest, context: grpc.ServicerContext
    ) -> wire.GetWorkloadFiguresResponse:
        return self._session(context).workload_figures(request.prepared_model)

    @_answers
    def GetDeviceFigures(
        self, request: wire.GetDeviceFiguresRequest, context: grpc.ServicerContext
    ) -> wire.GetDeviceFiguresResponse:
        return self._session(context).device_figures()

    def _session(self, context: grpc.ServicerContext) -> FarSession:
        """The session of a call, in the name of whose client the thread acts from now on.

        Raises INVALID_ARGUMENT if there is none.
        """
        given: dict[str, Any] = dict(context.invocation_metadata())
        session = self._sessions.get(str(given.get(SESSION_TOKEN_METADATA, "")))
        if session is not None:
            act_for(tenant_from_wire(given.get(ON_BEHALF_METADATA)).within(session.caller))
            return session
        invalid_argument(f"the call needs the token of an open session as metadata {SESSION_TOKEN_METADATA!r}")


def _first(parts: Iterator[I]) -> I:
    first = next(parts, None)
    if first is None:
        invalid_argument("a stream without messages, expected at least one")
    return first


def _chain(first: I, rest: Iterator[I]) -> Iterator[I]:
    yield first
    yield from rest


def _end(context: grpc.ServicerContext, error: Exception, method: str) -> NoReturn:
    """End a call with the status of an error."""
    if context.code() is not None:  # type: ignore[attr-defined]
        raise error
    if isinstance(error, NnhalError) and not isinstance(error, HalError):
        error = HalError(ErrorStatus.DEVICE_UNAVAILABLE, f"the session has ended: {error}")
    abort(context, answered_error(error, "a call over the wire failed", method=method))
