"""A model in a front worker, some requests of which the framework's own process runs: those of sequences, and those
that give optional inputs.

Requests of one sequence may come to any worker, and share a state, which only one process can keep. Requests with
optional inputs are by another plan, which is made with the first one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from nnhal_service.front_workers.peer import begin
from nnhal_service.front_workers.remote_model import RemoteModel
from nnhal_service.front_workers.served_worker import OpenedVersion
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.history.observer import Observer, Sampler
from nnhal_service.serving.instances.instance import NOT_COUNTED
from nnhal_service.serving.instances.instance_memory import InstanceMemory
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.serving.models.request_server import RequestServer
from nnhal_service.serving.queue.sequences import SEQUENCE_ID
from nnhal_service.serving.requests.client_memory import to_array
from nnhal_service.serving.requests.request import InferenceRequest, InferenceResponse, Parameter, no_limit


class ForwardingModel(RequestServer):
    """Forwards requests, those of one sequence one after the other. The framework's process checks and counts them."""

    def __init__(
        self,
        opened: OpenedVersion,
        loop: ServingLoop,
        observers: Sequence[Observer] = (),
        samplers: Sequence[Sampler] = (),
        memory: InstanceMemory = NOT_COUNTED,
    ) -> None:
        super().__init__(
            opened.name,
            str(opened.version),
            opened.signature,
            RemoteModel(opened),
            opened.serving,
            loop,
            observers,
            samplers,
            memory=memory,
        )
        self._held = opened.held
        self._turns: dict[Parameter, tuple[asyncio.Lock, list[object]]] = {}

    async def infer(self, request: InferenceRequest, client: str = "") -> InferenceResponse:
        if self.config.sequences is None:
            if any(tensor.name in request.inputs for tensor in self.signature.optional):
                return await self._forward(request, client)
            return await super().infer(request, client)
        async with self._turn(request.parameters.get(SEQUENCE_ID, 0)):
            if request.cancellation.cancelled:
                raise ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
            return await self._forward(request, client)

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

    async def _forward(self, request: InferenceRequest, client: str) -> InferenceResponse:
        """Have the framework run a request, and wait until it has ended there, even if this task is cancelled."""
        answer = asyncio.ensure_future(self._answer(request, client))
        while True:
            try:
                return await asyncio.shield(answer)
            except asyncio.CancelledError:
                if answer.cancelled() or request.cancellation.cancelled:
                    raise
                request.cancellation.cancel()

    async def _answer(self, request: InferenceRequest, client: str) -> InferenceResponse:
        return await asyncio.wrap_future(
            await self._loop.compute(lambda: begin(self._held.infer, _forwarded(request), client))
        )


def _forwarded(request: InferenceRequest) -> InferenceRequest:
    """A request without memory of its client. Raises ServingError if a region cannot be read."""
    inputs = {name: to_array(tensor) for name, tensor in request.inputs.items()}
    return replace(request, inputs=inputs, outputs=tuple(request.outputs), output_places={}, copying=no_limit)
