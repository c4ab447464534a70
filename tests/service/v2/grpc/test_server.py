"""The server of the service: addresses, health, reflection, limits, interceptors."""

from __future__ import annotations

import shutil
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from nnhal.arrays import Array
from nnhal_hosting.access import Tls
from nnhal_service.serving.requests.request import InferenceRequest
from nnhal_service.v2.grpc import GrpcLimits, GrpcServer, InferenceServicer
from tests.support.serving import shared_loop
from tests.support.v2 import (
    SERVER,
    FakeLog,
    FakeModel,
    FakeRepository,
    FakeTrace,
    echo,
    floats,
    in_bytes,
    infer,
    raw_request,
)
from tests.support.v2_front import Served, serving

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


def servicer(repository: FakeRepository) -> InferenceServicer:
    return InferenceServicer(SERVER, repository, FakeTrace(), FakeLog())


def status(served: Served, service: str) -> health_pb2.HealthCheckResponse.ServingStatus:
    stub = health_pb2_grpc.HealthStub(served.channel)
    request = health_pb2.HealthCheckRequest(service=service)
    response: health_pb2.HealthCheckResponse = stub.Check(request, timeout=30, wait_for_ready=True)
    return response.status


@pytest.mark.parametrize("service", ["", "inference.GRPCInferenceService"])
def test_health_is_that_of_the_repository(served: Served, service: str) -> None:
    assert status(served, service) == SERVING
    served.repository.is_up = False
    assert status(served, service) == NOT_SERVING


def test_each_model_has_a_health_of_its_own(served: Served) -> None:
    assert status(served, "nnhal.model.echo") == SERVING
    assert status(served, "nnhal.model.unloaded") == NOT_SERVING
    with pytest.raises(grpc.RpcError) as got:
        status(served, "nnhal.model.other")
    assert got.value.code() == grpc.StatusCode.NOT_FOUND


def test_to_ask_for_health_costs_no_look_at_the_repository_s_folders(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bool] = []
    monkeypatch.setattr(served.repository, "index", looked.append)
    assert [status(served, service) for service in ("", "nnhal.model.echo")] == [SERVING, SERVING]
    with pytest.raises(grpc.RpcError):
        status(served, "nnhal.model.other")
    assert looked == []


def test_health_that_is_watched_first_is_that_of_the_moment(served: Served) -> None:
    stub = health_pb2_grpc.HealthStub(served.channel)
    for name, expected in (("echo", SERVING), ("unloaded", NOT_SERVING), ("other", UNKNOWN)):
        watched = stub.Watch(health_pb2.HealthCheckRequest(service=f"nnhal.model.{name}"), timeout=30)
        assert next(watched).status == expected
        watched.cancel()


def test_a_model_that_has_gone_has_no_health(served: Served) -> None:
    assert status(served, "nnhal.model.echo") == SERVING
    del served.repository.models["echo"]
    with pytest.raises(grpc.RpcError) as got:
        status(served, "nnhal.model.echo")
    assert got.value.code() == grpc.StatusCode.NOT_FOUND


def test_health_can_be_watched(served: Served) -> None:
    stub = health_pb2_grpc.HealthStub(served.channel)
    request = health_pb2.HealthCheckRequest(service="nnhal.model.echo")
    watched = stub.Watch(request, timeout=30, wait_for_ready=True)
    assert next(watched).status == SERVING
    model = served.repository.models.pop("echo")
    served.front.health.refresh()
    assert next(watched).status == UNKNOWN
    served.repository.models["echo"] = model
    served.front.health.refresh()
    assert next(watched).status == SERVING
    watched.cancel()


def test_a_watcher_that_leaves_takes_nobody_s_news_away(served: Served) -> None:
    stub = health_pb2_grpc.HealthStub(served.channel)
    request = health_pb2.HealthCheckRequest(service="nnhal.model.echo")
    leaving, staying = (stub.Watch(request, timeout=30, wait_for_ready=True) for _ in range(2))
    assert [next(leaving).status, next(staying).status] == [SERVING, SERVING]
    leaving.cancel()
    del served.repository.models["echo"]
    served.front.health.refresh()
    assert next(staying).status == UNKNOWN
    staying.cancel()


def test_there_are_as_many_watchers_as_the_limit_says(short_path: Path) -> None:
    with serving(short_path, FakeModel(), GrpcLimits(watches=1)) as served:
        stub = health_pb2_grpc.HealthStub(served.channel)
        watched = stub.Watch(health_pb2.HealthCheckRequest(), timeout=30, wait_for_ready=True)
        assert next(watched).status == SERVING
        with pytest.raises(grpc.RpcError, match="1 watches of health are open") as got:
            next(stub.Watch(health_pb2.HealthCheckRequest(), timeout=30))
        assert got.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert status(served, "") == SERVING
        watched.cancel()


def test_who_watches_is_told_that_the_server_leaves(short_path: Path) -> None:
    with serving(short_path, FakeModel()) as served:
        stub = health_pb2_grpc.HealthStub(served.channel)
        watched = stub.Watch(health_pb2.HealthCheckRequest(), timeout=30, wait_for_ready=True)
        assert next(watched).status == SERVING
        leaver = threading.Thread(target=served.front.__exit__, args=(None, None, None))
        leaver.start()
        assert [answer.status for answer in watched] == [NOT_SERVING]
        leaver.join()


