"""The two calls that run models over gRPC: one request, or a stream of them.

They are served in the loop. Work that grows with the request, such as strings, elements in the message's own fields and
copies, is done in threads if it is much. Raw contents of numbers cost nothing: they are views.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from nnhal.inference.grpc_service_pb2 import ModelInferResponse, ModelStreamInferResponse
from nnhal_hosting.access import AccessRole
from nnhal_service.access import FREE_COPIES, Charge, Guard, RequestMemoryBudget
from nnhal_service.observability import RequestScope
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.loop import MOST_BYTES_IN_LOOP, ServingLoop
from nnhal_service.serving.requests.client_memory import PlacedTensor
from nnhal_service.serving.requests.request import InferenceResponse, Parameter
from nnhal_service.v2.backend import ModelBackend, ModelRepository, SharedMemory
from nnhal_service.v2.grpc.access import admit_call, metadata_value
from nnhal_service.v2.grpc.calls import BrokenStreamError, GrpcContext, ended
from nnhal_service.v2.grpc.compression import decompressed, is_compressed
from nnhal_service.v2.grpc.decode import Asked, CutRequest, Head, cut_in_loop, cut_request, head_of, request_from_wire
from nnhal_service.v2.grpc.encode import Raw, encode_response, encode_stream_response, response_to_wire
from nnhal_service.v2.grpc.statuses import answer_for
from nnhal_service.v2.requested import Caller

Owner = Callable[[GrpcContext], str]
"""Names the client of a call, which owns the regions that it registers."""

_STATUS_HEADER = "triton_grpc_error"
_MOST_STRING_BYTES_IN_LOOP = 1 << 14
"""Bytes of strings: a string may have as few as four."""
_STRING_COST = MOST_BYTES_IN_LOOP // (_MOST_STRING_BYTES_IN_LOOP // 4)
"""A string to be encoded, in bytes to be copied."""


class _Form(NamedTuple):
    """Encoding of responses, and their parameters beside the model's own."""

    encode: Callable[[bytes, str, Sequence[Raw]], bytes]
    parameters: tuple[tuple[str, Parameter], ...] = ()


_ALONE = _Form(encode_response)
# Each request of a stream has one response, which is therefore its last.
_IN_STREAM = _Form(encode_stream_response, (("triton_final_response", True),))
_WITHOUT_REGIONS = Caller("", None)
_NO_REQUEST = CutRequest(b"", "", [])


def peer(context: GrpcContext) -> str:
    """The address of the connection. All clients of a unix socket have the same address."""
    return context.peer.name


