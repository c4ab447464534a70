"""A host that has some models at a time: those that the routing deployment sends it requests for."""

from __future__ import annotations

from http import HTTPStatus

import grpc
from ray import serve

from nnhal_ray.held_models import HeldModel, HeldModels, ModelNotHeldError
from nnhal_ray.host import HostReplica
from nnhal_ray.messages import HttpCall, HttpReply, ProtocolCall, ProtocolReply
from nnhal_ray.options import ScaleOutOptions
from nnhal_ray.replies import refusal_over_http

_ATTEMPTS = 3
"""How often a request is tried if its model makes room for another meanwhile."""
_GONE = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE)
_GONE_OVER_HTTP = (HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)


class RoutedHost(HostReplica):
    """A host whose models come and go."""

    def __init__(self, options: ScaleOutOptions) -> None:
        super().__init__(options)
        self._held_models = HeldModels(self._forwarder, self._forget)

        @serve.multiplexed(max_num_models_per_replica=options.models_per_host)  # type: ignore[untyped-decorator]
        async def hold(name: str) -> HeldModel:
            return await self._held_models.load(name)

        self._hold = hold

    async def answer_for(self, model: str, call: ProtocolCall) -> ProtocolReply:
        """Answer a call that needs a model."""
        for attempt in range(_ATTEMPTS):
            try:
                held = await self._have(model)
            except ModelNotHeldError as error:
                return error.reply
            reply = await self.answer(call)
            if reply.code not in _GONE or self._held_models.has(model, held) or attempt + 1 == _ATTEMPTS:
                break
        return reply

    async def answer_http_for(self, model: str, call: HttpCall) -> HttpReply:
        """Answer a request over HTTP that needs a model."""
        for attempt in range(_ATTEMPTS):
            try:
                held = await self._have(model)
            except ModelNotHeldError as error:
                return refusal_over_http(error.reply)
            reply = await self.answer_http(call)
            if reply.status not in _GONE_OVER_HTTP or self._held_models.has(model, held) or attempt + 1 == _ATTEMPTS:
                break
        return reply

    async def reload(self, model: str) -> ProtocolReply | None:
        """Load a model anew; None if the host does not hold it."""
        return await self._held_models.reload(model)

    async def release(self, model: str) -> ProtocolReply | None:
        """Unload a model; None if the host does not hold it."""
        return await self._held_models.release(model)

    async def index(self, request: bytes) -> bytes:
        """The host's answer to RepositoryIndex, empty if it has none."""
        return (await self._forwarder.forward(ProtocolCall("RepositoryIndex", request))).message

    async def _have(self, model: str) -> HeldModel:
        held: HeldModel = await self._hold(model)
        await self._held_models.ensure(model, held)
        return held
