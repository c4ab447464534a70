from __future__ import annotations

import pytest

from nnhal_service.repository.config_file import config_from_json, read_config
from nnhal_service.repository.source import GivenSource
from nnhal_service.serving.errors import ErrorKind, ServingError


def read(text: str, **files: str) -> object:
    given = {"config.pbtxt": text, **files}
    return read_config(GivenSource({name: content.encode() for name, content in given.items()}), "m")


def test_a_model_without_a_file_has_an_empty_configuration() -> None:
    assert not read_config(GivenSource({"1/model.onnx": b""}), "m").ListFields()


def test_a_file_of_triton_s_is_read_as_it_is() -> None:
    config = read_config(
        GivenSource(
            {
                "config.pbtxt": b"""
                # as written for another server
                name: "m"
                backend: "onnxruntime"
                max_batch_size: 8
                input [{ name: "x" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 224, 224 ] }]
                output [{ name: "y" data_type: TYPE_FP32 dims: [ -1 ] label_filename: "labels.txt" }]
                version_policy: { specific { versions: [1, 3] } }
                instance_group [{ kind: KIND_GPU count: 2 gpus: [0] host_policy: "numa0" }]
                dynamic_batching { preferred_batch_size: [4, 8] max_queue_delay_microseconds: 100 }
                optimization { execution_accelerators { gpu_execution_accelerator: [{ name: "tensorrt" }] } }
                parameters { key: "nnhal.devices" value { string_value: "cpu_acc" } }
                metric_tags { key: "team" value: "vision" }
                model_warmup [{ name: "w" batch_size: 1
                  inputs { key: "x" value { data_type: TYPE_FP32 dims: [3, 224, 224] zero_data: true } } }]
                response_cache { enable: false }
                """
            }
        ),
        "m",
    )
    assert config.max_batch_size == 8
    assert list(config.version_policy.specific.versions) == [1, 3]
    assert config.parameters["nnhal.devices"].string_value == "cpu_acc"


def test_a_configuration_of_another_name_goes_before_the_model_s_own() -> None:
    source = GivenSource({"config.pbtxt": b"max_batch_size: 1", "configs/big.pbtxt": b"max_batch_size: 64"})
    assert read_config(source, "m", "big").max_batch_size == 64
    assert read_config(source, "m", "small").max_batch_size == 1
    assert read_config(source, "m").max_batch_size == 1


def test_json_has_the_names_of_either_spelling() -> None:
    assert config_from_json('{"max_batch_size": 4, "input": [{"name": "x", "dims": ["3"]}]}', "m").max_batch_size == 4
    assert config_from_json('{"maxBatchSize": 4, "backend": "nnhal"}', "m").max_batch_size == 4


def test_a_mark_of_the_order_of_bytes_is_no_text() -> None:
    source = GivenSource({"config.pbtxt": "\ufeffmax_batch_size: 3".encode()})
    assert read_config(source, "m").max_batch_size == 3


@pytest.mark.parametrize("text", ["max_batch_size: 'x'", "no_such_field: 1", "input [", "max_batch_size: 1 }"])
def test_what_is_not_well_formed_is_an_error_that_says_where(text: str) -> None:
    with pytest.raises(ServingError, match=r"config\.pbtxt: 1:") as caught:
        read(text)
    assert caught.value.kind == ErrorKind.INVALID_ARGUMENT


@pytest.mark.parametrize("text", ["", "[]", "3", "[" * 100_000, '{"max_batch_size": "x"}', '{"no_such_field": 1}'])
def test_json_that_is_not_well_formed_is_an_error(text: str) -> None:
    with pytest.raises(ServingError, match="the config of the request: "):
        config_from_json(text, "m")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name: "other"', "name is 'other', expected 'm' or nothing"),
        ("max_batch_size: -1", "max_batch_size is -1, expected 0 to 2147483647"),
    ],
)
def test_what_contradicts_the_folder_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ServingError, match=message) as caught:
        read(text)
    assert caught.value.kind == ErrorKind.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('backend: "python"', "backend 'python' is not supported"),
        ('platform: "ensemble"', "platform 'ensemble' is not supported"),
        ("sequence_batching { iterative_sequence: true }", "iterative_sequence is not supported"),
        ('ensemble_scheduling { step { model_name: "a" } }', "ensemble_scheduling is not supported"),
        ("response_cache { enable: true }", "response_cache is not supported"),
        ("model_transaction_policy { decoupled: true }", "decoupled models are not supported"),
        ('model_repository_agents { agents { name: "checksum" } }', "model_repository_agents are not supported"),
        ('batch_input { target_name: "n" }', "batch_input and batch_output are not supported"),
        ('model_operations { op_library_filename: "x.so" }', "model_operations and cc_model_filenames"),
        ('output { name: "y" is_shape_tensor: true }', "'y': is_shape_tensor"),
        ('input { name: "x" allow_ragged_batch: true }', "allow_ragged_batch of 'x' is not supported"),
        ("instance_group { passive: true }", "passive, secondary_devices and rate_limiter"),
        ("instance_group { rate_limiter { priority: 1 } }", "passive, secondary_devices and rate_limiter"),
    ],
)
def test_what_is_not_supported_is_an_error_and_not_passed_over(text: str, message: str) -> None:
    with pytest.raises(ServingError, match=message) as caught:
        read(text)
    assert caught.value.kind == ErrorKind.UNSUPPORTED