class InferCalls:
    """ModelInfer and ModelStreamInfer. They take and return the bytes of messages, for ``decode`` and ``encode``.

    If a call ends while a request of it runs, the coroutine is cancelled, and with it the request.
    """

    def __init__(
        self,
        repository: ModelRepository,
        memory: SharedMemory | None,
        owner: Owner,
        budget: RequestMemoryBudget,
        loop: ServingLoop,
        guard: Guard,
    ) -> None:
        """``guard`` admits each request of a stream but the first, with which the stream was admitted."""
        self._repository = repository
        self._memory = memory
        self._owner = owner
        self._budget = budget
        self._loop = loop
        self._guard = guard

    async def infer(self, data: bytes, context: GrpcContext) -> bytes:
        arrived_ns = time.monotonic_ns()
        with RequestScope(context.head.traceparent) as scope:
            try:
                with self._budget.charge(len(data)) as charge:
                    data = await self._decompressed(data, charge)
                    cut = await self._cut(data)
                    head = await self._head(cut, charge)
                    scope.name(head.model_name, cut.id)
                    response = await self._run(head, cut, context, _ALONE, arrived_ns, charge)
                self._hold_until_sent(response)
                return response
            except Exception as error:
                raise answer_for(error, "ModelInfer") from None

    async def stream_infer(self, context: GrpcContext) -> None:
        """ModelStreamInfer: each request is read and runs when the one before it has been answered."""
        by_status = metadata_value(context, _STATUS_HEADER) == "true"
        traceparent = context.head.traceparent
        is_first = True
        while True:
            cut = _NO_REQUEST
            with RequestScope(traceparent) as scope:
                try:
                    data = await context.read()
                    if not isinstance(data, bytes):
                        return
                    arrived_ns = time.monotonic_ns()
                    with self._budget.charge(len(data)) as charge:
                        data = await self._decompressed(data, charge)
                        cut = await self._cut(data)
                        if not is_first and self._guard.has_rules:
                            admit_call(self._guard, AccessRole.INFER, context)
                        is_first = False
                        head = await self._head(cut, charge)
                        scope.name(head.model_name, cut.id)
                        answer = await self._run(head, cut, context, _IN_STREAM, arrived_ns, charge)
                except Exception as error:
                    refusal = answer_for(error, "ModelStreamInfer")
                    if by_status or isinstance(error, BrokenStreamError):
                        raise refusal from None
                    answer = _stream_refusal(cut.id, refusal)
            # The charge has ended: the request must not stay in memory while the client prepares its next one.
            data, cut = b"", _NO_REQUEST
            with self._held(answer):
                await context.write(answer)
            answer = b""

    async def _decompressed(self, data: bytes, charge: Charge) -> bytes:
        if not is_compressed(data):
            return data
        return await ended(self._loop.compute(decompressed, data, charge.grow))

    async def _cut(self, data: bytes) -> CutRequest:
        cut = cut_in_loop(data)
        return await ended(self._loop.compute(cut_request, data)) if cut is None else cut

    def _held(self, response: bytes) -> Charge:
        """Charge a large response until the client has taken it. It was within the limit while it was made."""
        return self._budget.hold(max(0, len(response) - FREE_COPIES))

    def _hold_until_sent(self, response: bytes) -> None:
        """Charge a large response until the call's task ends, which is when the client has it."""
        task = asyncio.current_task()
        if len(response) > FREE_COPIES and task is not None:
            held = self._held(response)
            task.add_done_callback(lambda _: held.release())

    async def _head(self, cut: CutRequest, charge: Charge) -> Head:
        charge.grow(cut.parsed_bytes)
        return head_of(cut.head) if cut.has_short_head else await ended(self._loop.compute(head_of, cut.head))

    async def _run(
        self, head: Head, cut: CutRequest, context: GrpcContext, form: _Form, arrived_ns: int, charge: Charge
    ) -> bytes:
        with self._repository.model(head.model_name, head.model_version) as lease:
            model, deadline_ns = lease.model, context.deadline_ns
            asked = head.asked() if cut.has_short_head else await ended(self._loop.compute(head.asked))
            caller = Caller(self._owner(context), self._memory) if asked.has_regions else _WITHOUT_REGIONS
            given = (asked, cut, caller, deadline_ns, arrived_ns, charge)
            has_slow_regions = asked.has_regions and not caller.is_prompt
            if has_slow_regions or _is_much(asked, cut):
                request = await ended(self._loop.compute(request_from_wire, *given))
            else:
                request = request_from_wire(*given)
            with await model.infer(request, context.peer.name) as response:
                answer = (response, asked, model, caller, cut.id, form)
                copied, cost = _copied_bytes(response)
                charge.copy(copied)
                if has_slow_regions or cost > MOST_BYTES_IN_LOOP:
                    return await ended(self._loop.compute(_encoded, *answer))
                return _encoded(*answer)


def _is_much(asked: Asked, cut: CutRequest) -> bool:
    """Return whether decoding the inputs takes time that is worth a thread."""
    strings = sum(map(len, cut.raw)) if asked.has_strings else 0
    return strings > _MOST_STRING_BYTES_IN_LOOP or not cut.has_short_head


def _encoded(
    response: InferenceResponse, asked: Asked, model: ModelBackend, caller: Caller, request_id: str, form: _Form
) -> bytes:
    head, raw = response_to_wire(response, asked.outputs, model, caller, form.parameters)
    return form.encode(head, request_id, raw)


def _copied_bytes(response: InferenceResponse) -> tuple[int, int]:
    """The bytes that are copied to encode a response, and what else it takes in such bytes."""
    size = cost = 0
    for array in response.outputs.values():
        if not isinstance(array, PlacedTensor):
            size += array.nbytes
            cost += array.size * _STRING_COST if array.dtype.hasobject else array.nbytes
    return size, cost


def _stream_refusal(request_id: str, error: ServingError) -> bytes:
    message = error.message or ErrorKind.UNKNOWN.value
    return ModelStreamInferResponse(
        error_message=message, infer_response=ModelInferResponse(id=request_id)
    ).SerializeToString()
