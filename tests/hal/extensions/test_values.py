"""Values that are not tensors of numbers, as bytes."""

from __future__ import annotations

from contextlib import suppress

import ml_dtypes
import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper

from nnhal.arrays import Array
from nnhal.extensions.onnx import ELEMENT_TYPES
from nnhal.extensions.values import PADDING_BYTES, padded, strings_from_bytes, value_from_bytes, value_to_bytes
from nnhal.v1 import value_pb2


def test_strings_come_back_as_the_bytes_that_they_were() -> None:
    given = np.empty((2, 2), object)
    given[...] = [[b"a", b"\xff\x00"], [b"", b"bc\x00"]]
    found = strings_from_bytes(value_to_bytes(given))
    assert found.dtype == object and found.shape == (2, 2)
    assert found.tolist() == given.tolist()


def test_another_value_is_refused_as_a_tensor_of_strings() -> None:
    for value in ([np.array(["a"], object)], np.zeros(3, np.float32), None):
        with pytest.raises(ValueError, match="not a tensor of strings"):
            strings_from_bytes(value_to_bytes(value))
    with pytest.raises(DecodeError):
        strings_from_bytes(b"\xff\xff")


@pytest.mark.parametrize("extra", [0, 1, 127, 128, 20000])
def test_a_padded_value_is_the_same_value(extra: int) -> None:
    encoded = value_to_bytes(np.array(["a", "bc"], object))
    size = len(encoded) + PADDING_BYTES + extra
    assert len(padded(encoded, size)) == size
    assert value_from_bytes(padded(encoded, size)).tolist() == ["a", "bc"]


def numbers(number: int, count: int = 5) -> Array:
    return np.array([0, 1, 1, 0, 1, 1, 1][:count]).astype(ELEMENT_TYPES[number])


@pytest.mark.parametrize("number", ELEMENT_TYPES)
def test_a_tensor_of_any_type_is_the_same_for_onnx(number: int) -> None:
    array = numbers(number)
    message = onnx.OptionalProto.FromString(value_to_bytes(array))
    assert message.tensor_value.data_type == number
    found = numpy_helper.to_optional(message)
    assert found is not None and found.dtype == array.dtype and found.tobytes() == array.tobytes()
    again = value_from_bytes(numpy_helper.from_optional(array).SerializeToString())
    assert again.dtype == array.dtype and again.tobytes() == array.tobytes()


@pytest.mark.parametrize("number", ELEMENT_TYPES)
def test_elements_may_lie_in_the_field_of_their_type(number: int) -> None:
    array = numbers(number, 4).reshape(2, 2)
    tensor = helper.make_tensor("", number, (2, 2), array.reshape(-1).tolist())
    assert not tensor.raw_data
    encoded = onnx.OptionalProto(elem_type=onnx.OptionalProto.TENSOR, tensor_value=tensor).SerializeToString()
    found = value_from_bytes(encoded)
    assert found.dtype == array.dtype and found.tobytes() == array.tobytes()


def test_negative_elements_of_less_than_a_byte_keep_their_sign() -> None:
    array = np.array([-8, 7, -1], ml_dtypes.int4)
    assert np.array_equal(value_from_bytes(value_to_bytes(array)), array)
    message = onnx.OptionalProto.FromString(value_to_bytes(array))
    assert np.array_equal(numpy_helper.to_array(message.tensor_value), array)


@pytest.mark.parametrize(
    "value",
    [
        [np.arange(3), np.zeros((2, 0), np.float32)],
        [[np.arange(3)], [np.arange(2), np.arange(1)]],
        [{1: np.array(2.5)}, {3: np.array(4.5), 5: np.array(1.5)}],
        np.array([["a", "ü"]], object),
    ],
    ids=["tensors", "sequences", "maps", "strings"],
)
def test_what_onnx_encodes_is_read(value: object) -> None:
    found = value_from_bytes(numpy_helper.from_optional(value).SerializeToString())
    np.testing.assert_equal(found, value)


def test_onnx_reads_maps() -> None:
    assert numpy_helper.to_optional(onnx.OptionalProto.FromString(value_to_bytes({1: 2.5, -3: 4.5}))) == {
        1: 2.5,
        -3: 4.5,
    }