def test_a_client_without_the_protos_finds_the_service(served: Served) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    asked = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="inference.GRPCInferenceService"),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="grpc.health.v1.Health"),
    ]
    names, files, health = stub.ServerReflectionInfo(iter(asked), timeout=30, wait_for_ready=True)
    assert {service.name for service in names.list_services_response.service} == {
        *("inference.GRPCInferenceService", "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"),
    }
    pool = DescriptorPool()
    written = [FileDescriptorProto.FromString(file) for file in files.file_descriptor_response.file_descriptor_proto]
    for file in sorted(written, key=lambda file: len(file.dependency)):
        pool.Add(file)
    assert len(pool.FindServiceByName("inference.GRPCInferenceService").methods) == 20
    assert health.file_descriptor_response.file_descriptor_proto


def test_ports_are_chosen_where_none_is_given(short_path: Path) -> None:
    repository = FakeRepository(FakeModel())
    addresses = ["127.0.0.1:0", f"unix:{short_path / 'v2.sock'}"]
    with GrpcServer(shared_loop(), addresses, servicer(repository), repository) as front:
        assert front.addresses[1] == addresses[1]
        for address in front.addresses:
            with grpc.insecure_channel(address) as channel:
                infer(channel, raw_request(x=floats(1)))
    assert not (short_path / "v2.sock").exists()


def test_an_address_in_use_is_refused(short_path: Path) -> None:
    repository = FakeRepository(FakeModel())
    with GrpcServer(
        shared_loop(), ["127.0.0.1:0", f"unix:{short_path / 'v2.sock'}"], servicer(repository), repository
    ) as front:
        for address in front.addresses:
            with pytest.raises(OSError, match=r"cannot listen at|another process is serving at"):
                GrpcServer(shared_loop(), [address], servicer(repository), repository)


def test_messages_are_as_large_as_the_limit_says(short_path: Path) -> None:
    with serving(short_path, FakeModel(), GrpcLimits(message_bytes=100_000)) as served:
        infer(served.channel, raw_request(x=floats(*[1] * 20_000)))
        with pytest.raises(grpc.RpcError, match="larger than max") as got:
            infer(served.channel, raw_request(x=floats(*[1] * 30_000)))
        assert got.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_calls_beyond_the_limit_are_refused(short_path: Path) -> None:
    begun, end = threading.Semaphore(0), threading.Event()

    def wait(request: InferenceRequest) -> dict[str, Array]:
        begun.release()
        end.wait(30)
        return echo(request)

    data = raw_request(x=floats(1)).SerializeToString()
    with serving(short_path, FakeModel(wait), GrpcLimits(calls=2)) as served:
        method = in_bytes(served.channel, "ModelInfer")
        held = [method.future(data, timeout=30, wait_for_ready=True) for _ in range(2)]
        assert all(begun.acquire(timeout=30) for _ in held)
        with pytest.raises(grpc.RpcError) as got:
            method(data, timeout=30)
        assert got.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        end.set()
        assert all(future.result() for future in held)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_tls_is_as_the_caller_says(short_path: Path) -> None:
    key, certificate = short_path / "key.pem", short_path / "certificate.pem"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    make = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    subprocess.run([*make, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    tls = Tls(certificate, key)
    repository = FakeRepository(FakeModel())
    with GrpcServer(shared_loop(), ["localhost:0"], servicer(repository), repository, tls=tls) as front:
        trusted = grpc.ssl_channel_credentials(certificate.read_bytes())
        with grpc.secure_channel(front.addresses[0], trusted) as channel:
            assert infer(channel, raw_request(x=floats(1))).outputs
        with grpc.insecure_channel(front.addresses[0]) as channel, pytest.raises(grpc.RpcError):
            in_bytes(channel, "ServerLive")(b"", timeout=30)


def test_a_call_that_runs_when_the_front_is_left_comes_to_its_end(short_path: Path) -> None:
    begun, leaving = threading.Event(), threading.Event()

    def wait(request: InferenceRequest) -> dict[str, Array]:
        begun.set()
        leaving.wait(30)
        return echo(request)

    with serving(short_path, FakeModel(wait)) as served:
        method = in_bytes(served.channel, "ModelInfer")
        future = method.future(raw_request(x=floats(1)).SerializeToString(), timeout=30, wait_for_ready=True)
        assert begun.wait(30)
        leaver = threading.Thread(target=served.front.__exit__, args=(None, None, None))
        leaver.start()
        leaving.set()
        assert future.result()
        leaver.join()


def test_one_connection_too_many_is_closed_and_the_others_go_on(short_path: Path) -> None:
    with serving(short_path, FakeModel(), GrpcLimits(connections=2)) as served, ExitStack() as stack:

        def connected() -> health_pb2_grpc.HealthStub:
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = grpc.insecure_channel(served.front.addresses[0], options=options)
            stack.callback(channel.close)
            return health_pb2_grpc.HealthStub(channel)

        def answer(client: health_pb2_grpc.HealthStub, waits: bool = False) -> grpc.StatusCode:
            try:
                client.Check(health_pb2.HealthCheckRequest(), timeout=30, wait_for_ready=waits)
            except grpc.RpcError as error:
                return error.code()
            return grpc.StatusCode.OK

        first, second, third = connected(), connected(), connected()
        assert [answer(client) for client in (first, second)] == [grpc.StatusCode.OK] * 2
        assert answer(third) == grpc.StatusCode.UNAVAILABLE
        assert [answer(client) for client in (first, second)] == [grpc.StatusCode.OK] * 2
        stack.close()
        assert answer(connected(), waits=True) == grpc.StatusCode.OK
