"""The messages are those that clients of the protocol know, and coexist with those of a client library."""

from __future__ import annotations

import importlib
import importlib.util

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import Default

from nnhal.inference import grpc_service_pb2 as wire
from nnhal.inference import model_config_pb2
from nnhal.inference.pool import POOL

CALLS = [
    *("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer", "ModelStreamInfer"),
    *("ModelConfig", "ModelStatistics", "RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"),
    *("SystemSharedMemoryStatus", "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister"),
    *("CudaSharedMemoryStatus", "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister"),
    *("TraceSetting", "LogSettings"),
]
FIELDS = {
    "ModelInferRequest": "1 model_name 2 model_version 3 id 4 parameters 5 inputs 6 outputs 7 raw_input_contents",
    "ModelInferResponse": "1 model_name 2 model_version 3 id 4 parameters 5 outputs 6 raw_output_contents",
    "InferParameter": "1 bool_param 2 int64_param 3 string_param 4 double_param 5 uint64_param",
    "InferTensorContents": "1 bool_contents 2 int_contents 3 int64_contents 4 uint_contents 5 uint64_contents "
    "6 fp32_contents 7 fp64_contents 8 bytes_contents",
    "ModelStreamInferResponse": "1 error_message 2 infer_response",
    "ModelStatistics": "1 name 2 version 3 last_inference 4 inference_count 5 execution_count 6 inference_stats "
    "7 batch_stats 8 memory_usage 9 response_stats",
    "InferStatistics": "1 success 2 fail 3 queue 4 compute_input 5 compute_infer 6 compute_output 7 cache_hit "
    "8 cache_miss",
    "SystemSharedMemoryRegisterRequest": "1 name 2 key 3 offset 4 byte_size",
    "RepositoryModelLoadRequest": "1 repository_name 2 model_name 3 parameters",
    "TraceSettingRequest": "1 settings 2 model_name",
}


def test_the_service_has_the_calls_of_the_protocol() -> None:
    service = wire.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    assert service.full_name == "inference.GRPCInferenceService"
    assert [method.name for method in service.methods] == CALLS
    assert [method.name for method in service.methods if method.client_streaming or method.server_streaming] == [
        "ModelStreamInfer"
    ]


@pytest.mark.parametrize("message", FIELDS)
def test_fields_have_the_protocols_numbers(message: str) -> None:
    fields = wire.DESCRIPTOR.message_types_by_name[message].fields
    assert " ".join(f"{field.number} {field.name}" for field in fields) == FIELDS[message]


def test_the_default_pool_does_not_know_them() -> None:
    assert POOL.FindFileByName("inference/grpc_service.proto") is wire.DESCRIPTOR
    with pytest.raises(KeyError):
        Default().FindFileByName("inference/grpc_service.proto")


@pytest.mark.skipif(importlib.util.find_spec("tritonclient") is None, reason="tritonclient is not installed")
def test_a_client_library_in_the_same_process_has_the_same_messages() -> None:
    theirs = importlib.import_module("tritonclient.grpc.service_pb2").DESCRIPTOR
    assert _described(wire.DESCRIPTOR.serialized_pb) == _described(theirs.serialized_pb)
    configs = importlib.import_module("tritonclient.grpc.model_config_pb2").DESCRIPTOR
    assert _described(model_config_pb2.DESCRIPTOR.serialized_pb) == _described(configs.serialized_pb)


def _described(serialized: bytes) -> FileDescriptorProto:
    """Return what determines the wire format, without file names, the order of messages and empty options."""
    file = FileDescriptorProto.FromString(serialized)
    file.name = ""
    del file.dependency[:]
    file.message_type.sort(key=lambda entry: entry.name)
    for method in (method for service in file.service for method in service.method):
        method.ClearField("options")
    return file
