"""What a device reports of itself, health checking and reflection."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice, open_rpc
from nnhal.types import DeviceType, OperandType
from tests.support.processes import device_process

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
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        device_process(request.param, Path(directory)) as (_, found),
    ):
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


@pytest.mark.contract("DV-02", "BA-02")
def test_every_performance_ratio_is_above_zero(each: RemoteDevice) -> None:
    capabilities = each.capabilities()
    infos = [
        capabilities.relaxed_float32_to_float16_scalar,
        capabilities.relaxed_float32_to_float16_tensor,
        capabilities.if_performance,
        capabilities.while_performance,
        *(entry.info for entry in capabilities.operand_performance),
    ]
    assert all(info.exec_time > 0 and info.power_usage > 0 for info in infos)


@pytest.mark.contract("DV-03", "BA-02")
def test_operand_performance_is_sorted_by_type_and_has_no_subgraph(each: RemoteDevice) -> None:
    types = [entry.type for entry in each.capabilities().operand_performance]
    assert types == sorted(set(types))
    assert OperandType.SUBGRAPH not in types


@pytest.mark.contract("DV-04", "DV-05")
def test_a_device_reports_version_and_type(each: RemoteDevice) -> None:
    assert each.version()
    assert each.device_type() in DeviceType


@pytest.mark.contract("DV-06")
def test_extensions_have_valid_names(each: RemoteDevice) -> None:
    extensions = each.supported_extensions()
    names = [extension.name for extension in extensions]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_.]*\.[a-z0-9_.]*", name) for name in names)
    for extension in extensions:
        codes = [operand.type for operand in extension.operand_types]
        assert len(set(codes)) == len(codes)
        assert all(operand.byte_size > 0 for operand in extension.operand_types)


@pytest.mark.contract("DV-07")
def test_the_number_of_cache_files_is_within_the_limit(each: RemoteDevice) -> None:
    needed = each.number_of_cache_files_needed()
    assert 0 <= needed.num_model_cache <= 32
    assert 0 <= needed.num_data_cache <= 32


@pytest.mark.contract("DV-12")
def test_getters_return_the_same_each_time(each: RemoteDevice) -> None:
    def everything() -> tuple[object, ...]:
        return (
            each.version(),
            each.device_type(),
            each.capabilities(),
            each.supported_extensions(),
            each.number_of_cache_files_needed(),
            each.describe(),
        )

    assert everything() == everything()


def test_a_device_describes_itself(each: RemoteDevice, endpoint: Endpoint) -> None:
    description = each.describe()
    assert description.name == endpoint.directory.name
    assert description.imports == {"ashmem", "mmap_fd", "hardware_buffer_blob"}
    assert description.alignment >= 1
    assert not description.modelled_timing
    assert description.workers == 1
