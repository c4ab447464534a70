from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import text_format

from nnhal.arrays import Array
from nnhal.inference import model_config_pb2 as wire
from nnhal_service.repository.source import GivenSource
from nnhal_service.repository.tensors import ModelTensor
from nnhal_service.repository.warmup import warmup_requests
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.client_memory import to_array
from nnhal_service.serving.requests.request import InferenceRequest

X = ModelTensor("x", wire.TYPE_FP32, (-1, 3))


def requests(text: str, tensor: ModelTensor = X, batch: int = 0, **files: bytes) -> list[InferenceRequest]:
    config = text_format.Parse(text, wire.ModelConfig(max_batch_size=batch))
    source = GivenSource({f"warmup/{name}": content for name, content in files.items()})
    return warmup_requests(config, [tensor], source)


def one(data: str, data_type: str = "TYPE_FP32", dims: str = "2, 3", batch: int = 0, **files: bytes) -> Array:
    text = f'model_warmup {{ inputs {{ key: "x" value {{ data_type: {data_type} dims: [{dims}] {data} }} }} }}'
    tensor = ModelTensor("x", wire.DataType.Value(data_type), (-1, 3))
    (request,) = requests(text, tensor, batch, **files)
    return to_array(request.inputs["x"])


def test_zeros_have_the_type_and_shape_that_are_said() -> None:
    array = one("zero_data: true", "TYPE_INT64")
    assert array.dtype == np.int64
    np.testing.assert_array_equal(array, np.zeros((2, 3)))


@pytest.mark.parametrize("data_type", ["TYPE_FP32", "TYPE_BF16", "TYPE_INT8", "TYPE_UINT64", "TYPE_BOOL"])
def test_random_numbers_are_the_same_each_time(data_type: str) -> None:
    first, second = one("random_data: true", data_type), one("random_data: true", data_type)
    assert len(np.unique(first.astype(np.float32))) > 1
    np.testing.assert_array_equal(first, second)


def test_a_file_holds_the_bytes_of_the_wire() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(one('input_data_file: "x"', x=values.tobytes()), values)


def test_strings_are_written_with_their_lengths() -> None:
    content = b"\x02\0\0\0ab\0\0\0\0\x01\0\0\0c"
    array = one('input_data_file: "x"', "TYPE_STRING", "1, 3", x=content)
    assert array.tolist() == [[b"ab", b"", b"c"]]
    assert one("zero_data: true", "TYPE_STRING", "1, 3").tolist() == [[b"", b"", b""]]
    assert {len(letter) for letter in one("random_data: true", "TYPE_STRING", "1, 3").flat} == {1}


def test_dims_are_without_the_batch_if_the_model_has_batches() -> None:
    assert one("zero_data: true", dims="3", batch=4).shape == (1, 3)
    text = 'model_warmup { batch_size: 4 inputs { key: "x" value { data_type: TYPE_FP32 dims: 3 zero_data: true } } }'
    assert requests(text, batch=4)[0].inputs["x"].shape == (4, 3)


def test_a_count_is_so_many_runs() -> None:
    text = 'model_warmup { count: 3 inputs { key: "x" value { data_type: TYPE_FP32 dims: [1, 3] zero_data: true } } }'
    assert len(requests(text)) == 3
    assert requests("") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name: "w"', r"model_warmup 'w': it has inputs \[\], expected \['x'\]"),
        ('inputs { key: "z" value {} }', r"model_warmup 0: it has inputs \['z'\]"),
        ('inputs { key: "x" value { data_type: TYPE_INT8 } }', "'x' has data_type TYPE_INT8, expected TYPE_FP32"),
        ('inputs { key: "x" value { data_type: TYPE_FP32 dims: [3] } }', r"'x' has dims \[3\], expected \[-1, 3\]"),
        ('inputs { key: "x" value { data_type: TYPE_FP32 dims: [-1, 3] } }', "all of them known"),
        (
            'inputs { key: "x" value { data_type: TYPE_FP32 dims: [1, 3] } }',
            "'x' has none of zero_data, random_data and",
        ),
        ('inputs { key: "x" value { data_type: TYPE_FP32 dims: [9999999999, 3] } }', "more than 67108864 elements"),
        ('batch_size: 1 inputs { key: "x" value {} }', "batch_size is 1, expected at most max_batch_size, which is 0"),
        (
            'inputs { key: "x" value { data_type: TYPE_FP32 dims: [1, 3] input_data_file: "../x" } }',
            "input_data_file '../x': expected a file in the folder 'warmup'",
        ),
        (
            'inputs { key: "x" value { data_type: TYPE_FP32 dims: [1, 3] input_data_file: "short" } }',
            "input_data_file 'short': got 4 bytes, expected 12",
        ),
    ],
)
def test_data_that_does_not_fit_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ServingError, match=message) as caught:
        requests(f"model_warmup {{ {text} }}", short=bytes(4))
    assert caught.value.kind == ErrorKind.INVALID_ARGUMENT


def test_a_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ServingError, match="there is no file 'warmup/x'"):
        one('input_data_file: "x"')
