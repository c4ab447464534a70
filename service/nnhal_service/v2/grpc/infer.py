"""The two calls that run models over gRPC: one request, or a stream of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import grpc

from nnhal.inference.grpc_service_pb2 import ModelInferResponse, ModelStreamInferResponse
from nnhal.types import NO_DEADLINE
from nnhal_service.access import RequestMemoryBudget
from nnhal_service.observability import TRACEPARENT, RequestScope
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.request import Parameter
from nnhal_service.v2.backend import ModelRepository, SharedMemory
from nnhal_service.v2.grpc.decode import CutRequest, Head, cut_request, head_of, request_from_wire
from nnhal_service.v2.grpc.encode import Raw, encode_response, encode_stream_response, response_to_wire
from nnhal_service.v2.grpc.statuses import abort, answer_for
from nnhal_service.v2.requested import Caller

Owner = Callable[[grpc.ServicerContext], str]
"""Names the client of a call, which owns the regions that it registers."""

_STATUS_HEADER = "triton_grpc_error"
_NO_DEADLINE_SECONDS = 10.0**8
"""gRPC reports more than this as the time remaining if the client has set no deadline."""


class _Form(NamedTuple):
    """How responses are encoded, and their parameters beside the model's own."""

    encode: Callable[[bytes, str, Sequence[Raw]], bytes]
    parameters: tuple[tuple[str, Parameter], ...] = ()


_ALONE = _Form(encode_response)
# Each request of a stream has one response, which is therefore its last.
_IN_STREAM = _Form(encode_stream_response, (("triton_final_response", True),))
_WITHOUT_MEMORY = Caller("", None)
_NO_REQUEST = CutRequest(b"", "", [])


def peer(context: grpc.ServicerContext) -> str:
    """The address of the connection. All clients of a unix socket have the same address."""
    return context.peer()


class InferCalls:
    """ModelInfer and ModelStreamInfer. They take and return the bytes of messages, for ``decode`` and ``encode``."""

    def __init__(
        self,
        repository: ModelRepository,
        memory: SharedMemory | None,
        owner: Owner,
        budget: RequestMemoryBudget,
    ) -> None:
        self._repository = repository
        self._memory = memory
        self._owner = owner
        self._budget = budget

    def infer(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        """ModelInfer."""
        arrived_ns = time.monotonic_ns()
        with RequestScope(_traceparent(context)) as scope:
            try:
                with self._budget.charge(len(data)):
                    cut = cut_request(data)
                    head = head_of(cut.head)
                    scope.name(head.model_name, cut.id)
                    return self._run(head, cut, _Call(context), self._caller(context), _ALONE, arrived_ns)
            except Exception as error:
                answer = answer_for(error, "ModelInfer")
        abort(context, answer)

    def stream_infer(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """ModelStreamInfer: each request runs when the one before it has been answered."""
        by_status = (_STATUS_HEADER, "true") in context.invocation_metadata()
        call, caller, traceparent = _Call(context), self._caller(context), _traceparent(context)
        for data in requests:
            arrived_ns = time.monotonic_ns()
            request_id = ""
            with RequestScope(traceparent) as scope:
                try:
                    with self._budget.charge(len(data)):
                        cut = cut_request(data)
                        request_id = cut.id
                        head = head_of(cut.head)
                        scope.name(head.model_name, request_id)
                        answer = self._run(head, cut, call, caller, _IN_STREAM, arrived_ns)
                except Exception as error:
                    refusal = answer_for(error, "ModelStreamInfer")
                    if by_status:
                        abort(context, refusal)
                    answer = _stream_refusal(request_id, refusal)
            # The charge has ended: the request must not stay in memory while the client prepares its next one.
            data, cut = b"", _NO_REQUEST
            yield answer

    def _caller(self, context: grpc.ServicerContext) -> Caller:
        return _WITHOUT_MEMORY if self._memory is None else Caller(self._owner(context), self._memory)

    def _run(self, head: Head, cut: CutRequest, call: _Call, caller: Caller, form: _Form, arrived_ns: int) -> bytes:
        with self._repository.model(head.model_name, head.model_version) as lease:
            model, asked = lease.model, head.asked()
            cancellation = call.begin()
            try:
                request = request_from_wire(asked, cut, caller, cancellation, call.deadline_ns(), arrived_ns)
                with model.infer(request) as response:
                    answer, raw = response_to_wire(response, asked.outputs, model, caller, form.parameters)
                    return form.encode(answer, cut.id, raw)
            finally:
                call.end()


class _Call:
    """A call, or a stream of requests: if it ends while a request runs, that request is cancelled."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context
        self._running: Cancellation | None = None
        self._ended = False
        if not context.add_callback(self._end_call):
            self._ended = True

    def begin(self) -> Cancellation:
        """The cancellation of the request that runs next."""
        cancellation = Cancellation()
        self._running = cancellation
        if self._ended:
            cancellation.cancel()
        return cancellation

    def end(self) -> None:
        """The request has been answered."""
        self._running = None

    def deadline_ns(self) -> int:
        """The instant of CLOCK_BOOTTIME by which the call must have ended."""
        left = self._context.time_remaining()
        if left is None or left > _NO_DEADLINE_SECONDS:
            return NO_DEADLINE
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) + int(left * 1e9)

    def _end_call(self) -> None:
        self._ended = True
        running = self._running
        if running is not None:
            running.cancel()


def _traceparent(context: grpc.ServicerContext) -> str:
    """The client's span; empty if it sends none."""
    return next((str(value) for key, value in context.invocation_metadata() if key == TRACEPARENT), "")


def _stream_refusal(request_id: str, error: ServingError) -> bytes:
    message = error.message or ErrorKind.UNKNOWN.value
    return ModelStreamInferResponse(
        error_message=message, infer_response=ModelInferResponse(id=request_id)
    ).SerializeToString()
