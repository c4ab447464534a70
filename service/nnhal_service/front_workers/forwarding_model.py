"""A model in a front worker of which the framework's own process runs requests: those of sequences, and those that give
optional inputs.

Requests of one sequence may come to any worker, and share a state, which only one process can keep. Requests with
optional inputs are by another plan, which is made with the first one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context

from nnhal_service.front_workers.forwarded import ForwardedRequest, ForwardedResponse
from nnhal_service.front_workers.interfaces import FrameworkModels, OpenedVersion
from nnhal_service.front_workers.peer import Peer
from nnhal_service.front_workers.remote_model import RemoteModel
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.history.observer import Observer, Sampler
from nnhal_service.serving.instances.instance import NOT_COUNTED
from nnhal_service.serving.instances.instance_memory import InstanceMemory
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.serving.models.request_server import RequestServer
from nnhal_service.serving.queue.sequences import SEQUENCE_ID
from nnhal_service.serving.requests.request import InferenceRequest, InferenceResponse, Parameter
from nnhal_service.serving.requests.signature import ModelSignature


class ForwardingModel(RequestServer):
    """Forwards requests, those of one sequence one after the other. The framework's process checks and counts them."""

    def __init__(
        self,
        framework: Peer,
        opened: OpenedVersion,
        signature: ModelSignature,
        model: RemoteModel,
        loop: ServingLoop,
        observers: Sequence[Observer] = (),
        samplers: Sequence[Sampler] = (),
        memory: InstanceMemory = NOT_COUNTED,
    ) -> None:
        super().__init__(
            opened.name,
            str(opened.version),
            signature,
            model,
            opened.serving,
            loop,
            observers,
            samplers,
            memory=memory,
        )
        self._framework = framework
        self._lease = opened.lease
        self._numbers = itertools.count(1)
        self._turns: dict[Parameter, tuple[asyncio.Lock, list[object]]] = {}

    async def infer(self, request: InferenceRequest, client: str = "") -> InferenceResponse:
        if self.config.sequences is None:
            if any(tensor.name in request.inputs for tensor in self.signature.optional):
                return (await self._forward(request, client)).as_response()
            return await super().infer(request, client)
        async with self._turn(request.parameters.get(SEQUENCE_ID, 0)):
            if request.cancellation.cancelled:
                raise ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
            return (await self._forward(request, client)).as_response()

    @asynccontextmanager
    async def _turn(self, sequence: Parameter) -> AsyncGenerator[None]:
        """Wait for the earlier requests of a sequence, since the framework takes requests in any order."""
        lock, users = self._turns.setdefault(sequence, (asyncio.Lock(), []))
        users.append(None)
        try:
            async with lock:
                yield
        finally:
            users.pop()
            if not users:
                del self._turns[sequence]

    async def _forward(self, request: InferenceRequest, client: str) -> ForwardedResponse:
        number = next(self._numbers)
        forwarded = await self._loop.compute(ForwardedRequest.of, request)
        result = self._framework.begin(FrameworkModels.infer, self._lease, number, forwarded, client)
        ended = self._loop.asyncio.create_future()
        self._loop.wait_for(lambda: self._take(result, ended), copy_context())

        def cancel() -> None:
            with suppress(ServingError):
                self._framework.begin(FrameworkModels.cancel_request, number)

        request.cancellation.on_cancel(cancel)
        try:
            while True:
                try:
                    return await asyncio.shield(ended)
                except asyncio.CancelledError:
                    if ended.cancelled() or request.cancellation.cancelled:
                        raise
                    request.cancellation.cancel()
        finally:
            request.cancellation.forget(cancel)

    def _take(
        self, result: Callable[[float | None], ForwardedResponse], ended: asyncio.Future[ForwardedResponse]
    ) -> None:
        """Wait for the result of a request, in a thread."""
        failure: Exception | None = None
        found: ForwardedResponse | None = None
        try:
            found = result(None)
        except Exception as error:
            failure = error

        def end() -> None:
            if ended.done():
                return
            if found is not None:
                ended.set_result(found)
            elif failure is not None:
                ended.set_exception(failure)

        self._loop.call(end)
