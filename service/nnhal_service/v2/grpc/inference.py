"""Running models for gRPC: one request, or a stream of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import grpc

from nnhal.inference.grpc_service_pb2 import ModelInferRequest, ModelInferResponse, ModelStreamInferResponse
from nnhal.types import NO_DEADLINE
from nnhal_service.observability import TRACEPARENT, RequestScope
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.request import Cancellation
from nnhal_service.v2.backend import ModelRepository, SharedMemory
from nnhal_service.v2.grpc.codec import Client, request_from_wire, response_to_wire, wanted_outputs
from nnhal_service.v2.grpc.statuses import abort, answer_for
from nnhal_service.v2.grpc.wire import Raw, decode_request, encode_response, encode_stream_response

_FINAL_RESPONSE = "triton_final_response"
_STATUS_HEADER = "triton_grpc_error"
_NO_DEADLINE_SECONDS = 10.0**8
"""What is left where the client has set no deadline is more than this."""

Encode = Callable[[ModelInferResponse, Sequence[Raw]], bytes]


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
        self, repository: ModelRepository, memory: SharedMemory | None, owner: Callable[[grpc.ServicerContext], str]
    ) -> None:
        self._repository = repository
        self._memory = memory
        self._owner = owner

    def one(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        """ModelInfer."""
        arrived_ns = time.monotonic_ns()
        with RequestScope(_traceparent(context)) as scope:
            try:
                message, raw = decode_request(data)
                scope.name(message.model_name, message.id)
                return self._run(message, raw, _Call(context), self._client(context), encode_response, arrived_ns)
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
                    message, raw = decode_request(data)
                    request_id = message.id
                    scope.name(message.model_name, request_id)
                    answer = self._run(message, raw, call, client, _encode_final, arrived_ns)
                except Exception as error:
                    refusal = answer_for(error, "ModelStreamInfer")
                    if by_status:
                        abort(context, refusal)
                    answer = _stream_refusal(request_id, refusal)
            yield answer

    def _client(self, context: grpc.ServicerContext) -> Client:
        return Client(self._owner(context), self._memory)

    def _run(
        self,
        message: ModelInferRequest,
        raw: Sequence[Raw],
        call: _Call,
        client: Client,
        encode: Encode,
        arrived_ns: int,
    ) -> bytes:
        with self._repository.model(message.model_name, message.model_version) as model:
            outputs = wanted_outputs(message) if message.outputs else ()
            cancellation = call.begin()
            try:
                deadline_ns = call.deadline_ns()
                request = request_from_wire(message, raw, outputs, client, cancellation, deadline_ns, arrived_ns)
                with model.infer(request) as response:
                    answer, contents = response_to_wire(message.id, response, outputs, model, client)
                    return encode(answer, contents)
            finally:
                call.end()


def _traceparent(context: grpc.ServicerContext) -> str:
    """The client's span, empty where it says none."""
    return next((str(value) for key, value in context.invocation_metadata() if key == TRACEPARENT), "")


def _encode_final(message: ModelInferResponse, raw: Sequence[Raw]) -> bytes:
    """Each request of a stream has one response, which is thereby the last."""
    message.parameters[_FINAL_RESPONSE].bool_param = True
    return encode_stream_response(message, raw)


def _stream_refusal(request_id: str, error: ServingError) -> bytes:
    message = error.message or ErrorKind.UNKNOWN.value
    return ModelStreamInferResponse(
        error_message=message, infer_response=ModelInferResponse(id=request_id)
    ).SerializeToString()
