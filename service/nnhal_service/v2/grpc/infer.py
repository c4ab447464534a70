"""The two calls that run models over gRPC: one request, or a stream of them.

They are served in the loop. Work that grows with the request, such as strings, elements in the message's own fields and
copies, is done in threads if it is much. Raw contents of numbers cost nothing: they are views.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from nnhal.inference.grpc_service_pb2 import ModelInferResponse, ModelStreamInferResponse
from nnhal_hosting.access import AccessRole
from nnhal_service.access import FREE_COPIES, Charge, Guard, RequestMemoryBudget
from nnhal_service.observability import RequestScope
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.loop import MOST_BYTES_IN_LOOP, ServingLoop
from nnhal_service.serving.requests.client_memory import PlacedTensor
from nnhal_service.serving.requests.request import InferenceResponse, Parameter, ShownOutputs
from nnhal_service.v2.backend import ModelBackend, ModelRepository, SharedMemory
from nnhal_service.v2.grpc.access import admit_call, metadata_value, note_refused
from nnhal_service.v2.grpc.calls import BrokenStreamError, GrpcContext, ended
from nnhal_service.v2.grpc.compression import COMPRESSED, decompressed
from nnhal_service.v2.grpc.decode import (
    KEPT_BYTES,
    Asked,
    CutRequest,
    Head,
    cut_in_loop,
    cut_request,
    head_of,
    kept_head,
    request_from_wire,
)
from nnhal_service.v2.grpc.encode import (
    EncodedAnswer,
    encode_response,
    encode_stream_response,
    response_to_wire,
)
from nnhal_service.v2.grpc.statuses import answer_for
from nnhal_service.v2.requested import WITHOUT_REGIONS, Caller, is_kept

Owner = Callable[[GrpcContext], str]
"""Names the client of a call, which owns the regions that it registers."""

_STATUS_HEADER = "triton_grpc_error"
_MOST_STRING_BYTES_IN_LOOP = 1 << 14
"""Bytes of strings: a string may have as few as four."""
_STRING_COST = MOST_BYTES_IN_LOOP // (_MOST_STRING_BYTES_IN_LOOP // 4)
"""A string to be encoded, in bytes to be copied."""


class _Form(NamedTuple):
    """Encoding of responses, and their parameters beside the model's own."""

    encode: Callable[[EncodedAnswer, str], bytes]
    parameters: tuple[tuple[str, Parameter], ...] = ()


