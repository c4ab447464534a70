"""The routing deployment, for models that do not fit every host: requests go to a host that has their model.

Clients of the protocol do not send the metadata by which Ray Serve finds such a replica, so the model's name is read.
"""

from __future__ import annotations

from typing import Any

import grpc
from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError, RayServeException
from ray.serve.handle import DeploymentHandle

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_ray.fan_out import FanOut
from nnhal_ray.ingress import ProtocolIngress
from nnhal_ray.messages import HttpCall, HttpReply, ProtocolCall, ProtocolReply
from nnhal_ray.model_names import model_of
from nnhal_ray.options import ScaleOutOptions
from nnhal_ray.refusals import CHANGED_ON_LOAD, unimplemented
from nnhal_ray.replies import json_reply, refusal_over_http
from nnhal_ray.repository_calls import RepositoryAct, RepositoryCall, repository_call
from nnhal_ray.repository_index import index_as_json, joined_index

_ATTEMPTS = 3
"""How many hosts are tried if they end while they have a request. An inference may be repeated."""
_NO_HOST = ProtocolReply(code=grpc.StatusCode.UNAVAILABLE, details="no host answers; Ray Serve starts another")
_TOO_LONG = "a message is longer than hosts take; raise RAY_SERVE_REPLICA_GRPC_MAX_MESSAGE_LENGTH on every node"
_FULL = ProtocolReply(code=grpc.StatusCode.RESOURCE_EXHAUSTED, details="all hosts have as many requests as they take")


class ModelRouter(ProtocolIngress):
    """The ingress if each host holds some of the models."""

    def __init__(self, options: ScaleOutOptions, hosts: DeploymentHandle[Any]) -> None:
        super().__init__(options)
        self._hosts = hosts
        self._fan_out = FanOut(hosts)

    async def answer(self, call: ProtocolCall) -> ProtocolReply:
        """Have a host answer that has the call's model, or loads it."""
        try:
            repository = repository_call(call)
        except ValueError as error:
            return ProtocolReply(code=grpc.StatusCode.INVALID_ARGUMENT, details=str(error))
        if repository is not None:
            done = await self._done(repository)
            return done if isinstance(done, ProtocolReply) else ProtocolReply(done.SerializeToString())
        reply = await self._asked("answer", call)
        assert isinstance(reply, ProtocolReply)
        return reply

    async def answer_http(self, call: HttpCall) -> HttpReply:
        """Have a host answer that has the request's model, or loads it."""
        try:
            repository = repository_call(call)
        except ValueError as error:
            return refusal_over_http(ProtocolReply(code=grpc.StatusCode.INVALID_ARGUMENT, details=str(error)))
        if repository is None:
            reply = await self._asked("answer_http", call)
            return refusal_over_http(reply) if isinstance(reply, ProtocolReply) else reply
        done = await self._done(repository)
        if not isinstance(done, ProtocolReply):
            return json_reply(index_as_json(done))
        return json_reply({}) if done.is_ok else refusal_over_http(done)

    async def _asked(self, method: str, call: ProtocolCall | HttpCall) -> ProtocolReply | HttpReply:
        """What a host answers; a refusal over gRPC if none does."""
        model = model_of(call)
        arguments: tuple[object, ...] = (model, call) if model else (call,)
        handle = self._hosts.options(
            method_name=f"{method}_for" if model else method, **({"multiplexed_model_id": model} if model else {})
        )
        for _ in range(_ATTEMPTS):
            try:
                reply: ProtocolReply | HttpReply = await handle.remote(*arguments)
                return reply
            except BackPressureError:
                return _FULL
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
                    return ProtocolReply(code=error.code(), details=f"{_TOO_LONG}: {error.details()}")
                raise
            except (RayActorError, RayServeException):  # the host has ended; another may have the model, or load it
                continue
        return _NO_HOST

    async def _done(self, call: RepositoryCall) -> ProtocolReply | wire.RepositoryIndexResponse:
        """Do what a client wants of the repository."""
        if call.has_parameters:
            return unimplemented(CHANGED_ON_LOAD)
        try:
            if call.act is RepositoryAct.INDEX:
                request = wire.RepositoryIndexRequest(ready=call.ready)
                return joined_index(await self._fan_out.tell("index", request.SerializeToString()))
            method = "reload" if call.act is RepositoryAct.LOAD else "release"
            told = await self._fan_out.tell(method, call.model)
        except TimeoutError:
            return _NO_HOST
        answers = [reply for reply in told if reply is not None]
        if answers or call.act is RepositoryAct.UNLOAD:
            return next((reply for reply in answers if not reply.is_ok), ProtocolReply())
        return await self._loaded(call.model)

    async def _loaded(self, model: str) -> ProtocolReply:
        """Have one host load a model that none has."""
        probe = ProtocolCall("ModelReady", wire.ModelReadyRequest(name=model).SerializeToString())
        reply = await self._asked("answer", probe)
        assert isinstance(reply, ProtocolReply)
        return ProtocolReply() if reply.is_ok else reply