@pytest.mark.parametrize("value", [{"a": 1, "ü": -2}, {1: 2.5, -3: float(np.float32(0.1))}, {7: "text"}])
def test_maps_have_the_types_that_they_have_in_onnx_runtime(value: dict[object, object]) -> None:
    found = value_from_bytes(value_to_bytes(value))
    assert found == value
    assert [type(item) for item in found.values()] == [type(item) for item in value.values()]


ALIKE: list[list[object]] = [
    [{1: 0.5}],
    [{0: 0.25, 1: float("inf"), -(2**40): -0.0}] * 3,
    [{"a": 0.5, "ü": 1.5}, {"a": 2.5, "ü": 1e-300}],
    [{key: key / 3 for key in range(300)}] * 2,
    [{7: value / 8, 8: 1.0} for value in range(30)],
]
"""Maps from the same keys to floats."""
UNALIKE: list[list[object]] = [
    [{1: 0.5}, {2: 0.5}],
    [{1: 0.5}, {True: 0.5}],
    [{True: 0.5}],
    [{1: 0.5, 2: 1}],
    [{1: 0.5}, {1: "text"}],
    [{1: 0.5}, {}],
    [{1: 0.5}, np.zeros(1)],
    [{1: 0.5}, None],
    [{}],
    [],
]


@pytest.mark.parametrize("value", [*ALIKE, *UNALIKE])
def test_lists_of_maps_are_messages(value: list[object]) -> None:
    encoded = value_to_bytes(value)
    assert value_pb2.Value.FromString(encoded).SerializeToString(deterministic=True) == encoded


@pytest.mark.parametrize("before", [*ALIKE, *UNALIKE])
def test_lists_of_maps_are_read_whatever_was_read_before(before: list[object]) -> None:
    for value in (*ALIKE, *UNALIKE):
        value_from_bytes(value_to_bytes(before))
        encoded = value_to_bytes(value)
        for each in (encoded, padded(encoded, len(encoded) + 1000), np.frombuffer(encoded, np.uint8)):
            found = value_from_bytes(each)
            np.testing.assert_equal(found, value)
            assert [types_of(item) for item in found] == [types_of(item) for item in value]


def types_of(item: object) -> list[type]:
    return [type(each) for each in item.values()] if isinstance(item, dict) else [type(item)]


def test_maps_that_are_cut_off_are_not_taken_for_whole_ones() -> None:
    encoded = value_to_bytes(ALIKE[1])
    for end in range(1, len(encoded)):
        assert value_from_bytes(encoded) == ALIKE[1]
        with suppress(DecodeError):
            assert value_from_bytes(encoded[:end]) == []


def test_a_key_that_is_not_text_is_malformed() -> None:
    with pytest.raises(DecodeError, match="a key that is not UTF-8"):
        value_from_bytes(value_to_bytes({b"\xff": 1.0}))


def test_an_array_without_an_element_type_of_onnx_is_refused() -> None:
    with pytest.raises(ValueError, match=r"numpy's type datetime64\[s\] is no element type of ONNX"):
        value_to_bytes(np.zeros(1, "M8[s]"))


@pytest.mark.parametrize(
    "tensor",
    [
        onnx.TensorProto(data_type=1, dims=[3], raw_data=b"1234"),
        onnx.TensorProto(data_type=1, dims=[1], raw_data=b"123"),
        onnx.TensorProto(data_type=21, dims=[3], raw_data=b"1"),
        onnx.TensorProto(data_type=8, dims=[1], string_data=[b"\xff"]),
        onnx.TensorProto(data_type=99, dims=[1], raw_data=b"1"),
    ],
    ids=["too few", "not whole", "too few packed", "not UTF-8", "of no type"],
)
def test_a_tensor_that_contradicts_itself_is_malformed(tensor: onnx.TensorProto) -> None:
    message = onnx.OptionalProto(elem_type=onnx.OptionalProto.TENSOR, tensor_value=tensor)
    with pytest.raises(DecodeError, match="a tensor of type"):
        value_from_bytes(message.SerializeToString())
