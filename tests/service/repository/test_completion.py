from __future__ import annotations

import pytest
from google.protobuf import text_format

from nnhal.inference import model_config_pb2 as wire
from nnhal_service.repository.completion import complete
from nnhal_service.repository.tensors import ModelTensor
from nnhal_service.serving.errors import ErrorKind, ServingError

INPUT = ModelTensor("x", wire.TYPE_FP32, (-1, 3, 224, 224))
OUTPUT = ModelTensor("y", wire.TYPE_INT64, (-1, 10))


def completed(
    text: str, file: str = "model.onnx", tensor: ModelTensor = INPUT, output: ModelTensor = OUTPUT
) -> wire.ModelConfig:
    return complete(text_format.Parse(text, wire.ModelConfig()), "m", file, [tensor], [output])


def test_an_empty_configuration_is_filled_in_from_the_model() -> None:
    config = completed("")
    assert (config.name, config.backend, config.platform) == ("m", "nnhal", "onnx_onnxv1")
    assert config.default_model_filename == "model.onnx"
    assert config.version_policy.latest.num_versions == 1
    assert [group.count for group in config.instance_group] == [1]
    assert config.max_batch_size == 0
    assert [(i.name, i.data_type, list(i.dims)) for i in config.input] == [("x", wire.TYPE_FP32, [-1, 3, 224, 224])]
    assert [(o.name, o.data_type, list(o.dims)) for o in config.output] == [("y", wire.TYPE_INT64, [-1, 10])]


def test_dims_are_without_the_batch_if_the_model_has_batches() -> None:
    config = completed("max_batch_size: 8")
    assert list(config.input[0].dims) == [3, 224, 224]
    assert list(config.output[0].dims) == [10]


def test_a_tensor_of_which_nothing_is_known_has_one_open_axis() -> None:
    assert list(completed("", output=ModelTensor("y", wire.TYPE_FP32, None)).output[0].dims) == [-1]


def test_a_tflite_file_has_its_platform() -> None:
    assert completed("", "model.tflite").platform == "tflite"


@pytest.mark.parametrize("platform", ["onnx_onnxv1", "onnxruntime_onnx"])
def test_what_a_configuration_says_stays(platform: str) -> None:
    config = completed(
        f'platform: "{platform}" backend: "onnxruntime" max_batch_size: 8 metric_tags {{ key: "a" value: "b" }}'
        'output { name: "y" label_filename: "labels.txt" }'
        'input { name: "x" format: FORMAT_NCHW data_type: TYPE_FP32 dims: [3, 224, 224] }'
    )
    assert (config.platform, config.backend) == (platform, "onnxruntime")
    assert config.output[0].label_filename == "labels.txt"
    assert config.output[0].data_type == wire.TYPE_INT64
    assert config.input[0].format == wire.ModelInput.FORMAT_NCHW
    assert config.metric_tags["a"] == "b"


def test_an_output_of_a_state_is_refused_by_that_name() -> None:
    state = 'state { input_name: "x" output_name: "y" }'
    with pytest.raises(ServingError, match="output 'y' is the output_name of a state"):
        completed(f'sequence_batching {{ {state} }} output {{ name: "y" }}')


def test_dims_may_be_narrower_than_the_model_s_open_axes() -> None:
    assert list(completed('input { name: "x" dims: [2, 3, 224, 224] }').input[0].dims) == [2, 3, 224, 224]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'max_batch_size: 8 input { name: "x" dims: [1, 3, 224, 224] }',
            r"input 'x' has dims \[1, 3, 224, 224\], expected \[3, 224, 224\]; the model's shape is \[-1, 3, 224, 224\]"
            ", and with max_batch_size 8 dims are without the batch axis",
        ),
        (
            'input { name: "x" dims: [3, 224, 224] }',
            r"expected \[-1, 3, 224, 224\]; .* with max_batch_size 0 dims are the whole shape, the batch axis included",
        ),
        ('input { name: "x" dims: [-1, -1, 224, 224] }', r"has dims \[-1, -1, 224, 224\], expected \[-1, 3, 224"),
        ('input { name: "x" dims: [0, 3, 224, 224] }', r"has dims \[0, 3, 224, 224\], expected \[-1, 3, 224, 224\]"),
        ('output { name: "y" dims: [-1, 11] }', r"output 'y' has dims \[-1, 11\], expected \[-1, 10\]"),
        ('input { name: "x" data_type: TYPE_FP16 }', "input 'x' has data_type TYPE_FP16, expected TYPE_FP32"),
        ('output { name: "y" data_type: 99 }', "output 'y' has data_type 99, expected TYPE_INT64"),
        ('input { name: "z" }', "input 'z' is not in the model, expected 'x'"),
        ('input { name: "x" } input { name: "x" }', "expected each name once"),
        ('input { name: "x" optional: true }', "input 'x' is optional, but the model requires it"),
        ('platform: "tflite"', "platform is 'tflite', expected one for 'model.onnx'"),
    ],
)
def test_what_does_not_fit_the_model_is_an_error_that_says_got_and_expected(text: str, message: str) -> None:
    with pytest.raises(ServingError, match=message) as caught:
        completed(text)
    assert caught.value.kind == ErrorKind.INVALID_ARGUMENT


@pytest.mark.parametrize("shape", [(1, 8), (), (4,)])
def test_batches_need_an_unknown_first_axis(shape: tuple[int, ...]) -> None:
    with pytest.raises(ServingError, match=r"max_batch_size is 4, but 'x' has shape .* first axis is unknown"):
        completed("max_batch_size: 4", tensor=ModelTensor("x", wire.TYPE_FP32, shape))