_ALONE = _Form(encode_response)
# Each request of a stream has one response, which is therefore its last.
_IN_STREAM = _Form(encode_stream_response, (("triton_final_response", True),))
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

    async def infer(
        self, data: bytes, context: GrpcContext, form: _Form = _ALONE, by_status: bool = True, is_first: bool = True
    ) -> bytes:
        """ModelInfer. In a stream, a request that is not valid or fails is answered all the same unless ``by_status``,
        and one that is not the first is admitted here.
        """
        arrived_ns, cut = time.monotonic_ns(), _NO_REQUEST
        charge = lease = response = None
        scope = RequestScope(context.head.traceparent)
        try:
            charge = self._budget.charge(len(data))
            if data.startswith(COMPRESSED):
                data = await ended(self._loop.compute(decompressed, data, charge.grow))
            short = cut_in_loop(data)
            cut = await ended(self._loop.compute(cut_request, data)) if short is None else short
            del data
            if not is_first and self._guard.has_rules:
                admit_call(self._guard, AccessRole.INFER, context)
            head = kept_head(cut.head) if len(cut.head) <= KEPT_BYTES else await self._head(cut, charge)
            scope.name(head.model_name, cut.id)
            lease = self._repository.model(head.model_name, head.model_version)
            asked = head.asked
            if asked is None:
                asked = head.ask() if cut.has_short_head else await ended(self._loop.compute(head.ask))
            caller = Caller(self._owner(context), self._memory) if asked.has_regions else WITHOUT_REGIONS
            given = (head, cut, caller, context.deadline_ns, arrived_ns, charge)
            if (asked.has_regions and not caller.is_prompt) or (head.plain is None and _is_much(asked, cut)):
                request = await ended(self._loop.compute(request_from_wire, *given))
            else:
                request = request_from_wire(*given)
            response = await lease.model.infer(request, context.peer.name)
            outputs = response.outputs
            answer = outputs.answers.get((form, asked.outputs)) if isinstance(outputs, ShownOutputs) else None
            if answer is not None and answer.parameters is response.parameters:
                charge.copy(answer.byte_size)
                encoded = form.encode(answer, cut.id)
            else:
                encoded = await self._encoded(response, asked, lease.model, caller, charge, form, cut.id)
        except Exception as error:
            refusal = answer_for(error, "ModelInfer" if form is _ALONE else "ModelStreamInfer")
            if by_status or isinstance(error, BrokenStreamError):
                raise refusal from None
            note_refused(self._guard, error, context)
            encoded = _stream_refusal(cut.id, refusal)
        finally:
            if response is not None:
                response.release()
            if lease is not None:
                lease.release()
            if charge is not None:
                charge.release()
            scope.leave()
        if form is _ALONE and len(encoded) > FREE_COPIES:
            self._hold_until_sent(encoded)
        return encoded

    async def stream_infer(self, context: GrpcContext) -> None:
        """ModelStreamInfer: each request is read and runs when the one before it has been answered."""
        by_status = metadata_value(context, _STATUS_HEADER) == "true"
        is_first = True
        while True:
            try:
                data = await context.read()
            except Exception as error:
                refusal = answer_for(error, "ModelStreamInfer")
                if by_status or isinstance(error, BrokenStreamError):
                    raise refusal from None
                note_refused(self._guard, error, context)
                answer = _stream_refusal("", refusal)
            else:
                if not isinstance(data, bytes):
                    return
                serving = self.infer(data, context, _IN_STREAM, by_status, is_first)
                del data  # the request must not stay in memory while the client prepares its next one
                answer = await serving
                is_first = False
            with self._held(answer):
                await context.write(answer)
            answer = b""

    async def _head(self, cut: CutRequest, charge: Charge) -> Head:
        """The head of a request that is not kept."""
        charge.grow(cut.parsed_bytes)
        return head_of(cut.head) if cut.has_short_head else await ended(self._loop.compute(head_of, cut.head))

    def _held(self, response: bytes) -> Charge:
        """Charge a large response until the client has taken it. It was within the limit while it was made."""
        return self._budget.hold(max(0, len(response) - FREE_COPIES))

    def _hold_until_sent(self, response: bytes) -> None:
        """Charge a large response until the call's task ends, which is when the client has it."""
        task = asyncio.current_task()
        if task is not None:
            held = self._held(response)
            task.add_done_callback(lambda _: held.release())

    async def _encoded(
        self,
        response: InferenceResponse,
        asked: Asked,
        model: ModelBackend,
        caller: Caller,
        charge: Charge,
        form: _Form,
        request_id: str,
    ) -> bytes:
        """Encode a response in another form than those before it. What can be is kept for the next one."""
        copied, cost = _copied_bytes(response)
        charge.copy(copied)
        given = (response, asked.outputs, model, caller, form.parameters)
        if cost > MOST_BYTES_IN_LOOP or (asked.has_regions and not caller.is_prompt):
            return await ended(self._loop.compute(_encoded, form, request_id, *given))
        answer, outputs = response_to_wire(*given), response.outputs
        if isinstance(outputs, ShownOutputs) and is_kept(response, asked.outputs):
            outputs.keep((form, asked.outputs), answer)
        return form.encode(answer, request_id)


def _is_much(asked: Asked, cut: CutRequest) -> bool:
    """Return whether the inputs are so long that a thread should decode them."""
    strings = sum(map(len, cut.raw)) if asked.has_strings else 0
    return strings > _MOST_STRING_BYTES_IN_LOOP or not cut.has_short_head


def _encoded(form: _Form, request_id: str, *response: Any) -> bytes:
    return form.encode(response_to_wire(*response), request_id)


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
