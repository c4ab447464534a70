"""A client without a .proto file, as grpcurl is: everything comes from reflection. And grpc.health.v1."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.support.model_server import Served

SERVICE = "inference.GRPCInferenceService"
SERVING = health_pb2.HealthCheckResponse.SERVING


@pytest.fixture
def channel(served: Served) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(served.grpc) as opened:
        yield opened


class Reflected:
    """The service, as the server describes it."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self.database = ProtoReflectionDescriptorDatabase(channel)
        self.service = DescriptorPool(self.database).FindServiceByName(SERVICE)

    def request(self, call: str) -> Message:
        return GetMessageClass(self.service.methods_by_name[call].input_type)()

    def call(self, name: str, request: Message) -> Message:
        kind = GetMessageClass(self.service.methods_by_name[name].output_type)
        method = self._channel.unary_unary(f"/{SERVICE}/{name}", lambda m: m.SerializeToString(), kind.FromString)
        answer: Message = method(request, timeout=30)
        return answer


def test_reflection_lists_what_is_served(channel: grpc.Channel) -> None:
    listed = set(Reflected(channel).database.get_services())
    assert {SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"} <= listed


def test_all_twenty_calls_are_described(channel: grpc.Channel) -> None:
    methods = Reflected(channel).service.methods_by_name
    assert len(methods) == 20
    assert methods["ModelStreamInfer"].client_streaming
    assert methods["ModelStreamInfer"].server_streaming


def test_messages_are_made_from_descriptors_alone(channel: grpc.Channel) -> None:
    server = Reflected(channel)
    assert server.call("ServerLive", server.request("ServerLive")).live  # type: ignore[attr-defined]
    request = server.request("ModelInfer")
    request.model_name = "tanh"  # type: ignore[attr-defined]
    request.inputs.add(name="x", datatype="FP32", shape=[1, 8]).contents.fp32_contents.extend([0.5] * 8)  # type: ignore[attr-defined]
    answer = server.call("ModelInfer", request)
    found = np.frombuffer(answer.raw_output_contents[0], np.float32)  # type: ignore[attr-defined]
    np.testing.assert_allclose(found, np.tanh(np.full(8, 0.5)), atol=1e-5)


@pytest.mark.parametrize("service", ["", SERVICE, "nnhal.model.tanh"])
def test_health(channel: grpc.Channel, service: str) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    assert stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=30).status == SERVING
    watch = stub.Watch(health_pb2.HealthCheckRequest(service=service), timeout=30)
    assert next(watch).status == SERVING
    watch.cancel()


def test_health_of_what_there_is_not(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(service="nnhal.model.nobody"), timeout=30
        )
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


def test_the_unix_socket_speaks_the_same(served: Served) -> None:
    with grpc.insecure_channel(f"unix:{served.endpoint.directory / 'inference.sock'}") as opened:
        server = Reflected(opened)
        assert server.call("ServerReady", server.request("ServerReady")).ready  # type: ignore[attr-defined]
