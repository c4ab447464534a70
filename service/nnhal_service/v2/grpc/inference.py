"""Running models for gRPC: one request, or a stream of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import grpc

from nnhal.inference.grpc_service_pb2 import ModelInferResponse, ModelStreamInferResponse
from nnhal.types import NO_DEADLINE
from nnhal_service.access import MemoryBudget
from nnhal_service.observability import TRACEPARENT, RequestScope
from nnhal_service.runtime.cancellation import Cancellation
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.request import Parameter
from nnhal_service.v2.backend import ModelRepository, SharedMemory
from nnhal_service.v2.grpc.requests import Client, Head, head_of, request_from_wire
from nnhal_service.v2.grpc.responses import response_to_wire
from nnhal_service.v2.grpc.statuses import abort, answer_for
from nnhal_service.v2.grpc.wire import CutRequest, Raw, cut_request, encode_response, encode_stream_response

_STATUS_HEADER = "triton_grpc_error"
_NO_DEADLINE_SECONDS = 10.0**8
"""What is left where the client has set no deadline is more than this."""


class _Form(NamedTuple):
    """How responses are written, and what they say beside what the model says."""

    encode: Callable[[bytes, str, Sequence[Raw]], bytes]
    parameters: tuple[tuple[str, Parameter], ...] = ()


_ALONE = _Form(encode_response)
# Each request of a stream has one response, which is thereby the last.
_IN_STREAM = _Form(encode_stream_response, (("triton_final_response", True),))
_NOBODY = Client("", None)
_NO_REQUEST = CutRequest(b"", "", [])


class _Call:
    """A call that may be given up while a request of it runs."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context
        self._running: Cancellation | None = None
        self._gone = False
        if not context.add_callback(self._over):
            self._gone = True

    def begin(self) -> Cancellation:
        """Of the request that runs next."""
        cancellation = Cancellation()
        self._running = cancellation
        if self._gone:
            cancellation.cancel()
        return cancellation

    def end(self) -> None:
        """No request runs."""
        self._running = None

    def deadline_ns(self) -> int:
        """When the call must have ended, by CLOCK_BOOTTIME."""
        left = self._context.time_remaining()
        if left is None or left > _NO_DEADLINE_SECONDS:
            return NO_DEADLINE
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) + int(left * 1e9)

    def _over(self) -> None:
        self._gone = True
        running = self._running
        if running is not None:
            running.cancel()


class Inference:
    """The two calls that run models. They take and give the bytes of messages; see ``wire``."""

    def __init__(
        self,
        repository: ModelRepository,
        memory: SharedMemory | None,
        owner: Callable[[grpc.ServicerContext], str],
        budget: MemoryBudget,
    ) -> None:
        self._repository = repository
        self._memory = memory
        self._owner = owner
        self._budget = budget

    def one(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        """ModelInfer."""
        arrived_ns = time.monotonic_ns()
        with RequestScope(_traceparent(context)) as scope:
            try:
                with self._budget.charge(len(data)):
                    cut = cut_request(data)
                    head = head_of(cut.head)
                    scope.name(head.model_name, cut.id)
                    return self._run(head, cut, _Call(context), self._client(context), _ALONE, arrived_ns)
            except Exception as error:
                answer = answer_for(error, "ModelInfer")
        abort(context, answer)

    def stream(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """ModelStreamInfer: each request runs when the one before it has been answered."""
        by_status = (_STATUS_HEADER, "true") in context.invocation_metadata()
        call, client, traceparent = _Call(context), self._client(context), _traceparent(context)
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
                        answer = self._run(head, cut, call, client, _IN_STREAM, arrived_ns)
                except Exception as error:
                    refusal = answer_for(error, "ModelStreamInfer")
                    if by_status:
                        abort(context, refusal)
                    answer = _stream_refusal(request_id, refusal)
            # What is charged no more is held no more, however long the client takes for its next request.
            data, cut = b"", _NO_REQUEST
            yield answer

    def _client(self, context: grpc.ServicerContext) -> Client:
        return _NOBODY if self._memory is None else Client(self._owner(context), self._memory)

    def _run(
        self,
        head: Head,
        cut: CutRequest,
        call: _Call,
        client: Client,
        form: _Form,
        arrived_ns: int,
    ) -> bytes:
        with self._repository.model(head.model_name, head.model_version) as model:
            wanted = head.wanted()
            cancellation = call.begin()
            try:
                deadline_ns = call.deadline_ns()
                request = request_from_wire(wanted, cut.id, cut.raw, client, cancellation, deadline_ns, arrived_ns)
                with model.infer(request) as response:
                    answer, raw = response_to_wire(response, wanted.outputs, model, client, form.parameters)
                    return form.encode(answer, cut.id, raw)
            finally:
                call.end()


def _traceparent(context: grpc.ServicerContext) -> str:
    """The client's span, empty where it says none."""
    return next((str(value) for key, value in context.invocation_metadata() if key == TRACEPARENT), "")


def _stream_refusal(request_id: str, error: ServingError) -> bytes:
    message = error.message or ErrorKind.UNKNOWN.value
    return ModelStreamInferResponse(
        error_message=message, infer_response=ModelInferResponse(id=request_id)
    ).SerializeToString()
