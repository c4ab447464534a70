"""Description of a device by itself, health checking and reflection."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice, open_rpc
from tests.support.processes import own_device

SERVICES = {
    "nnhal.v1.AdminService",
    "nnhal.v1.BackendService",
    "nnhal.v1.BufferService",
    "nnhal.v1.BurstService",
    "nnhal.v1.DeviceAdminService",
    "nnhal.v1.DeviceRecordingService",
    "nnhal.v1.DeviceService",
    "nnhal.v1.ExecutionService",
    "nnhal.v1.FaultService",
    "nnhal.v1.FencedExecutionCallbackService",
    "nnhal.v1.PreparedModelService",
}


@pytest.fixture(scope="module", params=["null", "cpu_ref", "cpu_acc"])
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    with own_device(request.param) as (_, found):
        yield found


@pytest.fixture
def each(endpoint: Endpoint) -> Iterator[RemoteDevice]:
    with RemoteDevice(endpoint, "test") as device:
        yield device


@pytest.fixture(scope="module")
def rpc(endpoint: Endpoint) -> Iterator[grpc.Channel]:
    with open_rpc(endpoint) as channel:
        yield channel


@pytest.mark.contract("DV-01", "BA-01")
@pytest.mark.parametrize("service", ["", *sorted(SERVICES)])
def test_health_is_reported_of_every_service(rpc: grpc.Channel, service: str) -> None:
    answer = health_pb2_grpc.HealthStub(rpc).Check(health_pb2.HealthCheckRequest(service=service))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_health_of_an_unknown_service_is_not_found(rpc: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError, match="NOT_FOUND"):
        health_pb2_grpc.HealthStub(rpc).Check(health_pb2.HealthCheckRequest(service="nnhal.v1.Other"))


def test_the_wire_contract_can_be_read_by_reflection(rpc: grpc.Channel) -> None:
    database = ProtoReflectionDescriptorDatabase(rpc)
    assert set(database.get_services()) == SERVICES | {
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    pool = DescriptorPool(database)
    method = pool.FindServiceByName("nnhal.v1.DeviceService").FindMethodByName("PrepareModel")
    assert method.input_type.full_name == "nnhal.v1.PrepareModelRequest"
    assert "model" in method.input_type.fields_by_name


def test_a_device_describes_itself(each: RemoteDevice, endpoint: Endpoint) -> None:
    description = each.describe()
    assert description.name == endpoint.directory.name
    assert description.imports == {"ashmem", "mmap_fd", "hardware_buffer_blob"}
    assert description.alignment >= 1
    assert not description.modelled_timing
    assert description.workers == 1
