"""The services of the gRPC server as methods: inference, health and server reflection.

Requests arrive as bytes and are parsed here, so that a malformed one is INVALID_ARGUMENT.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import Any, cast

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from nnhal.inference import grpc_service_pb2, model_config_pb2
from nnhal_service.access import Guard
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.v2.grpc.access import admission, admitted_by_message, note_refused
from nnhal_service.v2.grpc.calls import Call, GrpcContext, Method, OpenLimit, StreamCall, ended
from nnhal_service.v2.grpc.compression import plain
from nnhal_service.v2.grpc.health import HEALTH, ModelHealth
from nnhal_service.v2.grpc.infer import InferCalls
from nnhal_service.v2.grpc.servicer import SERVICE, InferenceServicer

ReflectionRequest = reflection_pb2.ServerReflectionRequest
ReflectionResponse = reflection_pb2.ServerReflectionResponse
Answers = Callable[[Iterable[ReflectionRequest], GrpcContext], Iterator[ReflectionResponse]]
REFLECTION = reflection.SERVICE_NAME
_REFLECTED = (model_config_pb2, grpc_service_pb2, health_pb2, reflection_pb2)


def inference_methods(
    servicer: InferenceServicer,
    infer: InferCalls,
    loop: ServingLoop,
    threads: Executor,
    calls: OpenLimit,
    streams: OpenLimit,
    guard: Guard,
) -> Iterator[Method]:
    """Yield the methods of inference.GRPCInferenceService, made from its descriptor.

    ``threads`` run the calls that may wait; no inference does so.
    """
    noted = partial(note_refused, guard)
    unary: dict[str, Call] = {"ModelInfer": infer.infer}
    for method in SERVICE.methods:
        behaviour = getattr(servicer, method.name, None)
        if behaviour is not None:
            kind = GetMessageClass(method.input_type)
            unary[method.name] = (
                _in_loop(kind, behaviour)
                if inspect.iscoroutinefunction(behaviour)
                else _in_thread(kind, behaviour, servicer, loop, threads)
            )
    for name, call in unary.items():
        path = f"/{SERVICE.full_name}/{name}"
        call = admitted_by_message(path, guard, call)
        yield Method(path, calls, call, None, admission(path, guard), noted)
    path = f"/{SERVICE.full_name}/ModelStreamInfer"
    yield Method(path, streams, None, infer.stream_infer, admission(path, guard), note_refused=noted)


def health_methods(health: ModelHealth, calls: OpenLimit, watches: OpenLimit) -> Iterator[Method]:
    """Yield the methods of grpc.health.v1.Health."""
    yield Method(f"/{HEALTH.full_name}/Check", calls, _in_loop(health_pb2.HealthCheckRequest, health.check))
    yield Method(f"/{HEALTH.full_name}/Watch", watches, None, _watch(health))


def reflection_methods(streams: OpenLimit, guard: Guard) -> Iterator[Method]:
    """Yield the method of server reflection, which tells of all services of the gRPC server.

    It reads a descriptor pool of its own, since package 'inference' is not in protobuf's default pool.
    """
    pool = DescriptorPool()
    for module in _REFLECTED:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    servicer = reflection.ReflectionServicer((SERVICE.full_name, HEALTH.full_name, REFLECTION), pool)
    answers = cast(Answers, servicer.ServerReflectionInfo)

    async def reflect(context: GrpcContext) -> None:
        while isinstance(data := await context.read(), bytes):
            for answer in answers((ReflectionRequest.FromString(plain(data)),), context):
                await context.write(answer.SerializeToString())

    path = f"/{REFLECTION}/ServerReflectionInfo"
    yield Method(path, streams, None, reflect, admission(path, guard))


def _watch(health: ModelHealth) -> StreamCall:
    async def watch(context: GrpcContext) -> None:
        data = await context.read()
        request = health_pb2.HealthCheckRequest.FromString(plain(data) if isinstance(data, bytes) else b"")
        await health.watch(request, context)

    return watch


def _in_loop(kind: type[Message], behaviour: Callable[[Any, GrpcContext], Any]) -> Call:
    """A call that neither waits nor computes for long."""

    async def call(data: bytes, context: GrpcContext) -> bytes:
        response: Message = await behaviour(kind.FromString(plain(data)), context)
        return response.SerializeToString()

    return call


def _in_thread(
    kind: type[Message],
    behaviour: Callable[[Any, str], Message],
    servicer: InferenceServicer,
    loop: ServingLoop,
    threads: Executor,
) -> Call:
    def work(data: bytes, owner: str) -> bytes:
        return behaviour(kind.FromString(plain(data)), owner).SerializeToString()

    async def call(data: bytes, context: GrpcContext) -> bytes:
        work_of_call = partial(work, data, servicer.owner(context))
        return await ended(loop.asyncio.run_in_executor(threads, work_of_call))

    return call
