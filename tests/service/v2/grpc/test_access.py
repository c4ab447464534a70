from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_hosting.access import read_tokens
from nnhal_service.access import Guard, Rate, RateLimits
from nnhal_service.v2.grpc import GrpcServer, InferenceServicer
from tests.support.serving import shared_loop
from tests.support.tokens import bearer, token_file
from tests.support.v2 import (
    SERVER,
    FakeLog,
    FakeModel,
    FakeRepository,
    FakeTrace,
    call,
    floats,
    raw_request,
    streamed_in_bytes,
)

(EYE,), (CI,), (BOSS,) = (bearer(name).items() for name in ("eye", "ci", "boss"))


@pytest.fixture
def channel(short_path: Path) -> Iterator[grpc.Channel]:
    """A channel to a server with a token of each role."""
    tokens = token_file(short_path, eye="view", ci="infer", boss="admin")
    repository = FakeRepository(FakeModel())
    servicer = InferenceServicer(SERVER, repository, FakeTrace(), FakeLog())
    address = f"unix:{short_path / 'v2.sock'}"
    guard = Guard(read_tokens(tokens))
    with (
        GrpcServer(shared_loop(), [address], servicer, repository, guard=guard),
        grpc.insecure_channel(address) as channel,
    ):
        yield channel


def refused(channel: grpc.Channel, name: str, request: Message, *metadata: tuple[str, str]) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as got:
        call(channel, name, request, metadata)
    return got.value.code()


def test_anybody_may_ask_whether_the_server_lives(channel: grpc.Channel) -> None:
    assert call(channel, "ServerLive", wire.ServerLiveRequest()) == wire.ServerLiveResponse(live=True)
    stub = health_pb2_grpc.HealthStub(channel)
    assert stub.Check(health_pb2.HealthCheckRequest(), timeout=30).status == health_pb2.HealthCheckResponse.SERVING


def test_inference_needs_a_token(channel: grpc.Channel) -> None:
    request = raw_request(x=floats(1))
    assert refused(channel, "ModelInfer", request) == grpc.StatusCode.UNAUTHENTICATED
    other = ("authorization", "Bearer other")
    assert refused(channel, "ModelInfer", request, other) == grpc.StatusCode.UNAUTHENTICATED
    for token in (CI, BOSS):
        assert call(channel, "ModelInfer", request, (token,)) != wire.ModelInferResponse()


def test_changes_need_a_token_of_an_admin(channel: grpc.Channel) -> None:
    request = wire.RepositoryModelUnloadRequest(model_name="echo")
    assert refused(channel, "RepositoryModelUnload", request, CI) == grpc.StatusCode.PERMISSION_DENIED
    assert call(channel, "RepositoryModelUnload", request, (BOSS,)) == wire.RepositoryModelUnloadResponse()


def test_whoever_may_view_reads_and_changes_nothing(channel: grpc.Channel) -> None:
    assert call(channel, "ServerMetadata", wire.ServerMetadataRequest(), (EYE,)) != wire.ServerMetadataResponse()
    assert call(channel, "RepositoryIndex", wire.RepositoryIndexRequest(), (EYE,)) != wire.RepositoryIndexResponse()
    for name, request in (
        ("ModelInfer", raw_request(x=floats(1))),
        ("SystemSharedMemoryRegister", wire.SystemSharedMemoryRegisterRequest(name="r", key="/k", byte_size=1)),
        ("RepositoryModelLoad", wire.RepositoryModelLoadRequest(model_name="echo")),
    ):
        assert refused(channel, name, request, EYE) == grpc.StatusCode.PERMISSION_DENIED


def test_settings_without_a_change_are_read(channel: grpc.Channel) -> None:
    trace, log = wire.TraceSettingRequest(model_name="echo"), wire.LogSettingsRequest()
    assert call(channel, "TraceSetting", trace, (EYE,)) != wire.TraceSettingResponse()
    assert call(channel, "LogSettings", log, (EYE,)) != wire.LogSettingsResponse()
    trace.settings["trace_rate"].value.append("1")
    log.settings["log_verbose_level"].uint32_param = 1
    for name, request in (("TraceSetting", trace), ("LogSettings", log)):
        assert refused(channel, name, request) == grpc.StatusCode.UNAUTHENTICATED
        assert refused(channel, name, request, CI) == grpc.StatusCode.PERMISSION_DENIED
        call(channel, name, request, (BOSS,))


def test_a_stream_needs_a_token(channel: grpc.Channel) -> None:
    data = raw_request(x=floats(1)).SerializeToString()
    with pytest.raises(grpc.RpcError) as got:
        list(streamed_in_bytes(channel)(iter([data]), timeout=30, wait_for_ready=True))
    assert got.value.code() == grpc.StatusCode.UNAUTHENTICATED
    answers = streamed_in_bytes(channel)(iter([data, data]), timeout=30, metadata=(CI,))
    assert len(list(answers)) == 2


def test_a_call_that_there_is_not_is_unimplemented(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as got:
        channel.unary_unary("/inference.GRPCInferenceService/Other", bytes, bytes)(b"", timeout=30)
    assert got.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_who_calls_too_often_is_refused(short_path: Path) -> None:
    repository, address = FakeRepository(FakeModel()), f"unix:{short_path / 'rated.sock'}"
    servicer = InferenceServicer(SERVER, repository, FakeTrace(), FakeLog())
    guard = Guard(rates=RateLimits(Rate(0.001, 2)))
    with (
        GrpcServer(shared_loop(), [address], servicer, repository, guard=guard),
        grpc.insecure_channel(address) as channel,
    ):
        for _ in range(2):
            call(channel, "ModelInfer", raw_request(x=floats(1)))
        assert refused(channel, "ModelInfer", raw_request(x=floats(1))) == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert call(channel, "ServerLive", wire.ServerLiveRequest())
