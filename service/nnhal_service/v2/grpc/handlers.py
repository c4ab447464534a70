"""The services of the gRPC server as handlers: inference and server reflection.

Requests of inference arrive as bytes and are parsed here, so that a malformed one is INVALID_ARGUMENT, and not an error
of gRPC's own.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeAlias, cast

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from nnhal.inference import grpc_service_pb2, model_config_pb2
from nnhal_hosting.calls import UntakenAnswers
from nnhal_service.access import Guard
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.v2.grpc.access import admission, changes_settings, guarded
from nnhal_service.v2.grpc.calls import Call, Context, OpenLimit, ended
from nnhal_service.v2.grpc.compression import plain
from nnhal_service.v2.grpc.health import HEALTH, ModelHealth
from nnhal_service.v2.grpc.infer import InferCalls
from nnhal_service.v2.grpc.message_receiver import MessageReceiver
from nnhal_service.v2.grpc.servicer import SERVICE, InferenceServicer
from nnhal_service.v2.grpc.statuses import answer_for, answered

Handlers: TypeAlias = "Mapping[str, grpc.RpcMethodHandler[Any, Any]]"
"""The handlers of a service by the names of its methods."""
ReflectionRequest = reflection_pb2.ServerReflectionRequest
ReflectionResponse = reflection_pb2.ServerReflectionResponse
Answers = Callable[[Iterable[ReflectionRequest], Context], Iterator[ReflectionResponse]]
REFLECTION = reflection.SERVICE_NAME
_REFLECTED = (model_config_pb2, grpc_service_pb2, health_pb2, reflection_pb2)


def inference_calls(
    servicer: InferenceServicer,
    infer: InferCalls,
    loop: ServingLoop,
    threads: Executor,
    calls: OpenLimit,
    guard: Guard,
    receiver: MessageReceiver,
) -> dict[str, Call[None, bytes]]:
    """All unary calls of inference.GRPCInferenceService, made from its descriptor.

    ``threads`` run the calls that may wait; no inference does so. Messages are received by ``receiver``, once the
    guard has admitted their calls.
    """
    unary: dict[str, Call[bytes, bytes]] = {"ModelInfer": infer.infer}
    for method in SERVICE.methods:
        behaviour = getattr(servicer, method.name, None)
        if behaviour is not None:
            kind = GetMessageClass(method.input_type)
            unary[method.name] = (
                _in_loop(method.name, kind, behaviour)
                if inspect.iscoroutinefunction(behaviour)
                else _in_thread(method.name, kind, behaviour, servicer, loop, threads)
            )
    return {name: _served(name, call, guard, receiver, calls) for name, call in unary.items()}


def inference_streams(infer: InferCalls, streams: OpenLimit, guard: Guard, untaken: UntakenAnswers) -> Handlers:
    """Its stream. ``untaken`` bounds the answers that clients do not take."""
    name = "ModelStreamInfer"
    return {
        name: grpc.stream_stream_rpc_method_handler(
            answered(guarded(streams.limited(infer.stream_infer), f"/{SERVICE.full_name}/{name}", guard), untaken)
        )
    }


def health_handlers(health: ModelHealth, watches: OpenLimit, untaken: UntakenAnswers) -> Handlers:
    """The calls of grpc.health.v1.Health."""
    form = (health_pb2.HealthCheckRequest.FromString, health_pb2.HealthCheckResponse.SerializeToString)
    return {
        "Check": grpc.unary_unary_rpc_method_handler(answered(health.check, untaken), *form),
        "Watch": grpc.unary_stream_rpc_method_handler(answered(watches.limited(health.watch), untaken), *form),
    }


def reflection_handlers(streams: OpenLimit, guard: Guard, untaken: UntakenAnswers) -> Handlers:
    """Server reflection of all services of the gRPC server.

    It reads a descriptor pool of its own, since package 'inference' is not in protobuf's default pool.
    """
    pool = DescriptorPool()
    for module in _REFLECTED:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    servicer = reflection.ReflectionServicer((SERVICE.full_name, HEALTH.full_name, REFLECTION), pool)

    answers = cast(Answers, servicer.ServerReflectionInfo)

    async def reflect(requests: AsyncIterator[ReflectionRequest], context: Context) -> None:
        async for request in requests:
            for answer in answers((request,), context):
                await context.write(answer)

    name = "ServerReflectionInfo"
    handler = grpc.stream_stream_rpc_method_handler(
        answered(guarded(streams.limited(reflect), f"/{REFLECTION}/{name}", guard), untaken),
        ReflectionRequest.FromString,
        ReflectionResponse.SerializeToString,
    )
    return {name: handler}


def _served(
    name: str, call: Call[bytes, bytes], guard: Guard, receiver: MessageReceiver, calls: OpenLimit
) -> Call[None, bytes]:
    """The call, admitted before its message is received, unless the guard has to see the message."""
    method = f"/{SERVICE.full_name}/{name}"
    admit, by_message = admission(method, guard), changes_settings(method)

    async def serve(_: None, context: Context) -> bytes:
        if admit is not None and not by_message:
            admit(b"", context)
        data = await receiver.receive(context)
        if admit is not None and by_message:
            admit(data, context)
        with calls:
            answer = call(data, context)
            del data  # if the call is aborted, this frame waits for the garbage collector: the message must not
            return await answer

    return serve


def _in_loop(name: str, kind: type[Message], behaviour: Call[Message, Message]) -> Call[bytes, bytes]:
    """A call that neither waits nor computes for long."""

    async def call(data: bytes, context: Context) -> bytes:
        try:
            return (await behaviour(kind.FromString(plain(data)), context)).SerializeToString()
        except Exception as error:
            raise answer_for(error, name) from None

    return call


def _in_thread(
    name: str,
    kind: type[Message],
    behaviour: Callable[[Any, str], Message],
    servicer: InferenceServicer,
    loop: ServingLoop,
    threads: Executor,
) -> Call[bytes, bytes]:
    def work(data: bytes, owner: str) -> bytes:
        return behaviour(kind.FromString(plain(data)), owner).SerializeToString()

    async def call(data: bytes, context: Context) -> bytes:
        work_of_call = partial(work, data, servicer.owner(context))
        try:
            return await ended(loop.asyncio.run_in_executor(threads, work_of_call))
        except Exception as error:
            raise answer_for(error, name) from None

    return call
